// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
)

// boundByFeasibilityClasses is what the demand is worth at prices by who may go where, less what free capacity is.
func (s *bounder) boundByFeasibilityClasses() int64 {
	free := make([]float64, s.numDims)
	for _, i := range s.useful {
		for k := range s.numDims {
			free[k] += float64(max(0, s.initialFree[i*s.numDims+k]))
		}
	}
	var total, rooms sum128
	var most [maxDims]int64
	var all []*feasibilityClasses
	for _, g := range s.groups {
		if len(g.classes) == 0 {
			continue
		}
		firsts, whole := groupByRequest(g.classes)
		p, _ := s.newProofPacking(g.level, firsts)
		x := p.feasibilityClassesOf(whole)
		x.solvePrices(free, nil)
		total.add(x.totalWorth())
		for k := range s.numDims {
			most[k] = max(most[k], x.highestPrice(k, func(*feasibilityClass) bool { return true }))
		}
		all = append(all, x)
	}
	for _, i := range s.useful {
		rooms.add(freeCapacityWorth(all, s.initialFree[i*s.numDims:i*s.numDims+s.numDims]))
	}
	s.addQuantitySavings(&most, &rooms)
	if !rooms.less(total) {
		return 0
	}
	return total.sub(rooms).micro()
}

// boundByDearestPod is the price of the cheapest machine that holds one pod of a class that no existing node takes,
// for the class where that is most. It matters where little is bought.
func (s *bounder) boundByDearestPod() (most int64) {
	if len(s.bins) > 4 {
		return 0
	}
	for _, g := range s.groups {
		for _, c := range g.classes {
			if slices.ContainsFunc(s.useful, func(i int) bool {
				return fitsSlice(&c.req, s.initialFree[i*s.numDims:i*s.numDims+s.numDims]) && s.nodeAdmits(c.filter, i)
			}) {
				continue
			}
			most = max(most, g.cheapestMachine(&c.req, s.numDims))
		}
	}
	return most
}

// boundByExclusivity is what machines cost at least for pods no two of which may share a host, for the group where
// that is most: for each pod the cheapest machine that holds it. As many of the dearest pods as there are useful
// nodes may go to those.
func (s *bounder) boundByExclusivity() (most int64) {
	type pods struct{ n, price int64 }
	for k := len(s.dims); k < s.numDims; k++ {
		var all []pods
		for _, g := range s.groups {
			for _, c := range g.classes {
				if c.req[k] > 0 {
					s.steps += int64(len(g.sizes))
					all = append(all, pods{int64(c.assigned), g.cheapestMachine(&c.req, s.numDims)})
				}
			}
		}
		slices.SortFunc(all, func(a, b pods) int { return cmp.Compare(b.price, a.price) })
		sum, rooms := int64(0), int64(len(s.useful))
		for _, x := range all {
			n := min(x.n, rooms)
			rooms -= n
			sum += max(0, x.price) * (x.n - n)
		}
		most = max(most, sum)
	}
	return most
}
