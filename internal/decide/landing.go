// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// reservation is a claim whose slots still hold room for pods (contract 9): it is coming, or its reservation is not over.
type reservation struct {
	claim *model.Claim
	node  *model.Node
	slots []openSlot
	at    map[slotKey]int
	pods  []*model.Pod // pending pods that the slots are for

	ending bool // pods that some of its open slots are for are still ending elsewhere
}

type openSlot struct {
	model.Slot
	bound   int // pods on the node
	matched int // pending pods that will come
	refused int // of these, pods that neither we may bind nor a toleration lets in
}

// awaitedPods is how many reserved pods are not on the node yet.
func (h *reservation) awaitedPods() int {
	if h == nil {
		return 0
	}
	n := 0
	for _, s := range h.slots {
		if !s.Loose {
			n += max(0, s.Count-s.bound-s.refused)
		}
	}
	return n
}

// landingStatus says whether pods of a reservation are certain to come yet, and when that was last so or one last came: some still run where they
// are to go from, are being bound, or their ReplicaSet is still making them. Machines of one move come at different times, and their pods are asked to go when
// all are there, one after another; but none is waited for longer than a move.
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
			if _, ok := h.at[rt.pods.slotKeyOf(p)]; ok && p.Bound.After(since) {
				since = p.Bound
			}
		}
	}
	return false, since
}

// nameEncoding writes hashes as Kubernetes likes names: lower case letters and digits.
var nameEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func hashName(n int, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return nameEncoding.EncodeToString(h.Sum(nil))[:n]
}

// ClassHash names a class in a slot.
func ClassHash(c *model.Class) string {
	if c.SlotKey != "" {
		return hashName(13, c.SlotKey)
	}
	return hashName(13, c.Key)
}

// slotOwner is whose successors inherit a slot: the pod's Deployment, which makes a new ReplicaSet when it is restarted, or its controller,
// or the pod itself.
func slotOwner(p *model.Pod) string {
	if p.Deployment != "" {
		return "deployment/" + p.Namespace + "/" + p.Deployment
	}
	if p.Owner.UID != "" {
		return p.Owner.UID
	}
	return p.UID
}

type slotKey struct{ class, owner string }

// slotKeyOf is the kind of slot that a pod takes. Pods come by name, so one mostly takes the kind that the one before took.
func (pt *podTable) slotKeyOf(p *model.Pod) slotKey {
	last := pt.slotKeyPod
	if last == nil || last.Class != p.Class || last.Owner != p.Owner || last.Deployment != p.Deployment || last.Namespace != p.Namespace || p.Owner.UID == "" {
		h, ok := pt.classHashes[p.Class]
		if !ok {
			if pt.classHashes == nil {
				pt.classHashes = map[*model.Class]string{}
			}
			h = ClassHash(p.Class)
			pt.classHashes[p.Class] = h
		}
		pt.slotKey = slotKey{h, slotOwner(p)}
	}
	pt.slotKeyPod = p
	return pt.slotKey
}

// readReservations finds the claims that hold room, and which of it is taken.
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
				if i, ok := h.at[rt.pods.slotKeyOf(p)]; ok && h.slots[i].bound < h.slots[i].Count {
					h.slots[i].bound++
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

// endingSlots are the slots of pods that are on their way out of nodes that are being emptied: a StatefulSet, say, makes the next one only when
// the last is wholly gone.
func (rt *reservations) endingSlots() map[slotKey]bool {
	out := map[slotKey]bool{}
	if len(rt.byClaim) == 0 {
		return out
	}
	for _, p := range rt.pods.terminatingPods() {
		out[rt.pods.slotKeyOf(p)] = true
	}
	return out
}

// terminatingPods are the pods that are on their way out of nodes that are being emptied and will have a successor.
func (pt *podTable) terminatingPods() (out []*model.Pod) {
	for _, c := range pt.dirtyClaims {
		n := pt.nodeOf(c)
		if n == nil || c.Deleting.IsZero() && !slices.Contains(n.Taints, disruptedTaint) {
			continue
		}
		for _, p := range n.Pods {
			if !p.Deleting.IsZero() && !p.Terminal && p.IsWorkload() && p.Owner.UID != "" {
				out = append(out, p)
			}
		}
	}
	return out
}

// releaseEmptySlots gives up slots for which no pod is left: their pods landed elsewhere, or were deleted without a successor. A node that is
// usable has waited for them long enough after Policy.DeadSlot.
func (rt *reservations) releaseEmptySlots(ending map[slotKey]bool) {
	idle := map[string]time.Time{}
	var coming map[slotKey]bool
	for _, name := range sortedKeys(rt.byClaim) {
		h := rt.byClaim[name]
		if h.node == nil || h.claim.UID == "" || !rt.isUsable(h) {
			continue
		}
		if coming == nil {
			coming = maps.Clone(ending)
			for _, p := range rt.s.Pending {
				if !rt.pods.covered[p.UID] {
					coming[rt.pods.slotKeyOf(p)] = true
				}
			}
			for _, pods := range [][]*model.Pod{rt.pods.leavingPods(), rt.commands.podsWithReplacements(), rt.pods.anticipatedPods()} { // who is yet to be asked, or made
				for _, p := range pods {
					coming[rt.pods.slotKeyOf(p)] = true
				}
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

// rewriteUnsureSlots has slots written again where nobody knows whether they were. Whatever else this step wants of them has been said, and goes first (drop).
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

// isStuck says whether a claim's node has come and is still of no use when a machine without a node would be given up: nobody waits for
// it any longer, though it may yet come round.
func (rt *reservations) isStuck(c *model.Claim) bool {
	if c.Is(lifecycle.Initialized) {
		return false
	}
	due := c.Created.Add(rt.pol.Lifecycle.For(rt.poolByName[c.Pool]).RegistrationTimeout)
	if rt.now.Before(due) {
		rt.wakeAt(due)
		return false
	}
	return true
}

func isRegistered(n *model.Node) bool { return n != nil && n.Labels[model.LabelRegistered] == "true" }

func hasReservedTaint(n *model.Node, c *model.Claim) bool {
	for _, t := range n.Taints {
		if t.Key == model.TaintReserved && t.Value == c.Name {
			return true
		}
	}
	return false
}

// slotRef is a kind of slot of a holding.
type slotRef struct {
	*reservation
	slot int
}

// assignSlots hands pending pods to slots: first those that bear a claim's toleration to that claim, then the others to open slots of
// their class and owner, the oldest first and to the machines that are furthest on their way (remote), claims by name. Pods on nodes being drained
// take open slots too: their successors will come for them.
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

// distanceToReady says how far a claim's machine is from taking pods that wait: whoever has waited longest is to run first, and kube-scheduler looks at the
// oldest pods first, in vain if those of a machine that is not bought yet.
func (rt *reservations) distanceToReady(h *reservation) int {
	switch c := h.claim; {
	case c.Is(lifecycle.Initialized) && !(h.node != nil && rt.isUsable(h)):
		return 3
	case !c.Is(lifecycle.Launched):
		return 2
	case !c.Is(lifecycle.Initialized):
		return 1
	}
	return 0
}

// assignSlot gives a pod one of these slots, on one claim only if it is named, and says whether there was one.
func (rt *reservations) assignSlot(p *model.Pod, berths []slotRef, only string) bool {
	for _, h := range berths {
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
				rt.assignSlot(p, open[rt.pods.slotKeyOf(p)], c.Name)
			}
		}
	}
	for _, p := range rt.s.Pending {
		for _, r := range p.Reservations {
			if !rt.pods.covered[p.UID] && rt.byClaim[r] != nil && rt.assignSlot(p, open[rt.pods.slotKeyOf(p)], r) {
				break
			}
		}
	}
	// What comes for a move is for those who are to leave for it, before others like them who wait: running, they would have to wait instead.
	for _, id := range sortedKeys(rt.commands.byID) {
		m := rt.commands.byID[id]
		for _, p := range rt.commands.podsToReplace(m) {
			for _, c := range m.replacements {
				if rt.assignSlot(p, open[rt.pods.slotKeyOf(p)], c.Name) {
					break
				}
			}
		}
	}
	type waiting struct {
		*model.Pod
		berths []slotRef
	}
	var wait []waiting
	nearest := map[slotKey][]slotRef{}
	for _, p := range rt.s.Pending {
		if rt.pods.covered[p.UID] || !rt.pods.isDemand(p) {
			continue
		}
		k := rt.pods.slotKeyOf(p)
		b, ok := nearest[k]
		if !ok {
			b = slices.Clone(open[k])
			slices.SortStableFunc(b, func(x, y slotRef) int {
				return cmp.Compare(rt.distanceToReady(x.reservation), rt.distanceToReady(y.reservation))
			})
			nearest[k] = b
		}
		if len(b) > 0 {
			wait = append(wait, waiting{p, b})
		}
	}
	slices.SortFunc(wait, func(a, b waiting) int { return comparePodAge(a.Pod, b.Pod) })
	for _, w := range wait {
		rt.assignSlot(w.Pod, w.berths, "")
	}
	// Pods that kube-scheduler has not looked at yet take slots on nodes that are there for them: a look in vain costs it as much as one that
	// finds room, and makes the pod wait longer for the next.
	for _, name := range sortedKeys(rt.byClaim) {
		h := rt.byClaim[name]
		if !rt.acceptsUnexamined(h) {
			continue
		}
		for _, p := range rt.s.Pending {
			if !rt.pods.covered[p.UID] && IsForScheduler(p) {
				rt.assignSlot(p, open[rt.pods.slotKeyOf(p)], name)
			}
		}
	}
	for _, pods := range [][]*model.Pod{rt.pods.leavingPods(), rt.commands.podsWithReplacements(), rt.pods.anticipatedPods()} {
		for _, p := range pods {
			if !rt.pods.covered[p.UID] {
				rt.assignSlot(p, open[rt.pods.slotKeyOf(p)], "")
			}
		}
	}
}

// acceptsUnexamined says whether pods may take a reservation's slots before kube-scheduler has looked for room for them: they are bound, or their
// predecessors were asked to go for a node that is there.
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

// IsForScheduler says whether the default kube-scheduler will look for a node for a pending pod.
func IsForScheduler(p *model.Pod) bool {
	return !p.Gated && p.Nominated == "" && p.IsWorkload() && p.Class.Scheduler == defaultScheduler
}

// isDemand says whether a pending pod is demand: kube-scheduler has said that it fits nowhere, of it or of another pod of its class
// (a batch of a thousand alike is not waited for one by one), or has been so busy that it has said nothing for a while; then it is
// for solve to find free room first. Pods that something else is being done about are no demand.
func (pt *podTable) isDemand(p *model.Pod) bool {
	if p.Gated || p.Nominated != "" || !p.IsWorkload() {
		return false
	}
	if !p.Unschedulable.IsZero() || pt.unschedulable[p.Class] {
		return true
	}
	if pt.schedulerRefusedAll {
		return p.Class.Scheduler == defaultScheduler
	}
	if p.Class.Scheduler != defaultScheduler || p.Class.Priority > 0 {
		return false // another scheduler's to look at, or it may make room by preemption
	}
	due := p.Created.Add(pt.pol.SchedulerWait)
	if pt.now.Before(due) {
		pt.wakeAt(due)
		return false
	}
	return true
}

const defaultScheduler = "default-scheduler"

// isUsable says whether a claim's node would take pods now, but for its reservation.
func (rt *reservations) isUsable(h *reservation) bool {
	n := h.node
	if !n.Ready {
		return false
	}
	for _, t := range n.Taints {
		if t.Key != model.TaintReserved && t.Effect != model.PreferNoSchedule && !slices.Contains(h.claim.Taints, t) {
			return false
		}
	}
	return true
}

// leavingPods are the pods of nodes being drained, or about to be taken away, that will have a successor somewhere else.
func (pt *podTable) leavingPods() []*model.Pod {
	if pt.leaversKnown {
		return pt.leavers
	}
	var out []*model.Pod
	for _, c := range pt.dirtyClaims {
		if c.Deleting.IsZero() && pt.interruptions.byClaim[c.Name] == nil {
			continue
		}
		n := pt.nodeOf(c)
		if n == nil {
			continue
		}
		for _, p := range n.Pods {
			if p.Deleting.IsZero() && p.IsWorkload() && p.Owner.UID != "" && p.Owner.Kind != "Node" && !pt.rollouts.hasSuccessor(p) {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, func(a, b *model.Pod) int { return strings.Compare(a.Key(), b.Key()) })
	pt.leavers, pt.leaversKnown = slices.Clip(out), true
	return pt.leavers
}

// slotsForPods are the slots that a set of pods takes, sorted by class and owner.
func slotsForPods(pods []*model.Pod) []model.Slot {
	count := map[slotKey]*model.Slot{}
	for _, p := range pods {
		k := slotKey{ClassHash(p.Class), slotOwner(p)}
		s := count[k]
		if s == nil {
			s = &model.Slot{Class: k.class, Owner: k.owner, Requests: p.Class.Requests, Loose: p.Class.ToleratesEverything()}
			count[k] = s
		}
		s.Count++
	}
	return sortedSlots(count)
}

// mergeSlots merges more pods into slots.
func mergeSlots(have []model.Slot, pods []*model.Pod) []model.Slot {
	count := map[slotKey]*model.Slot{}
	for _, s := range have {
		count[slotKey{s.Class, s.Owner}] = &s
	}
	for _, s := range slotsForPods(pods) {
		k := slotKey{s.Class, s.Owner}
		if old := count[k]; old != nil {
			old.Count += s.Count
		} else {
			count[k] = &s
		}
	}
	return sortedSlots(count)
}

func sortedSlots(m map[slotKey]*model.Slot) []model.Slot {
	out := make([]model.Slot, 0, len(m))
	for _, s := range m {
		out = append(out, *s)
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Class != out[j].Class {
			return out[i].Class < out[j].Class
		}
		return out[i].Owner < out[j].Owner
	})
	return out
}

// reservationRefusal says why a new claim's room can't be kept to its pods; an empty code: it can.
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

// newClaimName names a claim after what it is for. A name that is taken by a claim on its way out is salted with that claim's uid.
func (pu *purchases) newClaimName(pool string, pods []*model.Pod) string {
	uids := make([]string, len(pods))
	for i, p := range pods {
		uids[i] = p.UID
	}
	sort.Strings(uids)
	parts := append([]string{pool}, uids...)
	prefix := pool
	if len(prefix) > 52 {
		prefix = strings.TrimRight(prefix[:52], "-.")
	}
	for {
		name := prefix + "-" + hashName(10, parts...)
		c := pu.claimNamed(name)
		if c == nil || c.Provisional {
			return name
		}
		parts = append(parts, c.UID)
	}
}

// placedSince is when a pod was first expected on a standing node.
func (dm *demandStage) placedSince(p *model.Pod, room string) time.Time {
	if was, ok := dm.mem.placements[p.UID]; ok && was.node == room {
		return was.since
	}
	return dm.now
}
