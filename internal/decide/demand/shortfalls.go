// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demand

import (
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// A node may come with less for pods than its type was said to have: a kubelet that keeps more back, a static pod, a
// device that never shows. What was planned on it then does not fit, and the same would be bought for it again, and
// come short again. So what came is remembered by pool and type, and after the second such machine the type counts as
// the least that one of them had, for every pod of that pool. It is what its provider says again when the provider says
// something else of it, its image is another one, or the pool or its node class has changed. A node that turns out to
// have enough after all is taken off the list.
//
// A pod for which two machines have come short gets no third, of whichever type: what is wrong with them may be wrong
// with all. It is decided on again when the pool or its node class has changed, or the pod has. A machine that became
// usable and that the pod would fit on alone does not count: it runs another pod that was planned on it, so there are
// never more such machines than pods. All of this outlives the process (see ShortfallMemory.Learned).

// Shortfalls are machines that came with less for pods than was promised.
type Shortfalls struct {
	*cluster.View
	pol lifecycle.Policy
	mem ShortfallMemory
	out plan.Part

	found bool // one was found in this step: what was bought for its pods has no capacity now
}

// NewShortfalls returns what is remembered of machines that came short. pol says when a node is stuck.
func NewShortfalls(v *cluster.View, pol lifecycle.Policy, mem ShortfallMemory) *Shortfalls {
	return &Shortfalls{View: v, pol: pol, mem: mem}
}

// Result returns what was found, and what to remember of it.
func (cs *Shortfalls) Result() (plan.Part, ShortfallMemory) { return cs.out, cs.mem }

// IsFound reports whether a shortfall was found in this step that was not known before: what was launched for its pods has no
// capacity now.
func (cs *Shortfalls) IsFound() bool { return cs.found }

// WithFound returns a memory with what this step has found of instance types added, for the step to be taken anew.
func (cs *Shortfalls) WithFound(m ShortfallMemory) ShortfallMemory {
	m.byType, m.lost, m.changes = cs.mem.byType, cs.mem.lost, cs.mem.changes
	return m
}

// ShortfallMemory is what Shortfalls remember from step to step.
type ShortfallMemory struct {
	byType       map[poolType]shortfall
	byPod        map[string]podShortfall             // by pod uid
	lost         []lostSlots                         // of machines that came short, until it is known for which pods
	changes      int                                 // of byType and byPod, counted
	reducedPools map[*model.NodePool]*model.NodePool // pools some of whose types count for less, by what they were
}

// shortfallLimit is how many machines have to come short for their type not to be believed any more.
const shortfallLimit = 2

type poolType struct{ pool, instanceType string } // the pool by uid

// shortfall is what machines of a type came with in a pool, while all that they were judged by was as it was. It is
// never written to.
type shortfall struct {
	basis    string          // of the pool
	promised model.Resources // what its provider said that pods may ask for
	image    string          // its image
	came     map[string]model.Resources
}

// ReducePools returns a Snapshot in which instance types whose nodes had less capacity than promised count with the capacity that
// was learned from these nodes.
func (m ShortfallMemory) ReducePools(s *model.Snapshot) (*model.Snapshot, ShortfallMemory) {
	if len(m.byType) == 0 {
		return s, m
	}
	left := make(map[poolType]shortfall, len(m.byType))
	reduced := map[*model.NodePool]*model.NodePool{}
	var pools []*model.NodePool
	for i, p := range s.Pools {
		var types []*model.InstanceType
		for j, t := range p.Types {
			k := poolType{p.UID, t.Name}
			x, ok := m.byType[k]
			if !ok || x.basis != cluster.LaunchBasis(p) || x.image != t.Boots || !x.promised.Equal(t.Allocatable) {
				continue
			}
			left[k] = x
			if len(x.came) < shortfallLimit {
				continue
			}
			if types == nil {
				types = slices.Clone(p.Types)
			}
			less := *t
			less.Promised, less.Allocatable = t.Allocatable, x.leastAllocatable()
			types[j] = &less
		}
		if types == nil {
			continue
		}
		q := m.reducedPools[p]
		if q == nil || !slices.EqualFunc(q.Types, types, func(a, b *model.InstanceType) bool {
			return a == b || a.Promised != nil && b.Promised != nil && a.Allocatable.Equal(b.Allocatable)
		}) {
			less := *p
			less.Types = types
			q = &less
		}
		reduced[p] = q
		if pools == nil {
			pools = slices.Clone(s.Pools)
		}
		pools[i] = q
	}
	m.byType, m.reducedPools = left, reduced
	if pools != nil {
		own := *s
		own.Pools = pools
		s = &own
	}
	return s, m
}

// leastAllocatable is what can be counted on.
func (x shortfall) leastAllocatable() model.Resources {
	out := x.promised
	for _, r := range x.came {
		out = out.Min(r)
	}
	return out
}

// Read looks at what has come of claims: the nodes of those that hold slots for pods (by claim name), and of the others those
// that never became usable.
func (cs *Shortfalls) Read(held map[string]*cluster.Reservation) {
	for _, c := range cs.DirtyClaims {
		if h := held[c.Name]; h != nil {
			cs.checkCapacity(h)
		} else {
			cs.recordStuckNode(c, cs.NodeFor(c))
		}
	}
}

// checkCapacity checks that a claim's node, which has come, holds what was planned on it. Slots for which it has no
// capacity are dropped: their pods are decided on again at once.
func (cs *Shortfalls) checkCapacity(h *cluster.Reservation) {
	c, n := h.Claim, h.Node
	if n == nil || c.UID == "" || !c.Is(lifecycle.Initialized) {
		return
	}
	room := n.Allocatable
	for _, p := range n.Pods {
		if !p.IsWorkload() && !p.Terminal {
			room = room.Sub(p.Class.Requests)
		}
	}
	var need model.Resources
	for _, s := range h.Slots {
		need = need.AddInto(s.Requests, int64(s.Count))
	}
	isNew := cs.record(c, n, need, room)
	cs.found = cs.found || isNew
	if need.Fits(room) {
		return
	}
	x := lostSlots{claim: c, usable: true, room: room, slots: map[cluster.SlotKey]int{}}
	for i := range h.Slots {
		room = room.Sub(multiply(h.Slots[i].Requests, h.Slots[i].Bound))
	}
	for i := range h.Slots {
		s := &h.Slots[i]
		was := s.Count
		for s.Count = s.Bound; s.Count < was && s.Requests.Fits(room); s.Count++ {
			room = room.Sub(s.Requests)
		}
		x.slots[cluster.KeyOf(s.Slot)] += was - s.Count
	}
	if isNew {
		cs.mem.lost = append(slices.Clip(cs.mem.lost), x)
	}
}

// lostSlots is the slots that a machine which came short had no capacity for.
type lostSlots struct {
	claim  *model.Claim
	usable bool            // the node was Initialized
	room   model.Resources // what the node had for workload pods
	slots  map[cluster.SlotKey]int
}

// podShortfall is the machines that came short for a pod, while it and the pool that they were bought from were as they
// are. It is never written to.
type podShortfall struct {
	class       string // of the pod
	pool, basis string // of the last; the pool by uid
	claims      []string
	why         plan.Reason
}

// recordPodShortfalls finds the pods for which machines have come short: of those that have none now, as many of a kind
// as had a slot there.
func (cs *Shortfalls) recordPodShortfalls(left []*model.Pod) {
	said := map[string]bool{} // a pod has one slot at a time
	for _, x := range cs.mem.lost {
		p := cs.Pool(x.claim.Pool)
		if p == nil {
			continue
		}
		more := maps.Clone(x.slots)
		for _, pod := range left {
			k := cs.SlotKeyOf(pod)
			if more[k] == 0 || pod.Node != "" || said[pod.UID] {
				continue
			}
			more[k]--
			said[pod.UID] = true
			if x.usable && pod.Class.Requests.Fits(x.room) {
				continue
			}
			m := cs.mem.byPod[pod.UID]
			m.class, m.pool, m.basis = k.Class, p.UID, cluster.LaunchBasis(p)
			m.claims = append(slices.Clip(m.claims), x.claim.Name)
			short := plan.OfSize{InstanceType: x.claim.Labels[model.LabelInstanceType]}
			for d, want := range pod.Class.Requests {
				if dim := model.Dim(d); want > x.room.At(dim) {
					short.Resource, short.Need, short.Have = plan.ResourceName(cs.Snapshot.ResourceNames[d]), plan.Amount(want), plan.Amount(x.room.At(dim))
					break
				}
			}
			m.why = plan.Reason{Code: plan.ShortAgain, Pool: p.Name, Detail: short}
			cs.mem.byPod = maps.Clone(cs.mem.byPod)
			if cs.mem.byPod == nil {
				cs.mem.byPod = map[string]podShortfall{}
			}
			cs.mem.byPod[pod.UID] = m
			cs.mem.changes++
		}
	}
	cs.mem.lost = nil
}

// podShortfallOf returns the machines that came short for a pod; false: none, or the pod, the pool or its node class
// has changed since.
func (cs *Shortfalls) podShortfallOf(p *model.Pod) (podShortfall, bool) {
	m, ok := cs.mem.byPod[p.UID]
	return m, ok && m.class == cluster.ClassHash(p.Class) && slices.ContainsFunc(cs.Snapshot.Pools, func(q *model.NodePool) bool {
		return q.UID == m.pool && cluster.LaunchBasis(q) == m.basis
	})
}

// WhyRefused returns why no node is launched for a pod: too many came short for it; false: one may be.
func (cs *Shortfalls) WhyRefused(p *model.Pod) (plan.Reason, bool) {
	m, ok := cs.podShortfallOf(p)
	return m.why, ok && m.isFinal()
}

// isFinal reports whether so many machines came short for the pod that no other is bought.
func (m podShortfall) isFinal() bool { return len(m.claims) >= shortfallLimit }

// RefuseRepeated are the pods for which a machine may be bought. For the others enough of them have come short.
func (cs *Shortfalls) RefuseRepeated(left []*model.Pod) (kept []*model.Pod, refused []plan.PodDecision) {
	cs.recordPodShortfalls(left)
	if len(cs.mem.byPod) == 0 {
		return left, nil
	}
	now := map[string]podShortfall{}
	for _, p := range cs.Snapshot.Pending {
		if m, ok := cs.podShortfallOf(p); ok {
			now[p.UID] = m
		}
	}
	cs.mem.byPod = now
	for _, p := range left {
		if m := now[p.UID]; m.isFinal() {
			refused = append(refused, plan.PodDecision{Pod: p, Outcome: plan.Refused, Reasons: []plan.Reason{m.why}})
		} else {
			kept = append(kept, p)
		}
	}
	return kept, refused
}

// multiply returns resources n times.
func multiply(r model.Resources, n int) model.Resources {
	return model.Resources(nil).AddInto(r, int64(n))
}

// record notes what a node has where that is less than was promised and too little, and strikes the note where it is
// not. It reports whether the shortfall was not known before.
func (cs *Shortfalls) record(c *model.Claim, n *model.Node, need, room model.Resources) bool {
	p := cs.Pool(c.Pool)
	if h := c.Annotations[model.AnnotationPoolHash]; p == nil || h != "" && h != p.Hash {
		return false // it was bought as something else
	}
	t := disrupt.FindInstanceType(p, c.Labels[model.LabelInstanceType])
	if t == nil {
		return false
	}
	promised := t.Allocatable
	if t.Promised != nil {
		promised = t.Promised
	}
	has := n.Allocatable
	for _, q := range n.Pods {
		if q.Mirror && !q.Terminal {
			has = has.Sub(q.Class.Requests) // nobody could plan for it
		}
	}
	short := false
	for d := range need {
		d := model.Dim(d)
		short = short || need.At(d) > room.At(d) && promised.At(d) > has.At(d)
	}
	k := poolType{p.UID, t.Name}
	x, known := cs.mem.byType[k]
	old, was := x.came[c.UID]
	if short == was && (!short || old.Equal(has)) {
		return false
	}
	if !known {
		x = shortfall{basis: cluster.LaunchBasis(p), promised: promised, image: t.Boots}
	}
	x.came = maps.Clone(x.came)
	if x.came == nil {
		x.came = map[string]model.Resources{}
	}
	if short {
		x.came[c.UID] = has
	} else {
		delete(x.came, c.UID)
	}
	cs.mem.byType = maps.Clone(cs.mem.byType)
	if cs.mem.byType == nil {
		cs.mem.byType = map[poolType]shortfall{}
	}
	cs.mem.byType[k] = x
	cs.mem.changes++
	return short && !was
}

// recordStuckNode notes what a node has that never became usable: a device may be missing that its type was said to
// have. n is the claim's node; nil: it has none.
func (cs *Shortfalls) recordStuckNode(c *model.Claim, n *model.Node) {
	if !c.Deleting.IsZero() || len(c.Slots) == 0 || c.UID == "" || !cluster.IsRegistered(n) || !cs.out.Heed(lifecycle.IsStuck(c, cs.Pool(c.Pool), cs.pol, cs.Snapshot.Outages, cs.Now)) {
		return
	}
	var need model.Resources
	for _, s := range c.Slots {
		need = need.AddInto(s.Requests, int64(s.Count))
	}
	if !cs.record(c, n, need, n.Allocatable) {
		return
	}
	cs.found = true
	x := lostSlots{claim: c, room: n.Allocatable, slots: map[cluster.SlotKey]int{}}
	for _, s := range c.Slots {
		x.slots[cluster.KeyOf(s)] += s.Count
	}
	cs.mem.lost = append(slices.Clip(cs.mem.lost), x)
}
