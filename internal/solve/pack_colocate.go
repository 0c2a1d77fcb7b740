// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "slices"

// placeColocated places what must share a host with other pods and found none on an existing node: into bins, which
// may have to become larger for it, or into one bought to begin the group. It is repeated until nothing moves, for
// one group may wait for another.
func (s *placement) placeColocated() {
	waiting := false
	for _, c := range s.classes {
		waiting = waiting || c.topology.hostAffinity && s.placeablePods(c) > 0
	}
	if !waiting {
		return
	}
	s.splitCopies()
	for moved := true; moved; {
		moved = false
		for _, c := range s.classes {
			if !c.topology.hostAffinity || s.placeablePods(c) == 0 {
				continue
			}
			before := c.assigned
			s.steps += int64(len(s.bins))
			s.placeClass(c, nil) // on nodes only: nothing is purchased for a class that must share a host
			for _, b := range s.bins {
				if s.placeablePods(c) > 0 {
					s.joinBin(c, b)
				}
			}
			if s.placeablePods(c) > 0 && s.mayStartGroup(c) {
				s.startBin(c)
			}
			moved = moved || c.assigned > before
		}
	}
}

// startColocatedBins demands machines for co-located groups, and opens bins for other pods that must share a host,
// before anything else is packed: later there may be no room left beside what they want to be near. A bin begins with
// one pod of that, or, where there is none, with the group itself. It says whether any pod was placed.
func (s *placement) startColocatedBins() (any bool) {
	any = s.demandColocatedGroups()
	for moved := true; moved; any = any || moved {
		moved = false
		for _, c := range s.classes {
			if !c.topology.hostAffinity || s.placeablePods(c) == 0 {
				continue
			}
			before := c.assigned
			s.steps += int64(len(s.bins) + len(s.demands))
			for _, b := range s.bins {
				if s.placeablePods(c) > 0 {
					s.joinBin(c, b)
				}
			}
			for _, d := range s.demands {
				for s.placeablePods(c) > 0 && d.unbought > 0 && s.isAnchorFor(d.class, c) && s.seedBin(c, d) {
				}
			}
			if s.placeablePods(c) > 0 && s.mayStartGroup(c) {
				s.startBin(c)
			}
			moved = moved || c.assigned > before
		}
	}
	return any
}

// isAnchorFor says whether pods of a are what pods of c must share a host with.
func (s *placement) isAnchorFor(a, c *class) bool {
	for i := range c.topology.hostRules {
		if r := &c.topology.hostRules[i]; r.kind == ruleAffinity && !slices.Contains(a.topology.hostCounters, r.counter) {
			return false
		}
	}
	return true
}

// seedBin opens a bin with one pod of the demand and as many of the class as it can hold, and says whether it could.
func (s *placement) seedBin(c *class, d *demand) bool {
	for pool := range s.input.Pools {
		if !s.buysFrom(pool) {
			continue
		}
		b := &bin{pool: pool, offers: s.intersect(s.poolOffers(pool), d.offers), copies: 1, quantity: -1, host: s.hostCount}
		b.addPods(d.class, d.offers, 1, s.numDims)
		s.countOnHost(d.class, b.host, 1)
		if s.someOfferHolds(b.offers, &b.requests) && s.joinBin(c, b) {
			s.hostCount++
			d.unbought--
			s.bins = append(s.bins, b)
			return true
		}
		s.countOnHost(d.class, b.host, -1)
	}
	return false
}

// joinBin adds as many pods as a bin takes, over the first assignment of the class that allows it, and says whether
// any joined. A group that begins beside others begins whole: those left over could go nowhere.
func (s *placement) joinBin(c *class, b *bin) bool {
	n, least := min(s.podsHostAllows(c, b.host), podsPortsAllow(c, b.occupancy.ports), int64(s.placeablePods(c))), int64(1)
	if len(b.items) > 0 && c.topology.hostAffinity && s.mayStartGroup(c) {
		least = int64(s.placeablePods(c))
	}
	if n < least {
		return false
	}
	if len(c.topology.keys) == 0 {
		return s.growBin(c, b, c.offers, n, least, nil)
	}
	for _, at := range s.assignmentsOf(c) {
		if m, _ := s.podsDomainsAllow(c, at.labels); m >= least && at.offers != nil && s.growBin(c, b, at.offers, min(n, m), least, at) {
			return true
		}
	}
	return false
}

// growBin puts up to n pods, and no fewer than least, into a bin, which from then on may only be an offer of the set.
// It says whether it could within limits.
func (s *placement) growBin(c *class, b *bin, set *offerSet, n, least int64, at *topologyAssignment) bool {
	set = s.intersect(b.offers, set)
	if !s.someOfferHolds(set, &b.requests) {
		return false
	}
	most := int64(0)
	for i := range set.maximalSizes {
		rem := set.maximalSizes[i]
		for k := range s.numDims {
			rem[k] -= b.requests[k]
		}
		if fitsIn(&c.req, &rem, s.numDims) {
			most = max(most, timesIn(&c.req, &rem, s.numDims))
		}
	}
	for n = min(n, most); n >= least; n-- {
		s.steps++
		next := *b
		next.items = append([]binItem(nil), b.items...)
		next.occupancy = occupancy{}
		for _, it := range next.items {
			if x := s.classes[it.class]; len(x.ports) > 0 || len(x.csiVolumes) > 0 {
				next.occupancy.addClass(x.spec)
			}
		}
		next.offers = set
		next.addPods(c, set, n, s.numDims)
		if !s.rechargeBin(&next) {
			continue
		}
		if whole := least == n && least == int64(s.placeablePods(c)) && len(b.items) > 0; whole && s.isCheaperAlone(c, set, n, b, &next) {
			s.limits[b.pool].charge(next.charged, -1)
			if b.charged != nil {
				s.limits[b.pool].charge(b.charged, 1)
			}
			return false
		}
		*b = next
		c.assigned += int(n)
		s.countOnHost(c, b.host, n)
		if at != nil {
			s.countInDomains(c, at.labels, at.inScope, n)
		}
		s.useExclusiveVolumes(c)
		return true
	}
	return false
}

// isCheaperAlone says whether a group costs less on a machine of its own than a bin grows dearer by with it.
func (s *purchases) isCheaperAlone(c *class, set *offerSet, n int64, b, with *bin) bool {
	alone := &bin{pool: b.pool, offers: set}
	alone.addPods(c, set, n, s.numDims)
	price := s.leastBinPrice(alone)
	return price >= 0 && s.adjustPrice(s.leastBinPrice(with))-s.adjustPrice(s.leastBinPrice(b)) > s.adjustPrice(price)
}

// rechargeBin charges the pool for the cheapest machine that holds the bin within the limits, in place of what was
// charged before. Where there is none it changes nothing and says no.
func (s *purchases) rechargeBin(b *bin) bool {
	left := &s.limits[b.pool]
	if b.charged != nil {
		left.charge(b.charged, -1)
	}
	best := -1
	for _, i := range s.poolOffersCheapestFirst(b.pool) {
		s.steps++
		o := &s.offers[i]
		if b.offers.contains(i) && (best < 0 || o.price < s.offers[best].price) && s.offerHoldsBin(b, o) && left.copiesAllowed(o.instanceType.Capacity) > 0 {
			best = i
		}
	}
	if best < 0 {
		if b.charged != nil {
			left.charge(b.charged, 1)
		}
		return false
	}
	was := b.charged
	b.charged = s.offers[best].instanceType.Capacity
	left.charge(b.charged, 1)
	if need := s.minValuesOf(b.pool); len(need) > 0 { // charge what the choice that must be kept may cost
		ch := s.chooseTypes(b)
		if b.charged = ch.charged; need.firstUnmet(ch.types) != nil {
			left.charge(b.charged, -1)
			if b.charged = was; was != nil {
				left.charge(was, 1)
			}
			return false
		}
	}
	return true
}

// startBin opens a bin to begin a group: of the first pool, by weight and name, that has a machine, for as many pods
// as it can hold.
func (s *placement) startBin(c *class) {
	for pool := range s.input.Pools {
		if !s.buysFrom(pool) {
			continue
		}
		b := &bin{pool: pool, offers: s.poolOffers(pool), copies: 1, quantity: -1, host: s.hostCount}
		if s.joinBin(c, b) {
			s.hostCount++
			s.bins = append(s.bins, b)
			return
		}
	}
}
