// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// placeAndBuy makes one attempt: it places every pod and packs demands once. It returns the demands that found no
// machine, whose pods are unplaced again.
func (s *Planner) placeAndBuy() (unbought []*Demand) {
	s.purchased, s.resourceBound = make(map[topology.ClassAssignment]int64, len(s.Classes)), 0
	s.Demands, s.StartedGroups = nil, nil
	waiting := s.PlacementOrder(s.Assumptions.deferrals)
	for {
		s.PlaceClasses(waiting)
		if !s.startColocatedBins() {
			break
		}
		waiting = slices.DeleteFunc(waiting, func(c *problem.Class) bool { return c.Unplaced() == 0 || !c.Topology.Affinity })
	}
	for _, tier := range s.priorityTiers() {
		s.buyTier(tier)
	}
	for i := range s.Counters {
		s.Counters[i].Expected = 0 // what was kept is on bins now
	}
	for _, d := range s.Demands {
		if d.Unbought > 0 {
			unbought = append(unbought, d)
			d.release(d.Unbought)
		}
	}
	return unbought
}

// priorityTiers are the demands that are packed together: all of them, or, once limits have left a pod without a
// machine that one of lower priority got, those of one priority at a time, the highest first. Those that only
// machines limited in number hold come before others, which might take these.
func (s *Planner) priorityTiers() (out [][]*Demand) {
	if len(s.Quantities) == 0 && !s.Assumptions.byPriority {
		return [][]*Demand{s.Demands}
	}
	only := map[*Demand]int{}
	for _, d := range s.Demands {
		if len(s.Quantities) > 0 && !s.SomeOfferHolds(s.UnlimitedOffers(d.Offers), &d.Class.Req) {
			only[d] = -1
		}
	}
	rank := func(d *Demand) [2]int {
		if s.Assumptions.byPriority {
			return [2]int{-int(d.Class.Spec.Priority), only[d]}
		}
		return [2]int{0, only[d]}
	}
	byRank := slices.Clone(s.Demands)
	slices.SortStableFunc(byRank, func(a, b *Demand) int {
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
func (s *Planner) buyTier(tier []*Demand) {
	s.buyLevels(tier)
	retry := false
	for _, d := range tier {
		if d.Unbought > 0 && d.permitted != nil {
			d.Offers, d.permitted, retry = d.permitted, nil, true
		}
	}
	if retry {
		s.buyLevels(tier)
	}
}

// buyLevels buys for demands level by level. The attempt may assume that pods go onto free capacity of machines
// bought before: from the highest level down, or from the lowest up. Leftovers take any such capacity first.
func (s *Planner) buyLevels(tier []*Demand) {
	if s.spareCapacity != nil {
		s.placeOnSpareCapacity(tier)
	} else if s.Assumptions.Reuse == ReuseFromLower {
		for first := len(s.Levels) - 1; first >= 0; first-- {
			var here []*Demand
			for _, d := range tier {
				if s.FirstLevelOf(d.Offers) == first {
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
func (s *Planner) buyDownFrom(first int, demands []*Demand) {
	for level := first; level < len(s.Levels); level++ {
		var here []*Demand
		for _, d := range demands {
			if d.Unbought > 0 && s.HasOfferIn(d.Offers, s.Levels[level]) {
				here = append(here, d)
			}
		}
		if s.Assumptions.Reuse == ReuseFromHigher && s.spareCapacity == nil {
			s.placeOnSpareCapacity(here)
		}
		here = slices.DeleteFunc(here, func(d *Demand) bool { return d.Unbought == 0 })
		if len(here) == 0 {
			continue
		}
		all := countPods(here)
		for _, part := range s.independentDemands(s.Levels[level], here) {
			s.packDemands(s.Levels[level], part, problem.MulDiv(s.Policy.Work, countPods(part), all))
		}
	}
}

// independentDemands splits demands into separate problems: those of different parts share no offer, limit or limited
// quantity.
func (s *Purchases) independentDemands(l problem.Level, demands []*Demand) [][]*Demand {
	number := map[int]int{}
	var masks []*problem.OfferSet
	at := make([]int, len(demands))
	for i, d := range demands {
		k, ok := number[d.Offers.ID]
		if !ok {
			k = len(masks)
			number[d.Offers.ID] = k
			masks = append(masks, d.Offers)
		}
		at[i] = k
	}
	if len(masks) < 2 {
		return [][]*Demand{demands}
	}
	of, n := s.IndependentParts(l, masks, true)
	if n < 2 {
		return [][]*Demand{demands}
	}
	out := make([][]*Demand, n)
	for i, d := range demands {
		out[of[at[i]]] = append(out[of[at[i]]], d)
	}
	return out
}

// packDemands packs demands onto machines of one level, taking so many steps to refine, and counts down
// demand.unbought.
func (s *Planner) packDemands(l problem.Level, demands []*Demand, work int64) {
	groups := groupEquivalentDemands(demands)
	wholes := make([]*Demand, len(groups))
	for i, x := range groups {
		wholes[i] = x.combined()
	}
	p := s.NewPacking(l, wholes)
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
			s.SeparationPremium += max(0, totalPrice(batches)-totalPrice(together))
		}
	}
	x := distribute(groups, remaining)
	for i := range batches {
		b := &batches[i]
		for copies := b.copies; copies > 0; {
			items, n := x.nextShare(b.items, copies)
			s.Bins = append(s.Bins, s.newBin(b, items, n))
			copies -= n
		}
	}
	s.shareDuals(groups)
}

// countPods is how many pods demands still have to buy for.
func countPods(demands []*Demand) (n int64) {
	for _, d := range demands {
		n += d.Unbought
	}
	return n
}

// shareDuals gives the classes of equivalent demands the dual that the program over columns found for the first of
// them.
func (s *Purchases) shareDuals(groups []equivalentDemands) {
	if s.ColumnDuals == nil {
		return
	}
	for _, x := range groups {
		worth, ok := s.ColumnDuals[x[0].Class.ID]
		for _, d := range x[1:] {
			if was, had := s.ColumnDuals[d.Class.ID]; ok && (!had || worth < was) {
				s.ColumnDuals[d.Class.ID] = worth
			}
		}
	}
}

// planPurchases packs the demands: greedily, then with learned duals and by columns where the gap is wide. It returns
// what to buy, charged to limits, and by demand how many pods are left.
func (p *Packing) planPurchases() (batches []batch, remaining []int64) {
	remaining = make([]int64, len(p.Demands))
	for i, d := range p.Demands {
		remaining[i] = d.Unbought
	}
	p.exclusivityPrices, p.priceAdaptations = [problem.MaxDims]exclusivityPrice{}, 0
	p.lowerBound = p.PriceDemands(remaining)
	if p.enableAdaptivePrices() {
		p.PriceDemands(remaining)
	}
	p.thinMachines(remaining)
	whole := slices.Clone(remaining)
	before := p.S.Steps
	batches = p.packGreedily(remaining)
	if p.S.Runs(stageLearnedDuals) && p.S.Steps < p.S.StepLimit && p.exceedsGap(batches) {
		batches = p.learnDuals(whole, remaining, batches, p.S.Steps-before)
	}
	if p.S.Runs(stageColumns) && p.S.Steps < p.S.StepLimit && len(remaining) <= maxMasterRows && p.exceedsGap(batches) {
		batches = p.refineByColumns(whole, remaining, batches)
	}
	return batches, remaining
}

// enforceSeparation has patterns keep the preferences of pods for separation from now on, and says whether there are
// any.
func (p *Packing) enforceSeparation() bool {
	for d, x := range p.Demands {
		if x.Class.Separation.Most > 0 && x.Unbought > x.Class.Separation.Most {
			p.separated, p.Restricted[d] = true, true
		}
	}
	return p.separated
}

// separationCost is what batches cost beside their adjusted cost: what the preference is worth of pods that would
// rather be separate and are not.
func (p *PricedPacking) separationCost(batches []batch) (sum int64) {
	for _, b := range batches {
		for _, it := range b.items {
			if a := p.Demands[it.Demand].Class.Separation; a.Most > 0 && it.Count > a.Most {
				unit := p.resourceDual[it.Demand] >> problem.DualShift
				sum += (p.S.AddPreferenceCost(unit, a.Weight) - unit) * (it.Count - a.Most) * b.copies
			}
		}
	}
	return sum
}

// exceedsGap says whether batches are further from the resource-price bound than the policy asks.
func (p *PricedPacking) exceedsGap(batches []batch) bool {
	return totalPrice(batches)-p.lowerBound > problem.MulDiv(p.lowerBound, p.S.Policy.MaxGapPPM, 1_000_000)
}

// totalPrice is the price of batches, micro-dollars an hour.
func totalPrice(batches []batch) (sum int64) {
	for _, b := range batches {
		sum += b.machine.Price * b.copies
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

// MaxBoundRows is how many demands the bound by columns takes on; with more of them patterns are so full that
// resource prices prove as much.
const MaxBoundRows = 200

// refineByColumns generates columns and returns the cheapest of the plan given and those made of columns. whole is
// all pods by demand; remaining is what the plan given leaves, and then what is left by the one returned.
func (p *Packing) refineByColumns(whole, remaining []int64, batches []batch) []batch {
	s := p.S
	fixed := slices.DeleteFunc(slices.Clone(batches), func(b batch) bool { return b.machine.Quantity < 0 })
	batches = slices.DeleteFunc(batches, func(b batch) bool { return b.machine.Quantity >= 0 })
	for _, b := range fixed { // greedy has taken what there is of limited quantity
		for _, it := range b.items {
			whole[it.Demand] -= it.Count * b.copies
		}
	}
	t := NewMaster(p, whole)
	if len(t.Rows) == 0 {
		return fixed
	}
	for _, b := range batches {
		t.TryColumn(Column{Machine: slices.Index(p.Machines, b.machine), Items: b.items})
	}
	t.recallColumns(s.previousColumns)
	s.Tier = 2
	until := min(s.Steps+p.stepBudget*3/4, s.StepLimit)
	share := p.stepBudget / 2
	if len(t.Rows) > MaxBoundRows {
		share /= 2 // greedy is near already, and each round costs more
	}
	s.Truncated = !t.GenerateColumns(min(s.Steps+share, s.StepLimit))
	t.rememberColumns(&s.NextColumns)
	p.refundBatches(batches)
	ways := []func([]int64) []batch{t.roundAndPack}
	if s.Runs(stageDive) {
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
	if s.Runs(stageRuin) {
		batches = p.ruinAndRecreate(batches, until)
	}
	if s.Runs(stageProofDuals) && len(t.Rows) <= MaxBoundRows && p.exceedsGap(batches) {
		t.findProofDuals(totalPrice(batches), min(s.Steps+p.stepBudget/2, s.StepLimit))
	}
	return append(fixed, batches...)
}
