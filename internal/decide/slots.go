// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"sort"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

type openSlot struct {
	model.Slot
	bound   int // pods on the node
	matched int // pending pods that will come
	refused int // of these, pods that neither we may bind nor a toleration lets in
}

// nameEncoding writes hashes as Kubernetes likes names: lower case letters and digits.
var nameEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// hashName returns n characters, fit for a name in Kubernetes, that stand for the parts.
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

// slotOwner is whose successors inherit a slot: the pod's Deployment, which makes a new ReplicaSet when it is
// restarted, or its controller, or the pod itself.
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

// slotKeyOf is the kind of slot that a pod takes. Pods come by name, so one mostly takes the kind that the one before
// took.
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

// distanceToReady says how far a claim's machine is from taking pods that wait: whoever has waited longest is to run
// first, and kube-scheduler looks at the oldest pods first, in vain if those of a machine that is not bought yet.
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
	// Replacements are for the pods of their command before others like them that are pending: evicted, those would
	// have to wait instead.
	for _, id := range sortedKeys(rt.commands.byID) {
		m := rt.commands.byID[id]
		for _, p := range rt.pods.podsToReplace(m) {
			for _, c := range m.replacements {
				if rt.assignSlot(p, open[rt.pods.slotKeyOf(p)], c.Name) {
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
				rt.assignSlot(p, open[rt.pods.slotKeyOf(p)], name)
			}
		}
	}
	for _, p := range rt.pods.notPendingYet() {
		if !rt.pods.covered[p.UID] {
			rt.assignSlot(p, open[rt.pods.slotKeyOf(p)], "")
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

// sortedSlots returns slots by class and owner.
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
