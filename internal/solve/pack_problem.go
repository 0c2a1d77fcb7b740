// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// machine is equal offers: one type of one pool at one price with the same capacity, which admit the same demands.
// Only machines that no other dominates in capacity, price and demands are packed.
type machine struct {
	pool         int
	instanceType *model.InstanceType
	available    vec      // for pods; less than the type has where minValues asks for other types too
	price        int64    // micro-dollars an hour
	adjustedCost int64    // see adjustPrice, with limit prices; plans are compared by it
	admits       []uint64 // offer sets of demands, as a bitmap by number in packingProblem
	offers       []int
	ports        []model.HostPort
	searchFutile bool            // searching its patterns for a ceiling came to no end
	quantity     int             // as offer.quantity
	capacity     model.Resources // that limits are charged
}

// item is a number of pods of one demand on a machine.
type item struct {
	demand int
	count  int64
}

// pattern is what one machine holds, and what that is worth at the duals, micro-dollars << dualShift.
type pattern struct {
	machine int
	items   []item // by demand
	worth   int64
	made    bool
}

// batch is copies of one machine with one pattern.
type batch struct {
	machine *machine
	pool    int // of the machine's family
	items   []item
	copies  int64
}

// packingProblem is demands and the machines that they may be packed onto, all of one level.
type packingProblem struct {
	s       *purchases
	demands []*demand

	offerSets []*offerSet
	setOf     []int // by demand: the number of its offer set
	machines  []*machine

	narrowRows []narrowRow      // by demand: what a pod of it asks for
	wideRows   []int64          // instead of narrowRows where there are more resources than such a row has: the request, then the shares
	maxEach    []int64          // by demand: as many on a machine and no more; nil: as many as have room
	restricted []bool           // by demand: rules, ports or volumes say what may be beside its pods
	neighbours []neighbourRules // by demand: which
	relaxed    bool             // for a bound: patterns need only keep the rules that a bound knows

	interchangeable    map[interchangeKey][]interchangeableOffer
	exclusivityDemands [][]int           // by mutual anti-affinity group; see exclusivityDemandsOf
	feasibilityIndex   *feasibilityIndex // nil: not made for these machines yet
	freeAccess         []int8            // by demand: how much free capacity is open to it; nil: not told apart by that
	kindOf             []int32           // by demand: those of one number ask for the same and may go to the same offers
	numKinds           int               // how many numbers there are
}

// pricedPacking is what pods and resources are worth in a packing: dual prices, which guide greedy packing and prove
// bounds.
type pricedPacking struct {
	packingProblem

	resourcePrices  [maxDims]int64      // of a unit of each resource, micro-dollars << priceShift
	resourcePricing *resourcePricing    // nil: not made for these machines yet
	feasibility     *feasibilityClasses // prices of resources by who may go where
	uniformPrices   bool                // who may go where makes next to no difference to prices
	freeCapacity    [maxDims]float64    // of existing nodes, which is filled before anything is bought
	largest         vec                 // the most of each resource that a machine has
	lowerBound      int64               // what the demands cost at least by resource prices, were they alone, micro-dollars an hour

	dual         []int64   // by demand: what one pod is worth, micro-dollars << dualShift
	resourceDual []int64   // by demand: what its resources are worth, in the same unit
	biasedDual   []int64   // by demand: dual, exaggerated or not, as patterns are built by it
	dualFactor   []float64 // by demand: how much more than its resources a pod is worth, for what it cost before; nil: no more. See learnDuals

	exclusivityPrices [maxDims]exclusivityPrice // by mutual anti-affinity group
	adaptivePrices    bool                      // see adaptExclusivityPrices
	priceAdaptations  int                       // how often exclusivity prices were looked at
}

// packing is the work of buying machines for demands within one level: patterns, and the order to buy them in.
type packing struct {
	pricedPacking
	stepBudget int64 // for refining
	separated  bool  // preferences of pods to be apart are kept
	lossShift  uint  // binary digits of the loss that greedy overlooks

	buf         patternBuffers
	openDemands []int32   // demands that pods may be left of
	openBySet   []int     // by offer set: how many of them
	openLists   [][]int32 // with adaptive prices, instead of openDemands: by offer set
	samples     int       // taken so far
	sampleSize  int       // candidates kept of many

	bunched  bool    // see numberAlikeDemands
	sizeOf   []int32 // by demand: those of one number ask for the same
	numSizes int     // how many numbers there are
	alike    []int32 // by demand: those of one number are worth the same, too
}

// newPacking is a packing of demands onto the machines of a level.
func (s *purchases) newPacking(l level, demands []*demand) *packing {
	return s.newPackingFor(l, demands, true)
}

// newPackingFor is a packing of demands onto the machines of a level, narrowed to what minValues leaves of them or
// not: a bound may not narrow.
func (s *purchases) newPackingFor(l level, demands []*demand, keepMinValues bool) *packing {
	p := &packing{openDemands: make([]int32, 0, len(demands))}
	p.packingProblem = packingProblem{s: s, setOf: make([]int, len(demands)), demands: demands, restricted: make([]bool, len(demands)),
		neighbours: make([]neighbourRules, len(demands))}
	if s.numDims <= len(narrowRow{}.request) {
		p.narrowRows = make([]narrowRow, len(demands))
	} else {
		p.wideRows = make([]int64, len(demands)*(s.numDims+len(s.dims)))
	}
	number := map[int]int{}
	var offerSets []*offerSet
	for i, d := range demands {
		n, ok := number[d.offers.id]
		if !ok {
			n = len(offerSets)
			number[d.offers.id] = n
			offerSets = append(offerSets, d.offers)
		}
		p.setOf[i] = n
		p.openDemands = append(p.openDemands, int32(i))
		copy(p.requestOf(i), d.class.req[:s.numDims])
		p.restricted[i], p.neighbours[i] = d.class.restrictsNeighbours(), d.class.neighbourRules()
	}
	p.lossShift, p.sampleSize = 20, 4*maxCandidates
	if slices.Contains(p.restricted, true) {
		p.sampleSize = maxCandidates
		p.lossShift = 8 // patterns change with every restricted pod: making all anew each time would take too long
	}
	if keepMinValues {
		p.applyNodeCaps()
	}
	p.buf = patternBuffers{used: make([]int64, len(demands)), counts: make([]int32, len(s.counters))}
	all := s.machinesOf(l, offerSets)
	p.offerSets, p.openBySet = offerSets, make([]int, len(offerSets))
	for _, j := range p.setOf {
		p.openBySet[j]++
	}
	for _, m := range all {
		if keepMinValues {
			p.restrictToMinValues(m, s.minValuesOf(m.pool))
		}
	}
	p.machines = p.dropDominated(all)
	return p
}

// machinesOf makes machines of the offers of a level that are in some of the sets, numbered by place in the list. Dominated offers of
// one pool are left out; offers that nothing tells apart are one machine.
func (s *purchases) machinesOf(l level, offerSets []*offerSet) []*machine {
	words := (len(offerSets) + 63) / 64
	byKey := make(map[machineKey]*machine, min(len(s.sizes), l.hi-l.lo))
	var all []*machine
	admits := make([]uint64, words)
	any := offerSets[0]
	if len(offerSets) > 1 {
		any = &offerSet{bits: slices.Clone(any.bits)}
	}
	for _, set := range offerSets[1:] {
		for i := l.lo >> 6; i<<6 < l.hi; i++ {
			any.bits[i] |= set.bits[i]
		}
	}
	any.forEach(l, func(i int) {
		o := &s.offers[i]
		if o.dominated {
			return
		}
		clear(admits)
		for j, set := range offerSets {
			if set.contains(i) {
				admits[j>>6] |= 1 << (j & 63)
			}
		}
		s.steps += int64(len(offerSets))/8 + 1
		key := machineKeyOf(o, admits)
		m := byKey[key]
		if m == nil {
			m = &machine{pool: o.pool, instanceType: o.instanceType, available: *o.allocatable, price: o.price, ports: o.ports, quantity: o.quantity,
				adjustedCost: s.adjustPrice(o.price) + s.limitCharge(o.pool, o.instanceType.Capacity), admits: slices.Clone(admits),
				capacity: o.instanceType.Capacity}
			byKey[key] = m
			all = append(all, m)
		}
		m.offers = append(m.offers, i)
	})
	return all
}

// applyNodeCaps has demands whose rules over hosts concern no other class be restricted by a number alone. Where a
// machine may hold two demands of one class they are not.
func (p *packingProblem) applyNodeCaps() {
	first := map[*class]int{}
	for i, d := range p.demands {
		if d.class.maxPerNewNode == 0 {
			continue
		}
		if p.maxEach == nil {
			p.maxEach = slices.Repeat([]int64{unlimited}, len(p.demands))
		}
		p.maxEach[i], p.restricted[i] = d.class.maxPerNewNode, false
		j, ok := first[d.class]
		if !ok {
			first[d.class] = i
			continue
		}
		for w, bits := range d.offers.bits {
			if bits&p.demands[j].offers.bits[w] != 0 {
				p.restricted[i], p.restricted[j] = true, true
			}
		}
	}
}

// narrowRow is what a pod of a demand asks for, and that as a share of pricedPacking.largest, where there are few
// enough resources to look at all of them at once.
type narrowRow struct{ request, share [4]int64 }

// requestOf is what a pod of a demand asks for.
func (p *packingProblem) requestOf(d int) []int64 {
	if p.narrowRows != nil {
		return p.narrowRows[d].request[:p.s.numDims]
	}
	at := d * (p.s.numDims + len(p.s.dims))
	return p.wideRows[at : at+p.s.numDims]
}

// shareOf is that request as a share of the largest machine's resources, in parts of 1<<shareShift; mutual
// anti-affinity groups have none.
func (p *packingProblem) shareOf(d int) []int64 {
	if p.narrowRows != nil {
		return p.narrowRows[d].share[:len(p.s.dims)]
	}
	at := d*(p.s.numDims+len(p.s.dims)) + p.s.numDims
	return p.wideRows[at : at+len(p.s.dims)]
}

// machineKey is what offers have in common that are one machine.
type machineKey struct {
	pool, size, quantity int
	price                int64
	instanceType         string
	admits               uint64
	more                 string // of what it admits, and its variant
}

func machineKeyOf(o *offer, admits []uint64) machineKey {
	k := machineKey{pool: o.pool, size: o.size, quantity: o.quantity, price: o.price, instanceType: o.instanceType.Name, admits: admits[0]}
	if len(admits) > 1 || len(o.variant) > 0 {
		more := appendWords(nil, admits[1:])
		for _, r := range o.variant {
			more = append(append(more, r.Values[0]...), 0)
		}
		k.more = string(more)
	}
	return k
}

// dropDominated drops machines that another dominates: no less capacity, no higher price, no fewer demands, and
// nothing that limits tell apart. It sorts them by price.
func (p *packingProblem) dropDominated(all []*machine) []*machine {
	slices.SortStableFunc(all, func(a, b *machine) int {
		return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(b.available[0], a.available[0]))
	})
	nd := p.s.numDims
	var kept []*machine
	most := make([]int64, 0, len(all)*nd) // by machine kept: the room that it or one before it has
	beaten := func(m *machine) bool {
		for i := len(kept) - 1; i >= 0; i-- {
			for k, v := range most[i*nd:][:nd] {
				if v < m.available[k] {
					return false // nor does any before
				}
			}
			if p.dominates(kept[i], m) {
				return true
			}
		}
		return false
	}
	for _, m := range all {
		if beaten(m) {
			continue
		}
		for k := range nd {
			v := m.available[k]
			if n := len(kept); n > 0 {
				v = max(v, most[(n-1)*nd+k])
			}
			most = append(most, v)
		}
		kept = append(kept, m)
	}
	return kept
}

// dominates says whether a is as good as b for every demand, price aside.
func (p *packingProblem) dominates(a, b *machine) bool {
	if a.quantity >= 0 || len(a.ports) > 0 || !isWithin(&b.available, &a.available, p.s.numDims) {
		return false
	}
	for i, w := range b.admits {
		if w&^a.admits[i] != 0 {
			return false
		}
	}
	l := &p.s.families[a.pool]
	if !l.limited {
		return true
	}
	if a.pool != b.pool {
		return false
	}
	for d, h := range l.has {
		if h && a.capacity.At(model.Dim(d)) > b.capacity.At(model.Dim(d)) {
			return false
		}
	}
	return true
}

// machineAdmits says whether pods of a demand may go to the machine, resources aside.
func (p *packingProblem) machineAdmits(m *machine, d int) bool {
	w := p.setOf[d]
	return m.admits[w>>6]>>(w&63)&1 != 0
}

// maxPodsOf is how many pods of a demand a new machine may hold whatever fits; see class.maxPerNewNode.
func (p *packingProblem) maxPodsOf(d int) int64 {
	if p.maxEach == nil {
		return unlimited
	}
	return p.maxEach[d]
}

// ownHostLimit is how many pods of a demand one new machine may hold by the class's own ports and anti-affinity.
func (p *packingProblem) ownHostLimit(d int) int64 {
	c := p.demands[d].class
	n := unlimited
	for i := range c.topology.hostRules {
		if r := &c.topology.hostRules[i]; r.selectsOwnPods && r.hard {
			if r.kind == ruleAnti {
				n = 1 // a spread sets no such limit: where every host has some, one host may have more
			}
		}
	}
	if len(c.ports) > 0 {
		n = min(n, 1)
	}
	return n
}

// patternCandidates are the demands that a pattern of the machine may hold, and how many pods of each.
func (p *packingProblem) patternCandidates(m *machine, whole []int64) (ds []int, most []int64) {
	nd := p.s.numDims
	for d, n := range whole {
		req := &p.demands[d].class.req
		if n <= 0 || !p.machineAdmits(m, d) || !fitsIn(req, &m.available, nd) {
			continue
		}
		n = min(n, timesIn(req, &m.available, nd))
		if p.relaxed {
			n = min(n, p.ownHostLimit(d))
		} else {
			n = min(n, p.maxPodsOf(d))
		}
		if n > 0 {
			ds, most = append(ds, d), append(most, n)
		}
	}
	return ds, most
}

// copiesAvailable is the first pool of a machine's family whose limits still allow some, and how many machines these
// and the limited quantity allow.
func (p *packingProblem) copiesAvailable(m *machine) (pool int, n int64) {
	for _, pool = range p.s.families[m.pool].pools {
		if n = p.s.limits[pool].copiesAllowed(m.capacity); n > 0 {
			break
		}
	}
	if m.quantity >= 0 {
		n = min(n, p.s.quantities[m.quantity])
	}
	return pool, n
}

// chargeMachines books machines against limits and limited quantities; a negative number gives them back.
func (p *packingProblem) chargeMachines(m *machine, pool int, copies int64) {
	p.s.limits[pool].charge(m.capacity, copies)
	if m.quantity >= 0 {
		p.s.quantities[m.quantity] -= copies
	}
}

// buyCopies buys copies of a pattern as far as limits allow; none is a zero batch.
func (p *packingProblem) buyCopies(mi int, items []item, copies int64, remaining []int64) batch {
	m := p.machines[mi]
	pool, most := p.copiesAvailable(m)
	copies = min(copies, most)
	if copies <= 0 {
		return batch{}
	}
	for _, it := range items {
		remaining[it.demand] -= it.count * copies
	}
	p.chargeMachines(m, pool, copies)
	return batch{machine: m, pool: pool, items: slices.Clone(items), copies: copies}
}

// chargeBatches charges limits for batches whose charge was taken back.
func (p *packingProblem) chargeBatches(batches []batch) {
	for _, b := range batches {
		p.chargeMachines(b.machine, b.pool, b.copies)
	}
}

// refundBatches takes back what limits were charged for batches.
func (p *packingProblem) refundBatches(batches []batch) {
	for _, b := range batches {
		p.chargeMachines(b.machine, b.pool, -b.copies)
	}
}

// adjustedCostOf is what plans are compared by: each pattern counts as the machine that holds it at the least
// adjusted cost, which is what will be bought, whichever it was made for.
func (p *packingProblem) adjustedCostOf(batches []batch) (sum int64) {
	for i := range batches {
		sum += p.cheapestHolder(&batches[i]) * batches[i].copies
	}
	return sum
}

// cheapestHolder is the adjusted cost of that machine.
func (p *packingProblem) cheapestHolder(b *batch) int64 {
	least := b.machine.adjustedCost
	if b.machine.quantity >= 0 {
		return least
	}
	var sum vec
	for _, it := range b.items {
		c := p.demands[it.demand].class
		if len(c.ports) > 0 || len(c.csiVolumes) > 0 {
			return least
		}
		for k, v := range p.requestOf(it.demand) {
			sum[k] += v * it.count
		}
	}
	p.s.steps += int64(len(p.machines)) / 4
	for _, m := range p.machines {
		if m.adjustedCost < least && m.quantity < 0 && fitsIn(&sum, &m.available, p.s.numDims) && !slices.ContainsFunc(b.items, func(it item) bool { return !p.machineAdmits(m, it.demand) }) {
			least = m.adjustedCost
		}
	}
	return least
}

// countPodsIn is how many pods batches hold.
func countPodsIn(batches []batch) (n int64) {
	for _, b := range batches {
		for _, it := range b.items {
			n += it.count * b.copies
		}
	}
	return n
}
