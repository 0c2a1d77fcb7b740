// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package bound

import (
	"math/bits"

	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// maxNodeClassPairs is the maximum number of pairs of existing node and class in a bound.
const maxNodeClassPairs = 2_000_000

// boundBesideFreeCapacity is the bound by feasibility classes where much capacity is free. Prices of resources alone
// see that it would do for all pods, and say that nothing need be bought; but no large pod goes into what is left on
// many machines. So pods are told apart by how much of the free capacity is open to them too, and the program gives
// what is free to those that may have it.
func (s *bounder) boundBesideFreeCapacity() int64 {
	var classes []*problem.Class
	for _, g := range s.Groups {
		if g.Level != s.Groups[0].Level {
			return 0 // of several weights each would need its own
		}
		classes = append(classes, g.Classes...)
	}
	if len(classes) == 0 || len(s.useful) == 0 || len(s.useful)*len(classes) > maxNodeClassPairs {
		return 0
	}
	p, whole := newProofPacking(s.plan.Purchases, s.Groups[0].Level, classes)
	p.Market.FreeAccess = s.freeAccessOf(classes)
	x := p.Market.FeasibilityClassesOf(whole)
	vacant := x.PoolFreeCapacity(s.useful, whole)
	x.SolvePrices(make([]float64, s.In.NumDims), vacant)
	total := x.TotalWorth()
	var freeWorth problem.Sum128
	var most [problem.MaxDims]int64
	for k := range s.In.NumDims {
		most[k] = x.HighestPrice(k, func(*pack.FeasibilityClass) bool { return true })
	}
	for i := range vacant {
		for k, v := range vacant[i].Free[:s.In.NumDims] {
			freeWorth.AddProduct(x.DearestPriceAmong(k, vacant[i].Classes), v)
		}
	}
	s.addQuantitySavings(&most, &freeWorth)
	if !freeWorth.Less(total) {
		return 0
	}
	return total.Sub(freeWorth).Micro()
}

// freeAccessOf is, by class, how much of the free capacity is on nodes that hold one of its pods: in powers of four
// of a millionth, 0 for none.
func (s *bounder) freeAccessOf(classes []*problem.Class) []int8 {
	nd := s.In.NumDims
	var sum problem.Vec
	for _, node := range s.useful {
		for k, v := range s.Inst.InitialFree[node*nd : node*nd+nd] {
			sum[k] += max(0, v)
		}
	}
	out := make([]int8, len(classes))
	for i, c := range classes {
		part := int64(0) // millionths, of the resource of which it is least
		var have problem.Vec
		any := false
		for _, node := range s.useful {
			if free := s.Inst.InitialFree[node*nd : node*nd+nd]; problem.FitsSlice(&c.Req, free) && s.Inst.NodeAdmits(c.Filter, node) {
				any = true
				for k, v := range free {
					have[k] += max(0, v)
				}
			}
		}
		if !any {
			continue
		}
		part = 1_000_000
		for k := range nd {
			if c.Req[k] > 0 {
				part = min(part, problem.MulDiv(have[k], 1_000_000, max(1, sum[k])))
			}
		}
		out[i] = int8(1 + (bits.Len64(uint64(part))+1)/2)
	}
	s.Work.Steps += int64(len(s.useful) * len(classes))
	return out
}
