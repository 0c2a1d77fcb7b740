// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"math/bits"
	"slices"
)

// maxNodeClassPairs bounds how many pairs of existing node and class are looked at for a bound.
const maxNodeClassPairs = 2_000_000

// boundBesideFreeCapacity is the bound by feasibility classes where much capacity is free. Prices of resources alone
// see that it would do for all pods, and say that nothing need be bought; but no large pod goes into what is left on
// many machines. So pods are told apart by how much of the free capacity is open to them too, and the program gives
// what is free to those that may have it.
func (s *bounder) boundBesideFreeCapacity() int64 {
	var classes []*class
	for _, g := range s.groups {
		if g.level != s.groups[0].level {
			return 0 // of several weights each would need its own
		}
		classes = append(classes, g.classes...)
	}
	if len(classes) == 0 || len(s.useful) == 0 || len(s.useful)*len(classes) > maxNodeClassPairs {
		return 0
	}
	p, whole := s.newProofPacking(s.groups[0].level, classes)
	p.freeAccess = s.freeAccessOf(classes)
	x := p.feasibilityClassesOf(whole)
	vacant := x.poolFreeCapacity(s.useful, whole)
	x.solvePrices(make([]float64, s.numDims), vacant)
	total := x.totalWorth()
	var rooms sum128
	var most [maxDims]int64
	for k := range s.numDims {
		most[k] = x.highestPrice(k, func(*feasibilityClass) bool { return true })
	}
	for i := range vacant {
		for k, v := range vacant[i].free[:s.numDims] {
			rooms.addProduct(x.dearestPriceAmong(k, vacant[i].classes), v)
		}
	}
	s.addQuantitySavings(&most, &rooms)
	if !rooms.less(total) {
		return 0
	}
	return total.sub(rooms).micro()
}

// freeAccessOf is, by class, how much of the free capacity is on nodes that hold one of its pods: in powers of four
// of a millionth, 0 for none.
func (s *bounder) freeAccessOf(classes []*class) []int8 {
	nd := s.numDims
	var sum vec
	for _, node := range s.useful {
		for k, v := range s.initialFree[node*nd : node*nd+nd] {
			sum[k] += max(0, v)
		}
	}
	out := make([]int8, len(classes))
	for i, c := range classes {
		part := int64(0) // millionths, of the resource of which it is least
		var have vec
		any := false
		for _, node := range s.useful {
			if free := s.initialFree[node*nd : node*nd+nd]; fitsSlice(&c.req, free) && s.nodeAdmits(c.filter, node) {
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
			if c.req[k] > 0 {
				part = min(part, mulDiv(have[k], 1_000_000, max(1, sum[k])))
			}
		}
		out[i] = int8(1 + (bits.Len64(uint64(part))+1)/2)
	}
	s.steps += int64(len(s.useful) * len(classes))
	return out
}

// poolFreeCapacity joins the free capacity of nodes that the same feasibility classes may use. Of each node no more
// counts than pods that fit could take.
func (x *feasibilityClasses) poolFreeCapacity(useful []int, whole []int64) (out []pooledCapacity) {
	p, s, nd := x.p, x.p.s, x.p.s.numDims
	at := map[uint64]int{}
	for _, node := range useful {
		free := s.initialFree[node*nd : node*nd+nd]
		on := uint64(0)
		var used vec
		for d, y := range p.demands {
			if whole[d] <= 0 || x.classOf[d] < 0 || !fitsSlice(&y.class.req, free) || !s.nodeAdmits(y.class.filter, node) {
				continue
			}
			on |= 1 << x.classOf[d]
			n := whole[d]
			for k, v := range free {
				if q := y.class.req[k]; q > 0 {
					n = min(n, v/q)
				}
			}
			for k := range nd {
				used[k] += y.class.req[k] * n
			}
		}
		if on == 0 {
			continue
		}
		i, ok := at[on]
		if !ok {
			i = len(out)
			at[on] = i
			out = append(out, pooledCapacity{classes: on})
		}
		for k, v := range free {
			out[i].free[k] += max(0, min(v, used[k]))
		}
	}
	s.steps += int64(len(useful) * len(p.demands))
	if len(out) > maxPooledCapacities { // few rows: what little the others have goes to all feasibility classes that may have any of it
		slices.SortStableFunc(out, func(a, b pooledCapacity) int { return bits.OnesCount64(b.classes) - bits.OnesCount64(a.classes) })
		last := &out[maxPooledCapacities-1]
		for _, v := range out[maxPooledCapacities:] {
			last.classes |= v.classes
			for k := range nd {
				last.free[k] += v.free[k]
			}
		}
		out = out[:maxPooledCapacities]
	}
	return out
}

// maxPooledCapacities bounds the rows that free capacity adds to the program.
const maxPooledCapacities = 64

// dearestPriceAmong is the highest price of a resource among feasibility classes, given as a bitmap.
func (x *feasibilityClasses) dearestPriceAmong(k int, on uint64) (u int64) {
	for ; on != 0; on &= on - 1 {
		u = max(u, x.prices[bits.TrailingZeros64(on)][k])
	}
	return u
}
