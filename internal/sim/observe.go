// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Event is something that happened. Which of its fields are set goes by its kind.
type Event struct {
	At      time.Time
	Kind    Kind
	Action  plan.Action // Decided, Begun
	Pod     *model.Pod  // Preempted
	Machine *Machine    // Launched, Ended, Rebooted
	Object  string      // the name of what it happened to
	Text    string      // more of it, for people
}

// Kind is what happened.
type Kind string

// What is told to Cluster.Observe.
const (
	Decided    Kind = "decided"       // the controller wants an action done
	Begun      Kind = "begun"         // an action is about to have its effect; it may have been tried in vain before
	Created    Kind = "claim created" //
	Refused    Kind = "claim refused" // by the API server
	Released   Kind = "claim let go"  // its finalizer is removed
	Launched   Kind = "machine bought"
	NoCapacity Kind = "no capacity for claim"
	Ended      Kind = "machine ended"
	Joined     Kind = "node joined"
	Rebooted   Kind = "machine rebooted"
	Ready      Kind = "node readiness"
	Changed    Kind = "node changed"
	Preempted  Kind = "pod preempted" // by kube-scheduler
	Mishap     Kind = "mishap"        // something that Faults brought about
	Violated   Kind = "violated"      // what must never happen, whatever goes wrong
	Overfilled Kind = "node overfilled"
)

// Tell tells Observe of something that happens now.
func (c *Cluster) Tell(e Event) {
	if c.Observe != nil {
		e.At = c.Now
		c.Observe(e)
	}
}

// tellOverfilled tells if a node can't hold a pod that is being bound to it: its kubelet would reject the pod.
func (c *Cluster) tellOverfilled(n *model.Node, p *model.Pod) {
	if !c.used[n.Name].Add(p.Class.Requests).Fits(n.Allocatable) {
		c.Tell(Event{Kind: Overfilled, Object: n.Name, Text: "by the binding of pod " + p.Name})
	}
}
