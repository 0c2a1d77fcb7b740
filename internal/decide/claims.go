// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Here is what the stages of decide/claims and decide/landing are given, and where what they return goes.

// readHealth finds the nodes that have something wrong with them.
func (st *step) readHealth() {
	h, until := claims.ReadHealth(st.View, claims.HealthIn{Repair: st.pol.Repair, NoRepair: st.pol.NoRepair})
	st.wakeAt(until)
	*st.health = h
}

// advanceClaims takes every claim one step on.
func (st *step) advanceClaims() {
	lc, landed := st.newLifecycle(), map[string]time.Time{}
	for _, c := range st.DirtyClaims {
		if st.isForeign(c) {
			continue
		}
		h, until := st.holdingOf(c)
		if !h.Landed.IsZero() {
			landed[c.Name] = h.Landed
		}
		out := lc.Advance(c, h)
		st.merge(plan.Part{Actions: out.Actions, Next: model.EarlierOf(out.Next, until)})
		st.mem.registrations = st.mem.registrations.Note(st.View, out.Actions)
		if len(out.Actions) == 0 {
			st.memo.idleClaims = append(st.memo.idleClaims, idleClaim{st.PositionOf(c), out.Next})
		}
	}
	st.mem.lifecycle, st.mem.reservations = lc.Memory(), st.mem.reservations.WithLanded(landed)
}

// newLifecycle returns what takes claims on in this step.
func (st *step) newLifecycle() *claims.Lifecycle {
	return claims.NewLifecycle(st.View, claims.LifecyclePolicy{Policy: st.pol.Lifecycle, SlowSchedulerTimeout: st.pol.SlowSchedulerTimeout}, st.mem.lifecycle, func(c *model.Claim) lifecycle.BarredLaunch {
		x, tried, _ := st.unused.Bars.OnMade(c)
		return lifecycle.BarredLaunch{Why: x.Reason, Until: x.Until, Tried: tried}
	})
}

// holdingOf returns what a claim's machine holds for pods, and until when.
func (st *step) holdingOf(c *model.Claim) (out claims.Holding, until time.Time) {
	h := st.reservations.ByClaim[c.Name]
	out.Binding, out.Awaited = st.reservations.Binding[c.NodeName], h.AwaitedPods()
	if h != nil && c.Reserved {
		out.Coming, out.Landed, until = st.reservations.LandingStatus(h)
		if h.Node != nil && h.Node.DaemonsOnly {
			out.Landed = st.Now // pods that kube-scheduler binds can't come yet
		}
	}
	if h != nil && !c.Reserved && st.Now.Before(st.reservations.DriversDue(h, h.Pods)) {
		out.Landed = st.Now
	}
	held, due := st.preemption.Protects(h)
	if held {
		until = model.EarlierOf(until, due)
	}
	if held || st.isRevocable(c) || st.isBecomingHost(c) || c.Reserved && h.IsForRequest() { // its command, which has evicted nobody yet, or its request sees to it
		out.Awaited, out.Coming = max(out.Awaited, 1), true
	}
	if !c.Deleting.IsZero() && c.ProviderID != "" {
		out.Rollouts = st.rollouts.OfClaim(c, st.NodesAt(st.PositionOf(c)))
	}
	return out, until
}

// isBecomingHost reports whether a claim's node is being reserved for the pods of a disruption command, and the claim does not say so yet: its taint may be seen
// first, and the time of the reservation that it was launched with is long up.
func (st *step) isBecomingHost(c *model.Claim) bool {
	return cluster.HostedCommand(c) == "" && st.mem.commands.isBecomingHost(c.Name)
}

// endOrphans ends machines and nodes without a claim.
func (st *step) endOrphans() { st.merge(claims.EndOrphans(st.View, st.pol.OrphanGrace)) }

// adoptGroupMembers makes a claim for each member of a node group that is nobody's, and ends those that came too late and that no pool adopts.
func (st *step) adoptGroupMembers() {
	st.merge(nodegroups.EndUnadopted(st.View, st.pol.AdoptionGrace))
	for _, a := range nodegroups.AdoptMembers(st.View) {
		st.addAction(a)
	}
}

// admitPods lets the pods that have a slot come to their nodes.
func (st *step) admitPods() {
	st.mem.closed = st.mem.closed.Note(st.Now, st.reservations.All)
	st.merge(landing.AdmitPods(st.View, st.landingInput()))
}

// landingInput is what decides how the pods with slots come to their nodes.
func (st *step) landingInput() landing.In {
	return landing.In{Policy: st.pol.Landing, Reservations: st.reservations.All, Actions: st.out.Actions,
		Closed: st.mem.closed, SchedulerLag: st.pol.Lifecycle.SchedulerLag, BindingDelay: st.pol.Lifecycle.BindingDelay}
}

// forceRepairs deletes machines that have been broken for too long.
func (st *step) forceRepairs() {
	st.merge(claims.ForceRepairs(st.View, claims.RepairIn{Begun: st.Begun, Health: st.health, Force: st.pol.LegacyRepair, Grace: st.pol.RepairGrace, Retry: st.pol.SearchInterval}))
}

// batchInterruptions finds whether pods of newly interrupted machines are decided on in this step.
func (st *step) batchInterruptions() {
	due, until, next := claims.BatchInterruptions(st.View, st.pol.InterruptionBatchIdle, st.mem.interruptions)
	st.wakeAt(until)
	st.demand.interrupted, st.mem.interruptions = due, next
}

// drainInterrupted takes each interrupted machine one step on.
func (st *step) drainInterrupted() {
	if len(st.Interruptions) == 0 {
		return
	}
	slots := map[string]*model.Claim{}
	for _, h := range st.reservations.All {
		for _, p := range h.Pods {
			slots[p.UID] = h.Claim
		}
	}
	st.merge(claims.DrainInterrupted(st.View, claims.InterruptionIn{Begun: st.Begun, Slots: slots, Expected: st.placements.isExpected}))
}
