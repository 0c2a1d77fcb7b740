// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package bound

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// boundByFeasibilityClasses returns the value of the demand at prices by feasibility class, minus that of free capacity.
func (s *bounder) boundByFeasibilityClasses() int64 {
	free := make([]float64, s.In.NumDims)
	for _, i := range s.useful {
		for k := range s.In.NumDims {
			free[k] += float64(max(0, s.Inst.InitialFree[i*s.In.NumDims+k]))
		}
	}
	var total, freeWorth problem.Sum128
	var most [problem.MaxDims]int64
	var all []*pack.FeasibilityClasses
	for _, g := range s.Groups {
		if len(g.Classes) == 0 {
			continue
		}
		firsts, whole := pack.GroupByRequest(g.Classes)
		p, _ := newProofPacking(s.plan.Purchases, g.Level, firsts)
		x := p.Market.FeasibilityClassesOf(whole)
		x.SolvePrices(free, nil)
		total.Add(x.TotalWorth())
		for k := range s.In.NumDims {
			most[k] = max(most[k], x.HighestPrice(k, func(*pack.FeasibilityClass) bool { return true }))
		}
		all = append(all, x)
	}
	for _, i := range s.useful {
		freeWorth.Add(pack.FreeCapacityWorth(all, s.Inst.InitialFree[i*s.In.NumDims:i*s.In.NumDims+s.In.NumDims]))
	}
	s.addQuantitySavings(&most, &freeWorth)
	if !freeWorth.Less(total) {
		return 0
	}
	return total.Sub(freeWorth).Micro()
}

// boundByDearestPod is the price of the cheapest machine that holds one pod of a class that no existing node takes,
// for the class where that is most. It matters where little is bought: in one small problem of three hundred the bound
// is 0.1 % lower without it.
func (s *bounder) boundByDearestPod() (most int64) {
	if len(s.plan.Placement.Bins) > 4 {
		return 0
	}
	for _, g := range s.Groups {
		for _, c := range g.Classes {
			if slices.ContainsFunc(s.useful, func(i int) bool {
				return problem.FitsSlice(&c.Req, s.Inst.InitialFree[i*s.In.NumDims:i*s.In.NumDims+s.In.NumDims]) && s.Inst.NodeAdmits(c.Filter, i)
			}) {
				continue
			}
			most = max(most, g.cheapestMachine(&c.Req, s.In.NumDims))
		}
	}
	return most
}

// boundByExclusivity is what machines cost at least for pods no two of which may share a host, for the group where
// that is most: for each pod the cheapest machine that holds it. As many of the dearest pods as there are useful
// nodes may go to those.
//
// What it is for: classes of all sizes of which no two pods may share a host ("everyone against everyone" of the drawn
// problems). Without it the bound is a quarter lower there.
func (s *bounder) boundByExclusivity() (most int64) {
	type pods struct{ n, price int64 }
	for k := len(s.In.Dims); k < s.In.NumDims; k++ {
		var all []pods
		for _, g := range s.Groups {
			for _, c := range g.Classes {
				if c.Req[k] > 0 {
					s.Work.Steps += int64(len(g.Sizes))
					all = append(all, pods{int64(c.Assigned), g.cheapestMachine(&c.Req, s.In.NumDims)})
				}
			}
		}
		slices.SortFunc(all, func(a, b pods) int { return cmp.Compare(b.price, a.price) })
		sum, nodes := int64(0), int64(len(s.useful))
		for _, x := range all {
			n := min(x.n, nodes)
			nodes -= n
			sum += max(0, x.price) * (x.n - n)
		}
		most = max(most, sum)
	}
	return most
}
