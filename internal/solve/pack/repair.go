// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// ruinAndRecreate takes the machines that are used worst out of the plan, with a few others beside them, packs their
// pods again, and keeps what is cheaper; again and again until the steps allowed are done or nothing more comes of
// it.
//
// What it is for: NodePools with limits over a catalog with nothing in proportion ("limits of odd" of the drawn
// problems, seed 2), a plan 4.5 % dearer without it.
func (p *Packing) ruinAndRecreate(batches []batch, until int64) []batch {
	misses, enough := 0, p.Prices.lowerBound+problem.MulDiv(p.Prices.lowerBound, p.In.Policy.MaxGapPPM, 1_000_000)
	for round := 0; p.Work.Steps < until && misses < maxFruitlessRepairs && totalPrice(batches) > enough; round++ {
		keep, out := p.Prices.ruinWorst(batches, round)
		if len(keep) == 0 { // greedy has packed all of it already
			misses++
			continue
		}
		remaining := make([]int64, len(p.Market.Demands))
		for _, b := range out {
			for _, it := range b.items {
				remaining[it.Demand] += it.Count * b.copies
			}
		}
		was := p.Market.adjustedCostOf(out)
		p.Market.refundBatches(out)
		p.Prices.PriceDemands(remaining)
		recreated := p.packGreedily(slices.Clone(remaining))
		if countPodsIn(recreated) != countPodsIn(out) || p.Market.adjustedCostOf(recreated) >= was {
			p.Market.refundBatches(recreated)
			p.Market.chargeBatches(out)
			misses++
			continue
		}
		misses = 0
		batches = append(keep, recreated...)
	}
	return batches
}

// maxFruitlessRepairs is the maximum number of repairs in a row without an improvement.
const maxFruitlessRepairs = 12

// ruinWorst splits off single copies: those with the lowest worth for their cost, and every few of the others. How
// many and which others changes with the round.
func (p *Prices) ruinWorst(batches []batch, round int) (keep, out []batch) {
	type scored struct {
		i     int
		ratio float64
	}
	total := int64(0)
	list := make([]scored, len(batches))
	for i, b := range batches {
		v := int64(0)
		for _, it := range b.items {
			v += p.Dual[it.Demand] * it.Count
		}
		list[i] = scored{i, float64(v) / float64(b.machine.AdjustedCost)}
		total += b.copies
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(a.ratio, b.ratio) })
	worst := int64(4 + round%5*4)
	stride := 3 + int64(round*7)%11
	others, seen := int64(2+round%3*3), int64(0)
	for _, x := range list {
		b := batches[x.i]
		n := min(b.copies, worst)
		worst -= n
		if rest := b.copies - n; rest > 0 && others > 0 && worst == 0 {
			if seen += rest; seen > stride {
				seen = 0
				n++
				others--
			}
		}
		if n > 0 {
			out = append(out, batch{machine: b.machine, pool: b.pool, items: b.items, copies: n})
		}
		if n < b.copies {
			keep = append(keep, batch{machine: b.machine, pool: b.pool, items: b.items, copies: b.copies - n})
		}
	}
	return keep, out
}
