// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/decide/pods"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Here is what the stages of decide/pods are given, and where what they return goes.

// classifyPods finds out which pods are demand, leaving and so on, and which evicted ones are still on their way out.
func (st *step) classifyPods() {
	st.rollouts = pods.NewRollouts(st.View, st.pol.InterruptionNotice)
	st.pods = pods.Classify(st.View, pods.In{Commands: st.commands, Rollouts: st.rollouts, LaunchDue: nodegroups.NewPodRules(st.Snapshot.Pools).LaunchDue,
		SchedulerWait: st.pol.SchedulerWait, MinDrain: st.pol.Lifecycle.MinDrain, Unseen: st.req.unseen})
	st.evictions, st.mem.evictions = pods.FollowEvictions(st.View, st.pods, st.mem.evictions)
}

// readReservations finds the claims that hold slots for pods, and what of them their nodes have no capacity for.
func (st *step) readReservations() {
	var until time.Time
	st.found.reservations, until, st.mem.reservations = pods.ReadReservations(st.View, pods.ReservationPolicy{Lifecycle: st.pol.Lifecycle, LandingGrace: st.pol.LandingGrace,
		CommandTimeout: st.pol.CommandTimeout, SlowSchedulerTimeout: st.pol.SlowSchedulerTimeout}, st.mem.reservations)
	st.wakeAt(until)
	st.shortfalls.Read(st.reservations.ByClaim)
}

// assignSlots hands the slots of claims to pods, those among them that ReplicaSets are about to make.
func (st *step) assignSlots() {
	anticipated, part, next := pods.Anticipate(st.pods, st.reservations, st.pol.AnticipateFor, st.mem.anticipation)
	st.merge(part)
	st.anticipated, st.mem.anticipation = anticipated, next
	st.slots, part, st.mem.slots = pods.AssignSlots(st.View, pods.SlotIn{Table: st.pods, Reservations: st.reservations, Anticipated: anticipated, IsBarred: st.disagreements.IsBarred,
		MayBind: func(p *model.Pod) bool {
			return st.pol.Landing.BindRefusal(p, st.Snapshot.ResourceNames).Code == ""
		},
		Binds: st.pol.Landing.Mode == landing.Bind, Grace: st.pol.EmptySlotGrace}, st.mem.slots)
	st.merge(part)
	st.preemption = pods.NewPreemption(st.slots)
}

// findLostSlots finds whether pods have lost their slot and have no machine now.
func (st *step) findLostSlots() {
	var until time.Time
	st.demand.lost, until, st.mem.slots = st.slots.FindLost(st.cameShort, st.mem.slots)
	st.wakeAt(until)
}

// rememberPlaced remembers which pods have a slot, and which will have one on a new node.
func (st *step) rememberPlaced() { st.mem.slots = st.slots.Remember(st.mem.slots, st.out.Pods) }

// transit returns what finds the pods that are on their way to standing nodes, as things stand in the step now.
func (dr *draft) transit(pl *placements) *pods.Transit {
	return &pods.Transit{View: dr.View, Slots: dr.slots, Evictions: dr.evictions, Wait: dr.pol.InTransitWait, Expected: pl.isExpected, IsGoing: dr.isAboutToBeDeleted}
}

// pace returns how many pods go at a time.
func (p *Policy) pace() pods.Pace {
	return pods.Pace{Concurrency: p.EvictionConcurrency, Retries: p.EvictionRetries}
}

// paceEvictions leaves out the evictions whose turn has not come.
func (st *step) paceEvictions() {
	var again time.Time
	st.out.Actions, again, st.mem.evictions = st.evictions.Pace(st.out.Actions, st.slots.Covered, st.pol.pace())
	st.wakeAt(again)
}

// rewriteUnsureSlots has slots written again where nobody knows whether they were.
func (st *step) rewriteUnsureSlots() { st.merge(pods.RewriteUnsureSlots(st.View)) }
