// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "slices"

// maxLeftoverTries bounds how many pods are tried again one by one.
const maxLeftoverTries = 200

// placeLeftovers tries the pods left out once more, those that topology ties one at a time. A cap lowered for one
// class may have left another without its domain, and there is room again; what others did since may let in another
// of a spread, or be what a pod wants to be near. Machines bought for those of higher priority may have free
// capacity, where limits allow no more machines. What may be given up for that is given up in this order: choice
// among types that limits are charged for, preferences for offers, separation.
func (s *planner) placeLeftovers() {
	if !slices.ContainsFunc(s.classes, func(c *class) bool { return s.placeablePods(c) > 0 }) {
		return
	}
	s.purchaseCaps, s.keepPlaced = map[classAssignment]int64{}, true
	s.tightenLimitCharges()
	if s.countMachines() <= maxConsolidatedMachines {
		s.spareCapacity = &consolidation{s: &s.placement}
	}
	tries := 0
	for near, moved := false, true; moved; near = true {
		moved = false
		for _, c := range s.classes {
			if near && !c.topology.affinity {
				continue
			}
			before := c.assigned
			for !c.topology.hostAffinity && s.placeablePods(c) > 0 && tries < maxLeftoverTries && !s.outOfSteps() {
				tries++
				if !s.placeLeftoverOf(c) {
					break
				}
			}
			moved = moved || c.assigned > before
		}
	}
}

// placeLeftoverOf tries a class once, and says whether to try it again.
func (s *planner) placeLeftoverOf(c *class) bool {
	if s.spareCapacity != nil {
		s.splitCopies() // also what was bought last: what comes behind it has been bought now
	}
	before, bins := c.assigned, len(s.bins)
	demands, add := s.demandCollector()
	tied := len(c.topology.keys) > 0
	if tied {
		s.placeByDomain(c, c.unplaced()-1, add)
	} else {
		s.placeClass(c, add)
	}
	s.buyTier(*demands)
	if bought := s.bins[bins:]; slices.ContainsFunc(bought, func(b *bin) bool { return !s.meetsMinValues(b) }) ||
		len(bought) > 0 && !s.acceptNewDomains(bought) {
		for _, b := range bought {
			s.limits[b.pool].charge(b.charged, -b.copies)
			if b.quantity >= 0 {
				s.quantities[b.quantity] += b.copies
			}
			for _, it := range b.items {
				(*demands)[0].unbought += it.count * b.copies // there is one: the class was tried at one topology assignment, or without any
			}
		}
		s.bins = s.bins[:bins]
		if s.spareCapacity != nil {
			s.spareCapacity.bins = s.spareCapacity.bins[:min(bins, len(s.spareCapacity.bins))]
		}
	}
	s.placeAsLastResort(*demands)
	for _, d := range *demands {
		c.assigned -= int(d.unbought)
		if d.unbought > 0 && tied {
			s.countInDomains(c, d.assignment.labels, d.assignment.inScope, -d.unbought)
			k := classAssignment{c.id, d.assignment.id}
			s.purchased[k] -= d.unbought
			s.purchaseCaps[k] = s.purchased[k] // not there; elsewhere perhaps
		}
		for _, id := range c.topology.hostCounters {
			s.counters[id].expected = 0
		}
	}
	return c.assigned > before || len(*demands) > 0 && tied
}

// placeAsLastResort puts pods for which nothing more is bought onto free capacity, whatever they would rather have: a
// preference is no reason to refuse.
func (s *planner) placeAsLastResort(demands []*demand) {
	if s.spareCapacity == nil {
		return
	}
	var left []*demand
	for _, d := range demands {
		if d.unbought == 0 || d.permitted == nil && d.class.separation.most == 0 {
			continue
		}
		if d.permitted != nil {
			d.offers, d.permitted = d.permitted, nil
		}
		left = append(left, d)
	}
	s.spareCapacity.ignoreSeparation = true
	s.placeOnSpareCapacity(left)
	s.spareCapacity.ignoreSeparation = false
}

// tightenLimitCharges charges limits for each machine with no more than the smallest that holds its pods at the least
// price: what is to be chosen from is narrowed before a pod is refused.
func (s *planner) tightenLimitCharges() {
	for _, b := range s.bins {
		left := &s.limits[b.pool]
		if !left.limited || len(s.minValuesOf(b.pool)) > 0 {
			continue
		}
		best := -1
		for _, i := range s.poolOffersCheapestFirst(b.pool) {
			if o := &s.offers[i]; b.offers.contains(i) && s.offerHoldsBin(b, o) && o.instanceType.Capacity.Fits(b.charged) && (best < 0 || o.price < s.offers[best].price ||
				o.price == s.offers[best].price && o.instanceType.Capacity.Fits(s.offers[best].instanceType.Capacity)) {
				best = i
			}
		}
		if best >= 0 {
			left.charge(b.charged, -b.copies)
			b.charged = s.offers[best].instanceType.Capacity
			left.charge(b.charged, b.copies)
		}
	}
}

// placeOnSpareCapacity puts pods onto what is free on machines bought before.
func (s *placement) placeOnSpareCapacity(demands []*demand) {
	if len(s.bins) == 0 || len(demands) == 0 {
		return
	}
	s.splitCopies()
	t := s.spareCapacity
	if t == nil {
		t = &consolidation{s: s}
	}
	t.undo = t.undo[:0]
	t.addNewBins()
	var targets []int
	for i := range t.bins {
		targets = append(targets, i)
	}
	for _, d := range demands {
		if d.class.asGroup != nil {
			continue // a co-located group has a machine bought
		}
		it := binItem{class: d.class.id, count: d.unbought, offers: d.offers}
		for _, j := range targets {
			n := t.podsBinAccepts(j, -1, &it)
			if n == 0 && s.spareCapacity != nil && t.switchMachine(j, &it) {
				n = t.podsBinAccepts(j, -1, &it)
			}
			if n > 0 {
				t.movePods(j, -1, &it, n)
			}
		}
		d.unbought = it.count
	}
}
