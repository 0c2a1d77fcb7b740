// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
)

// placeAndBuy makes one attempt: it places every pod and packs demands once. It returns the demands that found no
// machine, whose pods are unplaced again.
func (s *planner) placeAndBuy() (unbought []*demand) {
	s.purchased, s.resourceBound = make(map[classAssignment]int64, len(s.classes)), 0
	s.demands, s.startedGroups = nil, nil
	waiting := s.placementOrder(s.assumptions.deferrals)
	for {
		s.placeClasses(waiting)
		if !s.startColocatedBins() {
			break
		}
		waiting = slices.DeleteFunc(waiting, func(c *class) bool { return c.unplaced() == 0 || !c.topology.affinity })
	}
	for _, tier := range s.priorityTiers() {
		s.buyTier(tier)
	}
	for i := range s.counters {
		s.counters[i].expected = 0 // what was kept is on bins now
	}
	for _, d := range s.demands {
		if d.unbought > 0 {
			unbought = append(unbought, d)
			d.release(d.unbought)
		}
	}
	return unbought
}

// priorityTiers are the demands that are packed together: all of them, or, once limits have left a pod without a
// machine that one of lower priority got, those of one priority at a time, the highest first. Those that only
// machines limited in number hold come before others, which might take these.
func (s *planner) priorityTiers() (out [][]*demand) {
	if len(s.quantities) == 0 && !s.assumptions.byPriority {
		return [][]*demand{s.demands}
	}
	only := map[*demand]int{}
	for _, d := range s.demands {
		if len(s.quantities) > 0 && !s.someOfferHolds(s.unlimitedOffers(d.offers), &d.class.req) {
			only[d] = -1
		}
	}
	rank := func(d *demand) [2]int {
		if s.assumptions.byPriority {
			return [2]int{-int(d.class.spec.Priority), only[d]}
		}
		return [2]int{0, only[d]}
	}
	byRank := slices.Clone(s.demands)
	slices.SortStableFunc(byRank, func(a, b *demand) int {
		x, y := rank(a), rank(b)
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]))
	})
	for i, d := range byRank {
		if i == 0 || rank(byRank[i-1]) != rank(d) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], d)
	}
	return out
}

// buyTier buys for demands what they would rather have, and, where a preference can't be had, what they may have.
func (s *planner) buyTier(tier []*demand) {
	s.buyLevels(tier)
	retry := false
	for _, d := range tier {
		if d.unbought > 0 && d.permitted != nil {
			d.offers, d.permitted, retry = d.permitted, nil, true
		}
	}
	if retry {
		s.buyLevels(tier)
	}
}

// buyLevels buys for demands level by level. The attempt may assume that pods go onto free capacity of machines
// bought before: from the highest level down, or from the lowest up. Leftovers take any such capacity first.
func (s *planner) buyLevels(tier []*demand) {
	if s.spareCapacity != nil {
		s.placeOnSpareCapacity(tier)
	} else if s.assumptions.reuse == reuseFromLower {
		for first := len(s.levels) - 1; first >= 0; first-- {
			var here []*demand
			for _, d := range tier {
				if s.firstLevelOf(d.offers) == first {
					here = append(here, d)
				}
			}
			s.placeOnSpareCapacity(here)
			s.buyDownFrom(first, here)
		}
		return
	}
	s.buyDownFrom(0, tier)
}

// buyDownFrom buys for demands from one level, and for what is left from those after it.
func (s *planner) buyDownFrom(first int, demands []*demand) {
	for level := first; level < len(s.levels); level++ {
		var here []*demand
		for _, d := range demands {
			if d.unbought > 0 && s.hasOfferIn(d.offers, s.levels[level]) {
				here = append(here, d)
			}
		}
		if s.assumptions.reuse == reuseFromHigher && s.spareCapacity == nil {
			s.placeOnSpareCapacity(here)
		}
		here = slices.DeleteFunc(here, func(d *demand) bool { return d.unbought == 0 })
		if len(here) == 0 {
			continue
		}
		all := countPods(here)
		for _, part := range s.independentDemands(s.levels[level], here) {
			s.packDemands(s.levels[level], part, mulDiv(s.policy.Work, countPods(part), all))
		}
	}
}

// independentDemands splits demands into separate problems: those of different parts share no offer, limit or limited
// quantity.
func (s *purchases) independentDemands(l level, demands []*demand) [][]*demand {
	number := map[int]int{}
	var masks []*offerSet
	at := make([]int, len(demands))
	for i, d := range demands {
		k, ok := number[d.offers.id]
		if !ok {
			k = len(masks)
			number[d.offers.id] = k
			masks = append(masks, d.offers)
		}
		at[i] = k
	}
	if len(masks) < 2 {
		return [][]*demand{demands}
	}
	of, n := s.independentParts(l, masks, true)
	if n < 2 {
		return [][]*demand{demands}
	}
	out := make([][]*demand, n)
	for i, d := range demands {
		out[of[at[i]]] = append(out[of[at[i]]], d)
	}
	return out
}

// packDemands packs demands onto machines of one level, taking so many steps to refine, and counts down
// demand.unbought.
func (s *planner) packDemands(l level, demands []*demand, work int64) {
	groups := groupEquivalentDemands(demands)
	wholes := make([]*demand, len(groups))
	for i, x := range groups {
		wholes[i] = x.combined()
	}
	p := s.newPacking(l, wholes)
	p.stepBudget = work
	batches, remaining := p.planPurchases()
	s.resourceBound += p.lowerBound
	if p.enforceSeparation() {
		together, rest := batches, remaining
		cost := p.adjustedCostOf(together) + p.separationCost(together)
		p.refundBatches(together)
		batches, remaining = p.planPurchases()
		if !leavesNoMore(remaining, rest) || p.adjustedCostOf(batches)+p.separationCost(batches) > cost {
			p.refundBatches(batches)
			p.chargeBatches(together)
			batches, remaining = together, rest
		} else {
			s.separationPremium += max(0, totalPrice(batches)-totalPrice(together))
		}
	}
	x := distribute(groups, remaining)
	for i := range batches {
		b := &batches[i]
		for copies := b.copies; copies > 0; {
			items, n := x.nextShare(b.items, copies)
			s.bins = append(s.bins, s.newBin(b, items, n))
			copies -= n
		}
	}
	s.shareDuals(groups)
}

// countPods is how many pods demands still have to buy for.
func countPods(demands []*demand) (n int64) {
	for _, d := range demands {
		n += d.unbought
	}
	return n
}

// shareDuals gives the classes of equivalent demands the dual that the program over columns found for the first of
// them.
func (s *purchases) shareDuals(groups []equivalentDemands) {
	if s.columnDuals == nil {
		return
	}
	for _, x := range groups {
		worth, ok := s.columnDuals[x[0].class.id]
		for _, d := range x[1:] {
			if was, had := s.columnDuals[d.class.id]; ok && (!had || worth < was) {
				s.columnDuals[d.class.id] = worth
			}
		}
	}
}

// planPurchases packs the demands: greedily, then with learned duals and by columns where the gap is wide. It returns
// what to buy, charged to limits, and by demand how many pods are left.
func (p *packing) planPurchases() (batches []batch, remaining []int64) {
	remaining = make([]int64, len(p.demands))
	for i, d := range p.demands {
		remaining[i] = d.unbought
	}
	p.exclusivityPrices, p.priceAdaptations = [maxDims]exclusivityPrice{}, 0
	p.lowerBound = p.priceDemands(remaining)
	if p.enableAdaptivePrices() {
		p.priceDemands(remaining)
	}
	p.thinMachines(remaining)
	whole := slices.Clone(remaining)
	before := p.s.steps
	batches = p.packGreedily(remaining)
	if p.s.runs(stageLearnedDuals) && p.s.steps < p.s.stepLimit && p.exceedsGap(batches) {
		batches = p.learnDuals(whole, remaining, batches, p.s.steps-before)
	}
	if p.s.runs(stageColumns) && p.s.steps < p.s.stepLimit && len(remaining) <= maxMasterRows && p.exceedsGap(batches) {
		batches = p.refineByColumns(whole, remaining, batches)
	}
	return batches, remaining
}

// enforceSeparation has patterns keep the preferences of pods for separation from now on, and says whether there are
// any.
func (p *packing) enforceSeparation() bool {
	for d, x := range p.demands {
		if x.class.separation.most > 0 && x.unbought > x.class.separation.most {
			p.separated, p.restricted[d] = true, true
		}
	}
	return p.separated
}

// separationCost is what batches cost beside their adjusted cost: what the preference is worth of pods that would
// rather be separate and are not.
func (p *pricedPacking) separationCost(batches []batch) (sum int64) {
	for _, b := range batches {
		for _, it := range b.items {
			if a := p.demands[it.demand].class.separation; a.most > 0 && it.count > a.most {
				unit := p.resourceDual[it.demand] >> dualShift
				sum += (p.s.addPreferenceCost(unit, a.weight) - unit) * (it.count - a.most) * b.copies
			}
		}
	}
	return sum
}

// exceedsGap says whether batches are further from the resource-price bound than the policy asks.
func (p *pricedPacking) exceedsGap(batches []batch) bool {
	return totalPrice(batches)-p.lowerBound > mulDiv(p.lowerBound, p.s.policy.MaxGapPPM, 1_000_000)
}

// totalPrice is the price of batches, micro-dollars an hour.
func totalPrice(batches []batch) (sum int64) {
	for _, b := range batches {
		sum += b.machine.price * b.copies
	}
	return sum
}

// leavesNoMore says whether a, pods left by demand, has none that b has not.
func leavesNoMore(a, b []int64) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// maxBoundRows is how many demands the bound by columns takes on; with more of them patterns are so full that
// resource prices prove as much.
const maxBoundRows = 200

// refineByColumns generates columns and returns the cheapest of the plan given and those made of columns. whole is
// all pods by demand; remaining is what the plan given leaves, and then what is left by the one returned.
func (p *packing) refineByColumns(whole, remaining []int64, batches []batch) []batch {
	s := p.s
	fixed := slices.DeleteFunc(slices.Clone(batches), func(b batch) bool { return b.machine.quantity < 0 })
	batches = slices.DeleteFunc(batches, func(b batch) bool { return b.machine.quantity >= 0 })
	for _, b := range fixed { // greedy has taken what there is of limited quantity
		for _, it := range b.items {
			whole[it.demand] -= it.count * b.copies
		}
	}
	t := newMaster(p, whole)
	if len(t.rows) == 0 {
		return fixed
	}
	for _, b := range batches {
		t.tryColumn(column{machine: slices.Index(p.machines, b.machine), items: b.items})
	}
	t.recallColumns(s.previousColumns)
	s.tier = 2
	until := min(s.steps+p.stepBudget*3/4, s.stepLimit)
	share := p.stepBudget / 2
	if len(t.rows) > maxBoundRows {
		share /= 2 // greedy is near already, and each round costs more
	}
	s.truncated = !t.generateColumns(min(s.steps+share, s.stepLimit))
	t.rememberColumns(&s.nextColumns)
	p.refundBatches(batches)
	ways := []func([]int64) []batch{t.roundAndPack}
	if s.runs(stageDive) {
		ways = append(ways, func(rest []int64) []batch { return t.clone().dive(rest, until) })
	}
	for _, way := range ways {
		rest := slices.Clone(whole)
		other := way(rest)
		p.refundBatches(other)
		if leavesNoMore(rest, remaining) && p.adjustedCostOf(other) < p.adjustedCostOf(batches) {
			copy(remaining, rest)
			batches = other
		}
	}
	p.chargeBatches(batches)
	if s.runs(stageRuin) {
		batches = p.ruinAndRecreate(batches, until)
	}
	if s.runs(stageProofDuals) && len(t.rows) <= maxBoundRows && p.exceedsGap(batches) {
		t.findProofDuals(totalPrice(batches), min(s.steps+p.stepBudget/2, s.stepLimit))
	}
	return append(fixed, batches...)
}
