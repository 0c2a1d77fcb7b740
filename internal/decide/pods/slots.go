// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pods

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// SlotIn is the input of the assignment of slots to pods.
type SlotIn struct {
	Table        *Table
	Reservations *Reservations
	Anticipated  []*model.Pod
	IsBarred     func(*model.Pod, *model.Node) bool // reports whether a pod must not be bound to a node
	MayBind      func(*model.Pod) bool              // whether Dovetail may bind a pod
	Binds        bool                               // whether Dovetail binds pods to the nodes launched for them
	Grace        time.Duration                      // a slot on a usable node for which no pod is left is kept this long for a successor
}

// Slots are the slots of reservations, assigned to pods.
type Slots struct {
	*cluster.View
	SlotIn
	mem SlotMemory
	out plan.Part

	Covered map[string]bool // UIDs of pods with a slot
}

// SlotMemory is the state that Slots keeps between steps.
type SlotMemory struct {
	awaited         map[string]bool      // by claim: pods were to come to it at the last step
	emptySlotsSince map[string]time.Time // by claim: since when it has slots that no pod is left for
	placed          map[string]bool      // by uid: pods that had a slot, or were placed on a new node, at the last step
}

// AssignSlots assigns the slots of all reservations to pods, and releases slots without a pod.
func AssignSlots(v *cluster.View, in SlotIn, mem SlotMemory) (*Slots, plan.Part, SlotMemory) {
	sa := &Slots{View: v, SlotIn: in, mem: mem, Covered: map[string]bool{}}
	sa.assign()
	ending := sa.endingSlots()
	for _, h := range sa.Reservations.All {
		for i := range h.Slots {
			s := &h.Slots[i]
			s.Ending = s.Bound+s.Matched < s.Count && ending[cluster.KeyOf(s.Slot)]
			h.Ending = h.Ending || s.Ending
		}
	}
	sa.releaseEmpty(ending)
	return sa, sa.out, sa.mem
}

// Remember returns the memory with the pods that have a slot, and those to which these decisions assign one on a new node: the next
// step gives none of these slots to another pod of their class that was refused or created in the meantime.
func (sa *Slots) Remember(mem SlotMemory, decisions []plan.PodDecision) SlotMemory {
	mem.placed = sa.Covered
	if slices.ContainsFunc(decisions, isPlacedOnClaim) {
		mem.placed = maps.Clone(sa.Covered)
		for _, d := range decisions {
			if isPlacedOnClaim(d) {
				mem.placed[d.Pod.UID] = true
			}
		}
	}
	return mem
}

// isPlacedOnClaim reports whether a pod was decided to go to a node that is on its way.
func isPlacedOnClaim(d plan.PodDecision) bool {
	return d.Outcome == plan.OnNew || d.Outcome == plan.OnClaim
}

// slotRef is one kind of slot of a reservation.
type slotRef struct {
	*cluster.Reservation
	slot int
}

// assign hands pending pods to slots: first those that bear a claim's toleration, or are being given it, to that claim, then the others to
// open slots of their class and owner: pods that were placed before stay placed, for they have been told so, then the
// oldest first, and to the machines that are furthest on their way (remote), claims by name. Pods on nodes being drained take open slots too: their successors will come for them.
func (sa *Slots) assign() {
	open := map[cluster.SlotKey][]slotRef{}
	for _, h := range sa.Reservations.All {
		if h.Node != nil {
			for _, d := range sa.DaemonsToCome(h.Claim, h.Node) {
				h.Matched = h.Matched.Add(d.Pod().Requests)
			}
		}
		for i, s := range h.Slots {
			k := cluster.KeyOf(s.Slot)
			open[k] = append(open[k], slotRef{h, i})
		}
	}
	if len(open) == 0 {
		return
	}
	sa.fillSlots(open)
}

// assignSlot gives a pod one of these slots, on one claim only if it is named, and reports whether there was one. A slot on a
// node that others have filled meanwhile, before its taint was seen, is none.
func (sa *Slots) assignSlot(p *model.Pod, refs []slotRef, only string) bool {
	for _, h := range refs {
		if only != "" && h.Claim.Name != only || sa.IsBarred(p, h.Node) {
			continue
		}
		if p.Consumes.UID != "" && p.Binding == "" && h.IsShut() {
			continue // capacity is looked for elsewhere: nobody knows when the node opens
		}
		s := &h.Slots[h.slot]
		if s.Bound+s.Matched >= s.Count || p.Binding == "" && !h.HasCapacityFor(p.Class) {
			continue
		}
		s.Matched++
		h.Matched = h.Matched.Add(p.Class.Requests)
		h.Pods = append(h.Pods, p)
		if p.Unreservable && !sa.MayBind(p) {
			s.Refused++
		}
		sa.Covered[p.UID] = true
		return true
	}
	return false
}

// fillSlots remembers which demand has a slot.
func (sa *Slots) fillSlots(open map[cluster.SlotKey][]slotRef) {
	for _, p := range sa.Snapshot.Pending {
		if p.Binding == "" {
			continue
		}
		if n := sa.FindNode(p.Binding); n >= 0 { // whether it lands there is not ours to say any more
			if c, h := sa.Reservations.OfNode(n); h != nil {
				sa.assignSlot(p, open[sa.SlotKeyOf(p)], c.Name)
			}
		}
	}
	for _, p := range sa.Snapshot.Pending {
		for _, r := range p.LetInBy() {
			if !sa.Covered[p.UID] && sa.Reservations.ByClaim[r] != nil && sa.assignSlot(p, open[sa.SlotKeyOf(p)], r) {
				break
			}
		}
	}
	// Replacements are for the pods of their command before others like them that are pending: evicted, those would
	// have to wait instead.
	for _, id := range sa.Table.Commands.IDs() {
		m := sa.Table.Commands.ByID[id]
		for _, p := range sa.Table.ToReplace(m) {
			for _, c := range m.Replacements {
				if sa.assignSlot(p, open[sa.SlotKeyOf(p)], c.Name) {
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
	nearest := map[cluster.SlotKey][]slotRef{}
	for _, p := range sa.Snapshot.Pending {
		if sa.Covered[p.UID] || !sa.out.Heed(sa.Table.NeedsPlace(p)) { // a pod keeps its slot when another of its gang is gone for a moment
			continue
		}
		k := sa.SlotKeyOf(p)
		b, ok := nearest[k]
		if !ok {
			b = slices.Clone(open[k])
			slices.SortStableFunc(b, func(x, y slotRef) int {
				return cmp.Compare(x.DistanceToReady(), y.DistanceToReady())
			})
			nearest[k] = b
		}
		if len(b) > 0 {
			wait = append(wait, waiting{p, b})
		}
	}
	slices.SortFunc(wait, func(a, b waiting) int {
		if a.Placeholder != b.Placeholder {
			if b.Placeholder {
				return -1 // what is held for a pod is its own when it exists
			}
			return 1
		}
		if before := sa.mem.placed[a.UID]; before != sa.mem.placed[b.UID] {
			if before {
				return -1
			}
			return 1
		}
		return model.ComparePodAge(a.Pod, b.Pod)
	})
	for _, w := range wait {
		sa.assignSlot(w.Pod, w.refs, "")
	}
	// Pods that kube-scheduler has not looked at yet take slots on nodes that are there for them: an attempt that fails costs
	// it as much as one that finds a node, and delays the pod's next.
	for _, h := range sa.Reservations.All {
		if !sa.acceptsUnexamined(h) {
			continue
		}
		for _, p := range sa.Snapshot.Pending {
			if !sa.Covered[p.UID] && p.IsForScheduler() {
				sa.assignSlot(p, open[sa.SlotKeyOf(p)], h.Claim.Name)
			}
		}
	}
	for _, p := range sa.notPendingYet() {
		if !sa.Covered[p.UID] {
			sa.assignSlot(p, open[sa.SlotKeyOf(p)], "")
		}
	}
}

// acceptsUnexamined reports whether pods may take a reservation's slots before kube-scheduler has looked at them: we bind
// them, or their predecessors were evicted for a node that is there.
func (sa *Slots) acceptsUnexamined(h *cluster.Reservation) bool {
	if h.Node == nil || !h.Claim.Reserved || h.AwaitedPods() == 0 {
		return false
	}
	if sa.Binds {
		return h.Node.Ready && cluster.IsRegistered(h.Node)
	}
	m := sa.Table.Commands.ServedBy(h.Claim)
	return m != nil && m.Deleting > 0 && h.Claim.Is(lifecycle.Initialized)
}

// endingSlots are the slots of pods that are on their way out of nodes that are being emptied: a StatefulSet, say,
// makes the next one only when the last is wholly gone.
func (sa *Slots) endingSlots() map[cluster.SlotKey]bool {
	out := map[cluster.SlotKey]bool{}
	if len(sa.Reservations.ByClaim) == 0 {
		return out
	}
	for _, p := range sa.Table.terminating() {
		out[sa.SlotKeyOf(p)] = true
	}
	return out
}

// releaseEmpty gives up slots for which no pod is left: their pods landed elsewhere, or were deleted without a
// successor. A node has waited for them long enough after Grace: the successor of a deleted pod comes a moment
// later. A node that boots keeps them until somebody else is without a node: else each of the pods that come and go meanwhile
// would have a node of its own.
func (sa *Slots) releaseEmpty(ending map[cluster.SlotKey]bool) {
	idle := map[string]time.Time{}
	var coming map[cluster.SlotKey]bool
	wanted := false
	for _, h := range sa.Reservations.All {
		name := h.Claim.Name
		if h.Claim.UID == "" {
			continue
		}
		if coming == nil {
			coming = maps.Clone(ending)
			for _, p := range sa.Snapshot.Pending {
				if !sa.Covered[p.UID] {
					coming[sa.SlotKeyOf(p)] = true
					wanted = wanted || sa.out.Heed(sa.Table.IsDemand(p))
				}
			}
			for _, p := range sa.notPendingYet() { // successors of pods yet to be evicted, and pods yet to be made
				coming[sa.SlotKeyOf(p)] = true
			}
		}
		boots := !h.Claim.Is(lifecycle.Initialized)
		if !boots && (h.Node == nil || !h.IsUsable()) {
			continue
		}
		dead := false
		for _, s := range h.Slots {
			dead = dead || s.Bound+s.Matched < s.Count && !coming[cluster.KeyOf(s.Slot)]
		}
		if !dead {
			continue
		}
		since, ok := sa.mem.emptySlotsSince[name]
		if !ok {
			since = sa.Now
		}
		if boots && !wanted {
			idle[name] = since
			continue
		}
		if due := since.Add(sa.Grace); sa.Now.Before(due) {
			idle[name] = since
			sa.out.WakeAt(due)
			continue
		}
		var left []model.Slot
		for i := range h.Slots {
			s := &h.Slots[i]
			if !coming[cluster.KeyOf(s.Slot)] {
				s.Count = s.Bound + s.Matched
			}
			if s.Count > 0 {
				left = append(left, s.Slot)
			}
		}
		sa.out.Add(plan.UpdateClaim{Claim: name, UID: h.Claim.UID, SetSlots: true, Slots: left,
			Why: plan.Reason{Code: plan.Landed, Pool: h.Claim.Pool, Subject: plan.ObjectOf("", name)}})
	}
	sa.mem.emptySlotsSince = idle
}

// FindLost reports whether a NodeClaim with slots no longer holds capacity, because it failed or its reservation ended, and some
// pod now has no machine; or whether a node had too little capacity. It compares NodeClaims, not pods, because which of several
// equal pods has a slot changes with every new pod. It also returns when the result may change.
func (sa *Slots) FindLost(cameShort bool, mem SlotMemory) (lost bool, until time.Time, next SlotMemory) {
	for name := range mem.awaited {
		lost = lost || sa.Reservations.ByClaim[name] == nil
	}
	mem.awaited = make(map[string]bool, len(sa.Reservations.All))
	for _, h := range sa.Reservations.All {
		for i := range h.Slots {
			if h.Slots[i].Matched > 0 {
				mem.awaited[h.Claim.Name] = true
			}
		}
	}
	if !lost && !cameShort {
		return false, until, mem
	}
	without, until := sa.WithoutMachine()
	return len(without) > 0, until, mem
}

// WithoutMachine returns the pods for which machines are launched: demand, leaving and anticipated pods without a slot, in this
// order, without pods of incomplete gangs. It also returns when there may be others.
func (sa *Slots) WithoutMachine() (out []*model.Pod, until time.Time) {
	out = make([]*model.Pod, 0, len(sa.Snapshot.Pending))
	for _, p := range sa.Snapshot.Pending {
		is, due := sa.Table.IsDemand(p)
		if until = model.EarlierOf(until, due); is && !sa.Covered[p.UID] {
			out = append(out, p)
		}
	}
	for _, pods := range [][]*model.Pod{sa.Table.Leaving(), sa.Anticipated} {
		for _, p := range pods {
			if !sa.Covered[p.UID] && !sa.Table.awaitsPods(p) {
				out = append(out, p)
			}
		}
	}
	return out, until
}

// Movable returns the pending pods with slots on a NodeClaim that are not being bound, and are placed individually.
func (sa *Slots) Movable(h *cluster.Reservation) (out []*model.Pod) {
	for _, p := range h.Pods {
		if p.Node == "" && p.Binding == "" && !p.Expected && !p.IsPlacedTogether() {
			out = append(out, p)
		}
	}
	return out
}

// Release removes pods from their slots on a NodeClaim.
func (sa *Slots) Release(h *cluster.Reservation, pods []*model.Pod) {
	for _, p := range pods {
		k := sa.SlotKeyOf(p)
		h.Slots[slices.IndexFunc(h.Slots, func(s cluster.OpenSlot) bool { return cluster.KeyOf(s.Slot) == k })].Matched--
		h.Matched = h.Matched.Sub(p.Class.Requests)
		delete(sa.Covered, p.UID)
	}
	h.Pods = slices.DeleteFunc(h.Pods, func(p *model.Pod) bool { return slices.Contains(pods, p) })
}

// notPendingYet returns the pods that slots are kept for though they, or their successors, are not pending yet: leaving
// ones, ones to replace, anticipated ones, in this order.
func (sa *Slots) notPendingYet() []*model.Pod {
	return slices.Concat(sa.Table.Leaving(), sa.Table.withReplacements(), sa.Anticipated)
}

// terminatingUnreserved returns the pods that are ending, have a successor only after their end, and for whose
// successors no slot is open.
func (sa *Slots) terminatingUnreserved() (out []*model.Pod) {
	dying := slices.DeleteFunc(sa.Table.terminating(), func(p *model.Pod) bool { return !p.SuccessorFollowsEnd() })
	if len(dying) == 0 {
		return nil
	}
	open := map[cluster.SlotKey]int{}
	for _, h := range sa.Reservations.ByClaim {
		for _, s := range h.Slots {
			open[cluster.KeyOf(s.Slot)] += s.Count - s.Bound - s.Matched
		}
	}
	slices.SortFunc(dying, model.ComparePodKeys)
	for _, p := range dying {
		if k := sa.SlotKeyOf(p); open[k] > 0 {
			open[k]--
		} else {
			out = append(out, p)
		}
	}
	return out
}
