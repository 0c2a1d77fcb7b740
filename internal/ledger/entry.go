// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package ledger

import (
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Entry is one decision, refusal or result.
type Entry struct {
	Seq     uint64        `json:"seq"`             // ascending from 1; a gap means that older entries were dropped
	At      time.Time     `json:"at"`              // time of the decision; for a repeated one, of its first time
	Last    time.Time     `json:"last,omitzero"`   // for a repeated decision: time of its last time
	Count   int           `json:"count,omitempty"` // number of times; absent: once
	Kind    string        `json:"kind"`            // create, launch, delete, remove, evict, refuse …: docs/reference/json.md has them all
	Subject string        `json:"subject"`         // pod/NAMESPACE/NAME, nodeclaim/NAME, node/NAME, nodepool/NAME
	Why     []plan.Reason `json:"why"`
	Outcome string        `json:"outcome,omitempty"` // done, failed: …; empty: decided
	Pods    []string      `json:"pods,omitempty"`    // namespace/name of the pods that it is for
	Related []string      `json:"related,omitempty"` // other objects concerned, in the form of Subject: the node of a NodeClaim, the NodeClaim of a node, the Deployments of pods
	Type    string        `json:"instanceType,omitempty"`
	Micro   int64         `json:"priceMicroUSDPerHour,omitempty"`
	Bound   int64         `json:"lowerBoundMicroUSDPerHour,omitempty"`

	MorePods int      `json:"morePods,omitempty"` // number of pods that are not listed in Pods, for lack of space or because they do not exist yet
	Command  *Command `json:"command,omitempty"`  // its disruption command

	// What all nodes of NodePools cost an hour before and after this entry alone. A node costs from when its launch is decided
	// (create) until its NodeClaim has ended (remove): that it is to be removed (move, delete) changes nothing yet. Both are 0
	// for an entry that is not about nodes.
	Before int64 `json:"clusterBeforeMicroUSDPerHour,omitempty"`
	After  int64 `json:"clusterAfterMicroUSDPerHour,omitempty"`
}

// Kinds of entries about what was looked at and left as it is. Such an answer may stand for hours while it is given again at every look, so it is
// one entry for as long as it does.
const (
	Keep   = "keep"   // a node is kept
	Refuse = "refuse" // a pod cannot be placed
)

// Kinds of entries about pods of a node.
const (
	Bind    = "bind"    // they were bound to it
	Blocked = "blocked" // an eviction of a drain is rejected
)

// stands identifies an answer that may be given again: what is answered, about which object, for which reasons. The amounts in them may change; the
// entry then has the latest. Pods that are bound to one node are such an answer too. It is empty for an entry about something else that was done.
func (e *Entry) stands() string {
	if node := e.bindsTo(); node != "" {
		return node
	}
	if e.Kind != Keep && e.Kind != Refuse {
		return ""
	}
	key := []string{e.Kind, e.Subject}
	for _, r := range e.Why {
		key = append(key, string(r.Code), r.Pool, r.About())
	}
	return strings.Join(key, "\x00")
}

// Command is a disruption command when it started. Each of its nodes and replacements has its own entry.
type Command struct {
	Nodes        int   `json:"nodes"`        // the removed nodes
	Replacements int   `json:"replacements"` // the replacements
	Saved        int64 `json:"savedMicroUSDPerHour"`
	Cost         int64 `json:"costMicroUSD"` // one-time cost of the evictions
}

// bindsTo is the node that an entry says pods were bound to; empty: it says nothing of the kind.
func (e *Entry) bindsTo() string {
	if e.Kind != Bind || !strings.HasPrefix(e.Subject, "node/") {
		return ""
	}
	return e.Subject
}
