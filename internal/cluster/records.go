// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cluster

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// AnnotationInterrupted on a NodeClaim is the notice that its instance will be interrupted, as JSON of Notice.
const AnnotationInterrupted = "dovetail.sh/interrupted"

// StateChange is the kind of a notice that a machine is stopping already.
const StateChange = "StateChange"

// Notice is what a cloud has said about a machine that it will take away.
type Notice struct {
	Kind string    `json:"kind"`        // as in cloud.Interruption
	At   time.Time `json:"at,omitzero"` // when the machine goes; zero: not said
	Seen time.Time `json:"seen"`        // when the notice came
}

// Text returns the notice as it is written into a NodeClaim. It never fails for a time within the years 0 to 9999.
func (n Notice) Text() (string, error) {
	b, err := json.Marshal(n)
	return string(b), err
}

// ReadNotice returns a claim's notice; false: it has none, or one that Dovetail did not write.
func ReadNotice(c *model.Claim) (Notice, bool) {
	text := c.Annotations[AnnotationInterrupted]
	if text == "" {
		return Notice{}, false
	}
	var n Notice
	if json.Unmarshal([]byte(text), &n) != nil || n.Seen.IsZero() {
		return Notice{}, false
	}
	return n, true
}

// AnnotationCommand on a NodeClaim says which disruption command it was made for.
const AnnotationCommand = "dovetail.sh/move"

// CommandRecord is the value of AnnotationCommand.
type CommandRecord struct {
	ID     plan.CommandID `json:"id"`
	Cause  plan.Code      `json:"cause"`            // why its claims go
	Of     int            `json:"of"`               // replacements in all
	Hosts  int            `json:"hosts,omitempty"`  // standing nodes that are to take its pods
	Claims []string       `json:"claims,omitempty"` // that go, by uid: a name may come back
}

// ReadCommandRecord reads a claim's AnnotationCommand; false: it has none, or one that was not written by us.
func ReadCommandRecord(c *model.Claim) (r CommandRecord, ok bool) {
	text := c.Annotations[AnnotationCommand]
	if text == "" {
		return r, false
	}
	return r, json.Unmarshal([]byte(text), &r) == nil && r.ID != ""
}

// ReplacedBy returns the id of the disruption command that a claim was made for, and the uids of the claims that this
// deletes; empty: it was made for none.
func ReplacedBy(c *model.Claim) (command plan.CommandID, claims []string) {
	r, _ := ReadCommandRecord(c)
	return r.ID, r.Claims
}

// DisruptedBy returns the id of the disruption command that deletes a claim, as its condition DisruptionReason says; empty: it
// names none.
func DisruptedBy(c *model.Claim) plan.CommandID {
	d := c.Conditions[lifecycle.Disrupted]
	if !d.True() {
		return ""
	}
	id, _ := plan.ReadCommand(d.Message)
	return id
}

// AnnotationHost on a NodeClaim names the disruption command whose pods its standing node is to take.
const AnnotationHost = "dovetail.sh/host"

// HostRecord is the value of AnnotationHost: the command, and since when.
type HostRecord struct {
	CommandRecord
	Since time.Time `json:"since"`
}

// ReadHostRecord reads a claim's AnnotationHost; false: it has none, or one that was not written by us.
func ReadHostRecord(c *model.Claim) (r HostRecord, ok bool) {
	text := c.Annotations[AnnotationHost]
	if text == "" {
		return r, false
	}
	return r, json.Unmarshal([]byte(text), &r) == nil && r.ID != ""
}

// HostedCommand returns the id of the disruption command whose pods a NodeClaim's node is to take; empty: there is none.
func HostedCommand(c *model.Claim) plan.CommandID {
	r, _ := ReadHostRecord(c)
	return r.ID
}

// BookedSince returns since when a claim's standing node is reserved for pods of ProvisioningRequests; false: it is not.
func BookedSince(c *model.Claim) (time.Time, bool) {
	text := c.Annotations[model.AnnotationBooked]
	if text == "" {
		return time.Time{}, false
	}
	since, err := time.Parse(time.RFC3339, text)
	return since, err == nil
}

// ReservedSince returns since when a claim's node is reserved that was standing before: it hosts a disruption command, or is booked for
// ProvisioningRequests. False: it is not, or was reserved before it took pods.
func ReservedSince(c *model.Claim) (time.Time, bool) {
	if r, ok := ReadHostRecord(c); ok {
		return r.Since, true
	}
	return BookedSince(c)
}

// IsForBuffer reports whether a claim was made for virtual pods alone.
func IsForBuffer(c *model.Claim) bool { return c.NoReserve == string(plan.HeldForBuffer) }

// LaunchBasis names the template and the node class generation under which a NodePool's nodes are launched.
func LaunchBasis(p *model.NodePool) string {
	return p.Hash + "/" + strconv.FormatInt(p.ClassGeneration, 10)
}
