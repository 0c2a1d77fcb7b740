// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// placeClasses decides for every pod between free capacity and a machine to buy. Classes with required affinity are
// tried again after those they want to be near have been placed, until nothing moves.
func (s *placement) placeClasses(waiting []*class) {
	out, add := s.demandCollector()
	for len(waiting) > 0 {
		moved := false
		var next []*class
		for i, c := range waiting {
			s.fillNodesByPrice(waiting, i)
			before := c.assigned
			s.placeClass(c, add)
			moved = moved || c.assigned > before
			if c.unplaced() > 0 && c.topology.affinity {
				next = append(next, c)
			}
		}
		if !moved {
			break
		}
		waiting = next
	}
	s.demands = append(s.demands, *out...)
}

// demandCollector returns a list and a function that adds pods of a class to buy for to it: to the demand of the
// class for this offer set, a new one where there is none.
func (s *placement) demandCollector() (*[]*demand, func(*class, *offerSet, int64, *topologyAssignment)) {
	var out []*demand
	var demandSlab []demand
	return &out, func(c *class, set *offerSet, n int64, at *topologyAssignment) {
		c.assigned += int(n)
		if at != nil {
			s.countInDomains(c, at.labels, at.inScope, n)
		}
		for _, id := range c.topology.hostCounters {
			s.counters[id].expected += n
		}
		s.useExclusiveVolumes(c)
		if c.collectedIn != &out {
			c.collectedIn, c.lastDemand = &out, nil
		}
		d := c.lastDemand
		for d != nil && d.collectedFor != set {
			d = d.next
		}
		if d == nil {
			if len(demandSlab) == cap(demandSlab) {
				demandSlab = make([]demand, 0, min(256, 2*len(out)+4))
			}
			demandSlab = append(demandSlab, demand{class: c, offers: set, collectedFor: set, assignment: at, next: c.lastDemand})
			d = &demandSlab[len(demandSlab)-1]
			if w := s.preferAmong(c, set); w != set && s.someOfferHolds(w, &c.req) {
				d.offers, d.permitted = w, set
			}
			c.lastDemand = d
			out = append(out, d)
		}
		d.unbought += n
		d.total += n
	}
}

// placeClass places what it can of one class.
func (s *placement) placeClass(c *class, add func(*class, *offerSet, int64, *topologyAssignment)) {
	limit := s.placeablePods(c)
	if limit == 0 {
		return
	}
	keep := c.unplaced() - limit // pods that must not be placed now
	if len(c.topology.keys) > 0 {
		s.placeByDomain(c, keep, add)
		return
	}
	s.fillNodes(c, keep)
	if n := int64(c.unplaced() - keep); n > 0 && !c.topology.hostAffinity && s.someOfferHolds(c.offers, &c.req) {
		add(c, c.offers, n, nil)
	}
}

// fillNodes puts pods that no domain larger than a host ties onto existing nodes, in filling order. keep pods must
// stay unplaced.
func (s *placement) fillNodes(c *class, keep int) {
	if c.topology.hostAffinity && s.mayStartGroup(c) {
		s.startGroupOnNode(c, keep)
		return
	}
	for node := range s.nodes.list {
		if c.unplaced() <= keep {
			return
		}
		if n := min(s.podsNodeAccepts(c, node), int64(c.unplaced()-keep)); n > 0 {
			s.placeOnNode(c, node, n)
		}
	}
}

// startGroupOnNode begins a group that must share one host on an existing node, but only where that node holds all
// that waits of the class: begun on a small one, the rest could go nowhere. A co-located group that a machine could
// hold goes there whole.
func (s *placement) startGroupOnNode(c *class, keep int) {
	if x := c.group; x != nil && len(x.members) > 1 && !x.entangled && s.isWholeAndPlaceable(x) && s.someOfferHolds(x.asPod.filter.offers, &x.asPod.req) {
		s.placeGroupOnNode(x, c)
		return
	}
	for node := range s.nodes.list {
		if s.podsNodeAccepts(c, node) >= int64(c.unplaced()-keep) {
			s.placeOnNode(c, node, int64(c.unplaced()-keep))
			return
		}
	}
}

// placeGroupOnNode puts a co-located group, of which the class may be the first, on the first node that holds all of
// it.
func (s *placement) placeGroupOnNode(x *colocatedGroup, first *class) {
	for node := range s.nodes.list {
		if s.podsNodeAccepts(first, node) == 0 || !fitsSlice(&x.asPod.req, s.nodes.free[node*s.numDims:node*s.numDims+s.numDims]) ||
			slices.ContainsFunc(x.members, func(c *class) bool { return !s.nodeAdmits(c.filter, node) }) {
			continue
		}
		for _, c := range x.members {
			s.placeOnNode(c, node, int64(len(c.pods)))
		}
		return
	}
}

// placeOnNode books n pods of the class on an existing node.
func (s *placement) placeOnNode(c *class, node int, n int64) {
	free := s.nodes.free[node*s.numDims : node*s.numDims+s.numDims]
	for k := range free {
		free[k] -= c.req[k] * n
	}
	c.assigned += int(n)
	s.onNodes = append(s.onNodes, podsOnNode{class: c.id, node: node, count: int(n)})
	if len(c.ports) > 0 || len(c.csiVolumes) > 0 {
		s.occupancyOf(node).addClass(c.spec)
	}
	s.countOnHost(c, node, n)
	if len(c.topology.keys) > 0 {
		s.countInDomains(c, s.nodes.labels[s.nodes.shapeOf[node]], s.nodeScopes(c, node), n)
	}
	s.useExclusiveVolumes(c)
}

// placeByDomain places a class that topology ties, few pods at a time: free capacity before new machines, then the
// domain where a spread counts least, then the cheaper one, then by name. keep pods stay unplaced.
func (s *placement) placeByDomain(c *class, keep int, add func(*class, *offerSet, int64, *topologyAssignment)) {
	sites := s.assignmentsOf(c)
	for _, at := range sites {
		at.purchased = 0
	}
	defer func() {
		for _, at := range sites {
			if at.purchased > 0 {
				s.purchased[classAssignment{c.id, at.id}] += at.purchased
				at.purchased = 0
			}
		}
	}()
	spreads := slices.ContainsFunc(c.topology.domainRules, func(r rule) bool { return r.kind == ruleSpread }) ||
		slices.ContainsFunc(c.topology.domainCounters, func(id int) bool { return s.counters[id].forSpread })
	wishes := slices.ContainsFunc(c.topology.domainRules, func(r rule) bool { return r.kind == rulePreference })
	for c.unplaced() > keep {
		s.steps += int64(len(sites))
		best, bestN := (*topologyAssignment)(nil), int64(0)
		first := c.topology.affinity && s.mayStartGroup(c)
		var possible []string
		for _, at := range sites {
			n, _ := s.podsDomainsAllow(c, at.labels)
			if n == 0 || s.keepPlaced && s.wouldCrowd(c, at) {
				continue
			}
			if first {
				possible = append(possible, at.name)
				if s.startsElsewhere(c, at) {
					continue
				}
			}
			node := s.nextOpenNode(c, at)
			if node < 0 {
				if n = min(n, s.purchasablePods(c, at)); n == 0 {
					continue
				}
			}
			at.spreadCount, at.node = s.spreadCountAt(c, at), node
			at.unmetPreference = s.unmetPreferenceWeight(c, at.labels)
			at.cost = s.addPreferenceCost(at.price, at.unmetPreference)
			if best == nil || at.isBetterThan(best) {
				best, bestN = at, n
			}
		}
		if best == nil {
			return
		}
		if first && len(possible) > 1 {
			s.recordGroupStart(c, best, possible)
		}
		n := min(bestN, int64(c.unplaced()-keep))
		if spreads || wishes {
			n = 1
		}
		if best.node >= 0 {
			s.placeOnNode(c, best.node, min(n, s.podsNodeAccepts(c, best.node)))
			continue
		}
		best.purchased += n
		add(c, best.offers, n, best)
	}
}

// purchasablePods is for how many more pods of the class machines may be bought at an assignment.
func (s *placement) purchasablePods(c *class, at *topologyAssignment) int64 {
	if at.offers == nil || c.topology.hostAffinity {
		return 0
	}
	k := classAssignment{c.id, at.id}
	if most, ok := s.purchaseCaps[k]; ok {
		return max(0, most-s.purchased[k]-at.purchased)
	}
	return unlimited
}

// startsElsewhere says whether the attempt assumes that the class's group begins at another assignment.
func (s *placement) startsElsewhere(c *class, at *topologyAssignment) bool {
	want, ok := s.assumptions.groupStarts[c.id]
	return ok && want != at.name
}

// recordGroupStart notes that the first of a group that must share a domain goes to one of the possible assignments.
func (s *placement) recordGroupStart(c *class, at *topologyAssignment, could []string) {
	if !slices.ContainsFunc(s.startedGroups, func(b groupStart) bool { return b.class == c.id }) {
		s.startedGroups = append(s.startedGroups, groupStart{class: c.id, chosen: at.name, possible: could})
	}
}

// minPodsForPricedFill is how many pods are worth filling nodes by price for; fewer are put where they fit first.
const minPodsForPricedFill = 64

// fillNodesByPrice fills existing nodes with the unconstrained classes of one priority that begin at i of those
// waiting, all at once: what is bought for the rest costs least when each node is given the pods that suit its shape.
// It does nothing for an i that is not their beginning.
func (s *placement) fillNodesByPrice(waiting []*class, i int) {
	if len(s.nodes.list) == 0 || !s.runs(stageNodesByPrice) || !waiting[i].isUnconstrained() || i > 0 && waiting[i-1].isUnconstrained() && waiting[i-1].spec.Priority == waiting[i].spec.Priority {
		return
	}
	var demands []*demand
	pods := 0
	for _, c := range waiting[i:] {
		if !c.isUnconstrained() || c.spec.Priority != waiting[i].spec.Priority {
			break
		}
		if n := s.placeablePods(c); n > 0 {
			demands = append(demands, &demand{class: c, offers: c.offers, unbought: int64(n)})
			pods += n
		}
	}
	if pods < minPodsForPricedFill || len(demands) < 2 || len(s.offers) == 0 {
		return
	}
	p := s.newPackingFor(level{lo: 0, hi: len(s.offers)}, demands, false)
	remaining := make([]int64, len(demands))
	for d := range demands {
		remaining[d] = demands[d].unbought
	}
	for node, x := range s.nodes.list {
		for k := range s.numDims {
			if !x.Closed && !x.Drained {
				p.freeCapacity[k] += float64(max(0, s.nodes.free[node*s.numDims+k]))
			}
		}
	}
	p.priceDemands(remaining)
	for node, x := range s.nodes.list {
		if !x.Closed && !x.Drained {
			for _, it := range p.fillNode(node, remaining) {
				remaining[it.demand] -= it.count
				s.placeOnNode(p.demands[it.demand].class, node, it.count)
			}
		}
	}
}

// fillNode chooses pods for the free capacity of an existing node as buildPattern does for a machine.
func (p *packing) fillNode(node int, remaining []int64) []item {
	s, sc, nd := p.s, &p.buf, p.s.numDims
	s.chargeDaemons(node)
	var rem vec
	copy(rem[:], s.nodes.free[node*nd:node*nd+nd])
	sc.candidates = sc.candidates[:0]
	for d, n := range remaining {
		if c := p.demands[d].class; n > 0 && fitsIn(&c.req, &rem, nd) && s.nodeAdmits(c.filter, node) {
			sc.candidates = append(sc.candidates, int32(d))
		}
	}
	p.sampleCandidates(maxCandidates, maxCandidates)
	var used occupancy
	for best := -1; ; {
		if best = p.pickDemand(remaining, &rem, nil, &used, best); best < 0 {
			break
		}
		n := min(remaining[best]-sc.used[best], max(1, timesIn(&p.demands[best].class.req, &rem, nd)/3))
		p.addToPattern(best, n, &rem, &used)
	}
	var f pattern
	p.collectPattern(&f)
	return f.items
}

// demandColocatedGroups makes co-located groups demands of one pod each, where some machine holds them: they share
// machines with whatever else is packed. It says whether there were any.
func (s *placement) demandColocatedGroups() (any bool) {
	for _, x := range s.colocatedGroups {
		if x.entangled || !s.isWholeAndPlaceable(x) {
			continue
		}
		d := s.groupDemand(x)
		if !s.someOfferHolds(d.offers, &d.class.req) {
			continue
		}
		any = true
		s.demands = append(s.demands, d)
		for _, c := range x.members {
			c.assigned = len(c.pods)
			for _, id := range c.topology.hostCounters {
				s.counters[id].expected += int64(len(c.pods))
			}
		}
	}
	return any
}

// groupDemand is the demand of a co-located group: one pod, for offers that all members may go to.
func (s *purchases) groupDemand(x *colocatedGroup) *demand {
	one := x.asPod
	one.offers = x.members[0].offers
	wish := s.preferAmong(x.members[0], one.offers)
	for _, c := range x.members[1:] {
		one.offers, wish = s.intersect(one.offers, c.offers), s.intersect(wish, s.preferAmong(c, c.offers))
	}
	if one.spec == nil {
		one.spec = &model.Class{Key: "lump", Priority: x.members[0].spec.Priority}
		for _, c := range x.members {
			one.spec.Key += "\x00" + c.spec.Key
		}
	}
	d := &demand{class: one, offers: one.offers, unbought: 1, total: 1}
	if wish != one.offers && s.someOfferHolds(wish, &one.req) {
		d.offers, d.permitted = wish, one.offers
	}
	return d
}

// release takes back that n pods of the demand have a place.
func (d *demand) release(n int64) {
	if d.class.asGroup == nil {
		d.class.assigned -= int(n)
		return
	}
	for _, c := range d.class.asGroup.members {
		c.assigned = 0
	}
}

// addToBin puts n pods of a demand on each copy of a bin.
func (d *demand) addToBin(b *bin, n int64, nd int) {
	if d.class.asGroup == nil {
		b.addPods(d.class, d.offers, n, nd)
		return
	}
	for _, c := range d.class.asGroup.members {
		b.addPods(c, d.offers, int64(len(c.pods))*n, nd)
	}
}
