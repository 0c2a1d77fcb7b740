// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
)

// assumptions is what one way to answer a problem assumes where there is no telling beforehand what will turn out cheaper.
type assumptions struct {
	groupStarts map[int]string // by class: the topology assignment where a group that must share a domain begins; none: the cheapest for one pod
	reuse       reuseOrder
}

// reuseOrder is whether pods go into room left on machines of other weights before their own buys for them.
type reuseOrder int8

const (
	reuseNone       reuseOrder = iota
	reuseFromHigher            // into room on those of higher weight
	reuseFromLower             // into room on those of lower weight, which buy first
)

// groupStart is a group that must share a domain, and where it could have begun.
type groupStart struct {
	class    int
	chosen   string
	possible []string
}

// maxAlternatives bounds how often a problem is answered anew by another assumption, and againPods the pods of problems for which that is done: among
// many, one group or what is left of one weight matters little.
const (
	maxAlternatives        = 24
	maxPodsForAlternatives = 1000
	alternativeSteps       = 20_000_000
)

// solveWithAlternatives answers the problem by other guesses too, where there are any and the first answer came cheap enough to afford them, and keeps the
// cheapest that refuses no more pods.
func solveWithAlternatives(p *Problem, mem Memory, pol Policy) *solver {
	s := solveAssuming(p, mem, pol, assumptions{})
	left := min(pol.Work/2, alternativeSteps)
	try := func(g assumptions) bool {
		if left <= 0 {
			return false
		}
		x := solveAssuming(p, mem, pol, g)
		left -= x.steps + int64(len(p.Demand))*1000
		for class, at := range g.groupStarts { // in whichever order: all must hold
			if !slices.ContainsFunc(x.groupStarts, func(b groupStart) bool { return b.class == class && b.chosen == at }) {
				return false // nothing could be had there, and the group came to follow others instead of leading them
			}
		}
		if !x.isBetterThan(s) {
			return false
		}
		s = x
		return true
	}
	if len(p.Demand) > maxPodsForAlternatives || pol.Work == 0 {
		return s
	}
	tries := 0
	if s.buysFromSeveralLevels() {
		tries += 2
		try(assumptions{reuse: reuseFromHigher})
		try(assumptions{reuse: reuseFromLower})
	}
	for again := true; again; {
		again = false
		for _, b := range s.groupStarts {
			for _, site := range b.possible {
				if site == b.chosen || tries >= maxAlternatives {
					continue
				}
				tries++
				g := assumptions{groupStarts: map[int]string{b.class: site}, reuse: s.assumptions.reuse}
				for class, at := range s.assumptions.groupStarts {
					if class != b.class {
						g.groupStarts[class] = at
					}
				}
				again = try(g) || again
			}
		}
	}
	return s
}

// buysFromSeveralLevels says whether machines of more than one weight are bought.
func (s *solver) buysFromSeveralLevels() bool {
	for _, b := range s.bins {
		if s.input.Pools[b.pool].before(&s.input.Pools[s.bins[0].pool]) != 0 {
			return true
		}
	}
	return false
}

// isBetterThan says whether this answer places more pods, or as many for less.
func (s *solver) isBetterThan(o *solver) bool {
	refused := func(s *solver) (n int) {
		for _, c := range s.classes {
			n += c.unplaced()
		}
		return n
	}
	return cmp.Or(cmp.Compare(refused(s), refused(o)), cmp.Compare(s.adjustedCost(), o.adjustedCost())) < 0
}

// adjustedCost is what the machines cost, and what each costs beside its price.
func (s *solver) adjustedCost() (sum int64) {
	for _, b := range s.bins {
		sum += s.adjustPrice(s.leastBinPrice(b)) * b.copies
	}
	return sum
}

// leastBinPrice is the price of the cheapest machine that holds a bin, -1 where none does.
func (s *solver) leastBinPrice(b *bin) int64 {
	first := s.firstPoolCandidate(b.pool, &b.requests)
	s.steps += int64(first)
	for _, i := range s.poolOffersCheapestFirst(b.pool)[first:] {
		s.steps++
		if o := &s.offers[i]; b.offers.contains(i) && s.offerHoldsBin(b, o) {
			return o.price
		}
	}
	return -1
}

// adjustPrice is a price and what a machine costs beside it: Policy.MachineMicro, but never more than a hundredth of the price. Small machines bear
// less of it, so that two never seem cheaper than one twice their size and price, and cheap machines are not kept out by it.
func (s *solver) adjustPrice(price int64) int64 {
	m := s.policy.MachineMicro
	if m <= 0 {
		return price
	}
	return price + max(1, mulDiv(m, max(0, price), price+adjustmentDivisor*m))
}

// adjustmentDivisor is the part of a price that adjusted cost adds at most.
const adjustmentDivisor = 100

// startsElsewhere says whether the assumption has a group begin at another topology assignment.
func (s *solver) startsElsewhere(c *class, at *topologyAssignment) bool {
	want, ok := s.assumptions.groupStarts[c.id]
	return ok && want != at.name
}

// recordGroupStart notes that the first of a group that must share a domain goes to one of the topology assignments.
func (s *solver) recordGroupStart(c *class, at *topologyAssignment, could []string) {
	if !slices.ContainsFunc(s.groupStarts, func(b groupStart) bool { return b.class == c.id }) {
		s.groupStarts = append(s.groupStarts, groupStart{class: c.id, chosen: at.name, possible: could})
	}
}

// placeOnSpareCapacity puts pods into what is left on machines bought before.
func (s *solver) placeOnSpareCapacity(demands []*demand) {
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
