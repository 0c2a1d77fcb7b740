// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// BuildPattern builds a good pattern for a machine: repeatedly it adds the demand that would be worth most on all free
// resources, up to a third of them at a time, so that the remainder keeps useful proportions. The existing contents of
// the pattern stay in it as far as pods are left; the rest of the machine is filled.
func (p *Packing) BuildPattern(f *Pattern, remaining []int64) {
	m, nd, sc := p.Market.Machines[f.Machine], p.In.NumDims, &p.buf
	rem := m.Available
	sc.occupancy = problem.Occupancy{Ports: append(sc.occupancy.Ports[:0], m.ports...)}
	used := &sc.occupancy
	f.worth = 0
	for _, it := range f.items {
		if it.Count = min(it.Count, remaining[it.Demand]); it.Count > 0 {
			p.addToPattern(it.Demand, it.Count, &rem, used)
			f.worth += p.Prices.Dual[it.Demand] * it.Count
		}
	}
	f.made = true
	sc.candidates = sc.candidates[:0]
	first, stride := p.samplingStride(m)
	for w, b := range m.Admits {
		for ; b != 0 && p.openLists != nil; b &= b - 1 {
			list := p.openLists[w<<6+bits.TrailingZeros64(b)]
			for ; first < len(list); first += stride {
				if d := list[first]; remaining[d] > sc.used[d] && !p.isFull(d) {
					sc.candidates = append(sc.candidates, d)
				}
			}
			first -= len(list)
		}
	}
	for i := first; i < len(p.openDemands) && p.openLists == nil; i += stride {
		if d := p.openDemands[i]; remaining[d] > sc.used[d] && p.Market.MachineAdmits(m, int(d)) && !p.isFull(d) {
			sc.candidates = append(sc.candidates, d)
		}
	}
	for best := -1; ; {
		if best = p.pickDemand(remaining, &rem, m, used, best); best < 0 {
			break
		}
		c := p.Market.Demands[best].Class
		n := min(remaining[best]-sc.used[best], max(1, problem.TimesIn(&c.Req, &rem, nd)/3))
		n = min(n, p.Market.maxPodsOf(best)-sc.used[best])
		if p.Market.Restricted[best] {
			n = min(n, p.podsNeighboursAllow(best, m, used))
		}
		p.addToPattern(best, n, &rem, used)
		f.worth += p.Prices.Dual[best] * n
	}
	p.collectPattern(f)
}

// isFull reports whether the pattern being made may hold no more of a demand, whatever fits.
func (p *Packing) isFull(d int32) bool { return p.buf.used[d] >= p.Market.maxPodsOf(int(d)) }

// samplingStride says where to begin among the open demands and how many steps to go at a time: one by one, unless
// too many are open to the machine.
func (p *Packing) samplingStride(m *Machine) (first, stride int) {
	n := 0
	for w, b := range m.Admits {
		for ; b != 0; b &= b - 1 {
			n += p.openBySet[w<<6+bits.TrailingZeros64(b)]
		}
	}
	if n <= min(4*maxCandidates, 2*p.sampleSize) {
		return 0, 1
	}
	p.samples++
	stride = (n + p.sampleSize - 1) / p.sampleSize
	return p.samples % stride, stride
}

// dropExhausted drops open demands of which nothing is left.
func (p *Packing) dropExhausted(remaining []int64) {
	for j, list := range p.openLists {
		p.openLists[j] = slices.DeleteFunc(list, func(d int32) bool { return remaining[d] <= 0 })
		p.openBySet[j] = len(p.openLists[j])
	}
	if p.openLists != nil {
		return
	}
	kept := p.openDemands[:0]
	clear(p.openBySet)
	for _, d := range p.openDemands {
		if remaining[d] > 0 {
			kept = append(kept, d)
			p.openBySet[p.Market.SetOf[d]]++
		}
	}
	p.openDemands = kept
}

// openByOfferSet lists open demands by offer set where prices are adaptive, else nil: a pattern then looks only at
// those that its machine admits.
func (p *Packing) openByOfferSet() [][]int32 {
	if !p.Prices.adaptivePrices {
		return nil
	}
	lists, all := make([][]int32, len(p.Market.offerSets)), make([]int32, len(p.openDemands))
	for j, n := range p.openBySet {
		lists[j], all = all[:0:n], all[n:]
	}
	for _, d := range p.openDemands {
		lists[p.Market.SetOf[d]] = append(lists[p.Market.SetOf[d]], d)
	}
	return lists
}

// sampleCandidates reduces the candidates to a sample of about keep if there are more than many.
func (p *Packing) sampleCandidates(many, keep int) {
	sc := &p.buf
	n := len(sc.candidates)
	if n <= many {
		return
	}
	p.samples++
	stride := (n + keep - 1) / keep
	kept := sc.candidates[:0]
	for i := p.samples % stride; i < n; i += stride {
		kept = append(kept, sc.candidates[i])
	}
	sc.candidates = kept
}

// addToPattern books pods in the pattern being made.
func (p *Packing) addToPattern(d int, n int64, rem *problem.Vec, used *problem.Occupancy) {
	c := p.Market.Demands[d].Class
	for k := range p.In.NumDims {
		rem[k] -= c.Req[k] * n
	}
	if p.buf.used[d] == 0 {
		p.buf.inPattern = append(p.buf.inPattern, d)
	}
	p.buf.used[d] += n
	if p.Market.Restricted[d] {
		p.countInPattern(c, n, used)
	}
}

// podsNeighboursAllow is how many more pods of a demand the pattern being made takes, by ports, volumes and rules
// over hosts.
func (p *Packing) podsNeighboursAllow(d int, m *Machine, used *problem.Occupancy) int64 {
	h := &p.Market.neighbours[d]
	c, n := h.Class, problem.Unlimited
	if h.HasMore {
		var on problem.NodeTraits
		if m != nil {
			on = m.traits
			on.DaemonPorts = nil // they are among those used
		}
		n = used.Allows(c, on)
		if p.separated && c.Separation.Most > 0 {
			n = min(n, max(0, c.Separation.Most-p.buf.used[d]))
		}
	}
	for i := range h.Rules {
		if n <= 0 {
			return 0
		}
		r := &h.Rules[i]
		if r.Kind != problem.RuleAffinity && (r.Kind != problem.RuleHostSpreadOfOthers || p.buf.counts[r.OwnerCounter] > 0) {
			have := p.buf.counts[r.Counter]
			for _, id := range r.Minus {
				have -= p.buf.counts[id]
			}
			n = min(n, p.Topo.PodsRuleAllows(c, r, int64(have), 0, true))
		}
	}
	return n
}

// countInPattern counts pods as on the host of the pattern being made.
func (p *Packing) countInPattern(c *problem.Class, n int64, used *problem.Occupancy) {
	for _, id := range c.Topology.HostCounters {
		p.buf.counts[id] += int32(n)
		p.buf.touched = append(p.buf.touched, id)
	}
	used.Add(c)
}

// shareShift is the number of binary digits of a request as a share of the largest machine.
const shareShift = 20

// pickDemand returns the demand with the highest score in what is free of a machine, the first of equals, -1 if none
// fits, and drops those that no longer fit, or of which last, the one picked before, none are left.
//
// The score is what a machine would be worth if it were full of the demand's pods alone:
//
//	score = worth / share
//	worth   of one pod: its biased dual, micro-dollars an hour << (DualShift - biasShift)
//	share   the largest part that one pod takes of what is free of a resource, in parts of 1<<shareShift:
//	        max over resources of (request / largest machine) * (largest machine / free)
//
// Scores are compared as products, worth*bestShare against bestWorth*share, so nothing is rounded by a division.
//
// Requests are looked at in blocks of resources, of which most problems have one: with a loop over each resource
// BenchmarkTianchi takes 1.25 times as long, BenchmarkKarpenterMix twice. Demands that ask for the same follow each other,
// mostly, and are measured once.
func (p *Packing) pickDemand(remaining []int64, free *problem.Vec, m *Machine, used *problem.Occupancy, last int) int {
	shape := p.shapeOf(free)
	gone := -1
	if last >= 0 && (remaining[last] <= p.buf.used[last] || p.isFull(int32(last))) {
		gone = last
	}
	candidates, blocks, worths := p.buf.candidates, p.Market.requestBlocks, p.Prices.biasedDual
	numBlocks, sizes, size := p.Market.blocksEach, p.Market.sizeOf, int32(-1)
	short, share := int64(0), int64(0) // short is negative if something does not fit
	p.Work.Steps += int64(len(candidates))
	best, bestWorth, bestShare, kept := -1, int64(0), int64(1), 0
	for _, demand := range candidates {
		if sizes[demand] != size {
			size, short, share = sizes[demand], 0, 1<<shareShift
			for b := range numBlocks {
				ask, have := &blocks[int(demand)*numBlocks+b], &shape[b]
				short |= (have.room[0] - ask.request[0]) | (have.room[1] - ask.request[1]) | (have.room[2] - ask.request[2]) | (have.room[3] - ask.request[3])
				share = max(share, ask.share[0]*have.inverse[0], ask.share[1]*have.inverse[1], ask.share[2]*have.inverse[2], ask.share[3]*have.inverse[3])
			}
			share >>= shareShift
		}
		if short < 0 || int(demand) == gone {
			continue
		}
		if worths[demand]*bestShare > bestWorth*share {
			if p.Market.Restricted[demand] && p.podsNeighboursAllow(int(demand), m, used) <= 0 {
				continue // in this pattern it will not fit again
			}
			best, bestWorth, bestShare = int(demand), worths[demand], share
		}
		candidates[kept] = demand
		kept++
	}
	p.buf.candidates = candidates[:kept]
	return best
}

// freeBlock is what is free of a block of resources, and the largest machine in parts of that, << shareShift.
type freeBlock struct{ room, inverse [blockSize]int64 }

// shapeOf returns the free resources in the form with which requests are compared.
func (p *Packing) shapeOf(free *problem.Vec) (shape [problem.MaxDims / blockSize]freeBlock) {
	for k := range p.In.NumDims {
		at := &shape[k/blockSize]
		at.room[k%blockSize] = max(0, free[k]) // what asks for none fits anywhere
		if free[k] > 0 && p.Prices.largest[k] > 0 && k < len(p.In.Dims) {
			at.inverse[k%blockSize] = problem.MulDiv(p.Prices.largest[k], 1<<shareShift, free[k])
		}
	}
	return shape
}

// collectPattern reads the pattern from the buffers and clears them.
func (p *Packing) collectPattern(f *Pattern) {
	sc := &p.buf
	f.items = f.items[:0]
	for _, d := range sc.inPattern {
		f.items = append(f.items, Item{Demand: d, Count: sc.used[d]})
		sc.used[d] = 0
	}
	sc.inPattern = sc.inPattern[:0]
	for _, id := range sc.touched {
		sc.counts[id] = 0
	}
	sc.touched = sc.touched[:0]
	slices.SortFunc(f.items, func(a, b Item) int { return cmp.Compare(a.Demand, b.Demand) })
}
