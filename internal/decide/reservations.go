// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// reservations are the slots that claims hold for pods, and the pods that are let in.
type reservations struct {
	*draft
	mem        *reservationMemory
	shortfalls *demand.Shortfalls

	byClaim map[string]*cluster.Reservation // by claim name
}

// reservationMemory is what reservations remembers from step to step.
type reservationMemory struct {
	landedAt map[string]time.Time // by claim: when a pod of its reservation was last on its way or came

	schedulerLandedAt time.Time // when kube-scheduler last bound a pod to a node that is reserved for it
}

// landingStatus reports whether pods of a reservation are certain to come yet, when that was last so or one last came, and
// until when that is the answer.
// They are while predecessors still run elsewhere, while pods are being bound, and while their ReplicaSet is making
// them. Replacements of one command come at different times and its pods are evicted when all are there; but no
// reservation waits longer than Policy.CommandTimeout.
//
// A reservation with pods that kube-scheduler binds counts a landing of such a pod on any node as one of its own, for
// Policy.SlowSchedulerTimeout after it was initialized: kube-scheduler binds one pod after another, and one that is
// slow comes to this node's pods only when it is done with those before them.
func (rt *reservations) landingStatus(h *cluster.Reservation) (coming bool, since, until time.Time) {
	began := h.Began()
	r, hosts := cluster.ReadHostRecord(h.Claim)
	if began.True() && (h.Ending || slices.ContainsFunc(h.Pods, func(p *model.Pod) bool { return p.Node != "" || p.Expected || p.Binding != "" })) {
		if due := began.Since.Add(rt.pol.CommandTimeout); rt.Now.Before(due) {
			return true, rt.Now, due
		}
	}
	if rt.mem.landedAt == nil {
		return false, rt.Now, time.Time{} // nothing is remembered: they may have been on their way a moment ago
	}
	if since = rt.mem.landedAt[h.Claim.Name]; hosts && since.Before(r.Since) {
		since = r.Since
	}
	if h.Node != nil {
		for _, p := range h.Node.Pods {
			if h.HasSlot(rt.SlotKeyOf(p)) && p.Bound.After(since) {
				since = p.Bound
			}
		}
	}
	if began.True() && slices.ContainsFunc(h.Pods, func(p *model.Pod) bool { return slices.Contains(p.Reservations, h.Claim.Name) }) {
		landed := rt.mem.schedulerLandedAt
		if last := began.Since.Add(rt.pol.SlowSchedulerTimeout); landed.After(last) {
			landed = last
		}
		if landed.After(since) {
			since = landed
		}
	}
	return false, since, time.Time{}
}

// read finds the claims that hold capacity for pods.
func (rt *reservations) read() {
	rt.byClaim = map[string]*cluster.Reservation{}
	for _, c := range rt.DirtyClaims {
		n := rt.NodeFor(c)
		if !rt.heed(rt.holdsCapacity(c, n)) {
			rt.shortfalls.RecordStuckNode(c, n)
			continue
		}
		h := cluster.NewReservation(rt.View, c, n)
		if n != nil {
			for _, p := range n.Pods {
				if slices.Contains(p.Reservations, c.Name) && p.Bound.After(rt.mem.schedulerLandedAt) {
					rt.mem.schedulerLandedAt = p.Bound
				}
			}
		}
		rt.shortfalls.CheckCapacity(h)
		rt.byClaim[c.Name] = h
	}
}

// rewriteUnsureSlots has slots written again where nobody knows whether they were. Whatever else this step wants of
// them has been said, and goes first (drop).
func (rt *reservations) rewriteUnsureSlots() {
	for _, c := range rt.DirtyClaims {
		if c.SlotsUnsure && c.Deleting.IsZero() {
			rt.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, SetSlots: true, Slots: c.Slots,
				Why: plan.Reason{Code: plan.NoAnswer, Pool: c.Pool, Subject: plan.ObjectOf("", c.Name)}})
		}
	}
}

// holdsCapacity reports whether a claim's slots still count, and until when that is the answer. One that is coming for virtual pods has none yet, and may get
// some for real pods that are there first.
func (rt *reservations) holdsCapacity(c *model.Claim, n *model.Node) (holds bool, until time.Time) {
	if !c.Deleting.IsZero() || len(c.Slots) == 0 && (!cluster.IsForBuffer(c) || c.Is(lifecycle.Initialized)) || rt.Interruptions[c.Name] != nil {
		return false, time.Time{}
	}
	if !cluster.IsRegistered(n) {
		return !c.Is("Registered"), time.Time{} // not there yet; a node that was there and is gone holds nothing
	}
	stuck, until := rt.isStuck(c)
	switch {
	case stuck:
		return false, until
	case c.Reserved && cluster.HasReservedTaint(n, c), !c.Is(lifecycle.Initialized):
		return true, until
	case c.Reserved:
		return false, until // its reservation is over
	}
	if over := c.Conditions[lifecycle.Initialized].Since.Add(rt.pol.LandingGrace); rt.Now.Before(over) {
		return true, over
	}
	return false, until
}

// hasReservedSlot reports whether some reservation has slots for the class and owner of a pod.
func (rt *reservations) hasReservedSlot(p *model.Pod) bool {
	k := rt.SlotKeyOf(p)
	for _, h := range rt.byClaim {
		if h.HasSlot(k) {
			return true
		}
	}
	return false
}

// claimOfNode is the claim that a node names, and what it holds for pods.
func (rt *reservations) claimOfNode(p int32) (*model.Claim, *cluster.Reservation) {
	if at := rt.ClaimOf(p); at >= 0 {
		c := rt.Snapshot.Claims[at]
		return c, rt.byClaim[c.Name]
	}
	return nil, nil
}
