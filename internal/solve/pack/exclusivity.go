// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// priceExclusivities raises the price of a place for one of a mutual anti-affinity group where there are fewer places
// than pods, by up to the price of the cheapest machine that holds one: a pod that is left over needs that machine to
// itself. Resource prices alone think that such a machine can be as small as the pod, and would have large machines
// filled with what the others need beside their one pod.
func (p *Prices) priceExclusivities(remaining []int64) {
	for k := len(p.In.Dims); k < p.In.NumDims; k++ {
		p.exclusivityPrices[k].most = 0
		if p.resourcePrices[k] == 0 {
			continue
		}
		least := int64(-1)
		for _, d := range p.Market.exclusivityDemandsOf(k) {
			req := &p.Market.Demands[d].Class.Req
			if remaining[d] == 0 {
				continue
			}
			for _, m := range p.Market.Machines {
				if m.Quantity < 0 && (least < 0 || m.Price < least) && p.Market.MachineAdmits(m, d) && problem.IsWithin(req, &m.Available, p.In.NumDims) {
					least = m.Price
				}
			}
		}
		p.exclusivityPrices[k].most = max(0, min(least, 1<<60>>problem.PriceShift))
		p.resourcePrices[k] += p.exclusivityPrices[k].current() << problem.PriceShift
	}
}

// enableAdaptivePrices has exclusivity prices adapted while machines are bought, and reports whether: where there are
// fewer places for some mutual anti-affinity group than pods, and so many demands that patterns are chosen from a
// sample of them and column generation takes them no more. Then one packing is most of the work, and it has machines
// enough for prices to be found on the way.
func (p *Prices) enableAdaptivePrices() bool {
	p.adaptivePrices = p.In.Runs(stageAdaptivePrices) && len(p.Market.Demands) > maxMasterRows && slices.ContainsFunc(p.exclusivityPrices[:], func(x exclusivityPrice) bool { return x.most > 0 })
	return p.adaptivePrices
}

// maxPriceAdaptations is how often exclusivity prices may have been adapted in a packing for another one to be
// worthwhile: after more it would win little but luck.
const maxPriceAdaptations = 100

// exclusivityDual is the part of a pod's dual that is for exclusivity prices.
func (p *Prices) exclusivityDual(d int) (sum int64) {
	for k := len(p.In.Dims); k < p.In.NumDims; k++ {
		if x := &p.exclusivityPrices[k]; x.most > 0 {
			sum += p.Market.Demands[d].Class.Req[k] * x.current() << problem.DualShift
		}
	}
	return sum
}

// countRemaining counts the pods left of each mutual anti-affinity group, and what all pods left are worth.
func (p *Prices) countRemaining(remaining []int64) {
	rest := int64(0)
	for d, n := range remaining {
		rest += n * p.Dual[d]
	}
	for k := len(p.In.Dims); k < p.In.NumDims; k++ {
		x := &p.exclusivityPrices[k]
		x.pods = 0
		for _, d := range p.Market.exclusivityDemandsOf(k) {
			x.pods += remaining[d] * p.Market.Demands[d].Class.Req[k]
		}
		if x.most > 0 {
			rest -= x.pods * x.current() << problem.DualShift
		}
	}
	for k := len(p.In.Dims); k < p.In.NumDims; k++ {
		p.exclusivityPrices[k].rest = rest
	}
}

// exclusivityDemandsOf are the demands of the mutual anti-affinity group that is resource k.
func (p *Market) exclusivityDemandsOf(k int) []int {
	if p.exclusivityDemands == nil {
		p.exclusivityDemands = make([][]int, p.In.NumDims-len(p.In.Dims))
		for d := range p.Demands {
			for i, v := range p.Demands[d].Class.Req[len(p.In.Dims):p.In.NumDims] {
				if v > 0 {
					p.exclusivityDemands[i] = append(p.exclusivityDemands[i], d)
				}
			}
		}
	}
	return p.exclusivityDemands[k-len(p.In.Dims)]
}
