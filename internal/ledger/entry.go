// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package ledger

import (
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Entry is one thing decided, refused or done.
type Entry struct {
	Seq     uint64        `json:"seq"`             // counts up from 1; a gap means that older entries were dropped
	At      time.Time     `json:"at"`              // when it was decided, of what stands since: for the first time
	Last    time.Time     `json:"last,omitzero"`   // of what stands since: when it was decided for the last time
	Count   int           `json:"count,omitempty"` // and how often; absent: once
	Kind    string        `json:"kind"`            // create, launch, delete, remove, evict, refuse …: docs/reference/json.md has them all
	Subject string        `json:"subject"`         // pod/NAMESPACE/NAME, nodeclaim/NAME, node/NAME, nodepool/NAME
	Why     []plan.Reason `json:"why"`
	Outcome string        `json:"outcome,omitempty"` // done, failed: …; empty: decided
	Pods    []string      `json:"pods,omitempty"`    // namespace/name, for whom
	Related []string      `json:"related,omitempty"` // other objects that it is about, named as Subject is: the node of a claim, the claim of a node, the Deployments of pods
	Type    string        `json:"instanceType,omitempty"`
	Micro   int64         `json:"priceMicroUSDPerHour,omitempty"`
	Bound   int64         `json:"lowerBoundMicroUSDPerHour,omitempty"`

	MorePods int      `json:"morePods,omitempty"` // pods that Pods would name too, left out for room, or still to be created
	Command  *Command `json:"command,omitempty"`  // the disruption command that it is part of

	// What all nodes of NodePools cost an hour before and after this entry alone. A node costs from when its launch is decided
	// (create) until its NodeClaim has ended (remove): that it is to be removed (move, delete) changes nothing yet. Both are 0
	// for an entry that is not about nodes.
	Before int64 `json:"clusterBeforeMicroUSDPerHour,omitempty"`
	After  int64 `json:"clusterAfterMicroUSDPerHour,omitempty"`
}

// Kinds of entries about what was looked at and left as it is. Such an answer may stand for hours while it is given again at every look, so it is
// one entry for as long as it does.
const (
	Keep   = "keep"   // a machine is left alone
	Refuse = "refuse" // a pod finds no machine
)

// Kinds of entries about pods of a node.
const (
	Bind    = "bind"    // they were bound to it
	Blocked = "blocked" // somebody refuses an eviction that its drain needs
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

// Command is a disruption command as it began. Each of its nodes has an entry of its own, and so has each replacement.
type Command struct {
	Nodes        int   `json:"nodes"`        // that it removes
	Replacements int   `json:"replacements"` // that it launches
	Saved        int64 `json:"savedMicroUSDPerHour"`
	Cost         int64 `json:"costMicroUSD"` // what evicting the pods is priced at, once
}

// bindsTo is the node that an entry says pods were bound to; empty: it says nothing of the kind.
func (e *Entry) bindsTo() string {
	if e.Kind != Bind || !strings.HasPrefix(e.Subject, "node/") {
		return ""
	}
	return e.Subject
}
