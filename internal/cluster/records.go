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

// Kinds of Notice, as in cloud.Interruption.
const (
	StateChange          = "StateChange"          // the machine is stopping already
	InstanceStatusFailed = "InstanceStatusFailed" // what runs on the machine fails the cloud's checks
)

// Notice is an interruption notice.
type Notice struct {
	Kind string    `json:"kind"`        // as in cloud.Interruption
	At   time.Time `json:"at,omitzero"` // when the machine is interrupted; zero: unknown
	Seen time.Time `json:"seen"`        // when the notice was received
}

// Text returns the encoding of the notice in a NodeClaim. It never fails for years 0 to 9999.
func (n Notice) Text() (string, error) {
	b, err := json.Marshal(n)
	return string(b), err
}

// BlamesInstance reports whether the cause of an interruption may be the machine's own image, volumes or software. Other interruptions are
// the cloud's decision.
func (n Notice) BlamesInstance() bool {
	return n.Kind == StateChange || n.Kind == InstanceStatusFailed
}

// ReadNotice returns a NodeClaim's notice; false if it has none, or one that Dovetail did not write.
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
	Cause  plan.Code      `json:"cause"`            // why its NodeClaims are removed
	Of     int            `json:"of"`               // total number of replacements
	Hosts  int            `json:"hosts,omitempty"`  // existing nodes that will run its pods
	Claims []string       `json:"claims,omitempty"` // UIDs of the removed NodeClaims, because names may recur
}

// ReadCommandRecord returns a NodeClaim's AnnotationCommand; false if it has none, or one that Dovetail did not write.
func ReadCommandRecord(c *model.Claim) (r CommandRecord, ok bool) {
	text := c.Annotations[AnnotationCommand]
	if text == "" {
		return r, false
	}
	return r, json.Unmarshal([]byte(text), &r) == nil && r.ID != ""
}

// ReplacedBy returns the ID of the disruption command that a NodeClaim was created for, and the UIDs of the NodeClaims that
// the command removes; empty: none.
func ReplacedBy(c *model.Claim) (command plan.CommandID, claims []string) {
	r, _ := ReadCommandRecord(c)
	return r.ID, r.Claims
}

// DisruptedBy returns the ID of the disruption command that removes a NodeClaim, from its condition DisruptionReason; empty:
// none.
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

// HostRecord is the value of AnnotationHost: the command, and its start.
type HostRecord struct {
	CommandRecord
	Since time.Time `json:"since"`
}

// ReadHostRecord returns a NodeClaim's AnnotationHost; false if it has none, or one that Dovetail did not write.
func ReadHostRecord(c *model.Claim) (r HostRecord, ok bool) {
	text := c.Annotations[AnnotationHost]
	if text == "" {
		return r, false
	}
	return r, json.Unmarshal([]byte(text), &r) == nil && r.ID != ""
}

// HostedCommand returns the ID of the disruption command whose pods a NodeClaim's node will run; empty: none.
func HostedCommand(c *model.Claim) plan.CommandID {
	r, _ := ReadHostRecord(c)
	return r.ID
}

// BookedSince returns since when a NodeClaim's existing node is reserved for pods of ProvisioningRequests; false: it is not.
func BookedSince(c *model.Claim) (time.Time, bool) {
	text := c.Annotations[model.AnnotationBooked]
	if text == "" {
		return time.Time{}, false
	}
	since, err := time.Parse(time.RFC3339, text)
	return since, err == nil
}

// ReservedSince returns since when an existing node is reserved because it hosts a disruption command or is booked for
// ProvisioningRequests. False: it is not, or it has been reserved since its launch.
func ReservedSince(c *model.Claim) (time.Time, bool) {
	if r, ok := ReadHostRecord(c); ok {
		return r.Since, true
	}
	return BookedSince(c)
}

// IsForBuffer reports whether a NodeClaim was created for virtual pods only.
func IsForBuffer(c *model.Claim) bool { return c.NoReserve == string(plan.HeldForBuffer) }

// LaunchBasis identifies the template and the node class generation from which a NodePool's nodes are launched.
func LaunchBasis(p *model.NodePool) string {
	return p.Hash + "/" + strconv.FormatInt(p.ClassGeneration, 10)
}
