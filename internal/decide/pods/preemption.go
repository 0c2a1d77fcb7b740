// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pods

import (
	"math"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Preemption determines the pods that kube-scheduler might preempt. A pending pod without a free node preempts pods of lower
// priority wherever that frees enough capacity, even if a node is being launched for it. Dovetail prevents this in two ways
// (docs/design/0018): a reserved node keeps its taint, which excludes the node from preemption, until pods of higher priority that
// wait for other nodes have been bound; and pods that would preempt others are not moved to nodes that are closed to kube-scheduler
// when their successors are created.
type Preemption struct {
	*cluster.View
	slots *Slots

	waiting      []*model.Class // of pods that have a slot, are not bound yet and may preempt, each once
	waitingUntil time.Time      // when the first of those that are bound leaves waiting; zero: all are pending
	waitingKnown bool

	preemptible map[*model.Class]preemptibleNodes // those asked for in this step
	lowest      int32                             // the lowest priority of a pod on a node, once preemptible was asked for
}

// NewPreemption returns the Preemption for the pods with these slots.
func NewPreemption(slots *Slots) *Preemption { return &Preemption{View: slots.View, slots: slots} }

// preemptibleNodes are the open nodes on which kube-scheduler might preempt pods for one of a class.
type preemptibleNodes struct {
	first   string // the name of one; empty: there is none
	several bool
}

// Protects reports whether a node must stay reserved because a pod that waits for another node would preempt pods on it, and
// until when that holds if nothing else changes: at most ReservationPolicy.SlowSchedulerTimeout after the reservation began.
func (pe *Preemption) Protects(h *cluster.Reservation) (held bool, until time.Time) {
	if h == nil || h.Node == nil || !h.Claim.Reserved {
		return false, time.Time{}
	}
	if since := h.Began().Since; !since.IsZero() { // otherwise it is not initialized, and has no end yet
		if until = since.Add(pe.slots.Reservations.SlowSchedulerTimeout); !pe.Now.Before(until) {
			return false, time.Time{}
		}
	}
	pe.readWaiting()
	if !slices.ContainsFunc(pe.waiting, func(c *model.Class) bool { return wouldPreempt(c, h.Node) }) {
		return false, time.Time{}
	}
	return true, model.EarlierOf(until, pe.waitingUntil)
}

// readWaiting finds the classes of the pods that have a slot and may preempt others: those pending, and those bound so
// recently that kube-scheduler may not know it yet. It watches nodes and pods apart, and could see that another node has
// been opened first (lifecycle.Policy.SchedulerLag).
func (pe *Preemption) readWaiting() {
	if pe.waitingKnown {
		return
	}
	pe.waitingKnown = true
	add := func(p *model.Pod) {
		if !slices.Contains(pe.waiting, p.Class) {
			pe.waiting = append(pe.waiting, p.Class)
		}
	}
	for _, p := range pe.Snapshot.Pending {
		if p.Node == "" && pe.slots.Covered[p.UID] && mayPreempt(p) {
			add(p)
		}
	}
	for _, h := range pe.slots.Reservations.All {
		if h.Node == nil {
			continue
		}
		for _, p := range h.Node.Pods {
			if known := lifecycle.BindingKnown(p, pe.slots.Reservations.Lifecycle); mayPreempt(p) && pe.Now.Before(known) {
				add(p)
				if pe.waitingUntil.IsZero() || known.Before(pe.waitingUntil) {
					pe.waitingUntil = known
				}
			}
		}
	}
}

// WhenMoved reports whether the successor of one of these pods might preempt a pod, if no node is open to it when it is created.
func (pe *Preemption) WhenMoved(pods []*model.Pod) bool {
	return slices.ContainsFunc(pods, func(p *model.Pod) bool {
		if !mayPreempt(p) {
			return false
		}
		on := pe.preemptibleNodesOf(p.Class)
		return on.several || on.first != "" && on.first != p.Node
	})
}

// preemptibleNodesOf returns the open nodes on which kube-scheduler might preempt pods for one of a class.
func (pe *Preemption) preemptibleNodesOf(c *model.Class) preemptibleNodes {
	on, ok := pe.preemptible[c]
	if ok {
		return on
	}
	if pe.preemptible == nil {
		pe.preemptible, pe.lowest = map[*model.Class]preemptibleNodes{}, pe.lowestPriority()
	}
	for _, n := range pe.Snapshot.Nodes {
		if c.Priority <= pe.lowest {
			break // there is nothing to preempt: most clusters have one priority
		}
		if !n.HasTaint(model.TaintReserved) && wouldPreempt(c, n) {
			if on.first != "" {
				on.several = true
				break
			}
			on.first = n.Name
		}
	}
	pe.preemptible[c] = on
	return on
}

// lowestPriority returns the lowest priority of a pod on a node; math.MaxInt32 if there are no pods.
func (pe *Preemption) lowestPriority() int32 {
	lowest := int32(math.MaxInt32)
	for _, n := range pe.Snapshot.Nodes {
		for _, p := range n.Pods {
			lowest = min(lowest, p.Class.Priority)
		}
	}
	return lowest
}

// ReservationRefusal returns why a replacement is not reserved for pods: they would preempt others. An empty code: they would not.
func (pe *Preemption) ReservationRefusal(pool string, pods []*model.Pod) plan.Reason {
	if !pe.WhenMoved(pods) {
		return plan.Reason{}
	}
	return plan.Reason{Code: plan.PreemptsOthers, Pool: pool, Subject: plan.ObjectOf("pod", pods[0].Key())}
}

// mayPreempt reports whether kube-scheduler preempts other pods for a pod if it finds no room for it.
func mayPreempt(p *model.Pod) bool {
	return p.Class.Preempts && !p.Gated && p.Nominated == "" && p.IsWorkload() && p.Class.Scheduler == model.DefaultScheduler
}

// wouldPreempt reports whether kube-scheduler might preempt pods on a node for one of a class: the node has pods of lower
// priority, and without them there is room. It looks at resources and taints alone, so it errs to true.
func wouldPreempt(c *model.Class, n *model.Node) bool {
	for _, t := range n.Taints {
		if t.Key != model.TaintReserved && t.Effect != model.PreferNoSchedule && !model.Tolerated(t, c.Tolerations) {
			return false
		}
	}
	free := n.Allocatable.Sub(n.Used)
	lower := false
	for _, p := range n.Pods {
		if p.Class.Priority < c.Priority && !p.Terminal && p.Deleting.IsZero() {
			free, lower = free.AddInto(p.Class.Requests, 1), true
		}
	}
	return lower && c.Requests.Fits(free)
}
