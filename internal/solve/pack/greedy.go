// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"math/bits"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// packGreedily buys machines for the demands until nothing more can be bought: always the pattern worth most for the
// machine's adjusted cost, as many copies as pods and limits allow. remaining is by demand and is counted down.
// Prices are found anew whenever half of what there was to buy is bought: what is left asks for another mix of
// resources.
func (p *Packing) packGreedily(remaining []int64) []batch {
	var out []batch
	r := Ranking{P: p, Patterns: make([]Pattern, len(p.Market.Machines))}
	value := p.Prices.totalWorth(remaining)
	mark, anew := value, true
	all, to := slices.Clone(p.openDemands), slices.Clone(p.openBySet)
	p.openLists = p.openByOfferSet()
	defer func() { p.openDemands, p.openBySet, p.openLists = all, to, nil }()
	for {
		if len(out)%dropExhaustedEvery == 0 {
			p.dropExhausted(remaining)
		}
		if anew {
			r.Rebuild(remaining)
			anew = false
		}
		best := r.BestPattern(remaining)
		if best < 0 {
			return out
		}
		f := &r.Patterns[best]
		copies := problem.Unlimited
		for _, it := range f.items {
			copies = min(copies, remaining[it.Demand]/it.Count)
		}
		b := p.Market.buyCopies(f.Machine, f.items, copies, remaining)
		out = append(out, b)
		if value -= float64(f.worth) * float64(b.copies); value < mark/2 && len(remaining) > 2 {
			p.Prices.PriceDemands(remaining)
			value = p.Prices.totalWorth(remaining)
			mark, anew = value, true
		} else if p.Prices.adaptivePrices {
			r.adaptExclusivityPrices(&b, f.worth)
		}
	}
}

// dropExhaustedEvery is after how many purchases demands of which nothing is left are dropped.
const dropExhaustedEvery = 32

// Ranking is a set of machines with their patterns, and which of them can still be launched.
type Ranking struct {
	P        *Packing
	Patterns []Pattern
	open     []int32 // machines that can be had and hold something, ascending
}

// Rebuild discards all patterns. With adaptive prices, a pattern is built only when it may be the best: until then, the
// machine is ranked by an upper bound on its value.
func (r *Ranking) Rebuild(remaining []int64) {
	p := r.P
	u, dear, pods := p.Prices.resourcePrices, 1.0, int64(0)
	if p.Prices.adaptivePrices {
		p.Prices.countRemaining(remaining)
		for k := range p.In.NumDims {
			u[k] = max(u[k], p.Prices.feasibility.HighestPrice(k, func(*FeasibilityClass) bool { return true }))
		}
		for d, n := range remaining {
			pods += n
			if p.Prices.dualFactor != nil && n > 0 {
				dear = max(dear, p.Prices.dualFactor[d])
			}
		}
	}
	r.open = r.open[:0]
	for i, m := range p.Market.Machines {
		f := &r.Patterns[i]
		f.Machine, f.made, f.items = i, false, f.items[:0]
		if p.Prices.adaptivePrices {
			var v problem.Sum128
			for k := range p.In.NumDims {
				if m.Available[k] > 0 {
					v.AddProduct(u[k], m.Available[k])
				}
			}
			most := v.Dual()
			f.worth = int64(float64(most)*dear) + pods // worth is rounded up to at least one
		} else {
			p.BuildPattern(f, remaining)
		}
		r.open = append(r.open, int32(i))
	}
}

// isBetter reports whether the pattern of machine a is better than that of b.
func (r *Ranking) isBetter(a, b int32) bool {
	h1, l1 := bits.Mul64(uint64(r.Patterns[a].worth), uint64(r.P.Market.Machines[b].AdjustedCost))
	h2, l2 := bits.Mul64(uint64(r.Patterns[b].worth), uint64(r.P.Market.Machines[a].AdjustedCost))
	if h1 == h2 && l1 == l2 {
		return a < b
	}
	return h1 > h2 || h1 == h2 && l1 > l2
}

// bestTwo returns the machine with the best pattern and the second best, -1 where there is none. It drops for good those
// that can't be had or hold nothing: limits only ever get tighter, and pods fewer.
func (r *Ranking) bestTwo() (first, second int32) {
	for {
		first, second = -1, -1
		for _, i := range r.open {
			switch {
			case first < 0 || r.isBetter(i, first):
				first, second = i, first
			case second < 0 || r.isBetter(i, second):
				second = i
			}
		}
		if first < 0 || !r.dropIfUseless(first) && (second < 0 || !r.dropIfUseless(second)) {
			return first, second
		}
	}
}

// dropIfUseless removes a machine if it cannot be launched or holds nothing, and reports whether it did.
func (r *Ranking) dropIfUseless(i int32) bool {
	if _, n := r.P.Market.copiesAvailable(r.P.Market.Machines[i]); n > 0 && r.Patterns[i].worth > 0 {
		return false
	}
	r.open = slices.DeleteFunc(r.open, func(j int32) bool { return i == j })
	return true
}

// BestPattern returns the machine whose pattern has the highest value per adjusted cost, -1 if none holds anything. A
// pattern is rebuilt only if the remaining pods no longer allow it: with fewer pods, a better one is unlikely. A rebuilt
// pattern is used if it has lost almost nothing, even if others that have not been rebuilt seem slightly better.
func (r *Ranking) BestPattern(remaining []int64) int {
	p := r.P
	for {
		p.Work.Steps += int64(len(p.Market.Machines)) / 4
		i, second := r.bestTwo()
		if i < 0 {
			return -1
		}
		m, f := p.Market.Machines[i], &r.Patterns[i]
		known, stale := f.made, false
		for _, it := range f.items {
			stale = stale || remaining[it.Demand] < it.Count
		}
		if known && !stale {
			return int(i)
		}
		p.BuildPattern(f, remaining)
		hair := f.worth > 0 && (second < 0 || !problem.RatioLess(f.worth+f.worth>>p.lossShift, m.AdjustedCost, r.Patterns[second].worth, p.Market.Machines[second].AdjustedCost))
		if known && hair {
			return int(i)
		}
	}
}

// adaptExclusivityPrices lowers the price of a place for one of a mutual anti-affinity group where machines bought
// hold less than their share of what is left, and raises it where they hold more: slowly down and fast up, for with
// too low a price one machine may take what hundreds need. The full price makes the smallest machines with such a
// place the best of all, and what comes last then has no neighbours; no price leaves pods of the group over that each
// need a machine to themselves.
func (r *Ranking) adaptExclusivityPrices(b *batch, value int64) {
	p := r.P
	for _, it := range b.items {
		value -= p.Prices.exclusivityDual(it.Demand) * it.Count
	}
	for k := len(p.In.Dims); k < p.In.NumDims; k++ {
		x := &p.Prices.exclusivityPrices[k]
		if x.most == 0 || x.pods == 0 {
			continue
		}
		for _, it := range b.items {
			x.pods -= p.Market.Demands[it.Demand].Class.Req[k] * it.Count * b.copies
		}
		x.rest -= value * b.copies
		x.machines += b.copies
		x.held += max(0, value) * b.copies
		if x.pods == 0 || x.machines < exclusivityPriceWindow && !problem.RatioLess(x.share, 1, x.held, exclusivityPriceWindow) {
			continue
		}
		was := x.current()
		p.Prices.priceAdaptations++
		if x.part == 0 {
			x.part = exclusivityPriceParts
		}
		if problem.RatioLess(x.held, x.machines, max(0, x.rest), x.pods) {
			x.part = max(exclusivityPriceParts*2/5, x.part-x.part/16)
		} else {
			x.part = min(exclusivityPriceParts, x.part+x.part/4)
		}
		x.machines, x.held, x.share = 0, 0, max(0, x.rest)/x.pods
		if by := x.current() - was; by != 0 {
			r.shiftExclusivityDuals(k, by<<problem.DualShift)
		}
	}
}

// shiftExclusivityDuals changes by so much what each pod of a mutual anti-affinity group is worth, and the worth of
// patterns with it.
func (r *Ranking) shiftExclusivityDuals(k int, by int64) {
	p := r.P
	change := func(d int) int64 {
		v := p.Market.Demands[d].Class.Req[k] * by
		if p.Prices.dualFactor != nil {
			v = int64(float64(v) * p.Prices.dualFactor[d])
		}
		return v
	}
	most := by
	for _, d := range p.Market.exclusivityDemandsOf(k) {
		if v := change(d); v > most {
			most = v
		}
		p.Prices.Dual[d] = max(1, p.Prices.Dual[d]+change(d))
		p.Prices.resourceDual[d], p.Prices.biasedDual[d] = p.Prices.Dual[d], p.Prices.Dual[d]>>biasShift+1
	}
	for i := range r.Patterns {
		f := &r.Patterns[i]
		if !f.made {
			f.worth = max(1, f.worth+most*min(1, p.Market.Machines[i].Available[k]))
			continue
		}
		for _, it := range f.items {
			if p.Market.Demands[it.Demand].Class.Req[k] > 0 {
				f.worth += change(it.Demand) * it.Count
			}
		}
	}
}
