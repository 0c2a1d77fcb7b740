// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Answer is what there is to say about one object now: how it stands, what is in the way of each thing that might become of it, what
// the alternatives would cost, and what would have to change.
type Answer struct {
	Subject      string        `json:"subject"` // pod/NAMESPACE/NAME, node/NAME, nodeclaim/NAME, nodepool/NAME
	At           time.Time     `json:"at"`
	Facts        []Fact        `json:"facts"`
	Step         *Step         `json:"step,omitempty"` // what is under way; nil: nothing that is known
	Findings     []Finding     `json:"findings"`
	Alternatives []Alternative `json:"alternatives"`
	Ways         []Way         `json:"ways"`              // nearest first
	Related      []string      `json:"related,omitempty"` // whose decisions are its own too: nodeclaim/NAME
}

// NoSuchObject is the error of a question about an object that the cluster doesn't have: it is gone, or never was.
type NoSuchObject struct {
	Kind, Subject string
	Near          string // the object whose name is so like it that it may be meant; empty: there is none
}

func (e *NoSuchObject) Error() string {
	s := fmt.Sprintf("subject %q: the cluster has no such %s", e.Subject, e.Kind)
	if e.Near != "" {
		s += "; did you mean " + e.Near + "?"
	}
	return s
}

// Fact is one thing about the object.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Step is what is under way with an object.
type Step struct {
	Of      Code      `json:"of"`                // Demand, Launching, Registering, Initializing, Draining, Terminating, PodTerminating, Ended, or why a node is removed
	Since   time.Time `json:"since,omitzero"`    // zero: that is not known
	Command CommandID `json:"command,omitempty"` // id of the disruption command that removes the node; empty with a reason to remove it: none has begun
}

// Finding is one obstacle: of what, and what takes it away.
type Finding struct {
	Of     Code      `json:"of"` // Demand: of a machine for a pod; else the reason for which a node would go
	Reason Reason    `json:"reason"`
	Change *Change   `json:"change,omitempty"` // the smallest edit that takes it away; nil: none is known
	Until  time.Time `json:"until,omitzero"`   // when time alone takes it away; zero: it does not
	Pods   int       `json:"pods,omitempty"`   // of a NodePool: how many unschedulable pods it refuses for this reason
}

// IsEditable reports whether people can make the change. Some are made in thought alone, to see what is in the way: what a
// cloud offers and asks for it, and the status that a controller writes.
func (c *Change) IsEditable() bool {
	return !strings.HasPrefix(c.Object, "offering/") && !strings.HasPrefix(c.Field, "status.")
}

// Op is what a Change does to a field.
type Op string

// The operations.
const (
	Set    Op = "set"    // the field becomes Value
	Remove Op = "remove" // the field goes; without a field the object
	Add    Op = "add"    // Value comes to the list; without a field the object is created
)

// Change is one edit of one object, exact enough to be carried out. A pod's spec is changed in its workload's template.
type Change struct {
	Object string `json:"object"` // nodepool/NAME, pod/NAMESPACE/NAME, offering/TYPE/ZONE/CAPACITYTYPE …
	Field  string `json:"field,omitempty"`
	Op     Op     `json:"op"`
	Value  string `json:"value,omitempty"`

	Drifts       int  `json:"driftsNodes,omitempty"`  // how many nodes it makes drift
	Evicts       int  `json:"evictsPods,omitempty"`   // how many pods are rescheduled when these are replaced
	DriftBlocked bool `json:"driftBlocked,omitempty"` // disruption budgets never allow any of these nodes to be replaced
}

// Way is how the object could go the other way.
type Way struct {
	Of      Code        `json:"of"`
	Pool    string      `json:"nodePool,omitempty"`
	Changes []Change    `json:"changes"`           // all of them; none: nothing is in its way but time
	After   time.Time   `json:"after,omitzero"`    // and not before
	Then    Alternative `json:"then"`              // what would come of it
	Starts  int         `json:"starts,omitempty"`  // of a pod: how many of the pods that wait for the same reason have a place then
	Waiting int         `json:"waiting,omitempty"` // of a pod: how many pods wait for the same reason
}

// IsEditable reports whether people can make all changes.
func (w *Way) IsEditable() bool {
	return !slices.ContainsFunc(w.Changes, func(c Change) bool { return !c.IsEditable() })
}

// Kind is what an Alternative does.
type Kind string

// The kinds of alternatives.
const (
	Buy     Kind = "buy"     // a machine for a pod
	Fit     Kind = "fit"     // a pod goes onto a machine that is there or coming
	Usable  Kind = "usable"  // a machine takes pods
	Leave   Kind = "delete"  // a machine goes, and its pods find room on what stands
	Replace Kind = "replace" // machines go, and others come for their pods

	TerminateFirst Kind = "terminate-first" // a machine goes, and then another comes for its pods
)

// Alternative is one thing that might be done about the object, and what it would cost. What keeps it from being done is in the findings.
type Alternative struct {
	Kind      Kind      `json:"kind"`
	Of        Code      `json:"of"`
	Pool      string    `json:"nodePool,omitempty"` // that would be bought in
	On        string    `json:"on,omitempty"`       // the node or claim a pod would go to
	Machines  []Machine `json:"machines"`           // that would be bought
	Pods      int       `json:"pods"`               // that would move
	Standing  int       `json:"podsOnStandingRoom,omitempty"`
	NowMicro  int64     `json:"nowMicroUSDPerHour"` // what is paid now for what would go
	NewMicro  int64     `json:"newMicroUSDPerHour"` // what would be paid for what would come
	OnceMicro int64     `json:"onceMicroUSD"`       // what the move itself costs
	Why       Reason    `json:"why,omitzero"`       // why it is not worth doing, or can't be; an empty code: nothing of the kind
}

// SavingMicro is what would be saved an hour; negative: lost.
func (a *Alternative) SavingMicro() int64 { return a.NowMicro - a.NewMicro }

// Machine is so many machines of one offering.
type Machine struct {
	Pool         string `json:"nodePool"`
	Type         string `json:"instanceType"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	PriceMicro   int64  `json:"priceMicroUSDPerHour"`   // of one
	PriceOverlay string `json:"priceOverlay,omitempty"` // the NodeOverlay that sets the price
	Count        int    `json:"count"`
}

// Offering names what a Change of the market is about.
func (m *Machine) Offering() string {
	return "offering/" + m.Type + "/" + m.Zone + "/" + m.CapacityType
}
