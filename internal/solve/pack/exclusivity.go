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
				if m.Quantity < 0 && (least < 0 || m.Price < least) && p.Market.MachineAdmits(m, d) && problem.FitsIn(req, &m.Available, p.In.NumDims) {
					least = m.Price
				}
			}
		}
		p.exclusivityPrices[k].most = max(0, min(least, 1<<60>>problem.PriceShift))
		p.resourcePrices[k] += p.exclusivityPrices[k].current() << problem.PriceShift
	}
}

// exclusivityPrice is what a place for one of a mutual anti-affinity group costs beside what resource prices say.
type exclusivityPrice struct {
	most int64 // the price of the cheapest machine that holds one
	part int64 // of it, in parts of exclusivityPriceParts; 0 stands for all
	pods int64 // of the group that are left
	rest int64 // what all pods left are worth, exclusivity prices left out
	// Since the part was last changed:
	machines int64
	held     int64 // what they hold is worth, exclusivity prices left out
	share    int64 // and what was left then for each pod of the group
}

// exclusivityPriceParts is what the price of a machine is divided into, exclusivityPriceWindow after how many
// machines bought an exclusivity price is looked at.
const (
	exclusivityPriceParts  = 1 << 10
	exclusivityPriceWindow = 8
)

// current is the price of a place, micro-dollars an hour.
func (f *exclusivityPrice) current() int64 {
	if f.part == 0 {
		return f.most
	}
	return problem.MulDiv(f.most, f.part, exclusivityPriceParts)
}

// enableAdaptivePrices has exclusivity prices adapted while machines are bought, and says whether: where there are
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
