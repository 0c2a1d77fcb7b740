// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// slotRef is one kind of slot of a reservation.
type slotRef struct {
	*reservation
	slot int
}

// assignSlots hands pending pods to slots: first those that bear a claim's toleration to that claim, then the others to
// open slots of their class and owner, the oldest first and to the machines that are furthest on their way (remote),
// claims by name. Pods on nodes being drained take open slots too: their successors will come for them.
func (rt *reservations) assignSlots() {
	rt.pods.covered = map[string]bool{}
	open := map[slotKey][]slotRef{}
	for _, name := range sortedKeys(rt.byClaim) {
		h := rt.byClaim[name]
		for i, s := range h.slots {
			k := slotKey{s.Class, s.Owner}
			open[k] = append(open[k], slotRef{h, i})
		}
	}
	if len(open) == 0 {
		return
	}
	rt.fillSlots(open)
}

// assignSlot gives a pod one of these slots, on one claim only if it is named, and says whether there was one.
func (rt *reservations) assignSlot(p *model.Pod, refs []slotRef, only string) bool {
	for _, h := range refs {
		if only != "" && h.claim.Name != only || rt.disagreements.isBarred(p, h.node) {
			continue
		}
		s := &h.slots[h.slot]
		if s.bound+s.matched >= s.Count {
			continue
		}
		s.matched++
		h.pods = append(h.pods, p)
		if p.Unreservable && rt.bindRefusal(p).Code != "" {
			s.refused++
		}
		rt.pods.covered[p.UID] = true
		return true
	}
	return false
}

// fillSlots remembers which demand has a slot.
func (rt *reservations) fillSlots(open map[slotKey][]slotRef) {
	for _, p := range rt.s.Pending {
		if p.Binding == "" {
			continue
		}
		if n := findNode(rt.s, p.Binding); n >= 0 { // whether it lands there is not ours to say any more
			if c, h := rt.claimOfNode(n); h != nil {
				rt.assignSlot(p, open[rt.slotKeyOf(p)], c.Name)
			}
		}
	}
	for _, p := range rt.s.Pending {
		for _, r := range p.Reservations {
			if !rt.pods.covered[p.UID] && rt.byClaim[r] != nil && rt.assignSlot(p, open[rt.slotKeyOf(p)], r) {
				break
			}
		}
	}
	// Replacements are for the pods of their command before others like them that are pending: evicted, those would
	// have to wait instead.
	for _, id := range sortedKeys(rt.commands.byID) {
		m := rt.commands.byID[id]
		for _, p := range rt.pods.podsToReplace(m) {
			for _, c := range m.replacements {
				if rt.assignSlot(p, open[rt.slotKeyOf(p)], c.Name) {
					break
				}
			}
		}
	}
	type waiting struct {
		*model.Pod
		refs []slotRef
	}
	var wait []waiting
	nearest := map[slotKey][]slotRef{}
	for _, p := range rt.s.Pending {
		if rt.pods.covered[p.UID] || !rt.pods.isDemand(p) {
			continue
		}
		k := rt.slotKeyOf(p)
		b, ok := nearest[k]
		if !ok {
			b = slices.Clone(open[k])
			slices.SortStableFunc(b, func(x, y slotRef) int {
				return cmp.Compare(x.distanceToReady(), y.distanceToReady())
			})
			nearest[k] = b
		}
		if len(b) > 0 {
			wait = append(wait, waiting{p, b})
		}
	}
	slices.SortFunc(wait, func(a, b waiting) int { return comparePodAge(a.Pod, b.Pod) })
	for _, w := range wait {
		rt.assignSlot(w.Pod, w.refs, "")
	}
	// Pods that kube-scheduler has not looked at yet take slots on nodes that are there for them: a look in vain costs
	// it as much as one that finds a node, and delays the pod's next.
	for _, name := range sortedKeys(rt.byClaim) {
		h := rt.byClaim[name]
		if !rt.acceptsUnexamined(h) {
			continue
		}
		for _, p := range rt.s.Pending {
			if !rt.pods.covered[p.UID] && IsForScheduler(p) {
				rt.assignSlot(p, open[rt.slotKeyOf(p)], name)
			}
		}
	}
	for _, p := range rt.pods.notPendingYet() {
		if !rt.pods.covered[p.UID] {
			rt.assignSlot(p, open[rt.slotKeyOf(p)], "")
		}
	}
}

// acceptsUnexamined says whether pods may take a reservation's slots before kube-scheduler has looked at them: we bind
// them, or their predecessors were evicted for a node that is there.
func (rt *reservations) acceptsUnexamined(h *reservation) bool {
	if h.node == nil || !h.claim.Reserved || h.awaitedPods() == 0 {
		return false
	}
	if rt.pol.Landing == LandBind {
		return h.node.Ready && isRegistered(h.node)
	}
	m := rt.commands.servedBy(h.claim)
	return m != nil && m.deleting > 0 && h.claim.Is(lifecycle.Initialized)
}
