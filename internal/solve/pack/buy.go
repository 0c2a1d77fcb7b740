// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/lp"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// placeAndBuy makes one attempt: it places every pod and packs demands once. It returns the demands that found no
// machine, whose pods are unplaced again.
func (s *Planner) placeAndBuy() (unbought []*Demand) {
	s.Placement.purchased, s.Placement.resourceBound = make(map[topology.ClassAssignment]int64, len(s.Inst.Classes)), 0
	s.Placement.Demands, s.Placement.StartedGroups = nil, nil
	waiting := s.Inst.PlacementOrder(s.Purchases.Assumptions.deferrals)
	if early := s.Purchases.Assumptions.Early; len(early) > 0 {
		slices.SortStableFunc(waiting, func(a, b *problem.Class) int {
			switch first := slices.Contains(early, a.ID); {
			case first == slices.Contains(early, b.ID):
				return 0
			case first:
				return -1
			}
			return 1
		})
	}
	for {
		s.Placement.PlaceClasses(waiting)
		if !s.colocation.startColocatedBins() {
			break
		}
		waiting = slices.DeleteFunc(waiting, func(c *problem.Class) bool { return c.Unplaced() == 0 || !c.Topology.Affinity })
	}
	for _, tier := range s.priorityTiers() {
		s.buyTier(tier)
	}
	for i := range s.Topo.Counters {
		s.Topo.Counters[i].Expected = 0 // what was kept is on bins now
	}
	for _, d := range s.Placement.Demands {
		if d.Unbought > 0 {
			unbought = append(unbought, d)
			d.releaseUnbought(s.Usage)
		}
	}
	return unbought
}

// priorityTiers are the demands that are packed together: all of them, or, once limits have left a pod without a
// machine that one of lower priority got, those of one priority at a time, the highest first. Those that only
// machines limited in number hold come before others, which might take these.
func (s *Planner) priorityTiers() (out [][]*Demand) {
	if len(s.Purchases.Quantities) == 0 && !s.Purchases.Assumptions.byPriority {
		return [][]*Demand{s.Placement.Demands}
	}
	only := map[*Demand]int{}
	for _, d := range s.Placement.Demands {
		if len(s.Purchases.Quantities) > 0 && !s.Catalog.SomeOfferHolds(s.Catalog.UnlimitedOffers(d.Offers), &d.Class.Req) {
			only[d] = -1
		}
	}
	rank := func(d *Demand) [2]int {
		if s.Purchases.Assumptions.byPriority {
			return [2]int{-int(d.Class.Spec.Priority), only[d]}
		}
		return [2]int{0, only[d]}
	}
	byRank := slices.Clone(s.Placement.Demands)
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

// buyTier launches machines for demands by their preferences, and without a preference where it cannot be satisfied.
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
	if s.Placement.spareCapacity != nil {
		s.Placement.placeOnSpareCapacity(tier)
	} else if s.Purchases.Assumptions.Reuse == ReuseFromLower {
		for first := len(s.Catalog.Levels) - 1; first >= 0; first-- {
			var here []*Demand
			for _, d := range tier {
				if s.Catalog.FirstLevelOf(d.Offers) == first {
					here = append(here, d)
				}
			}
			s.Placement.placeOnSpareCapacity(here)
			s.buyDownFrom(first, here)
		}
		return
	}
	s.buyDownFrom(0, tier)
}

// buyDownFrom launches machines for demands from one level, and for the rest from later levels.
func (s *Planner) buyDownFrom(first int, demands []*Demand) {
	for level := first; level < len(s.Catalog.Levels); level++ {
		var here []*Demand
		for _, d := range demands {
			if d.Unbought > 0 && s.Catalog.HasOfferIn(d.Offers, level) {
				here = append(here, d)
			}
		}
		if s.Purchases.Assumptions.Reuse == ReuseFromHigher && s.Placement.spareCapacity == nil {
			s.Placement.placeOnSpareCapacity(here)
		}
		here = slices.DeleteFunc(here, func(d *Demand) bool { return d.Unbought == 0 })
		if len(here) == 0 {
			continue
		}
		all := countPods(here)
		for _, part := range s.Purchases.independentDemands(s.Catalog.Levels[level], here) {
			s.packDemands(s.Catalog.Levels[level], part, problem.MulDiv(s.In.Policy.Work, countPods(part), all))
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
	of, n := s.Catalog.IndependentParts(l, masks, true)
	if n < 2 {
		return [][]*Demand{demands}
	}
	out := make([][]*Demand, n)
	for i, d := range demands {
		out[of[at[i]]] = append(out[of[at[i]]], d)
	}
	return out
}

// packDemands packs demands onto machines of one level with the given number of refinement steps, and decreases
// demand.Unbought.
func (s *Planner) packDemands(l problem.Level, demands []*Demand, work int64) {
	groups := groupEquivalentDemands(demands)
	wholes := make([]*Demand, len(groups))
	for i, x := range groups {
		wholes[i] = x.combined()
	}
	p := s.Purchases.NewPacking(l, wholes)
	p.stepBudget = work
	batches, remaining := p.planPurchases()
	s.Placement.resourceBound += p.Prices.lowerBound
	if p.enforceSeparation() {
		together, rest := batches, remaining
		cost := p.Market.adjustedCostOf(together) + p.Prices.separationCost(together)
		p.Market.refundBatches(together)
		batches, remaining = p.planPurchases()
		if !leavesNoMore(remaining, rest) || p.Market.adjustedCostOf(batches)+p.Prices.separationCost(batches) > cost {
			p.Market.refundBatches(batches)
			p.Market.chargeBatches(together)
			batches, remaining = together, rest
		} else {
			s.Placement.SeparationPremium += max(0, totalPrice(batches)-totalPrice(together))
		}
	}
	batches = p.Market.moveToCheapestHolders(batches)
	x := distribute(groups, remaining)
	for i := range batches {
		b := &batches[i]
		for copies := b.copies; copies > 0; {
			items, n := x.nextShare(b.items, copies)
			s.Placement.Bins = append(s.Placement.Bins, s.Purchases.newBin(b, items, n))
			copies -= n
		}
	}
	s.Purchases.shareDuals(groups)
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

// planPurchases packs the demands: greedily, then with learned duals and by columns if the gap is wide. It returns the
// machines to launch, charged to limits, and the remaining pods by demand.
func (p *Packing) planPurchases() (batches []batch, remaining []int64) {
	remaining = make([]int64, len(p.Market.Demands))
	for i, d := range p.Market.Demands {
		remaining[i] = d.Unbought
	}
	p.Prices.exclusivityPrices, p.Prices.priceAdaptations = [problem.MaxDims]exclusivityPrice{}, 0
	p.Prices.lowerBound = p.Prices.PriceDemands(remaining)
	if p.Prices.enableAdaptivePrices() {
		p.Prices.PriceDemands(remaining)
	}
	p.Prices.thinMachines(remaining)
	whole := slices.Clone(remaining)
	before := p.Work.Steps
	batches = p.packGreedily(remaining)
	if p.In.Runs(stageLearnedDuals) && p.Work.Steps < p.Work.StepLimit && p.Prices.exceedsGap(batches) {
		batches = p.learnDuals(whole, remaining, batches, p.Work.Steps-before)
	}
	if p.In.Runs(stageColumns) && p.Work.Steps < p.Work.StepLimit && len(remaining) <= maxMasterRows && p.Prices.exceedsGap(batches) {
		batches = p.refineByColumns(whole, remaining, batches)
	}
	return batches, remaining
}

// enforceSeparation has patterns keep the preferences of pods for separation from now on, and reports whether there are
// any.
func (p *Packing) enforceSeparation() bool {
	for d, x := range p.Market.Demands {
		if x.Class.Separation.Most > 0 && x.Unbought > x.Class.Separation.Most {
			p.separated, p.Market.Restricted[d] = true, true
		}
	}
	return p.separated
}

// separationCost returns the cost of batches in addition to their adjusted cost: the value of unmet preferences for
// separation.
func (p *Prices) separationCost(batches []batch) (sum int64) {
	for _, b := range batches {
		for _, it := range b.items {
			if a := p.Market.Demands[it.Demand].Class.Separation; a.Most > 0 && it.Count > a.Most {
				unit := p.resourceDual[it.Demand] >> problem.DualShift
				sum += (p.In.AddPreferenceCost(unit, a.Weight) - unit) * (it.Count - a.Most) * b.copies
			}
		}
	}
	return sum
}

// MaxBoundRows is the maximum number of demands in the bound by columns. With more demands, patterns are so full that
// resource prices give an equally good bound.
const MaxBoundRows = 200

// refineByColumns generates columns and returns the cheapest of the given plan and plans made of columns. whole is the
// number of pods by demand; remaining is what the given plan leaves, and on return what the returned one leaves.
func (p *Packing) refineByColumns(whole, remaining []int64, batches []batch) []batch {
	s := p.Market.Purchases
	fixed := slices.DeleteFunc(slices.Clone(batches), func(b batch) bool { return b.machine.Quantity < 0 })
	batches = slices.DeleteFunc(batches, func(b batch) bool { return b.machine.Quantity >= 0 })
	for _, b := range fixed { // greedy has taken what there is of limited quantity
		for _, it := range b.items {
			whole[it.Demand] -= it.Count * b.copies
		}
	}
	t := NewMaster(p, whole)
	if len(t.Program.Rows) == 0 {
		return fixed
	}
	for _, b := range batches {
		t.Program.TryColumn(lp.Column{Machine: slices.Index(p.Market.Machines, b.machine), Items: b.items})
	}
	t.recallColumns(s.previousColumns)
	s.Tier = 2
	until := min(s.Work.Steps+p.stepBudget*3/4, s.Work.StepLimit)
	share := p.stepBudget / 2
	if len(t.Program.Rows) > MaxBoundRows {
		share /= 2 // greedy is near already, and each round costs more
	}
	s.Work.Truncated = !t.GenerateColumns(min(s.Work.Steps+share, s.Work.StepLimit))
	t.rememberColumns(&s.NextColumns)
	p.Market.refundBatches(batches)
	ways := []func([]int64) []batch{t.roundAndPack}
	if s.In.Runs(stageEnumeration) {
		ways = append(ways, p.packExactly)
	}
	if s.In.Runs(stageDive) {
		ways = append(ways, func(rest []int64) []batch { return t.clone().dive(rest, until) })
	}
	for _, way := range ways {
		rest := slices.Clone(whole)
		other := way(rest)
		p.Market.refundBatches(other)
		if leavesNoMore(rest, remaining) && p.Market.adjustedCostOf(other) < p.Market.adjustedCostOf(batches) {
			copy(remaining, rest)
			batches = other
		}
	}
	p.Market.chargeBatches(batches)
	if s.In.Runs(stageRuin) {
		batches = p.ruinAndRecreate(batches, until)
	}
	if s.In.Runs(stageProofDuals) && len(t.Program.Rows) <= MaxBoundRows && p.Prices.exceedsGap(batches) {
		t.findProofDuals(totalPrice(batches), min(s.Work.Steps+p.stepBudget/2, s.Work.StepLimit))
	}
	return append(fixed, batches...)
}
