// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import "github.com/dovetail-sh/dovetail/internal/solve/problem"

// machinePricing is the pricing of the machines that are to be packed.
func (p *Prices) machinePricing() *resourcePricing {
	if p.resourcePricing != nil {
		return p.resourcePricing
	}
	var sizes []problem.Vec
	var cost []int64
	for _, m := range p.Market.Machines {
		if n := len(sizes) - 1; m.Quantity >= 0 || n >= 0 && cost[n] == m.Price && sizes[n] == m.Available {
			continue // of those of limited quantity there are too few to set prices, and of those alike one is enough
		}
		sizes, cost = append(sizes, m.Available), append(cost, m.Price)
	}
	x := newResourcePricing(sizes, cost, p.In.NumDims)
	for k := range p.In.NumDims {
		x.cheapest[k] = -1
		for _, m := range p.Market.Machines {
			if m.Available[k] > 0 {
				if v := problem.MulDiv(m.Price, 1<<problem.PriceShift, m.Available[k]); x.cheapest[k] < 0 || v < x.cheapest[k] {
					x.cheapest[k] = v
				}
				x.largest[k] = max(x.largest[k], m.Available[k])
			}
		}
	}
	p.resourcePricing = x
	return x
}

// PriceDemands sets the values of resources and pods in a packing: the dual prices, plus a small share of the minimum
// cost of each resource, so that plentiful resources are not free. It returns a lower bound on the cost of the remaining
// pods, in micro-dollars per hour.
func (p *Prices) PriceDemands(remaining []int64) int64 {
	nd := p.In.NumDims
	total := make([]float64, nd)
	for d, n := range remaining {
		for k, v := range p.Market.Demands[d].Class.Req[:nd] {
			total[k] += float64(v) * float64(n)
		}
	}
	for k := range nd {
		total[k] = max(0, total[k]-p.freeCapacity[k])
	}
	p.resourcePrices = p.machinePricing().pricesFor(total)
	var floor problem.Sum128
	for d, n := range remaining {
		for k, v := range p.Market.Demands[d].Class.Req[:nd] {
			floor.AddProduct(p.resourcePrices[k], v*n)
		}
	}
	least := max(floor.Micro(), p.Market.dearestPodPrice(remaining))
	if p.adaptivePrices {
		p.averagePrices(total)
	}
	p.priceExclusivities(remaining)
	for k := range p.In.Dims {
		p.resourcePrices[k] += max(0, p.resourcePricing.cheapest[k]) / 64
	}
	p.priceByResources()
	least = p.raiseByFeasibility(remaining, least)
	for d, v := range p.dualFactor {
		p.Dual[d] = max(1, int64(float64(p.Dual[d])*v))
	}
	for d := range p.Market.Demands {
		p.resourceDual[d], p.biasedDual[d] = p.Dual[d], p.Dual[d]>>biasShift+1
	}
	return least
}

// priceByResources sets duals to the cost of pods' resources, and updates shares of the largest machine if that has
// grown.
func (p *Prices) priceByResources() {
	was := p.largest
	for k := range p.In.NumDims {
		p.largest[k] = max(p.largest[k], p.resourcePricing.largest[k])
	}
	if n := len(p.Market.Demands); p.Dual == nil {
		p.Dual, p.resourceDual, p.biasedDual = make([]int64, n), make([]int64, n), make([]int64, n)
	}
	for d := range p.Market.Demands {
		var v problem.Sum128
		blocks := p.Market.requestBlocks[d*p.Market.blocksEach:]
		for k, q := range p.Market.Demands[d].Class.Req[:p.In.NumDims] {
			v.AddProduct(p.resourcePrices[k], q)
			if p.largest[k] != was[k] && k < len(p.In.Dims) {
				blocks[k/blockSize].share[k%blockSize] = min(problem.MulDiv(q, 1<<shareShift, p.largest[k]), 1<<shareShift)
			}
		}
		p.Dual[d] = max(1, v.Dual())
	}
}

// raiseByFeasibility raises duals to prices by who may go where. It returns what the pods left cost at least by
// those, or least, what is known already. Where such prices say next to nothing more, they are not looked at again.
func (p *Prices) raiseByFeasibility(remaining []int64, least int64) int64 {
	nd := p.In.NumDims
	p.feasibility = &FeasibilityClasses{}
	if !p.uniformPrices {
		p.feasibility = p.Market.FeasibilityClassesOf(remaining)
	}
	if x := p.feasibility; len(x.Classes) > 1 {
		x.SolvePrices(p.freeCapacity[:nd], nil)
		v := x.TotalWorth().Micro()
		p.uniformPrices = v-least <= problem.MulDiv(least, p.In.Policy.MaxGapPPM, 1_000_000)
		if v > least {
			least = v
			for d, at := range x.ClassOf {
				if at < 0 {
					continue
				}
				var v problem.Sum128
				for k := range nd {
					v.AddProduct(x.prices[at][k], p.Market.Demands[d].Class.Req[k])
				}
				p.Dual[d] = max(p.Dual[d], v.Dual())
			}
		}
	}
	return least
}

// averagePrices takes for the price of resources the mean of what it would be were there an eighth more of one or of
// another of them. Of two that are nearly as scarce all of the price falls on one, and patterns would waste the
// other, and then the other way round.
func (p *Prices) averagePrices(total []float64) {
	var sum [problem.MaxDims]int64
	n, nd := int64(0), p.In.NumDims
	for k := range p.In.Dims {
		if total[k] == 0 {
			continue
		}
		was := total[k]
		total[k] += was / 8
		u := p.machinePricing().pricesFor(total)
		total[k] = was
		n++
		for j := range nd {
			sum[j] += u[j]
		}
	}
	for j := range nd {
		if n > 0 {
			p.resourcePrices[j] = sum[j] / n
		}
	}
}

// biasShift takes digits off a dual, so that its product with a share does not overflow.
const biasShift = 8

// dearestPodPrice is the price of the cheapest machine that holds one pod of a demand, for the demand where that is
// most: whatever the plan, it has such a machine. It is 0 for many demands, where one machine matters little.
func (p *Market) dearestPodPrice(remaining []int64) (most int64) {
	if len(remaining) > 64 {
		return 0 // among so many one machine is nothing
	}
	for d, n := range remaining {
		least := int64(-1)
		for _, m := range p.Machines {
			if n > 0 && p.MachineAdmits(m, d) && (least < 0 || m.Price < least) && problem.IsWithin(&p.Demands[d].Class.Req, &m.Available, p.In.NumDims) {
				least = m.Price
			}
		}
		most = max(most, least)
	}
	return most
}

// totalWorth returns the total value of pods. It is only used to decide when to compute prices again.
func (p *Prices) totalWorth(remaining []int64) (sum float64) {
	for d, n := range remaining {
		sum += float64(p.Dual[d]) * float64(n)
	}
	return sum
}

// costAt is what an amount costs at prices w, rounded down, micro-dollars << DualShift.
func costAt(w *[problem.MaxDims]int64, v *problem.Vec, nd int) int64 {
	var sum problem.Sum128
	for k := range nd {
		if v[k] > 0 {
			sum.AddProduct(w[k], v[k])
		}
	}
	return sum.Dual()
}

// exceedsGap reports whether batches are further from the resource-price bound than the policy asks.
func (p *Prices) exceedsGap(batches []batch) bool {
	return totalPrice(batches)-p.lowerBound > problem.MulDiv(p.lowerBound, p.In.Policy.MaxGapPPM, 1_000_000)
}
