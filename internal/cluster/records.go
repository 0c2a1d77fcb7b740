// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cluster

import (
	"encoding/json"
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

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
