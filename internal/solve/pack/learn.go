// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// maxLearningRounds is the maximum number of packings with learned duals, maxFruitlessRounds the maximum number in a row
// without an improvement.
const (
	maxLearningRounds  = 16
	maxFruitlessRounds = 8
)

// learnDuals packs again and again, with pods worth more that came to machines on which little else found room: a pod
// of just over half of the cheapest machine, say, for which prices of resources would have all its small neighbours
// packed first, among themselves. What a machine costs beyond what its pods are worth raises their worth, by the root
// of the ratio; where that leads astray, a step half as long is taken from the best packing. It returns the cheapest
// that leaves no more pods than the first, and keeps the duals behind it. A round takes about each steps.
func (p *Packing) learnDuals(whole, remaining []int64, batches []batch, each int64) []batch {
	if len(p.Market.Demands) < 2 || slices.ContainsFunc(remaining, func(n int64) bool { return n > 0 }) {
		return batches // what limits leave without a machine has all of it made anew
	}
	if p.Prices.priceAdaptations >= maxPriceAdaptations {
		return batches
	}
	until := min(p.Work.Steps+p.stepBudget/4, p.Work.StepLimit)
	if len(p.Market.Demands) <= maxMasterRows {
		until = min(p.Work.Steps+p.stepBudget/8, p.Work.StepLimit) // refineByColumns needs the rest
	}
	if slices.Contains(p.Market.Restricted, true) {
		until = min(until, p.Work.Steps+p.stepBudget/64) // packing is slow there, for what it takes in steps
	}
	if p.Work.Steps+each > until {
		return batches
	}
	p.Prices.PriceDemands(whole)
	resourceDual := slices.Clone(p.Prices.Dual)
	best, factors := batches, slices.Repeat([]float64{1}, len(p.Market.Demands))
	bestFactors := slices.Clone(factors)
	last, roots := best, 1
	for round, fruitless := 0, 0; round < maxLearningRounds && fruitless < maxFruitlessRounds && p.Work.Steps+each <= until && p.Prices.exceedsGap(best); round++ {
		p.Prices.dualFactor = p.Prices.raiseDualFactors(last, resourceDual, factors, roots)
		factors = p.Prices.dualFactor
		p.Market.refundBatches(best)
		rest := slices.Clone(whole)
		p.Prices.exclusivityPrices, p.Prices.priceAdaptations = [problem.MaxDims]exclusivityPrice{}, 0
		p.Prices.PriceDemands(rest)
		last = p.packGreedily(rest)
		fruitless++
		if leavesNoMore(rest, remaining) && p.Market.adjustedCostOf(last) < p.Market.adjustedCostOf(best) {
			copy(remaining, rest)
			best, bestFactors, fruitless = last, factors, 0
			continue
		}
		p.Market.refundBatches(last)
		p.Market.chargeBatches(best)
		if cost := p.Market.adjustedCostOf(best); p.Market.adjustedCostOf(last) > cost+cost/16 {
			last, factors, roots = best, bestFactors, roots+1
		}
	}
	p.Prices.dualFactor = bestFactors
	p.Prices.PriceDemands(whole)
	return best
}

// raiseDualFactors returns how much more than their resources pods are to be worth, after a packing; the more roots,
// the shorter the step.
func (p *Prices) raiseDualFactors(batches []batch, resourceDual []int64, factors []float64, roots int) []float64 {
	paid, pods := make([]float64, len(factors)), make([]float64, len(factors))
	for _, b := range batches {
		worth := 0.0
		for _, it := range b.items {
			worth += float64(float64(resourceDual[it.Demand]) * factors[it.Demand] * float64(it.Count))
		}
		ratio := float64(b.machine.AdjustedCost) * (1 << problem.DualShift) / worth
		for _, it := range b.items {
			n := float64(it.Count * b.copies)
			paid[it.Demand] += float64(ratio * n)
			pods[it.Demand] += n
		}
	}
	out := slices.Clone(factors)
	for d, n := range pods {
		if n == 0 {
			continue
		}
		step := paid[d] / n
		for range roots {
			step = math.Sqrt(step)
		}
		out[d] = min(max(out[d]*step, 1.0/16), 16)
	}
	return out
}
