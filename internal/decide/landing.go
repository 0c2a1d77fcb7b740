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

// holding is a claim whose slots still hold room for pods (contract 9): it is coming, or its reservation is not over.
type holding struct {
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

// awaited is how many reserved pods are not on the node yet.
func (h *holding) awaited() int {
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

// landing says whether pods of a reservation are certain to come yet, and when that was last so or one last came: some still run where they
// are to go from, are being bound, or their ReplicaSet is still making them. Machines of one move come at different times, and their pods are asked to go when
// all are there, one after another; but none is waited for longer than a move.
func (st *step) landing(h *holding) (coming bool, since time.Time) {
	began := h.claim.Conditions[lifecycle.Initialized]
	r, hosts := hosting(h.claim)
	if hosts {
		began.Since = r.Since
	}
	if began.True() && (h.ending || slices.ContainsFunc(h.pods, func(p *model.Pod) bool { return p.Node != "" || p.Expected || p.Binding != "" })) {
		due := began.Since.Add(st.pol.CommandTimeout)
		if st.now.Before(due) {
			st.wakeAt(due)
			return true, st.now
		}
	}
	if st.mem.landing == nil {
		return false, st.now // nothing is remembered: they may have been on their way a moment ago
	}
	if since = st.mem.landing[h.claim.Name]; hosts && since.Before(r.Since) {
		since = r.Since
	}
	if h.node != nil {
		for _, p := range h.node.Pods {
			if _, ok := h.at[st.slot(p)]; ok && p.Bound.After(since) {
				since = p.Bound
			}
		}
	}
	return false, since
}

// encode writes hashes as Kubernetes likes names: lower case letters and digits.
var encode = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func hash(n int, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return encode.EncodeToString(h.Sum(nil))[:n]
}

// ClassHash names a class in a slot.
func ClassHash(c *model.Class) string {
	if c.SlotKey != "" {
		return hash(13, c.SlotKey)
	}
	return hash(13, c.Key)
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

// slot is the kind of slot that a pod takes. Pods come by name, so one mostly takes the kind that the one before took.
func (st *step) slot(p *model.Pod) slotKey {
	last := st.keyed
	if last == nil || last.Class != p.Class || last.Owner != p.Owner || last.Deployment != p.Deployment || last.Namespace != p.Namespace || p.Owner.UID == "" {
		h, ok := st.hashes[p.Class]
		if !ok {
			if st.hashes == nil {
				st.hashes = map[*model.Class]string{}
			}
			h = ClassHash(p.Class)
			st.hashes[p.Class] = h
		}
		st.key = slotKey{h, slotOwner(p)}
	}
	st.keyed = p
	return st.key
}

// hold finds the claims that hold room, and which of it is taken.
func (st *step) hold() {
	st.unschedulable = map[*model.Class]bool{}
	for _, p := range st.s.Pending {
		if !p.Unschedulable.IsZero() {
			st.unschedulable[p.Class] = true
		}
	}
	st.held = map[string]*holding{}
	st.busy = map[string]bool{}
	for _, c := range st.dirtyClaims {
		n := st.nodeOf(c)
		if !st.holds(c, n) {
			st.less = st.useless(c, n) || st.less
			continue
		}
		h := &holding{claim: c, node: n, at: make(map[slotKey]int, len(c.Slots))}
		for i, s := range c.Slots {
			h.slots = append(h.slots, openSlot{Slot: s})
			h.at[slotKey{s.Class, s.Owner}] = i
		}
		if n != nil {
			for _, p := range n.Pods {
				if i, ok := h.at[st.slot(p)]; ok && h.slots[i].bound < h.slots[i].Count {
					h.slots[i].bound++
				}
			}
		}
		st.less = st.judge(h) || st.less
		st.held[c.Name] = h
	}
	st.match()
	ending := st.ending()
	for _, h := range st.held {
		for i := range h.slots {
			s := &h.slots[i]
			h.ending = h.ending || s.bound+s.matched < s.Count && ending[slotKey{s.Class, s.Owner}]
		}
	}
	st.shrink(ending)
}

// ending are the slots of pods that are on their way out of nodes that are being emptied: a StatefulSet, say, makes the next one only when
// the last is wholly gone.
func (st *step) ending() map[slotKey]bool {
	out := map[slotKey]bool{}
	if len(st.held) == 0 {
		return out
	}
	for _, p := range st.dying() {
		out[st.slot(p)] = true
	}
	return out
}

// dying are the pods that are on their way out of nodes that are being emptied and will have a successor.
func (st *step) dying() (out []*model.Pod) {
	for _, c := range st.dirtyClaims {
		n := st.nodeOf(c)
		if n == nil || c.Deleting.IsZero() && !slices.Contains(n.Taints, disruptedTaint) {
			continue
		}
		for _, p := range n.Pods {
			if !p.Deleting.IsZero() && !p.Terminal && !p.Class.Daemon && !p.Mirror && p.Owner.UID != "" {
				out = append(out, p)
			}
		}
	}
	return out
}

// shrink gives up slots for which no pod is left: their pods landed elsewhere, or were deleted without a successor. A node that is
// usable has waited for them long enough after Policy.DeadSlot.
func (st *step) shrink(ending map[slotKey]bool) {
	idle := map[string]time.Time{}
	var coming map[slotKey]bool
	for _, name := range sortedKeys(st.held) {
		h := st.held[name]
		if h.node == nil || h.claim.UID == "" || !st.usable(h) {
			continue
		}
		if coming == nil {
			coming = maps.Clone(ending)
			for _, p := range st.s.Pending {
				if !st.cover[p.UID] {
					coming[st.slot(p)] = true
				}
			}
			for _, pods := range [][]*model.Pod{st.leaving(), st.moving(), st.expected()} { // who is yet to be asked, or made
				for _, p := range pods {
					coming[st.slot(p)] = true
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
		since, ok := st.mem.idleSlots[name]
		if !ok {
			since = st.now
		}
		if due := since.Add(st.pol.EmptySlotGrace); st.now.Before(due) {
			idle[name] = since
			st.wakeAt(due)
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
		st.addAction(plan.UpdateClaim{Claim: name, UID: h.claim.UID, SetSlots: true, Slots: left,
			Why: plan.Reason{Code: plan.Landed, Pool: h.claim.Pool, Subject: name}})
	}
	st.mem.idleSlots = idle
}

// rewrite has slots written again where nobody knows whether they were. Whatever else this step wants of them has been said, and goes first (drop).
func (st *step) rewrite() {
	for _, c := range st.dirtyClaims {
		if c.SlotsUnsure && c.Deleting.IsZero() {
			st.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, SetSlots: true, Slots: c.Slots,
				Why: plan.Reason{Code: plan.NoAnswer, Pool: c.Pool, Subject: c.Name}})
		}
	}
}

// holds says whether a claim's slots still count.
func (st *step) holds(c *model.Claim, n *model.Node) bool {
	if !c.Deleting.IsZero() || len(c.Slots) == 0 || st.taken[c.Name] != nil {
		return false
	}
	if !registered(n) {
		return !c.Is("Registered") // not there yet; a node that was there and is gone holds nothing
	}
	if st.stuck(c) {
		return false
	}
	if c.Reserved && hasReservation(n, c) || !c.Is(lifecycle.Initialized) {
		return true
	}
	if c.Reserved {
		return false // its reservation is over
	}
	over := c.Conditions[lifecycle.Initialized].Since.Add(st.pol.LandingGrace)
	if st.now.Before(over) {
		st.wakeAt(over)
		return true
	}
	return false
}

// stuck says whether a claim's node has come and is still of no use when a machine without a node would be given up: nobody waits for
// it any longer, though it may yet come round.
func (st *step) stuck(c *model.Claim) bool {
	if c.Is(lifecycle.Initialized) {
		return false
	}
	due := c.Created.Add(st.pol.Lifecycle.For(st.poolByName[c.Pool]).RegistrationTimeout)
	if st.now.Before(due) {
		st.wakeAt(due)
		return false
	}
	return true
}

func registered(n *model.Node) bool { return n != nil && n.Labels[model.LabelRegistered] == "true" }

func hasReservation(n *model.Node, c *model.Claim) bool {
	for _, t := range n.Taints {
		if t.Key == model.TaintReserved && t.Value == c.Name {
			return true
		}
	}
	return false
}

// berth is a kind of slot of a holding.
type berth struct {
	*holding
	slot int
}

// match hands pending pods to slots: first those that bear a claim's toleration to that claim, then the others to open slots of
// their class and owner, the oldest first and to the machines that are furthest on their way (remote), claims by name. Pods on nodes being drained
// take open slots too: their successors will come for them.
func (st *step) match() {
	st.cover = map[string]bool{}
	open := map[slotKey][]berth{}
	for _, name := range sortedKeys(st.held) {
		h := st.held[name]
		for i, s := range h.slots {
			k := slotKey{s.Class, s.Owner}
			open[k] = append(open[k], berth{h, i})
		}
	}
	if len(open) == 0 {
		return
	}
	st.covered(open)
}

// remote says how far a claim's machine is from taking pods that wait: whoever has waited longest is to run first, and kube-scheduler looks at the
// oldest pods first, in vain if those of a machine that is not bought yet.
func (st *step) remote(h *holding) int {
	switch c := h.claim; {
	case c.Is(lifecycle.Initialized) && !(h.node != nil && st.usable(h)):
		return 3
	case !c.Is(lifecycle.Launched):
		return 2
	case !c.Is(lifecycle.Initialized):
		return 1
	}
	return 0
}

// take gives a pod one of these slots, on one claim only if it is named, and says whether there was one.
func (st *step) take(p *model.Pod, berths []berth, only string) bool {
	for _, h := range berths {
		if only != "" && h.claim.Name != only || st.barred(p, h.node) {
			continue
		}
		s := &h.slots[h.slot]
		if s.bound+s.matched >= s.Count {
			continue
		}
		s.matched++
		h.pods = append(h.pods, p)
		if p.Unreservable && st.notBound(p).Code != "" {
			s.refused++
		}
		st.cover[p.UID] = true
		return true
	}
	return false
}

// covered remembers which demand has a slot.
func (st *step) covered(open map[slotKey][]berth) {
	for _, p := range st.s.Pending {
		if p.Binding == "" {
			continue
		}
		if n := findNode(st.s, p.Binding); n >= 0 { // whether it lands there is not ours to say any more
			if c, h := st.holder(n); h != nil {
				st.take(p, open[st.slot(p)], c.Name)
			}
		}
	}
	for _, p := range st.s.Pending {
		for _, r := range p.Reservations {
			if !st.cover[p.UID] && st.held[r] != nil && st.take(p, open[st.slot(p)], r) {
				break
			}
		}
	}
	// What comes for a move is for those who are to leave for it, before others like them who wait: running, they would have to wait instead.
	for _, id := range sortedKeys(st.under) {
		m := st.under[id]
		for _, p := range st.departing(m) {
			for _, c := range m.news {
				if st.take(p, open[st.slot(p)], c.Name) {
					break
				}
			}
		}
	}
	type waiting struct {
		*model.Pod
		berths []berth
	}
	var wait []waiting
	nearest := map[slotKey][]berth{}
	for _, p := range st.s.Pending {
		if st.cover[p.UID] || !st.wanted(p) {
			continue
		}
		k := st.slot(p)
		b, ok := nearest[k]
		if !ok {
			b = slices.Clone(open[k])
			slices.SortStableFunc(b, func(x, y berth) int { return cmp.Compare(st.remote(x.holding), st.remote(y.holding)) })
			nearest[k] = b
		}
		if len(b) > 0 {
			wait = append(wait, waiting{p, b})
		}
	}
	slices.SortFunc(wait, func(a, b waiting) int { return older(a.Pod, b.Pod) })
	for _, w := range wait {
		st.take(w.Pod, w.berths, "")
	}
	// Pods that kube-scheduler has not looked at yet take slots on nodes that are there for them: a look in vain costs it as much as one that
	// finds room, and makes the pod wait longer for the next.
	for _, name := range sortedKeys(st.held) {
		h := st.held[name]
		if !st.welcomes(h) {
			continue
		}
		for _, p := range st.s.Pending {
			if !st.cover[p.UID] && st.schedulable(p) {
				st.take(p, open[st.slot(p)], name)
			}
		}
	}
	for _, pods := range [][]*model.Pod{st.leaving(), st.moving(), st.expected()} {
		for _, p := range pods {
			if !st.cover[p.UID] {
				st.take(p, open[st.slot(p)], "")
			}
		}
	}
}

// welcomes says whether pods may take a reservation's slots before kube-scheduler has looked for room for them: they are bound, or their
// predecessors were asked to go for a node that is there.
func (st *step) welcomes(h *holding) bool {
	if h.node == nil || !h.claim.Reserved || h.awaited() == 0 {
		return false
	}
	if st.pol.Landing == LandBind {
		return h.node.Ready && registered(h.node)
	}
	m := st.moveTo(h.claim)
	return m != nil && m.going > 0 && h.claim.Is(lifecycle.Initialized)
}

// schedulable says whether kube-scheduler will look for a node for a pod.
func (st *step) schedulable(p *model.Pod) bool {
	return !p.Gated && p.Nominated == "" && !p.Class.Daemon && !p.Mirror && p.Class.Scheduler == defaultScheduler
}

// wanted says whether a pending pod is demand: kube-scheduler has said that it fits nowhere, of it or of another pod of its class
// (a batch of a thousand alike is not waited for one by one), or has been so busy that it has said nothing for a while; then it is
// for solve to find free room first. Pods that something else is being done about are no demand.
func (st *step) wanted(p *model.Pod) bool {
	if p.Gated || p.Nominated != "" || p.Class.Daemon || p.Mirror {
		return false
	}
	if !p.Unschedulable.IsZero() || st.unschedulable[p.Class] {
		return true
	}
	if st.all {
		return p.Class.Scheduler == defaultScheduler
	}
	if p.Class.Scheduler != defaultScheduler || p.Class.Priority > 0 {
		return false // another scheduler's to look at, or it may make room by preemption
	}
	due := p.Created.Add(st.pol.SchedulerWait)
	if st.now.Before(due) {
		st.wakeAt(due)
		return false
	}
	return true
}

const defaultScheduler = "default-scheduler"

// usable says whether a claim's node would take pods now, but for its reservation.
func (st *step) usable(h *holding) bool {
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

// leaving are the pods of nodes being drained, or about to be taken away, that will have a successor somewhere else.
func (st *step) leaving() []*model.Pod {
	if st.gathered {
		return st.leavers
	}
	var out []*model.Pod
	for _, c := range st.dirtyClaims {
		if c.Deleting.IsZero() && st.taken[c.Name] == nil {
			continue
		}
		n := st.nodeOf(c)
		if n == nil {
			continue
		}
		for _, p := range n.Pods {
			if p.Deleting.IsZero() && !p.Class.Daemon && !p.Mirror && p.Owner.UID != "" && p.Owner.Kind != "Node" && !st.succeeded(p) {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, func(a, b *model.Pod) int { return strings.Compare(a.Key(), b.Key()) })
	st.leavers, st.gathered = slices.Clip(out), true
	return st.leavers
}

// slotsFor are the slots that a set of pods takes, sorted by class and owner.
func slotsFor(pods []*model.Pod) []model.Slot {
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
	return sortSlots(count)
}

// addSlots merges more pods into slots.
func addSlots(have []model.Slot, pods []*model.Pod) []model.Slot {
	count := map[slotKey]*model.Slot{}
	for _, s := range have {
		count[slotKey{s.Class, s.Owner}] = &s
	}
	for _, s := range slotsFor(pods) {
		k := slotKey{s.Class, s.Owner}
		if old := count[k]; old != nil {
			old.Count += s.Count
		} else {
			count[k] = &s
		}
	}
	return sortSlots(count)
}

func sortSlots(m map[slotKey]*model.Slot) []model.Slot {
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

// noReserve says why a new claim's room can't be kept to its pods; an empty code: it can.
func (st *step) noReserve(pool *model.NodePool, requests model.Resources, pods []*model.Pod) plan.Reason {
	if st.pol.Landing == LandOff {
		return plan.Reason{Code: plan.LandingOff, Pool: pool.Name}
	}
	for d := int(model.FirstExtended); d < len(requests); d++ {
		if requests[d] > 0 {
			return plan.Reason{Code: plan.ExtendedResource, Pool: pool.Name, Key: st.s.ResourceNames[d]}
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
		if p.Unreservable && st.notBound(p).Code != "" {
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

// claimName names a claim after what it is for. A name that is taken by a claim on its way out is salted with that claim's uid.
func (st *step) claimName(pool string, pods []*model.Pod) string {
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
		name := prefix + "-" + hash(10, parts...)
		c := st.claimNamed(name)
		if c == nil || c.Provisional {
			return name
		}
		parts = append(parts, c.UID)
	}
}

// since is when a pod was first expected on a standing node.
func (st *step) since(p *model.Pod, room string) time.Time {
	if was, ok := st.mem.onRoom[p.UID]; ok && was.room == room {
		return was.since
	}
	return st.now
}
