// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// candidateBunches are the candidates of a pattern, those together that ask for the same and are worth the same: of
// them only the first is looked at.
type candidateBunches struct {
	list    []bunch
	next    []int32 // by place among the candidates: that of the next in its bunch
	bunchOf []int32 // by demand's number in Packing.alike: 1 + its bunch, 0: none yet
	picked  int     // the bunch of the one picked last
	count   int     // candidates in all
}

// bunch is some of the candidates: equal demands, in order.
type bunch struct {
	demand, at, last int32 // the first of them, its place among the candidates, and that of the last
	count            int32
	biasedDual       int64
}

// dropFirst takes the first demand out of a bunch.
func (x *candidateBunches) dropFirst(b *bunch, cand []int32) {
	x.count--
	if b.count--; b.count > 0 {
		b.at = x.next[b.at]
		b.demand = cand[b.at]
	}
}

// numberAlikeDemands numbers demands so that those of one number may be bunched. They are where prices are adaptive
// and pods are worth what their resources and exclusivities are.
func (p *Packing) numberAlikeDemands() {
	p.bunched = p.Prices.adaptivePrices && p.Market.narrowRows != nil && p.Prices.dualFactor == nil
	if !p.bunched {
		return
	}
	if p.sizeOf == nil {
		p.sizeOf, p.alike = make([]int32, len(p.Market.Demands)), make([]int32, len(p.Market.Demands))
		number := map[[4]int64]int32{}
		for d := range p.Market.narrowRows {
			n, ok := number[p.Market.narrowRows[d].request]
			if !ok {
				n = int32(len(number))
				number[p.Market.narrowRows[d].request] = n
			}
			p.sizeOf[d] = n
		}
		p.numSizes = len(number)
	}
	type alike struct {
		lean int64
		next int32 // of the same size, 1 + its number; 0: none
	}
	var list []alike
	first := make([]int32, p.numSizes)
	for d, size := range p.sizeOf {
		n := first[size]
		for n > 0 && list[n-1].lean != p.Prices.biasedDual[d] {
			n = list[n-1].next
		}
		if n == 0 {
			list = append(list, alike{p.Prices.biasedDual[d], first[size]})
			n = int32(len(list))
			first[size] = n
		}
		p.alike[d] = n - 1
	}
	p.buf.bunches.bunchOf = make([]int32, len(list))
}

// bunchCandidates makes bunches of the candidates.
func (p *Packing) bunchCandidates() {
	x, cand := &p.buf.bunches, p.buf.candidates
	x.list, x.count, x.picked = x.list[:0], len(cand), -1
	x.next = slices.Grow(x.next[:0], len(cand))[:len(cand)]
	for i, d := range cand {
		bunchOf := &x.bunchOf[p.alike[d]]
		if *bunchOf == 0 {
			x.list = append(x.list, bunch{demand: d, at: int32(i), last: int32(i), count: 1, biasedDual: p.Prices.biasedDual[d]})
			*bunchOf = int32(len(x.list))
			continue
		}
		b := &x.list[*bunchOf-1]
		x.next[b.last] = int32(i)
		b.last, b.count = int32(i), b.count+1
	}
	for i := range x.list {
		x.bunchOf[p.alike[x.list[i].demand]] = 0
	}
}

// pickFromBunches picks as pickDemand does, from bunches.
func (p *Packing) pickFromBunches(room, inverse *[4]int64, m *Machine, used *problem.Occupancy, gone int) int {
	x, cand := &p.buf.bunches, p.buf.candidates
	p.Work.Steps += int64(x.count)
	if gone >= 0 {
		x.dropFirst(&x.list[x.picked], cand)
	}
	best, bestLean, bestShare, bestAt, kept := -1, int64(0), int64(1), int32(0), 0
	for _, b := range x.list {
		r := &p.Market.narrowRows[b.demand]
		if b.count == 0 || (room[0]-r.request[0])|(room[1]-r.request[1])|(room[2]-r.request[2])|(room[3]-r.request[3]) < 0 {
			x.count -= int(b.count)
			continue
		}
		share := max(1, max(r.share[0]*inverse[0], r.share[1]*inverse[1], r.share[2]*inverse[2], r.share[3]*inverse[3])>>shareShift)
		by := b.biasedDual*bestShare - bestLean*share
		for b.count > 0 && (by > 0 || by == 0 && b.at < bestAt) {
			if !p.Market.Restricted[b.demand] || p.podsNeighboursAllow(int(b.demand), m, used) > 0 {
				best, bestLean, bestShare, bestAt = int(b.demand), b.biasedDual, share, b.at
				x.picked = kept
				break
			}
			x.dropFirst(&b, cand) // in this fill it will not fit again
		}
		if b.count > 0 {
			x.list[kept] = b
			kept++
		}
	}
	x.list = x.list[:kept]
	return best
}
