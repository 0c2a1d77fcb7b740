// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// PlaceClasses places every pod in free capacity or on a machine to launch. Classes with required affinity are retried
// after the pods that they must be near have been placed, until nothing changes.
func (s *Placement) PlaceClasses(waiting []*problem.Class) {
	out, add := s.demandCollector()
	for len(waiting) > 0 {
		moved := false
		var next []*problem.Class
		for i, c := range waiting {
			s.fillNodesByPrice(waiting, i)
			before := c.Assigned
			s.placeClass(c, add)
			moved = moved || c.Assigned > before
			if c.Unplaced() > 0 && c.Topology.Affinity {
				next = append(next, c)
			}
		}
		if !moved {
			break
		}
		waiting = next
	}
	s.Demands = append(s.Demands, *out...)
}

// demandCollector returns a list and a function that adds pods without a node to it: to the demand of the class for this
// offer set, which is created if necessary.
func (s *Placement) demandCollector() (*[]*Demand, func(*problem.Class, *problem.OfferSet, int64, *topology.TopologyAssignment)) {
	var out []*Demand
	if s.collected == nil {
		s.collected = make([]collectedDemands, len(s.Inst.Classes))
	}
	return &out, func(c *problem.Class, set *problem.OfferSet, n int64, at *topology.TopologyAssignment) {
		c.Assigned += int(n)
		if at != nil {
			s.Topo.CountInDomains(c, at.Labels, at.InScope, n)
		}
		for _, id := range c.Topology.HostCounters {
			s.Topo.Counters[id].Expected += n
		}
		s.Usage.UseExclusiveVolumes(c)
		collected := &s.collected[c.ID]
		if collected.in != &out {
			collected.in, collected.last = &out, nil
		}
		d := collected.last
		for d != nil && d.collectedFor != set {
			d = d.next
		}
		if d == nil {
			d = &Demand{Class: c, Offers: set, collectedFor: set, assignment: at, next: collected.last}
			if w := s.Inst.PreferAmong(c, set); w != set && s.Catalog.SomeOfferHolds(w, &c.Req) {
				d.Offers, d.permitted = w, set
			}
			collected.last = d
			out = append(out, d)
		}
		d.Unbought += n
		d.total += n
	}
}

// placeClass places pods of one class as far as possible.
func (s *Placement) placeClass(c *problem.Class, add func(*problem.Class, *problem.OfferSet, int64, *topology.TopologyAssignment)) {
	limit := s.Usage.PlaceablePods(c)
	if limit == 0 {
		return
	}
	keep := c.Unplaced() - limit // pods that must not be placed now
	if len(c.Topology.Keys) > 0 {
		s.placeByDomain(c, keep, add)
		return
	}
	s.fillNodes(c, keep)
	if n := int64(c.Unplaced() - keep); n > 0 && !c.Topology.HostAffinity && s.Catalog.SomeOfferHolds(c.Offers, &c.Req) {
		add(c, c.Offers, n, nil)
	}
}

// fillNodes puts pods that no domain larger than a host ties onto existing nodes, in filling order. keep pods must
// stay unplaced.
func (s *Placement) fillNodes(c *problem.Class, keep int) {
	if c.Topology.HostAffinity && s.Topo.MayStartGroup(c) {
		s.startGroupOnNode(c, keep)
		return
	}
	for node := range s.Inst.Nodes.List {
		if c.Unplaced() <= keep {
			return
		}
		if n := min(s.Topo.PodsNodeAccepts(c, node), int64(c.Unplaced()-keep)); n > 0 {
			s.placeOnNode(c, node, n)
		}
	}
}

// startGroupOnNode begins a group that must share one host on an existing node, but only where that node holds all
// that waits of the class: begun on a small one, the rest could go nowhere. A co-located group that a machine could
// hold goes there whole.
func (s *Placement) startGroupOnNode(c *problem.Class, keep int) {
	if x := c.Group; x != nil && len(x.Members) > 1 && !x.Entangled && s.Topo.IsWholeAndPlaceable(x) && s.Catalog.SomeOfferHolds(x.AsPod.Filter.Offers, &x.AsPod.Req) {
		s.placeGroupOnNode(x, c)
		return
	}
	for node := range s.Inst.Nodes.List {
		if s.Topo.PodsNodeAccepts(c, node) >= int64(c.Unplaced()-keep) {
			s.placeOnNode(c, node, int64(c.Unplaced()-keep))
			return
		}
	}
}

// placeGroupOnNode puts a co-located group, of which the class may be the first, on the first node that holds all of
// it.
func (s *Placement) placeGroupOnNode(x *problem.ColocatedGroup, first *problem.Class) {
	for node := range s.Inst.Nodes.List {
		if s.Topo.PodsNodeAccepts(first, node) == 0 || !problem.FitsSlice(&x.AsPod.Req, s.Usage.Free[node*s.In.NumDims:node*s.In.NumDims+s.In.NumDims]) ||
			slices.ContainsFunc(x.Members, func(c *problem.Class) bool { return !s.Inst.NodeAdmits(c.Filter, node) }) {
			continue
		}
		for _, c := range x.Members {
			s.placeOnNode(c, node, int64(len(c.Pods)))
		}
		return
	}
}

// placeOnNode books n pods of the class on an existing node.
func (s *Placement) placeOnNode(c *problem.Class, node int, n int64) {
	free := s.Usage.Free[node*s.In.NumDims : node*s.In.NumDims+s.In.NumDims]
	for k := range free {
		free[k] -= c.Req[k] * n
	}
	c.Assigned += int(n)
	s.OnNodes = append(s.OnNodes, podsOnNode{Class: c.ID, Node: node, Count: int(n)})
	if c.Occupies {
		s.Usage.OccupancyOf(node).Add(c)
	}
	s.Topo.CountOnHost(c, node, n)
	if len(c.Topology.Keys) > 0 {
		s.Topo.CountInDomains(c, s.Inst.Nodes.Labels[s.Inst.Nodes.ShapeOf[node]], s.Topo.NodeScopes(c, node), n)
	}
	s.Usage.UseExclusiveVolumes(c)
}

// placeByDomain places a class that topology ties, few pods at a time: free capacity before new machines, then the
// domain where a spread counts least (most, if the attempt packs spreads), then the cheaper one, then by name. keep pods stay unplaced.
func (s *Placement) placeByDomain(c *problem.Class, keep int, add func(*problem.Class, *problem.OfferSet, int64, *topology.TopologyAssignment)) {
	sites := s.Assignments.AssignmentsOf(c)
	for _, at := range sites {
		at.Purchased = 0
	}
	defer func() {
		for _, at := range sites {
			if at.Purchased > 0 {
				s.purchased[topology.ClassAssignment{Class: c.ID, Assignment: at.ID}] += at.Purchased
				at.Purchased = 0
			}
		}
	}()
	spreads := slices.ContainsFunc(c.Topology.DomainRules, func(r problem.Rule) bool { return r.Kind == problem.RuleSpread }) ||
		slices.ContainsFunc(c.Topology.DomainCounters, func(id int) bool { return s.Topo.Counters[id].ForSpread })
	prefers := slices.ContainsFunc(c.Topology.DomainRules, func(r problem.Rule) bool { return r.Kind == problem.RulePreference })
	for c.Unplaced() > keep {
		best, bestN, possible := s.bestAssignment(c, sites)
		if best == nil {
			return
		}
		if len(possible) > 1 {
			s.recordGroupStart(c, best, possible)
		}
		n := min(bestN, int64(c.Unplaced()-keep))
		if spreads || prefers {
			n = 1
		}
		if best.Node >= 0 {
			s.placeOnNode(c, best.Node, min(n, s.Topo.PodsNodeAccepts(c, best.Node)))
			continue
		}
		best.Purchased += n
		add(c, best.Offers, n, best)
	}
}

// bestAssignment returns the best of some assignments for the next pod of a class, nil if there is none, and how many pods
// its domains allow. Where the pod begins a group, possible are the names of those where it may.
func (s *Placement) bestAssignment(c *problem.Class, sites []*topology.TopologyAssignment) (best *topology.TopologyAssignment, most int64, possible []string) {
	s.Work.Steps += int64(len(sites))
	first := c.Topology.Affinity && s.Topo.MayStartGroup(c)
	for _, at := range sites {
		n, _ := s.Topo.PodsDomainsAllow(c, at.Labels)
		if n == 0 || s.keepPlaced && s.Assignments.WouldCrowd(c, at) {
			continue
		}
		if first {
			possible = append(possible, at.Name)
			if s.startsElsewhere(c, at) {
				continue
			}
		}
		node := s.Assignments.NextOpenNode(c, at)
		if node < 0 {
			if n = min(n, s.purchasablePods(c, at)); n == 0 {
				continue
			}
		}
		at.SpreadCount, at.Node = s.Assignments.SpreadCountAt(c, at, s.Purchases.Assumptions.PackSpreads), node
		at.UnmetPreference = s.Topo.UnmetPreferenceWeight(c, at.Labels)
		at.Cost = s.In.AddPreferenceCost(at.Price, at.UnmetPreference)
		if best == nil || at.IsBetterThan(best) {
			best, most = at, n
		}
	}
	return best, most, possible
}

// purchasablePods returns for how many more pods of the class machines may be launched at an assignment.
func (s *Placement) purchasablePods(c *problem.Class, at *topology.TopologyAssignment) int64 {
	if at.Offers == nil || c.Topology.HostAffinity {
		return 0
	}
	k := topology.ClassAssignment{Class: c.ID, Assignment: at.ID}
	if most, ok := s.purchaseCaps[k]; ok {
		return max(0, most-s.purchased[k]-at.Purchased)
	}
	return problem.Unlimited
}

// startsElsewhere reports whether the attempt assumes that the class's group begins at another assignment.
func (s *Placement) startsElsewhere(c *problem.Class, at *topology.TopologyAssignment) bool {
	want, ok := s.Purchases.Assumptions.GroupStarts[c.ID]
	return ok && want != at.Name
}

// recordGroupStart records that the first pod of a group that must share a domain is placed at one of the possible
// assignments.
func (s *Placement) recordGroupStart(c *problem.Class, at *topology.TopologyAssignment, could []string) {
	if !slices.ContainsFunc(s.StartedGroups, func(b GroupStart) bool { return b.Class == c.ID }) {
		s.StartedGroups = append(s.StartedGroups, GroupStart{Class: c.ID, Chosen: at.Name, Possible: could})
	}
}

// minPodsForPricedFill is the minimum number of pods for filling nodes by price; fewer pods are placed on the first node
// that fits.
const minPodsForPricedFill = 64

// fillNodesByPrice fills existing nodes with the unconstrained classes of one priority that begin at i of those
// waiting, all at once: what is bought for the rest costs least when each node is given the pods that suit its shape.
// It does nothing for an i that is not their beginning.
//
// What it is for: two thousand classes onto five thousand nodes that are part filled, a plan 3.6 % dearer without it.
func (s *Placement) fillNodesByPrice(waiting []*problem.Class, i int) {
	if len(s.Inst.Nodes.List) == 0 || !s.In.Runs(stageNodesByPrice) || !waiting[i].IsUnconstrained() || i > 0 && waiting[i-1].IsUnconstrained() && waiting[i-1].Spec.Priority == waiting[i].Spec.Priority {
		return
	}
	var demands []*Demand
	pods := 0
	for _, c := range waiting[i:] {
		if !c.IsUnconstrained() || c.Spec.Priority != waiting[i].Spec.Priority {
			break
		}
		if n := s.Usage.PlaceablePods(c); n > 0 {
			demands = append(demands, &Demand{Class: c, Offers: c.Offers, Unbought: int64(n)})
			pods += n
		}
	}
	if pods < minPodsForPricedFill || len(demands) < 2 || len(s.Catalog.Offers) == 0 {
		return
	}
	p := s.Purchases.NewPackingFor(problem.Level{Lo: 0, Hi: len(s.Catalog.Offers)}, demands, false)
	remaining := make([]int64, len(demands))
	for d := range demands {
		remaining[d] = demands[d].Unbought
	}
	for node, x := range s.Inst.Nodes.List {
		for k := range s.In.NumDims {
			if !x.Closed && !x.Drained {
				p.Prices.freeCapacity[k] += float64(max(0, s.Usage.Free[node*s.In.NumDims+k]))
			}
		}
	}
	p.Prices.PriceDemands(remaining)
	for node, x := range s.Inst.Nodes.List {
		if !x.Closed && !x.Drained {
			for _, it := range p.fillNode(node, remaining) {
				remaining[it.Demand] -= it.Count
				s.placeOnNode(p.Market.Demands[it.Demand].Class, node, it.Count)
			}
		}
	}
}

// fillNode chooses pods for the free capacity of an existing node as BuildPattern does for a machine.
func (p *Packing) fillNode(node int, remaining []int64) []Item {
	s, sc, nd := p.Market.Purchases, &p.buf, p.In.NumDims
	s.Usage.ChargeDaemons(node)
	var rem problem.Vec
	copy(rem[:], s.Usage.Free[node*nd:node*nd+nd])
	sc.candidates = sc.candidates[:0]
	for d, n := range remaining {
		if c := p.Market.Demands[d].Class; n > 0 && problem.FitsSlice(&c.Req, rem[:nd]) && s.Inst.NodeAdmits(c.Filter, node) {
			sc.candidates = append(sc.candidates, int32(d))
		}
	}
	p.sampleCandidates(maxCandidates, maxCandidates)
	var used problem.Occupancy
	for best := -1; ; {
		if best = p.pickDemand(remaining, &rem, nil, &used, best); best < 0 {
			break
		}
		n := min(remaining[best]-sc.used[best], max(1, problem.TimesIn(&p.Market.Demands[best].Class.Req, &rem, nd)/3))
		p.addToPattern(best, n, &rem, &used)
	}
	var f Pattern
	p.collectPattern(&f)
	return f.items
}
