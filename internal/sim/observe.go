// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Event is something that happened. Its kind defines which of its fields are set.
type Event struct {
	At      time.Time
	Kind    Kind
	Action  plan.Action // Decided, Begun
	Pod     *model.Pod  // Preempted
	Machine *Machine    // Launched, Ended, Rebooted
	Object  string      // name of the object
	Text    string      // details, for readers
}

// Kind is a kind of Event.
type Kind string

// The kinds of events that Cluster.Observe receives.
const (
	Decided    Kind = "decided"       // the controller decided on an action
	Begun      Kind = "begun"         // an action is about to take effect; earlier attempts may have failed
	Created    Kind = "claim created" //
	Refused    Kind = "claim refused" // refused by the API server
	Released   Kind = "claim let go"  // its finalizer was removed
	Launched   Kind = "machine bought"
	NoCapacity Kind = "no capacity for claim"
	Ended      Kind = "machine ended"
	Joined     Kind = "node joined"
	Rebooted   Kind = "machine rebooted"
	Ready      Kind = "node readiness"
	Changed    Kind = "node changed"
	Preempted  Kind = "pod preempted" // preempted by kube-scheduler
	Mishap     Kind = "mishap"        // a fault of Faults
	Violated   Kind = "violated"      // an invariant was violated, which no fault excuses
	Overfilled Kind = "node overfilled"
)

// Tell passes an event that happens now to Observe.
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
