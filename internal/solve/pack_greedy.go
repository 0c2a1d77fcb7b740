// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"math/bits"
	"slices"
)

// packGreedily buys machines for the demands until nothing more can be bought: always the pattern worth most for the
// machine's adjusted cost, as many copies as pods and limits allow. remaining is by demand and is counted down.
// Prices are found anew whenever half of what there was to buy is bought: what is left asks for another mix of
// resources.
func (p *packing) packGreedily(remaining []int64) []batch {
	var out []batch
	r := ranking{p: p, patterns: make([]pattern, len(p.machines))}
	value := p.totalWorth(remaining)
	mark, anew := value, true
	all, to := slices.Clone(p.openDemands), slices.Clone(p.openBySet)
	p.openLists = p.openByOfferSet()
	defer func() { p.openDemands, p.openBySet, p.openLists = all, to, nil }()
	for {
		if len(out)%dropExhaustedEvery == 0 {
			p.dropExhausted(remaining)
		}
		if anew {
			r.rebuild(remaining)
			anew = false
		}
		best := r.bestPattern(remaining)
		if best < 0 {
			return out
		}
		f := &r.patterns[best]
		copies := unlimited
		for _, it := range f.items {
			copies = min(copies, remaining[it.demand]/it.count)
		}
		b := p.buyCopies(f.machine, f.items, copies, remaining)
		out = append(out, b)
		if value -= float64(f.worth) * float64(b.copies); value < mark/2 && len(remaining) > 2 {
			p.priceDemands(remaining)
			value = p.totalWorth(remaining)
			mark, anew = value, true
		} else if p.adaptivePrices {
			r.adaptExclusivityPrices(&b, f.worth)
		}
	}
}

// dropExhaustedEvery is after how many purchases demands of which nothing is left are dropped.
const dropExhaustedEvery = 32

// ranking is machines in a heap, by what their patterns are worth for their adjusted cost: the best is the first, of
// equals the first by number.
type ranking struct {
	p        *packing
	patterns []pattern
	heap     []int32
}

// rebuild forgets all patterns. With adaptive prices one is made only when it might be the best: until then the
// machine stands where the most that it could be worth puts it.
func (r *ranking) rebuild(remaining []int64) {
	p := r.p
	p.numberAlikeDemands()
	u, dear, pods := p.resourcePrices, 1.0, int64(0)
	if p.adaptivePrices {
		p.countRemaining(remaining)
		for k := range p.s.numDims {
			u[k] = max(u[k], p.feasibility.highestPrice(k, func(*feasibilityClass) bool { return true }))
		}
		for d, n := range remaining {
			pods += n
			if p.dualFactor != nil && n > 0 {
				dear = max(dear, p.dualFactor[d])
			}
		}
	}
	r.heap = r.heap[:0]
	for i, m := range p.machines {
		f := &r.patterns[i]
		f.machine, f.made, f.items = i, false, f.items[:0]
		if p.adaptivePrices {
			var v sum128
			for k := range p.s.numDims {
				if m.available[k] > 0 {
					v.addProduct(u[k], m.available[k])
				}
			}
			most := v.dual()
			f.worth = int64(float64(most)*dear) + pods // worth is rounded up to at least one
		} else {
			p.buildPattern(f, remaining)
		}
		r.heap = append(r.heap, int32(i))
	}
	r.heapify()
}

// heapify makes a heap of the machines left.
func (r *ranking) heapify() {
	for i := len(r.heap)/2 - 1; i >= 0; i-- {
		r.siftDown(i)
	}
}

// isBetter says whether the pattern of machine a is better than that of b.
func (r *ranking) isBetter(a, b int32) bool {
	h1, l1 := bits.Mul64(uint64(r.patterns[a].worth), uint64(r.p.machines[b].adjustedCost))
	h2, l2 := bits.Mul64(uint64(r.patterns[b].worth), uint64(r.p.machines[a].adjustedCost))
	if h1 == h2 && l1 == l2 {
		return a < b
	}
	return h1 > h2 || h1 == h2 && l1 > l2
}

// siftDown moves an entry of the heap behind those that are better.
func (r *ranking) siftDown(i int) {
	for {
		c := 2*i + 1
		if c >= len(r.heap) {
			return
		}
		if c+1 < len(r.heap) && r.isBetter(r.heap[c+1], r.heap[c]) {
			c++
		}
		if !r.isBetter(r.heap[c], r.heap[i]) {
			return
		}
		r.heap[i], r.heap[c] = r.heap[c], r.heap[i]
		i = c
	}
}

// dropIfUseless takes an entry out of the heap for good if its machine can't be had or holds nothing, and says
// whether it did: limits only ever get tighter, and pods fewer.
func (r *ranking) dropIfUseless(i int) bool {
	f := &r.patterns[r.heap[i]]
	if _, n := r.p.copiesAvailable(r.p.machines[r.heap[i]]); n > 0 && f.worth > 0 {
		return false
	}
	n := len(r.heap) - 1
	r.heap[i] = r.heap[n]
	r.heap = r.heap[:n]
	r.siftDown(i)
	return true
}

// runnerUp is the machine second in the heap, -1 if there is none.
func (r *ranking) runnerUp() int32 {
	for len(r.heap) > 1 {
		i := 1
		if len(r.heap) > 2 && r.isBetter(r.heap[2], r.heap[1]) {
			i = 2
		}
		if !r.dropIfUseless(i) {
			return r.heap[i]
		}
	}
	return -1
}

// bestPattern returns the machine whose pattern is worth most for its adjusted cost, -1 where none holds anything. A
// pattern is made anew only when the pods left no longer allow the one known: with fewer pods no better one comes,
// near enough. One made anew is taken when it has lost next to nothing, though others, not made anew yet, seem
// slightly better.
func (r *ranking) bestPattern(remaining []int64) int {
	p := r.p
	for {
		p.s.steps += int64(len(p.machines)) / 4
		for len(r.heap) > 0 && r.dropIfUseless(0) {
			continue
		}
		if len(r.heap) == 0 {
			return -1
		}
		i := r.heap[0]
		m, f := p.machines[i], &r.patterns[i]
		known, stale := f.made, false
		for _, it := range f.items {
			stale = stale || remaining[it.demand] < it.count
		}
		if known && !stale {
			return int(i)
		}
		second := r.runnerUp()
		p.buildPattern(f, remaining)
		hair := f.worth > 0 && (second < 0 || !ratioLess(f.worth+f.worth>>p.lossShift, m.adjustedCost, r.patterns[second].worth, p.machines[second].adjustedCost))
		r.siftDown(0)
		if known && hair {
			return int(i)
		}
	}
}
