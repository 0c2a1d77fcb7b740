// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"slices"
	"time"
)

// Slot is room on a claim kept for pods of one class and one owner (contract 9).
type Slot struct {
	Class    string // hash of Class.Key
	Owner    string // uid of the pods' controller; for a pod without one, the pod's uid
	Count    int
	Requests Resources // of one pod
	Loose    bool      // these pods can't be kept to the node: they tolerate everything
}

// Claim is a NodeClaim.
type Claim struct {
	Name, UID     string
	Pool          string // empty: standalone
	Requirements  Requirements
	Labels        Labels
	Annotations   Labels
	Taints        []Taint
	StartupTaints []Taint
	Requests      Resources

	ClassGroup, ClassKind, ClassName string

	ExpireAfter            time.Duration // negative: Never
	TerminationGracePeriod time.Duration // of the NodeClaim: how long its drain waits for pods, from Deleting on. Copied from the NodePool at launch; negative: no limit. See lifecycle.Deadline

	Created      time.Time
	Deleting     time.Time // zero: not being deleted
	HasFinalizer bool

	OtherFinalizers []string // somebody else's

	ProviderID  string
	NodeName    string
	ImageID     string
	Capacity    Resources // status
	Allocatable Resources

	Conditions   map[string]Condition
	LastPodEvent time.Time

	// Exact landing (contract 9).
	Reserved    bool
	Slots       []Slot // sorted by class, owner
	SlotsUnsure bool   // nobody knows whether these were written: the call that was to do so has failed
	NoReserve   string // why it was launched without a reservation; empty: it was launched with one

	// Maker is whom the claim is for if somebody else created it: its controller, the prefix that its name is generated from, or its name; empty:
	// Dovetail created it.
	Maker string

	// Orphan: it was made for a NodePool, and no NodePool owns it any more. That is so after the NodePool was deleted with
	// --cascade=orphan.
	Orphan bool

	// Provisional: the claim was decided and its creation is under way; UID is empty.
	Provisional bool
}

// Is reports whether a condition of the claim is True.
func (c *Claim) Is(condition string) bool { return c.Conditions[condition].True() }

// IsStartupTaint reports whether a taint is one that the claim's node starts with.
func (c *Claim) IsStartupTaint(t Taint) bool {
	return slices.ContainsFunc(c.StartupTaints, func(s Taint) bool { return s.Key == t.Key && s.Effect == t.Effect })
}

// NodeGroup returns the node group that the claim's machine is of, or is to be; empty: none, or one of several.
func (c *Claim) NodeGroup() string {
	if c == nil {
		return ""
	}
	if g := c.Labels[LabelNodeGroup]; g != "" {
		return g
	}
	if q := c.Requirements.Get(LabelNodeGroup); q != nil && !q.Complement && len(q.Values) == 1 {
		return q.Values[0]
	}
	return ""
}

// LaunchPriceMicro returns what the claim's node cost when it was launched; 0: that is not known, or the claim is nil.
func (c *Claim) LaunchPriceMicro() int64 {
	if c == nil {
		return 0
	}
	return LaunchPriceMicro(c.Annotations)
}

// LaunchPriceMicro returns what the node of a claim with these annotations cost when it was launched, in micro-dollars an hour, as the controller has noted
// it; 0: it has not, or it is an estimate.
func LaunchPriceMicro(annotations map[string]string) int64 {
	if annotations[AnnotationLaunchPriceEstimated] == "true" {
		return 0
	}
	micro, _ := ParseDollars(annotations[AnnotationLaunchPrice])
	return micro
}

// AnnotatedPriceMicro returns what a node with these annotations costs in micro-dollars an hour; 0: they do not say.
func AnnotatedPriceMicro(annotations map[string]string) int64 {
	micro, _ := ParseDollars(annotations[AnnotationPrice])
	return micro
}

// Instance is a machine as its cloud lists it.
type Instance struct {
	ProviderID string
	ClaimUID   string // empty: it bears no claim of ours, and is not ours to end unasked
	ClaimName  string
	Launched   time.Time
	Gone       bool // shutting down or terminated
	Coming     bool `json:",omitempty"` // a node group was asked for it, and none has come yet

	// What labels say of a machine that runs in no reservation, where its claim says that it does: the reservation has ended. An empty value:
	// the label is gone. nil: nothing is to be said. Shared and never changed.
	Unreserved Labels

	// Of a member of a node group that no claim was made for, when one may be.
	ClassKind, Class string // the node class that its group belongs to; empty: no claim is to be made

	Labels Labels // type, zone, capacity type, group
	// Replacing: the cloud replaces the members of its group, or may. What it starts then no pod needs yet, so a claim is made
	// only when its node class says so too, which keeps nodes of the group from being given back.
	Replacing bool

	// GivenUp is when it was seen that a member of a node group had come for a claim that was given up before; zero: it has not. It is ended unless
	// a claim is made for it.
	GivenUp time.Time
}

// Outage is a time in which the cloud did not say which machines there are.
type Outage struct{ From, To time.Time }

// UnmadeClaim is a NodeClaim that the API server, or an admission policy, has refused.
type UnmadeClaim struct {
	Claim, Pool, Group string // the pool by name
	Slots              []Slot
	At                 time.Time
	Message            string
}

// LaunchFailure is why the last launch of a claim failed.
type LaunchFailure struct {
	Kind    string // as in cloud.Kind
	Message string
}
