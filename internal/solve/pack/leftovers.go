// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// maxLeftoverTries bounds how many pods are tried again one by one.
const maxLeftoverTries = 200

// placeLeftovers tries the pods left out once more, those that topology ties one at a time. A cap lowered for one
// class may have left another without its domain, and there is room again; what others did since may let in another
// of a spread, or be what a pod wants to be near. Machines bought for those of higher priority may have free
// capacity, where limits allow no more machines. What may be given up for that is given up in this order: choice
// among types that limits are charged for, preferences for offers, separation.
func (s *Planner) placeLeftovers() {
	if !slices.ContainsFunc(s.Inst.Classes, func(c *problem.Class) bool { return s.Usage.PlaceablePods(c) > 0 }) {
		return
	}
	s.Placement.purchaseCaps, s.Placement.keepPlaced = map[topology.ClassAssignment]int64{}, true
	s.tightenLimitCharges()
	s.forgetEmptyDomains()
	if s.Placement.CountMachines() <= maxConsolidatedMachines {
		s.Placement.spareCapacity = &consolidation{s: s.Placement}
	}
	tries := 0
	for near, moved := false, true; moved; near = true {
		moved = false
		for _, c := range s.Inst.Classes {
			if near && !c.Topology.Affinity {
				continue
			}
			before := c.Assigned
			for !c.Topology.HostAffinity && s.Usage.PlaceablePods(c) > 0 && tries < maxLeftoverTries && !s.Work.OutOfSteps() {
				tries++
				if !s.placeLeftoverOf(c) {
					break
				}
			}
			moved = moved || c.Assigned > before
		}
	}
}

// placeLeftoverOf tries a class once, and reports whether to try it again.
func (s *Planner) placeLeftoverOf(c *problem.Class) bool {
	if s.Placement.spareCapacity != nil {
		s.Placement.splitCopies() // also what was bought last: what comes behind it has been bought now
	}
	before, bins := c.Assigned, len(s.Placement.Bins)
	demands, add := s.Placement.demandCollector()
	tied := len(c.Topology.Keys) > 0
	if tied {
		s.Placement.placeByDomain(c, c.Unplaced()-1, add)
	} else {
		s.Placement.placeClass(c, add)
	}
	s.buyTier(*demands)
	if bought := s.Placement.Bins[bins:]; slices.ContainsFunc(bought, func(b *Bin) bool { return !s.Choices.meetsMinValues(b) }) ||
		len(bought) > 0 && !s.acceptNewDomains(bought) {
		for _, b := range bought {
			s.Purchases.Limits[b.Pool].Charge(b.charged, -b.Copies)
			if b.quantity >= 0 {
				s.Purchases.Quantities[b.quantity] += b.Copies
			}
			for _, it := range b.Items {
				(*demands)[0].Unbought += it.Count * b.Copies // there is one: the class was tried at one topology assignment, or without any
			}
		}
		s.Placement.Bins = s.Placement.Bins[:bins]
		if s.Placement.spareCapacity != nil {
			s.Placement.spareCapacity.bins = s.Placement.spareCapacity.bins[:min(bins, len(s.Placement.spareCapacity.bins))]
		}
	}
	s.placeAsLastResort(*demands)
	for _, d := range *demands {
		d.releaseUnbought(s.Usage)
		if d.Unbought > 0 && tied {
			s.Topo.CountInDomains(c, d.assignment.Labels, d.assignment.InScope, -d.Unbought)
			k := topology.ClassAssignment{Class: c.ID, Assignment: d.assignment.ID}
			s.Placement.purchased[k] -= d.Unbought
			s.Placement.purchaseCaps[k] = s.Placement.purchased[k] // not there; elsewhere perhaps
		}
		for _, id := range c.Topology.HostCounters {
			s.Topo.Counters[id].Expected = 0
		}
	}
	return c.Assigned > before || len(*demands) > 0 && tied
}

// placeAsLastResort places pods for which nothing more is launched in free capacity, ignoring preferences, and on
// machines that are enlarged for them: neither a preference nor a price is a reason to refuse a pod.
func (s *Planner) placeAsLastResort(demands []*Demand) {
	if s.Placement.spareCapacity == nil {
		return
	}
	var left []*Demand
	for _, d := range demands {
		if d.Unbought == 0 {
			continue
		}
		if d.permitted != nil {
			d.Offers, d.permitted = d.permitted, nil
		}
		left = append(left, d)
	}
	s.Placement.spareCapacity.lastResort = true
	s.Placement.placeOnSpareCapacity(left)
	s.Placement.spareCapacity.lastResort = false
}

// tightenLimitCharges charges limits for each machine with no more than the smallest that holds its pods at the least
// price: what is to be chosen from is narrowed before a pod is refused.
func (s *Planner) tightenLimitCharges() {
	for _, b := range s.Placement.Bins {
		left := &s.Purchases.Limits[b.Pool]
		if !left.Limited || len(s.Catalog.MinValuesOf(b.Pool)) > 0 {
			continue
		}
		best := -1
		for _, i := range s.Catalog.PoolOffersCheapestFirst(b.Pool) {
			if o := &s.Catalog.Offers[i]; b.offers.Contains(i) && s.Purchases.offerHoldsBin(b, o) && o.Charge.Fits(b.charged) && (best < 0 || o.Price < s.Catalog.Offers[best].Price ||
				o.Price == s.Catalog.Offers[best].Price && o.Charge.Fits(s.Catalog.Offers[best].Charge)) {
				best = i
			}
		}
		if best >= 0 {
			left.Charge(b.charged, -b.Copies)
			b.charged = s.Catalog.Offers[best].Charge
			left.Charge(b.charged, b.Copies)
		}
	}
}
