// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// reservations are the slots that claims hold for pods, and the pods that are let in.
type reservations struct {
	*draft
	mem           *reservationMemory
	commands      *disruptionCommands
	demand        *demandStage
	disagreements *schedulerDisagreements
	interruptions *interruptions
	pods          *podTable
	shortfalls    *capacityShortfalls

	byClaim map[string]*reservation // by claim name
}

// reservationMemory is what reservations remembers from step to step.
type reservationMemory struct {
	awaited         map[string]bool      // by claim: pods were to come to it at the last step
	emptySlotsSince map[string]time.Time // by claim: since when it has slots that no pod is left for
	landedAt        map[string]time.Time // by claim: when a pod of its reservation was last on its way or came

	schedulerLandedAt time.Time // when kube-scheduler last bound a pod to a node that is reserved for it
}

// landingStatus says whether pods of a reservation are certain to come yet, and when that was last so or one last came.
// They are while predecessors still run elsewhere, while pods are being bound, and while their ReplicaSet is making
// them. Replacements of one command come at different times and its pods are evicted when all are there; but no
// reservation waits longer than Policy.CommandTimeout.
//
// A reservation with pods that kube-scheduler binds counts a landing of such a pod on any node as one of its own, for
// Policy.SlowSchedulerTimeout after it was initialized: kube-scheduler binds one pod after another, and one that is
// slow comes to this node's pods only when it is done with those before them.
func (rt *reservations) landingStatus(h *reservation) (coming bool, since time.Time) {
	began := h.claim.Conditions[lifecycle.Initialized]
	r, hosts := readHostRecord(h.claim)
	if hosts {
		began.Since = r.Since
	}
	if began.True() && (h.ending || slices.ContainsFunc(h.pods, func(p *model.Pod) bool { return p.Node != "" || p.Expected || p.Binding != "" })) {
		due := began.Since.Add(rt.pol.CommandTimeout)
		if rt.now.Before(due) {
			rt.wakeAt(due)
			return true, rt.now
		}
	}
	if rt.mem.landedAt == nil {
		return false, rt.now // nothing is remembered: they may have been on their way a moment ago
	}
	if since = rt.mem.landedAt[h.claim.Name]; hosts && since.Before(r.Since) {
		since = r.Since
	}
	if h.node != nil {
		for _, p := range h.node.Pods {
			if _, ok := h.at[rt.slotKeyOf(p)]; ok && p.Bound.After(since) {
				since = p.Bound
			}
		}
	}
	if began.True() && slices.ContainsFunc(h.pods, func(p *model.Pod) bool { return slices.Contains(p.Reservations, h.claim.Name) }) {
		landed := rt.mem.schedulerLandedAt
		if last := began.Since.Add(rt.pol.SlowSchedulerTimeout); landed.After(last) {
			landed = last
		}
		if landed.After(since) {
			since = landed
		}
	}
	return false, since
}

// read finds the claims that hold capacity for pods, and which pending pods their slots are for.
func (rt *reservations) read() {
	rt.byClaim = map[string]*reservation{}
	for _, c := range rt.dirtyClaims {
		n := rt.nodeOf(c)
		if !rt.holdsCapacity(c, n) {
			rt.shortfalls.found = rt.shortfalls.recordStuckNode(c, n) || rt.shortfalls.found
			continue
		}
		h := &reservation{claim: c, node: n, at: make(map[slotKey]int, len(c.Slots))}
		for i, s := range c.Slots {
			h.slots = append(h.slots, openSlot{Slot: s})
			h.at[slotKey{s.Class, s.Owner}] = i
		}
		if n != nil {
			for _, p := range n.Pods {
				if i, ok := h.at[rt.slotKeyOf(p)]; ok && h.slots[i].bound < h.slots[i].Count {
					h.slots[i].bound++
				}
				if slices.Contains(p.Reservations, c.Name) && p.Bound.After(rt.mem.schedulerLandedAt) {
					rt.mem.schedulerLandedAt = p.Bound
				}
			}
		}
		rt.shortfalls.found = rt.shortfalls.checkCapacity(h) || rt.shortfalls.found
		rt.byClaim[c.Name] = h
	}
	rt.assignSlots()
	ending := rt.endingSlots()
	for _, h := range rt.byClaim {
		for i := range h.slots {
			s := &h.slots[i]
			h.ending = h.ending || s.bound+s.matched < s.Count && ending[slotKey{s.Class, s.Owner}]
		}
	}
	rt.releaseEmptySlots(ending)
}

// endingSlots are the slots of pods that are on their way out of nodes that are being emptied: a StatefulSet, say,
// makes the next one only when the last is wholly gone.
func (rt *reservations) endingSlots() map[slotKey]bool {
	out := map[slotKey]bool{}
	if len(rt.byClaim) == 0 {
		return out
	}
	for _, p := range rt.pods.terminatingPods() {
		out[rt.slotKeyOf(p)] = true
	}
	return out
}

// releaseEmptySlots gives up slots for which no pod is left: their pods landed elsewhere, or were deleted without a
// successor. A node that is usable has waited for them long enough after Policy.DeadSlot.
func (rt *reservations) releaseEmptySlots(ending map[slotKey]bool) {
	idle := map[string]time.Time{}
	var coming map[slotKey]bool
	for _, name := range sortedKeys(rt.byClaim) {
		h := rt.byClaim[name]
		if h.node == nil || h.claim.UID == "" || !h.isUsable() {
			continue
		}
		if coming == nil {
			coming = maps.Clone(ending)
			for _, p := range rt.s.Pending {
				if !rt.pods.covered[p.UID] {
					coming[rt.slotKeyOf(p)] = true
				}
			}
			for _, p := range rt.pods.notPendingYet() { // successors of pods yet to be evicted, and pods yet to be made
				coming[rt.slotKeyOf(p)] = true
			}
		}
		dead := false
		for _, s := range h.slots {
			dead = dead || s.bound+s.matched < s.Count && !coming[slotKey{s.Class, s.Owner}]
		}
		if !dead {
			continue
		}
		since, ok := rt.mem.emptySlotsSince[name]
		if !ok {
			since = rt.now
		}
		if due := since.Add(rt.pol.EmptySlotGrace); rt.now.Before(due) {
			idle[name] = since
			rt.wakeAt(due)
			continue
		}
		var left []model.Slot
		for i := range h.slots {
			s := &h.slots[i]
			if !coming[slotKey{s.Class, s.Owner}] {
				s.Count = s.bound + s.matched
			}
			if s.Count > 0 {
				left = append(left, s.Slot)
			}
		}
		rt.addAction(plan.UpdateClaim{Claim: name, UID: h.claim.UID, SetSlots: true, Slots: left,
			Why: plan.Reason{Code: plan.Landed, Pool: h.claim.Pool, Subject: name}})
	}
	rt.mem.emptySlotsSince = idle
}

// rewriteUnsureSlots has slots written again where nobody knows whether they were. Whatever else this step wants of
// them has been said, and goes first (drop).
func (rt *reservations) rewriteUnsureSlots() {
	for _, c := range rt.dirtyClaims {
		if c.SlotsUnsure && c.Deleting.IsZero() {
			rt.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, SetSlots: true, Slots: c.Slots,
				Why: plan.Reason{Code: plan.NoAnswer, Pool: c.Pool, Subject: c.Name}})
		}
	}
}

// holdsCapacity says whether a claim's slots still count.
func (rt *reservations) holdsCapacity(c *model.Claim, n *model.Node) bool {
	if !c.Deleting.IsZero() || len(c.Slots) == 0 || rt.interruptions.byClaim[c.Name] != nil {
		return false
	}
	if !isRegistered(n) {
		return !c.Is("Registered") // not there yet; a node that was there and is gone holds nothing
	}
	if rt.isStuck(c) {
		return false
	}
	if c.Reserved && hasReservedTaint(n, c) || !c.Is(lifecycle.Initialized) {
		return true
	}
	if c.Reserved {
		return false // its reservation is over
	}
	over := c.Conditions[lifecycle.Initialized].Since.Add(rt.pol.LandingGrace)
	if rt.now.Before(over) {
		rt.wakeAt(over)
		return true
	}
	return false
}

// reservationRefusal says why a new claim can't be reserved for its pods; an empty code: it can.
func (rt *reservations) reservationRefusal(pool *model.NodePool, requests model.Resources, pods []*model.Pod) plan.Reason {
	if rt.pol.Landing == LandOff {
		return plan.Reason{Code: plan.LandingOff, Pool: pool.Name}
	}
	for d := int(model.FirstExtended); d < len(requests); d++ {
		if requests[d] > 0 {
			return plan.Reason{Code: plan.ExtendedResource, Pool: pool.Name, Key: rt.s.ResourceNames[d]}
		}
	}
	if len(pool.StartupTaints) > 0 {
		return plan.Reason{Code: plan.StartupTaints, Pool: pool.Name, Key: pool.StartupTaints[0].Key}
	}
	strict := false
	why := plan.Reason{Code: plan.TolerateAll, Pool: pool.Name, Subject: "pod/" + pods[0].Key()}
	for _, p := range pods {
		for _, s := range p.Class.Spread {
			if s.Hard && s.HonorTaints && s.MinDomains > 0 {
				return plan.Reason{Code: plan.SpreadTaints, Pool: pool.Name, Subject: "pod/" + p.Key(), Key: s.TopologyKey}
			}
		}
		if p.Unreservable && rt.bindRefusal(p).Code != "" {
			why = plan.Reason{Code: plan.PatchRefused, Pool: pool.Name, Subject: "pod/" + p.Key()}
			continue
		}
		strict = strict || !p.Class.ToleratesEverything()
	}
	if !strict {
		return why
	}
	return plan.Reason{}
}

// hasReservedSlot says whether some reservation has slots for the class and owner of a pod.
func (rt *reservations) hasReservedSlot(p *model.Pod) bool {
	k := rt.slotKeyOf(p)
	for _, h := range rt.byClaim {
		if _, ok := h.at[k]; ok {
			return true
		}
	}
	return false
}

// findLost says whether a claim that pods were to come to holds nothing for them any more, because it failed or its
// reservation is over, and some pod has no machine now. Claims are compared and not pods, for which of many alike pods
// has a slot changes with every pod that comes.
func (rt *reservations) findLost() bool {
	lost := false
	for name := range rt.mem.awaited {
		lost = lost || rt.byClaim[name] == nil
	}
	awaiting := make(map[string]bool, len(rt.byClaim))
	for name, h := range rt.byClaim {
		for i := range h.slots {
			if h.slots[i].matched > 0 {
				awaiting[name] = true
			}
		}
	}
	rt.mem.awaited = awaiting
	if !lost && !rt.shortfalls.found {
		return false
	}
	found := false
	for _, p := range rt.s.Pending {
		found = found || !rt.pods.covered[p.UID] && rt.pods.isDemand(p)
	}
	uncovered := func(p *model.Pod) bool { return !rt.pods.covered[p.UID] }
	return found || slices.ContainsFunc(rt.pods.leavingPods(), uncovered) || slices.ContainsFunc(rt.pods.anticipatedPods(), uncovered)
}

// claimOfNode is the claim that a node names, and what it holds for pods.
func (rt *reservations) claimOfNode(p int32) (*model.Claim, *reservation) {
	if at := rt.claims.claimOf[p]; at >= 0 {
		c := rt.s.Claims[at]
		return c, rt.byClaim[c.Name]
	}
	return nil, nil
}
