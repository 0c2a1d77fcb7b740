// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// maxRestarts bounds how often domains in which nothing can be bought are taken out one by one; after that they go all at once.
const maxRestarts = 32

// Solve answers every pod of the demand: on a node, on a machine to buy, or refused with reasons.
func Solve(p *Problem, mem Memory, pol Policy) (Result, Memory) {
	s := solveWithAlternatives(p, mem, pol)
	res := s.buildResult()
	if len(s.nextColumns.columns) > 0 {
		mem.columns = &s.nextColumns
	}
	mem.nodes, mem.nodesInOrder = p.Rooms, s.nodes.list
	return res, mem
}

// solveAssuming places and buys for every pod, in one of the ways that may be tried.
func solveAssuming(p *Problem, mem Memory, pol Policy, g assumptions) *solver {
	s := compileProblem(p, mem, pol)
	s.assumptions = g
	s.offerAssignmentCache, s.assignmentIDs, s.purchaseCaps = map[offerAssignmentKey][]topologyAssignment{}, map[string]int{}, map[classAssignment]int64{}
	s.previousColumns, s.bannedPools = mem.columns, map[[2]int]bool{}
	s.stepLimit = 2 * pol.Work // however often it is begun anew
	s.saveInitialState()
	for try := 0; ; try++ {
		short := s.placeAndBuy()
		again := s.respectPriorities(short) || s.raiseLimitPrices(short) || s.lowerPurchaseCaps(short, try >= maxRestarts || s.outOfSteps())
		if !again {
			s.placeColocated()
			again = s.banPoolsWithoutChoice() || s.expectNewDomains(s.bins, false) || s.deferCrowdedClasses() || s.dropEmptyDomains()
		}
		if !again {
			break
		}
		s.resetToInitialState()
	}
	s.consolidateBins()
	s.placeLeftovers()
	s.mergeEqualBins()
	return s
}

// firstPlanSteps is how many steps, beside those allowed for refining, a first plan may take before it is made do with.
const firstPlanSteps = 400_000_000

// outOfSteps says whether that is so.
func (s *solver) outOfSteps() bool {
	if s.steps > s.stepLimit+firstPlanSteps {
		s.truncated = true
		return true
	}
	return false
}

// initialState is the state an attempt begins from.
type initialState struct {
	free         []int64
	limits       []poolLimits
	volumesInUse map[string]bool

	quantities []int64
}

func (s *solver) saveInitialState() {
	s.initial = initialState{free: slices.Clone(s.nodes.free), volumesInUse: map[string]bool{}, quantities: slices.Clone(s.quantities)}
	for k := range s.volumesInUse {
		s.initial.volumesInUse[k] = true
	}
	for i := range s.limits {
		l := s.limits[i]
		l.amounts = l.amounts.Clone()
		s.initial.limits = append(s.initial.limits, l)
	}
}

// resetToInitialState takes back everything placed.
func (s *solver) resetToInitialState() {
	copy(s.nodes.free, s.initial.free)
	copy(s.quantities, s.initial.quantities)
	clear(s.nodes.daemonsCharged)
	clear(s.nodes.occupancies)
	for i := range s.limits {
		s.limits[i].nodes = s.initial.limits[i].nodes
		copy(s.limits[i].amounts, s.initial.limits[i].amounts)
	}
	if s.volumesInUse != nil {
		clear(s.volumesInUse)
		for k := range s.initial.volumesInUse {
			s.volumesInUse[k] = true
		}
	}
	for i := range s.counters {
		c := &s.counters[i]
		clear(c.counts)
		copy(c.counts, c.initialCounts)
		c.total, c.uncertain = c.initialTotal, c.initialUncertain
		c.version++
	}
	for _, c := range s.classes {
		c.assigned = 0
		for i := range c.topology.domainRules {
			clear(c.topology.domainRules[i].ownPods)
		}
	}
	s.separationPremium = 0
	s.placed, s.bins, s.demands, s.nextColumns.columns = s.placed[:0], nil, nil, nil
}

// placeAndBuy places and packs everything once, and returns the demands that found no machine.
func (s *solver) placeAndBuy() (short []*demand) {
	s.purchased, s.resourceBound = make(map[classAssignment]int64, len(s.classes)), 0
	s.demands, s.groupStarts = nil, nil
	waiting := s.placementOrder()
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
			short = append(short, d)
			d.release(d.unbought)
		}
	}
	return short
}

// buyTier buys for demands what they would rather have, and, where a preference can't be had, what they may.
func (s *solver) buyTier(tier []*demand) {
	s.buyLevels(tier)
	again := false
	for _, d := range tier {
		if d.unbought > 0 && d.permitted != nil {
			d.offers, d.permitted, again = d.permitted, nil, true
		}
	}
	if again {
		s.buyLevels(tier)
	}
}

// buyLevels buys for demands level by level. A assumption may have pods go into room left on machines bought before: from the highest weight
// down, or from the lowest up. Pods left out take any such room first.
func (s *solver) buyLevels(tier []*demand) {
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

// buyDownFrom buys from one level and those of less weight.
func (s *solver) buyDownFrom(first int, demands []*demand) {
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

// firstLevelOf is the highest weight with an offer of the offer set.
func (s *solver) firstLevelOf(set *offerSet) int {
	for level := range s.levels {
		if s.hasOfferIn(set, s.levels[level]) {
			return level
		}
	}
	return -1
}

// priorityTiers are the demands that are packed together: all of them, or, once limits have left a pod without a machine that one of lower
// priority got, those of one priority at a time, the highest first. Those that only machines limited in number hold come before others,
// which might take these.
func (s *solver) priorityTiers() (out [][]*demand) {
	if len(s.quantities) == 0 && !s.byPriority {
		return [][]*demand{s.demands}
	}
	only := map[*demand]int{}
	for _, d := range s.demands {
		if len(s.quantities) > 0 && !s.someOfferHolds(s.unlimitedOffers(d.offers), &d.class.req) {
			only[d] = -1
		}
	}
	rank := func(d *demand) [2]int {
		if s.byPriority {
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

// unlimitedOffers is the offers of an offer set of which there are as many as wanted.
func (s *solver) unlimitedOffers(set *offerSet) *offerSet {
	bits := slices.Clone(set.bits)
	for i := range s.offers {
		if s.offers[i].quantity >= 0 {
			bits[i>>6] &^= 1 << (i & 63)
		}
	}
	return s.internOfferSet(bits)
}

// respectPriorities has priorities respected, and says whether that was needed and not done yet.
func (s *solver) respectPriorities(short []*demand) bool {
	if s.byPriority {
		return false
	}
	for _, d := range short {
		for _, b := range s.bins {
			for _, it := range b.items {
				s.byPriority = s.byPriority || s.classes[it.class].spec.Priority < d.class.spec.Priority
			}
		}
	}
	return s.byPriority
}

func (s *solver) hasOfferIn(set *offerSet, l level) bool {
	for i := l.lo; i < l.hi; i++ {
		if set.contains(i) {
			return true
		}
	}
	return false
}

// countPods is how many pods demands are.
func countPods(demands []*demand) (n int64) {
	for _, d := range demands {
		n += d.unbought
	}
	return n
}

// packDemands packs the demands onto machines of one level, refining for so many steps, and counts down what it could not.
func (s *solver) packDemands(l level, demands []*demand, work int64) {
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

// planPurchases packs the demands and returns what is left of them.
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
	if p.s.steps < p.s.stepLimit && p.exceedsGap(batches) {
		batches = p.learnDuals(whole, remaining, batches, p.s.steps-before)
	}
	if p.s.steps < p.s.stepLimit && len(remaining) <= maxMasterRows && p.exceedsGap(batches) {
		batches = p.refineByColumns(whole, remaining, batches)
	}
	return batches, remaining
}

// enforceSeparation has fills keep the preferences of pods to be apart, and says whether there are any.
func (p *packing) enforceSeparation() bool {
	for d, x := range p.demands {
		if x.class.separation.most > 0 && x.unbought > x.class.separation.most {
			p.separated, p.restricted[d] = true, true
		}
	}
	return p.separated
}

// maxBoundRows is how many demands the bound by columns takes on; with more of them fills are so full that resource prices prove as
// much.
const maxBoundRows = 200

// exceedsGap says whether the plan is further from the resource-price bound than the policy asks.
func (p *packing) exceedsGap(batches []batch) bool {
	return totalPrice(batches)-p.lowerBound > mulDiv(p.lowerBound, p.s.policy.MaxGapPPM, 1_000_000)
}

// totalPrice is what batches cost.
func totalPrice(batches []batch) (sum int64) {
	for _, b := range batches {
		sum += b.machine.price * b.copies
	}
	return sum
}

// refineByColumns makes a plan of columns and keeps the cheaper of the two. left is what the greedy plan leaves, and then what is left by the
// one kept.
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
	most := p.stepBudget / 2
	if len(t.rows) > maxBoundRows {
		most /= 2 // greedy is near already, and each round costs more
	}
	s.truncated = !t.generateColumns(min(s.steps+most, s.stepLimit))
	t.rememberColumns(&s.nextColumns)
	p.refundBatches(batches)
	for _, way := range [...]func([]int64) []batch{t.roundAndPack, func(rest []int64) []batch { return t.clone().dive(rest, until) }} {
		rest := slices.Clone(whole)
		other := way(rest)
		p.refundBatches(other)
		if leavesNoMore(rest, remaining) && p.adjustedCostOf(other) < p.adjustedCostOf(batches) {
			copy(remaining, rest)
			batches = other
		}
	}
	p.chargeBatches(batches)
	batches = p.ruinAndRecreate(batches, until)
	if len(t.rows) <= maxBoundRows && p.exceedsGap(batches) {
		t.findProofDuals(totalPrice(batches), min(s.steps+p.stepBudget/2, s.stepLimit))
	}
	return append(fixed, batches...)
}

// leavesNoMore says whether a leaves no pod that b places.
func leavesNoMore(a, b []int64) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// lowerPurchaseCaps lowers how many pods may be bought for where some found no machine, so that they are not counted against others that spread
// with them or want to be near them. It says whether anything changed, and the attempt must be made again.
func (s *solver) lowerPurchaseCaps(short []*demand, all bool) bool {
	changed := false
	for _, d := range short {
		if d.assignment != nil {
			changed = true
			s.purchaseCaps[classAssignment{d.class.id, d.assignment.id}] = d.total - d.unbought
		}
	}
	if changed && all {
		for _, d := range s.demands {
			if d.assignment != nil {
				s.purchaseCaps[classAssignment{d.class.id, d.assignment.id}] = 0
			}
		}
	}
	return changed
}

// expectNewDomains adds domains to the spreads that did not expect them: machines bought for others stand there now, and kube-scheduler will count
// them, whether the class tolerates their taints or not. It says whether the attempt must be made again. Once there are no more attempts,
// settled, it says whether what was bought last breaks the spread of a pod placed, and then changes nothing.
func (s *solver) expectNewDomains(bins []*bin, settled bool) bool {
	type wider struct {
		r    *rule
		more []int32
	}
	var found []wider
	var bought []uint64
	in := map[domainKey][]int32{} // where something may come to stand
	for _, c := range s.classes {
		for i := range c.topology.domainRules {
			r := &c.topology.domainRules[i]
			if r.kind != ruleSpread || !r.hard {
				continue
			}
			if bought == nil {
				bought = s.possibleOffers(bins)
			}
			k := domainKey{r.scope, r.key}
			there, known := in[k]
			if !known {
				for x := range s.offers {
					o := &s.offers[x]
					if v := o.labels[r.key]; v > 0 && bought[x>>6]>>(x&63)&1 != 0 && !slices.Contains(there, v) && (r.scope == nil || s.offerInScope(r.scope, o)) {
						there = append(there, v)
					}
				}
				in[k] = there
			}
			expected := func(v int32) bool { return slices.Contains(r.domains, v) }
			if !slices.ContainsFunc(there, func(v int32) bool { return !expected(v) }) {
				continue
			}
			more := slices.DeleteFunc(slices.Clone(there), expected)
			if settled && s.breaksSpread(r, more) {
				return true
			}
			found = append(found, wider{r, more})
		}
	}
	for _, x := range found {
		x.r.domains, x.r.filledByOthers = slices.Concat(x.r.domains, x.more), slices.Concat(x.r.filledByOthers, x.more)
		slices.Sort(x.r.domains)
	}
	return !settled && len(found) > 0
}

// breaksSpread says whether a pod placed would be beyond its spread were these domains counted too.
func (s *solver) breaksSpread(r *rule, more []int32) bool {
	wide := *r
	wide.domains = slices.Concat(r.domains, more)
	least := s.computeLeastCount(&wide)
	for d := range r.ownPods {
		if s.exceedsSkew(r, d, least) {
			return true
		}
	}
	return false
}

// exceedsSkew says whether pods that own a spread were placed in a domain that holds too many for it.
func (s *solver) exceedsSkew(r *rule, d int, least int64) bool {
	return r.ownPods[d] > 0 && s.counters[r.counter].countIn(d)-least > r.maxSkew
}

// emptyDomainTrial is what an attempt came to, and what it assumed.
type emptyDomainTrial struct {
	unplaced     int // pods not placed
	domains      map[*rule][]int32
	purchaseCaps map[classAssignment]int64
}

// dropEmptyDomains takes domains out of the spreads of classes with pods left over where, as it turned out, nothing stands and nothing is bought:
// kube-scheduler does not count them. It is tried, and taken back where it places no more pods: a spread over fewer domains is worth less.
// It says whether the attempt must be made again.
func (s *solver) dropEmptyDomains() bool {
	now := &emptyDomainTrial{purchaseCaps: maps.Clone(s.purchaseCaps), domains: map[*rule][]int32{}}
	for _, c := range s.classes {
		now.unplaced += s.placeablePods(c)
	}
	was := s.emptyDomainTrial
	if was != nil && now.unplaced >= was.unplaced {
		s.emptyDomainTrial, s.purchaseCaps, s.keepEmptyDomains = nil, was.purchaseCaps, true
		for r, domains := range was.domains {
			r.domains = domains
		}
		return true
	}
	if now.unplaced == 0 || s.keepEmptyDomains {
		return false
	}
	var bought []uint64
	for _, c := range s.classes {
		for i := range c.topology.domainRules {
			r := &c.topology.domainRules[i]
			if r.kind != ruleSpread || !r.hard || s.placeablePods(c) == 0 {
				continue
			}
			if bought == nil {
				bought = s.possibleOffers(s.bins)
			}
			kept := slices.DeleteFunc(slices.Clone(r.domains), func(v int32) bool {
				return !slices.Contains(r.standingDomains, v) && !slices.Contains(r.filledByOthers, v) && !s.isBoughtIn(r, bought, v)
			})
			if len(kept) < len(r.domains) {
				now.domains[r], r.domains = r.domains, kept
			}
		}
	}
	if len(now.domains) == 0 {
		return false
	}
	s.emptyDomainTrial = now
	return true
}

// isBoughtIn says whether a machine that counts for the spread may come to stand in a domain.
func (s *solver) isBoughtIn(r *rule, bought []uint64, v int32) bool {
	for x := range s.offers {
		if o := &s.offers[x]; o.labels[r.key] == v && bought[x>>6]>>(x&63)&1 != 0 && (r.scope == nil || s.offerInScope(r.scope, o)) {
			return true
		}
	}
	return false
}

// possibleOffers is every offer that some of the machines bought may turn out to be.
func (s *solver) possibleOffers(bins []*bin) []uint64 {
	out := make([]uint64, (len(s.offers)+63)/64)
	for _, b := range bins {
		for w, bits := range b.offers.bits {
			if bits &^= out[w]; bits == 0 {
				continue
			}
			for i := w * 64; i < min(w*64+64, len(s.offers)); i++ {
				if bits>>(i&63)&1 == 0 {
					continue
				}
				if s.steps++; s.offerHoldsBin(b, &s.offers[i]) {
					out[w] |= 1 << (i & 63)
				}
			}
		}
	}
	return out
}

// deferCrowdedClasses finds classes whose spread is kept only if they come before others that it counts, and nobody can say who comes first. Those are
// placed after the others from then on, and where that was tried, go elsewhere. It says whether the attempt must be made again.
func (s *solver) deferCrowdedClasses() bool {
	changed := false
	for _, c := range s.classes {
		moved := false
		for i := range c.topology.domainRules {
			r := &c.topology.domainRules[i]
			if r.kind != ruleSpread || !r.hard {
				continue
			}
			least := s.leastCount(r)
			s.steps += int64(len(r.ownPods))
			for d := range r.ownPods {
				switch {
				case !s.exceedsSkew(r, d, least):
				case c.deferrals >= maxDeferrals:
					r.closedDomains, changed = append(r.closedDomains, int32(d)), true
				default:
					moved, changed = true, true
				}
			}
		}
		if moved {
			c.deferrals++
		}
	}
	return s.closeStrayStarts() || changed
}

// closeStrayStarts finds groups that want to be near each other and begin in a domain where nobody else holds them, while pods that they want to be near
// stand elsewhere: if those came first, kube-scheduler would not let the group begin there. It goes elsewhere from then on.
func (s *solver) closeStrayStarts() bool {
	leaning := map[[2]int]int64{} // by counter and domain: pods there that came because of others
	each := func(f func(r *rule, d int)) {
		for _, c := range s.classes {
			for i := range c.topology.domainRules {
				r := &c.topology.domainRules[i]
				s.steps += int64(len(r.ownPods))
				for d, n := range r.ownPods {
					if r.kind == ruleAffinity && r.selectsOwnPods && n > 0 { // others follow, and begin nothing
						f(r, d)
					}
				}
			}
		}
	}
	each(func(r *rule, d int) { leaning[[2]int{r.counter, d}] += int64(r.ownPods[d]) })
	changed := false
	each(func(r *rule, d int) {
		x := &s.counters[r.counter]
		if have := x.countIn(d); have <= leaning[[2]int{r.counter, d}] && x.total > have && !slices.Contains(r.closedDomains, int32(d)) {
			r.closedDomains, changed = append(r.closedDomains, int32(d)), true
		}
	})
	return changed
}

// wouldCrowd says whether one more pod of the class at the topology assignment would leave a pod placed there beyond its spread, were that to come last, or a
// group that begins elsewhere without the right to, were this one to come first.
func (s *solver) wouldCrowd(c *class, where *topologyAssignment) bool {
	for i, id := range c.topology.domainCounters {
		x := &s.counters[id]
		if !x.forSpread && where.labels[x.key] != 0 && s.groupBeganElsewhere(id, where.labels[x.key]) {
			return true
		}
		d := where.labels[x.key]
		if at := c.topology.counterScope[i]; !x.forSpread || d <= 0 || at >= 0 && !where.inScope[at] {
			continue
		}
		for _, other := range s.classes {
			for j := range other.topology.domainRules {
				r := &other.topology.domainRules[j]
				if r.kind == ruleSpread && r.hard && r.counter == id && int(d) < len(r.ownPods) && r.ownPods[d] > 0 && x.countIn(int(d))+1-s.leastCount(r) > r.maxSkew {
					return true
				}
			}
		}
	}
	return false
}

// groupBeganElsewhere says whether a group that wants to be near what a counter counts begins in another domain, where nobody else holds it.
func (s *solver) groupBeganElsewhere(id int, where int32) bool {
	leaning := map[int]int64{} // by domain
	for _, c := range s.classes {
		for i := range c.topology.domainRules {
			r := &c.topology.domainRules[i]
			if r.kind != ruleAffinity || !r.selectsOwnPods || r.counter != id {
				continue
			}
			s.steps += int64(len(r.ownPods))
			for d, n := range r.ownPods {
				if n > 0 && d != int(where) {
					leaning[d] += int64(n)
				}
			}
		}
	}
	for d, n := range leaning {
		if s.counters[id].countIn(d) <= n {
			return true
		}
	}
	return false
}

// maxDeferrals is how often a class is put behind others: two classes may be in each other's way.
const maxDeferrals = 3

// placementOrder is the classes in the order they are placed.
func (s *solver) placementOrder() []*class {
	out := slices.Clone(s.classes)
	slices.SortStableFunc(out, func(a, b *class) int { return cmp.Compare(a.deferrals, b.deferrals) })
	return out
}

// banPoolsWithoutChoice takes a pool from the classes of a bin that leaves it too little choice. It says whether the attempt must be made again.
func (s *solver) banPoolsWithoutChoice() bool {
	b := s.binLackingMinValues()
	if b == nil {
		return false
	}
	for _, it := range b.items {
		c := s.classes[it.class]
		s.bannedPools[[2]int{c.id, b.pool}] = true
		bits := slices.Clone(c.offers.bits)
		for i, w := range s.poolMask(b.pool).bits {
			bits[i] &^= w
		}
		c.offers, c.preferredOffers = s.internOfferSet(bits), nil
	}
	return true
}

// buildResult writes the plan down.
func (s *solver) buildResult() Result {
	var res Result
	next := make([]int, len(s.classes))
	take := func(class int, n int) []*model.Pod {
		c := s.classes[class]
		pods := c.pods[next[class] : next[class]+n]
		next[class] += n
		return pods
	}
	onRoom := make(map[int][]*model.Pod)
	for _, p := range s.placed {
		onRoom[p.node] = append(onRoom[p.node], take(p.class, p.count)...)
	}
	for node, x := range s.nodes.list {
		if pods := onRoom[node]; len(pods) > 0 {
			slices.SortFunc(pods, comparePods)
			res.OnRooms = append(res.OnRooms, Assignment{Room: x.Name, Pods: pods})
		}
	}
	slices.SortFunc(res.OnRooms, func(a, b Assignment) int { return strings.Compare(a.Room, b.Room) })
	rank := map[string]int{}
	for i := range s.input.Pools {
		rank[s.input.Pools[i].Name] = i
	}
	type machine struct {
		rank  int
		price int64
		first orderedPod
		pods  []*model.Pod
		b     *bin
		ch    *binChoice
	}
	order := make([]machine, 0, s.countMachines())
	room := make([]*model.Pod, 0, len(s.input.Demand)) // that is purchased for
	var list []orderedPod
	for _, b := range s.bins {
		var ch *binChoice
		for range b.copies {
			if ch == nil || s.limits[b.pool].limited {
				ch = s.chooseTypes(b)
			}
			if ch.offer < 0 {
				continue // nothing holds what was packed; its pods are refused rather than lost
			}
			list = list[:0]
			for _, it := range b.items {
				numbers := s.classes[it.class].demandOrder[next[it.class]:]
				for i, p := range take(it.class, int(it.count)) {
					list = append(list, orderedPod{numbers[i], p})
				}
			}
			slices.SortFunc(list, compareOrdered)
			begin := len(room)
			for _, p := range list {
				room = append(room, p.pod)
			}
			x := machine{rank: rank[s.input.Pools[b.pool].Name], price: s.offers[ch.offer].price, first: list[0], pods: slices.Clip(room[begin:]), b: b, ch: ch}
			order = append(order, x)
			res.Cost.NewMicroPerHour += x.price
			res.Cost.PremiumMicroPerHour += ch.premium
		}
	}
	slices.SortFunc(order, func(a, b machine) int {
		if c := cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.price, b.price)); c != 0 {
			return c
		}
		return compareOrdered(a.first, b.first)
	})
	res.New = make([]NewNode, len(order)) // nodes are large: they are written where they belong
	for i, x := range order {
		res.New[i] = s.newNodeFor(x.b, x.ch)
		res.New[i].Pods = x.pods
	}
	res.Cost.PremiumMicroPerHour = min(res.Cost.PremiumMicroPerHour+s.separationPremium, res.Cost.NewMicroPerHour)
	s.completeCost(&res) // before the reasons, which take steps too
	for i, c := range s.classes {
		if next[i] == len(c.pods) {
			continue
		}
		reasons := s.explain(c)
		for _, p := range c.pods[next[i]:] {
			res.Refused = append(res.Refused, Refusal{Pod: p, Reasons: reasons})
		}
	}
	slices.SortFunc(res.Refused, func(a, b Refusal) int { return comparePods(a.Pod, b.Pod) })
	res.Stats = plan.Stats{Pods: len(s.input.Demand), Classes: len(s.classes), Offerings: len(s.offers), Tier: s.tier, Work: s.steps, Truncated: s.truncated}
	return res
}
