// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// colocation places pods that must share a host with others.
type colocation struct {
	topology.Compiled
	Purchases *Purchases
	Choices   *Choices
	Placement *Placement
}

// placeColocated places what must share a host with other pods and found none on an existing node: into bins, which
// may have to become larger for it, or into one bought to begin the group. It is repeated until nothing moves, for
// one group may wait for another.
func (s *colocation) placeColocated() {
	waiting := false
	for _, c := range s.Inst.Classes {
		waiting = waiting || c.Topology.HostAffinity && s.Usage.PlaceablePods(c) > 0
	}
	if !waiting {
		return
	}
	s.Placement.splitCopies()
	for moved := true; moved; {
		moved = false
		for _, c := range s.Inst.Classes {
			if !c.Topology.HostAffinity || s.Usage.PlaceablePods(c) == 0 {
				continue
			}
			before := c.Assigned
			s.Work.Steps += int64(len(s.Placement.Bins))
			s.Placement.placeClass(c, nil) // on nodes only: nothing is purchased for a class that must share a host
			for _, b := range s.Placement.Bins {
				if s.Usage.PlaceablePods(c) > 0 {
					s.joinBin(c, b)
				}
			}
			if s.Usage.PlaceablePods(c) > 0 && s.Topo.MayStartGroup(c) {
				s.startBin(c)
			}
			moved = moved || c.Assigned > before
		}
	}
}

// startColocatedBins demands machines for co-located groups, and opens bins for other pods that must share a host,
// before anything else is packed: later there may be no room left beside what they want to be near. A bin begins with
// one pod of that, or, where there is none, with the group itself. It reports whether any pod was placed.
func (s *colocation) startColocatedBins() (any bool) {
	any = s.demandColocatedGroups()
	for moved := true; moved; any = any || moved {
		moved = false
		for _, c := range s.Inst.Classes {
			if !c.Topology.HostAffinity || s.Usage.PlaceablePods(c) == 0 {
				continue
			}
			before := c.Assigned
			s.Work.Steps += int64(len(s.Placement.Bins) + len(s.Placement.Demands))
			for _, b := range s.Placement.Bins {
				if s.Usage.PlaceablePods(c) > 0 {
					s.joinBin(c, b)
				}
			}
			for _, d := range s.Placement.Demands {
				for s.Usage.PlaceablePods(c) > 0 && d.Unbought > 0 && s.isAnchorFor(d.Class, c) && s.seedBin(c, d) {
				}
			}
			if s.Usage.PlaceablePods(c) > 0 && s.Topo.MayStartGroup(c) {
				s.startBin(c)
			}
			moved = moved || c.Assigned > before
		}
	}
	return any
}

// isAnchorFor reports whether pods of a are what pods of c must share a host with.
func (s *colocation) isAnchorFor(a, c *problem.Class) bool {
	for i := range c.Topology.HostRules {
		if r := &c.Topology.HostRules[i]; r.Kind == problem.RuleAffinity && !slices.Contains(a.Topology.HostCounters, r.Counter) {
			return false
		}
	}
	return true
}

// seedBin opens a bin with one pod of the demand and as many of the class as it can hold, and reports whether it could.
func (s *colocation) seedBin(c *problem.Class, d *Demand) bool {
	for pool := range s.In.Given.Pools {
		if !s.Catalog.BuysFrom(pool) {
			continue
		}
		b := &Bin{Pool: pool, offers: s.Catalog.Intersect(s.Catalog.PoolOffers(pool), d.Offers), Copies: 1, quantity: -1, host: s.Topo.HostCount}
		b.addPods(d.Class, d.Offers, 1, s.In.NumDims)
		s.Topo.CountOnHost(d.Class, b.host, 1)
		if s.Catalog.SomeOfferHolds(b.offers, &b.requests) && s.joinBin(c, b) {
			s.Topo.HostCount++
			d.Unbought--
			s.Placement.Bins = append(s.Placement.Bins, b)
			return true
		}
		s.Topo.CountOnHost(d.Class, b.host, -1)
	}
	return false
}

// joinBin adds as many pods as a bin takes, over the first assignment of the class that allows it, and reports whether
// any joined. A group that begins beside others begins whole: those left over could go nowhere.
func (s *colocation) joinBin(c *problem.Class, b *Bin) bool {
	n, least := min(s.Topo.PodsHostAllows(c, b.host), b.occupancy.Allows(c, problem.NodeTraits{}), int64(s.Usage.PlaceablePods(c))), int64(1)
	if len(b.Items) > 0 && c.Topology.HostAffinity && s.Topo.MayStartGroup(c) {
		least = int64(s.Usage.PlaceablePods(c))
	}
	if n < least {
		return false
	}
	if len(c.Topology.Keys) == 0 {
		return s.growBin(c, b, c.Offers, n, least, nil)
	}
	for _, at := range s.Assignments.AssignmentsOf(c) {
		if m, _ := s.Topo.PodsDomainsAllow(c, at.Labels); m >= least && at.Offers != nil && s.growBin(c, b, at.Offers, min(n, m), least, at) {
			return true
		}
	}
	return false
}

// growBin puts up to n pods, and no fewer than least, into a bin, which from then on may only be an offer of the set.
// It reports whether it could within limits.
func (s *colocation) growBin(c *problem.Class, b *Bin, set *problem.OfferSet, n, least int64, at *topology.TopologyAssignment) bool {
	set = s.Catalog.Intersect(b.offers, set)
	if !s.Catalog.SomeOfferHolds(set, &b.requests) {
		return false
	}
	most := int64(0)
	for i := range set.MaximalSizes {
		rem := set.MaximalSizes[i]
		for k := range s.In.NumDims {
			rem[k] -= b.requests[k]
		}
		if problem.IsWithin(&c.Req, &rem, s.In.NumDims) {
			most = max(most, problem.TimesIn(&c.Req, &rem, s.In.NumDims))
		}
	}
	for n = min(n, most); n >= least; n-- {
		s.Work.Steps++
		next := *b
		next.Items = append([]binItem(nil), b.Items...)
		next.occupancy = problem.Occupancy{}
		for _, it := range next.Items {
			next.occupancy.Add(s.Inst.Classes[it.Class])
		}
		next.offers = set
		next.addPods(c, set, n, s.In.NumDims)
		if !s.Choices.rechargeBin(&next) {
			continue
		}
		if whole := least == n && least == int64(s.Usage.PlaceablePods(c)) && len(b.Items) > 0; whole && s.Choices.isCheaperAlone(c, set, n, b, &next) {
			s.Purchases.Limits[b.Pool].Charge(next.charged, -1)
			if b.charged != nil {
				s.Purchases.Limits[b.Pool].Charge(b.charged, 1)
			}
			return false
		}
		*b = next
		c.Assigned += int(n)
		s.Topo.CountOnHost(c, b.host, n)
		if at != nil {
			s.Topo.CountInDomains(c, at.Labels, at.InScope, n)
		}
		s.Usage.UseExclusiveVolumes(c)
		return true
	}
	return false
}

// isCheaperAlone reports whether a group costs less on a machine of its own than a bin grows dearer by with it.
func (s *Choices) isCheaperAlone(c *problem.Class, set *problem.OfferSet, n int64, b, with *Bin) bool {
	alone := &Bin{Pool: b.Pool, offers: set}
	alone.addPods(c, set, n, s.In.NumDims)
	price := s.Purchases.leastBinPrice(alone)
	return price >= 0 && s.In.AdjustPrice(s.Purchases.leastBinPrice(with))-s.In.AdjustPrice(s.Purchases.leastBinPrice(b)) > s.In.AdjustPrice(price)
}

// rechargeBin charges the pool for the cheapest machine that holds the bin within the limits, in place of what was
// charged before. Where there is none it changes nothing and says no.
func (s *Choices) rechargeBin(b *Bin) bool {
	left := &s.Purchases.Limits[b.Pool]
	if b.charged != nil {
		left.Charge(b.charged, -1)
	}
	best := -1
	for _, i := range s.Catalog.PoolOffersCheapestFirst(b.Pool) {
		s.Work.Steps++
		o := &s.Catalog.Offers[i]
		if b.offers.Contains(i) && (best < 0 || o.Price < s.Catalog.Offers[best].Price) && s.Purchases.offerHoldsBin(b, o) && left.CopiesAllowed(o.Charge) > 0 {
			best = i
		}
	}
	if best < 0 {
		if b.charged != nil {
			left.Charge(b.charged, 1)
		}
		return false
	}
	was := b.charged
	b.charged = s.Catalog.Offers[best].Charge
	left.Charge(b.charged, 1)
	if len(s.Catalog.MinValuesOf(b.Pool)) > 0 { // charge what the choice that must be kept may cost
		ch := s.ChooseTypes(b)
		if b.charged = ch.charged; !ch.hasValues() {
			left.Charge(b.charged, -1)
			if b.charged = was; was != nil {
				left.Charge(was, 1)
			}
			return false
		}
	}
	return true
}

// startBin opens a bin to begin a group: of the first pool, by weight and name, that has a machine, for as many pods
// as it can hold.
func (s *colocation) startBin(c *problem.Class) {
	for pool := range s.In.Given.Pools {
		if !s.Catalog.BuysFrom(pool) {
			continue
		}
		b := &Bin{Pool: pool, offers: s.Catalog.PoolOffers(pool), Copies: 1, quantity: -1, host: s.Topo.HostCount}
		if s.joinBin(c, b) {
			s.Topo.HostCount++
			s.Placement.Bins = append(s.Placement.Bins, b)
			return
		}
	}
}

// demandColocatedGroups makes co-located groups demands of one pod each, where some machine holds them: they share
// machines with whatever else is packed. It reports whether there were any.
func (s *colocation) demandColocatedGroups() (any bool) {
	for _, x := range s.Topo.ColocatedGroups {
		if x.Entangled || !s.Topo.IsWholeAndPlaceable(x) {
			continue
		}
		d := s.Purchases.groupDemand(x)
		if !s.Catalog.SomeOfferHolds(d.Offers, &d.Class.Req) {
			continue
		}
		any = true
		s.Placement.Demands = append(s.Placement.Demands, d)
		for _, c := range x.Members {
			c.Assigned = len(c.Pods)
			for _, id := range c.Topology.HostCounters {
				s.Topo.Counters[id].Expected += int64(len(c.Pods))
			}
		}
	}
	return any
}

// groupDemand is the demand of a co-located group: one pod, for offers that all members may go to.
func (s *Purchases) groupDemand(x *problem.ColocatedGroup) *Demand {
	one := x.AsPod
	one.Offers = x.Members[0].Offers
	preferred := s.Inst.PreferAmong(x.Members[0], one.Offers)
	for _, c := range x.Members[1:] {
		one.Offers, preferred = s.Catalog.Intersect(one.Offers, c.Offers), s.Catalog.Intersect(preferred, s.Inst.PreferAmong(c, c.Offers))
	}
	if one.Spec == nil {
		one.Spec = &model.Class{Key: "lump", Priority: x.Members[0].Spec.Priority}
		for _, c := range x.Members {
			one.Spec.Key += "\x00" + c.Spec.Key
		}
	}
	d := &Demand{Class: one, Offers: one.Offers, Unbought: 1, total: 1}
	if preferred != one.Offers && s.Catalog.SomeOfferHolds(preferred, &one.Req) {
		d.Offers, d.permitted = preferred, one.Offers
	}
	return d
}
