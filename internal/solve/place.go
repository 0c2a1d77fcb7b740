// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"slices"
	"strings"
)

// demand is pods of one class for which machines must be bought, all within one set of offers. Its pods are counted in the topology
// domains already, as if they stood.
type demand struct {
	class      *class
	offers     *offerSet
	permitted  *offerSet // where offer set is only what the class would rather have: all it may
	unbought   int64     // left to buy for
	total      int64
	assignment *topologyAssignment // nil where no topology ties the class

	collectedFor *offerSet // that it was collected for
	next         *demand   // another of the class, collected before
}

// topologyAssignment is one combination of topology domains a class could go to: nodes there, and offers there.
type topologyAssignment struct {
	name     string
	id       int // of solver.assignmentIDs, by name
	labels   []int32
	inScope  []bool    // which of the class's scopes
	nodes    []int32   // that admit the class, in filling order
	nextNode int       // the first of them not found full
	offers   *offerSet // nil: nothing can be bought there
	level    int
	price    int64 // of the cheapest offer that holds one pod, in the first level that has one

	// As the next pod finds it.
	node                               int // -1: none has room
	spreadCount, unmetPreference, cost int64
	purchased                          int64 // for the class being placed, not in solver.purchased yet
}

// placeClasses decides for every pod between free capacity and a machine to buy. Classes that want to be near others are tried again after
// those have been placed, until nothing moves.
func (s *solver) placeClasses(waiting []*class) {
	out, add := s.demandCollector()
	for len(waiting) > 0 {
		moved := false
		var again []*class
		for i, c := range waiting {
			s.fillNodesByPrice(waiting, i)
			before := c.assigned
			s.placeClass(c, add)
			moved = moved || c.assigned > before
			if c.unplaced() > 0 && c.topology.affinity {
				again = append(again, c)
			}
		}
		if !moved {
			break
		}
		waiting = again
	}
	s.demands = append(s.demands, *out...)
}

// demandCollector gathers pods to buy for into demands.
func (s *solver) demandCollector() (*[]*demand, func(*class, *offerSet, int64, *topologyAssignment)) {
	var out []*demand
	var demandSlab []demand
	return &out, func(c *class, set *offerSet, n int64, at *topologyAssignment) {
		c.assigned += int(n)
		if at != nil {
			s.countInDomains(c, at.labels, at.inScope, n)
		}
		for _, id := range c.topology.hostCounters {
			s.counters[id].expected += n
		}
		s.useExclusiveVolumes(c)
		if c.collectedIn != &out {
			c.collectedIn, c.lastDemand = &out, nil
		}
		d := c.lastDemand
		for d != nil && d.collectedFor != set {
			d = d.next
		}
		if d == nil {
			if len(demandSlab) == cap(demandSlab) {
				demandSlab = make([]demand, 0, min(256, 2*len(out)+4))
			}
			demandSlab = append(demandSlab, demand{class: c, offers: set, collectedFor: set, assignment: at, next: c.lastDemand})
			d = &demandSlab[len(demandSlab)-1]
			if w := s.preferAmong(c, set); w != set && s.someOfferHolds(w, &c.req) {
				d.offers, d.permitted = w, set
			}
			c.lastDemand = d
			out = append(out, d)
		}
		d.unbought += n
		d.total += n
	}
}

// maxLeftoverTries bounds how many pods are tried again one by one.
const maxLeftoverTries = 200

// placeLeftovers tries the pods left out once more, those that topology ties one at a time. What was lowered for one class may have taken the ground
// from under another, and there is room again; what others did since may let in another of a spread, or be what a pod wants to be near.
// Machines bought for those of higher priority may have room left, where limits allow no more machines.
func (s *solver) placeLeftovers() {
	if !slices.ContainsFunc(s.classes, func(c *class) bool { return s.placeablePods(c) > 0 }) {
		return
	}
	s.purchaseCaps, s.keepPlaced = map[classAssignment]int64{}, true
	s.tightenLimitCharges()
	if s.countMachines() <= maxConsolidatedMachines {
		s.spareCapacity = &consolidation{s: s}
	}
	tries := 0
	for near, moved := false, true; moved; near = true {
		moved = false
		for _, c := range s.classes {
			if near && !c.topology.affinity {
				continue
			}
			before := c.assigned
			for !c.topology.hostAffinity && s.placeablePods(c) > 0 && tries < maxLeftoverTries && !s.outOfSteps() {
				tries++
				if !s.placeLeftoverOf(c) {
					break
				}
			}
			moved = moved || c.assigned > before
		}
	}
}

// placeLeftoverOf tries a class once, and says whether to try it again.
func (s *solver) placeLeftoverOf(c *class) bool {
	if s.spareCapacity != nil {
		s.splitCopies() // also what was bought last: what comes behind it has been bought now
	}
	before, bins := c.assigned, len(s.bins)
	demands, add := s.demandCollector()
	tied := len(c.topology.keys) > 0
	if tied {
		s.placeByDomain(c, c.unplaced()-1, add)
	} else {
		s.placeClass(c, add)
	}
	s.buyTier(*demands)
	if bought := s.bins[bins:]; slices.ContainsFunc(bought, func(b *bin) bool { return !s.meetsMinValues(b) }) ||
		len(bought) > 0 && s.expectNewDomains(bought, true) {
		for _, b := range bought {
			s.limits[b.pool].charge(b.charged, -b.copies)
			if b.quantity >= 0 {
				s.quantities[b.quantity] += b.copies
			}
			for _, it := range b.items {
				(*demands)[0].unbought += it.count * b.copies // there is one: the class was tried at one topology assignment, or without any
			}
		}
		s.bins = s.bins[:bins]
		if s.spareCapacity != nil {
			s.spareCapacity.bins = s.spareCapacity.bins[:min(bins, len(s.spareCapacity.bins))]
		}
	}
	s.placeAsLastResort(*demands)
	for _, d := range *demands {
		c.assigned -= int(d.unbought)
		if d.unbought > 0 && tied {
			s.countInDomains(c, d.assignment.labels, d.assignment.inScope, -d.unbought)
			k := classAssignment{c.id, d.assignment.id}
			s.purchased[k] -= d.unbought
			s.purchaseCaps[k] = s.purchased[k] // not there; elsewhere perhaps
		}
		for _, id := range c.topology.hostCounters {
			s.counters[id].expected = 0
		}
	}
	return c.assigned > before || len(*demands) > 0 && tied
}

// placeAsLastResort puts pods for which nothing more is bought into room left, whatever they would rather have: a preference is no reason to refuse.
func (s *solver) placeAsLastResort(demands []*demand) {
	if s.spareCapacity == nil {
		return
	}
	var left []*demand
	for _, d := range demands {
		if d.unbought == 0 || d.permitted == nil && d.class.separation.most == 0 {
			continue
		}
		if d.permitted != nil {
			d.offers, d.permitted = d.permitted, nil
		}
		left = append(left, d)
	}
	s.spareCapacity.ignoreSeparation = true
	s.placeOnSpareCapacity(left)
	s.spareCapacity.ignoreSeparation = false
}

// tightenLimitCharges charges limits for each machine with no more than the smallest that holds its fill at the least price: what is to be chosen
// from is narrowed before a pod is refused.
func (s *solver) tightenLimitCharges() {
	for _, b := range s.bins {
		left := &s.limits[b.pool]
		if !left.limited || len(s.minValuesOf(b.pool)) > 0 {
			continue
		}
		best := -1
		for _, i := range s.poolOffersCheapestFirst(b.pool) {
			if o := &s.offers[i]; b.offers.contains(i) && s.offerHoldsBin(b, o) && o.instanceType.Capacity.Fits(b.charged) && (best < 0 || o.price < s.offers[best].price ||
				o.price == s.offers[best].price && o.instanceType.Capacity.Fits(s.offers[best].instanceType.Capacity)) {
				best = i
			}
		}
		if best >= 0 {
			left.charge(b.charged, -b.copies)
			b.charged = s.offers[best].instanceType.Capacity
			left.charge(b.charged, b.copies)
		}
	}
}

// minPodsForPricedFill is how many pods are worth filling nodes by price for; fewer are put where they fit first.
const minPodsForPricedFill = 64

// fillNodesByPrice fills nodes with the plain classes of one priority that begin at i of those waiting, all at once: what is purchased for the
// rest costs least when each room is given the pods that suit its shape. It does nothing elsewhere than at their beginning.
func (s *solver) fillNodesByPrice(waiting []*class, i int) {
	if len(s.nodes.list) == 0 || !waiting[i].isUnconstrained() || i > 0 && waiting[i-1].isUnconstrained() && waiting[i-1].spec.Priority == waiting[i].spec.Priority {
		return
	}
	var demands []*demand
	pods := 0
	for _, c := range waiting[i:] {
		if !c.isUnconstrained() || c.spec.Priority != waiting[i].spec.Priority {
			break
		}
		if n := s.placeablePods(c); n > 0 {
			demands = append(demands, &demand{class: c, offers: c.offers, unbought: int64(n)})
			pods += n
		}
	}
	if pods < minPodsForPricedFill || len(demands) < 2 || len(s.offers) == 0 {
		return
	}
	p := s.newPackingFor(level{lo: 0, hi: len(s.offers)}, demands, false)
	remaining := make([]int64, len(demands))
	for d := range demands {
		remaining[d] = demands[d].unbought
	}
	for node, x := range s.nodes.list {
		for k := range s.numDims {
			if !x.Closed && !x.Drained {
				p.freeCapacity[k] += float64(max(0, s.nodes.free[node*s.numDims+k]))
			}
		}
	}
	p.priceDemands(remaining)
	for node, x := range s.nodes.list {
		if !x.Closed && !x.Drained {
			p.fillNode(node, remaining)
		}
	}
}

// isUnconstrained says whether nothing ties a class to other pods.
func (c *class) isUnconstrained() bool {
	return len(c.topology.keys) == 0 && !c.restrictsNeighbours() && len(c.spec.Volumes) == 0
}

// fillNode is build for a node.
func (p *packing) fillNode(node int, remaining []int64) {
	s, sc, nd := p.s, &p.buf, p.s.numDims
	s.chargeDaemons(node)
	var rem vec
	copy(rem[:], s.nodes.free[node*nd:node*nd+nd])
	sc.candidates = sc.candidates[:0]
	for d, n := range remaining {
		if c := p.demands[d].class; n > 0 && fitsIn(&c.req, &rem, nd) && s.nodeAdmits(c.filter, node) {
			sc.candidates = append(sc.candidates, int32(d))
		}
	}
	p.sampleCandidates(maxCandidates, maxCandidates)
	var used occupancy
	for best := -1; ; {
		if best = p.pickDemand(remaining, &rem, nil, &used, best); best < 0 {
			break
		}
		n := min(remaining[best]-sc.used[best], max(1, timesIn(&p.demands[best].class.req, &rem, nd)/3))
		p.addToFill(best, n, &rem, &used)
	}
	var f fill
	p.collectFill(&f)
	for _, it := range f.items {
		remaining[it.demand] -= it.count
		s.placeOnNode(p.demands[it.demand].class, node, it.count)
	}
}

// placeClass places what it can of one class.
func (s *solver) placeClass(c *class, add func(*class, *offerSet, int64, *topologyAssignment)) {
	limit := s.placeablePods(c)
	if limit == 0 {
		return
	}
	keep := c.unplaced() - limit // pods that must not be placed now
	if len(c.topology.keys) > 0 {
		s.placeByDomain(c, keep, add)
		return
	}
	s.fillNodes(c, keep)
	if n := int64(c.unplaced() - keep); n > 0 && !c.topology.hostAffinity && s.someOfferHolds(c.offers, &c.req) {
		add(c, c.offers, n, nil)
	}
}

// placeablePods is how many pods of a class may be placed at all: none that can't be, and only one that wants a volume to itself.
func (s *solver) placeablePods(c *class) int {
	if c.unplaced() == 0 || c.unsolvable != "" || c.spec.Daemon || len(c.spec.Unsolved) > 0 {
		return 0
	}
	for i := range c.spec.Volumes {
		if c.spec.Volumes[i].Exclusive {
			if c.assigned > 0 || s.exclusiveVolumeInUse(c) != nil {
				return 0
			}
			return min(1, c.unplaced())
		}
	}
	return c.unplaced()
}

// fillNodes puts pods that no wide topology ties onto nodes, in filling order.
func (s *solver) fillNodes(c *class, keep int) {
	if c.topology.hostAffinity && s.mayStartGroup(c) {
		s.startGroupOnNode(c, keep)
		return
	}
	for node := range s.nodes.list {
		if c.unplaced() <= keep {
			return
		}
		if n := min(s.podsNodeAccepts(c, node), int64(c.unplaced()-keep)); n > 0 {
			s.placeOnNode(c, node, n)
		}
	}
}

// startGroupOnNode begins a group that must share one host on a node, but only where that room holds all that waits of the class: begun on
// a small one, the rest could go nowhere. Where a machine could hold its co-located group, that goes there whole.
func (s *solver) startGroupOnNode(c *class, keep int) {
	if x := c.group; x != nil && len(x.members) > 1 && !x.entangled && s.isWholeAndPlaceable(x) && s.someOfferHolds(x.asPod.filter.offers, &x.asPod.req) {
		s.placeGroupOnNode(x, c)
		return
	}
	for node := range s.nodes.list {
		if s.podsNodeAccepts(c, node) >= int64(c.unplaced()-keep) {
			s.placeOnNode(c, node, int64(c.unplaced()-keep))
			return
		}
	}
}

// placeByDomain places a class that topology ties, few pods at a time: free capacity before new machines, then the domain where a spread
// counts least, then the cheaper one, then by name.
func (s *solver) placeByDomain(c *class, keep int, add func(*class, *offerSet, int64, *topologyAssignment)) {
	sites := s.assignmentsOf(c)
	for _, at := range sites {
		at.purchased = 0
	}
	defer func() {
		for _, at := range sites {
			if at.purchased > 0 {
				s.purchased[classAssignment{c.id, at.id}] += at.purchased
				at.purchased = 0
			}
		}
	}()
	spreads := slices.ContainsFunc(c.topology.domainRules, func(r rule) bool { return r.kind == ruleSpread }) ||
		slices.ContainsFunc(c.topology.domainCounters, func(id int) bool { return s.counters[id].forSpread })
	wishes := slices.ContainsFunc(c.topology.domainRules, func(r rule) bool { return r.kind == rulePreference })
	for c.unplaced() > keep {
		s.steps += int64(len(sites))
		best, bestN := (*topologyAssignment)(nil), int64(0)
		first := c.topology.affinity && s.mayStartGroup(c)
		var could []string
		for _, at := range sites {
			n, _ := s.podsDomainsAllow(c, at.labels)
			if n == 0 || s.keepPlaced && s.wouldCrowd(c, at) {
				continue
			}
			if first {
				could = append(could, at.name)
				if s.startsElsewhere(c, at) {
					continue
				}
			}
			node := s.nextOpenNode(c, at)
			if node < 0 {
				if n = min(n, s.purchasablePods(c, at)); n == 0 {
					continue
				}
			}
			at.spreadCount, at.node = s.spreadCountAt(c, at), node
			at.unmetPreference = s.unmetPreferenceWeight(c, at.labels)
			at.cost = s.addPreferenceCost(at.price, at.unmetPreference)
			if best == nil || at.isBetterThan(best) {
				best, bestN = at, n
			}
		}
		if best == nil {
			return
		}
		if first && len(could) > 1 {
			s.recordGroupStart(c, best, could)
		}
		n := min(bestN, int64(c.unplaced()-keep))
		if spreads || wishes {
			n = 1
		}
		if best.node >= 0 {
			s.placeOnNode(c, best.node, min(n, s.podsNodeAccepts(c, best.node)))
			continue
		}
		best.purchased += n
		add(c, best.offers, n, best)
	}
}

// purchasablePods is for how many more pods of the class machines may be bought at a topology assignment.
func (s *solver) purchasablePods(c *class, at *topologyAssignment) int64 {
	if at.offers == nil || c.topology.hostAffinity {
		return 0
	}
	k := classAssignment{c.id, at.id}
	if most, ok := s.purchaseCaps[k]; ok {
		return max(0, most-s.purchased[k]-at.purchased)
	}
	return unlimited
}

// isBetterThan orders topology assignments for the next pod, as they stand now.
func (a *topologyAssignment) isBetterThan(b *topologyAssignment) bool {
	switch {
	case (a.node >= 0) != (b.node >= 0):
		return a.node >= 0
	case a.spreadCount != b.spreadCount:
		return a.spreadCount < b.spreadCount
	case a.node >= 0:
		return a.unmetPreference < b.unmetPreference
	case a.level != b.level:
		return a.level < b.level
	}
	return a.cost < b.cost // topology assignments are sorted by name: the first of equals stays
}

// spreadCountAt is how crowded the domains are by what spreads count, the class's own and those that count it.
func (s *solver) spreadCountAt(c *class, where *topologyAssignment) (n int64) {
	for i := range c.topology.domainRules {
		if r := &c.topology.domainRules[i]; r.kind == ruleSpread && where.labels[r.key] > 0 {
			n += s.counters[r.counter].countIn(int(where.labels[r.key]))
		}
	}
	for i, id := range c.topology.domainCounters { // what others spread it would rather not upset
		at := c.topology.counterScope[i]
		if x := &s.counters[id]; x.forSpread && where.labels[x.key] > 0 && (at < 0 || where.inScope[at]) {
			n += x.countIn(int(where.labels[x.key]))
		}
	}
	return n
}

// nextOpenNode is the first room of the topology assignment that still takes a pod, -1 if there is none. What a class's own pods do to a node only ever
// closes it, so a node once found full is not looked at again.
func (s *solver) nextOpenNode(c *class, at *topologyAssignment) int {
	for ; at.nextNode < len(at.nodes); at.nextNode++ {
		if s.podsNodeAccepts(c, int(at.nodes[at.nextNode])) > 0 {
			return int(at.nodes[at.nextNode])
		}
	}
	return -1
}

// assignmentsOf lists the topology assignments of a class by name.
func (s *solver) assignmentsOf(c *class) []*topologyAssignment {
	var byName map[string]*topologyAssignment // those with nodes
	sold := s.offerAssignments(c)
	shared := len(s.nodes.list) == 0 && len(sold) > 0 && s.preferredOffersOf(c) == c.offers
	var key assignmentCacheKey
	if shared {
		if key = (assignmentCacheKey{&sold[0], c.req}); s.assignmentCache[key] != nil {
			return s.assignmentCache[key]
		}
	}
	out := make([]*topologyAssignment, 0, len(sold))
	var buf []byte
	find := func(vals []int32, in []bool) *topologyAssignment {
		buf = s.appendAssignmentName(buf[:0], c, vals, in)
		at := byName[string(buf)]
		if at == nil {
			at = &topologyAssignment{name: string(buf), labels: vals, inScope: in, level: len(s.levels)}
			at.id = s.assignmentID(at.name)
			if byName == nil {
				byName = map[string]*topologyAssignment{}
			}
			byName[at.name] = at
			out = append(out, at)
		}
		return at
	}
	slab := make([]topologyAssignment, 0, len(sold))
	for node := range s.nodes.list {
		x := s.nodes.list[node]
		if !x.Closed && !x.Drained && s.podsFittingNode(c, node) > 0 && s.nodeAdmits(c.filter, node) {
			at := find(s.nodes.labels[s.nodes.shapeOf[node]], s.nodeScopes(c, node))
			at.nodes = append(at.nodes, int32(node))
		}
	}
	for _, o := range sold {
		if !s.someOfferHolds(o.offers, &c.req) {
			continue
		}
		at := byName[o.name]
		if at == nil {
			slab = append(slab, topologyAssignment{name: o.name, id: o.id, labels: o.labels, inScope: o.inScope})
			at = &slab[len(slab)-1]
			out = append(out, at)
		}
		at.offers = o.offers
		at.level, at.price = s.cheapestLevel(o.offers, &c.req)
		if w := s.preferAmong(c, o.offers); w != o.offers {
			if s.someOfferHolds(w, &c.req) {
				at.level, at.price = s.cheapestLevel(w, &c.req)
			} else {
				at.price = s.addPreferenceCost(at.price, 100)
			}
		}
	}
	if len(byName) > 0 { // those sold are in order
		slices.SortFunc(out, func(a, b *topologyAssignment) int { return strings.Compare(a.name, b.name) })
	}
	if shared {
		if s.assignmentCache == nil {
			s.assignmentCache = map[assignmentCacheKey][]*topologyAssignment{}
		}
		s.assignmentCache[key] = out
	}
	return out
}

// assignmentCacheKey is what topology assignments follow from where nothing stands and nothing is wished: the first of those sold, and what a pod asks for.
type assignmentCacheKey struct {
	first *topologyAssignment
	req   vec
}

// assignmentID numbers topology assignments by name.
func (s *solver) assignmentID(name string) int {
	id, ok := s.assignmentIDs[name]
	if !ok {
		id = len(s.assignmentIDs)
		s.assignmentIDs[name] = id
	}
	return id
}

// appendAssignmentName is the values of a class's topology keys, and which of its scopes a topology assignment is in.
func (s *solver) appendAssignmentName(buf []byte, c *class, vals []int32, in []bool) []byte {
	for _, k := range c.topology.keys {
		if vals[k] == openValue {
			buf = append(buf, "?\x00"...)
			continue
		}
		buf = append(append(buf, s.keys.valueNames[k][vals[k]]...), 0)
	}
	return appendBools(buf, in)
}

func appendBools(buf []byte, list []bool) []byte {
	for _, b := range list {
		if b {
			buf = append(buf, 'y')
		} else {
			buf = append(buf, 'n')
		}
	}
	return buf
}

// offerAssignments splits the offers that admit a class by the values of its topology keys, and by the scopes they are in. Shared by classes
// alike in these, and in order of their names.
func (s *solver) offerAssignments(c *class) []topologyAssignment {
	text := s.assignmentKey[:0]
	for _, k := range c.topology.keys {
		text = append(text, byte(k), byte(k>>8))
	}
	for _, on := range c.topology.scopes {
		text = append(text, on.identity()...)
	}
	s.assignmentKey = text
	if got, ok := s.offerAssignmentCache[offerAssignmentKey{c.offers.id, string(text)}]; ok {
		return got
	}
	byVals := map[string]int{}
	var out []topologyAssignment
	var bits [][]uint64
	var buf []byte
	for i := range s.offers {
		if !c.offers.contains(i) {
			continue
		}
		vals := s.offers[i].labels
		buf = buf[:0]
		for _, k := range c.topology.keys {
			buf = append(buf, byte(vals[k]), byte(vals[k]>>8), byte(vals[k]>>16), byte(vals[k]>>24))
		}
		var in []bool
		for _, on := range c.topology.scopes {
			in = append(in, s.offerInScope(on, &s.offers[i]))
		}
		buf = appendBools(buf, in)
		at, ok := byVals[string(buf)]
		if !ok {
			at = len(out)
			byVals[string(buf)] = at
			out = append(out, topologyAssignment{name: string(s.appendAssignmentName(nil, c, vals, in)), labels: vals, inScope: in})
			bits = append(bits, make([]uint64, len(c.offers.bits)))
		}
		bits[at][i>>6] |= 1 << (i & 63)
	}
	for i := range out {
		out[i].offers, out[i].id = s.internOfferSet(bits[i]), s.assignmentID(out[i].name)
	}
	slices.SortFunc(out, func(a, b topologyAssignment) int { return strings.Compare(a.name, b.name) })
	s.offerAssignmentCache[offerAssignmentKey{c.offers.id, string(text)}] = out
	return out
}

type offerAssignmentKey struct {
	offerSet int
	keys     string
}

type classAssignment struct{ class, assignment int }

// cheapestLevel is the first level in which an offer of the offer set holds the amount, and the least price there.
func (s *solver) cheapestLevel(set *offerSet, req *vec) (int, int64) {
	for level, l := range s.levels {
		for _, i := range s.offersByPrice[l.lo+s.firstLevelCandidate(level, req) : l.hi] {
			if o := &s.offers[i]; set.contains(i) && fitsIn(req, o.allocatable, s.numDims) {
				return level, o.price
			}
		}
	}
	return len(s.levels), 0
}
