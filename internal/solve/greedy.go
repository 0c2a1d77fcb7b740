// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// machine is offers alike: one type of one pool at one price with the same room, which admit the same demands. Only machines that no
// other beats in room, price and demands are packed.
type machine struct {
	pool         int
	instanceType *model.InstanceType
	available    vec
	price        int64
	adjustedCost int64    // price and what a machine costs beside it: what plans are compared by
	admits       []uint64 // demand offer sets, by number in packing
	offers       []int
	ports        []model.HostPort
	searchFutile bool // no use to search its fills for a ceiling
	quantity     int  // of solver.quantities, -1: as many as wanted
	capacity     model.Resources
}

// item is a number of pods of one demand on a machine.
type item struct {
	demand int
	count  int64
}

// fill is what one machine holds.
type fill struct {
	machine int
	items   []item // by demand
	worth   int64
	known   bool
}

// packing is the work of buying machines for demands within one level.
type packing struct {
	s                  *solver
	demands            []*demand
	openDemands        []int32                   // demands that pods may be left of
	openBySet          []int                     // by offer set: how many of them
	adaptivePrices     bool                      // see adaptExclusivityPrices
	bunched            bool                      // see numberAlikeDemands
	sizeOf             []int32                   // by demand: those of one number ask for the same
	numSizes           int                       // how many numbers there are
	alike              []int32                   // by demand: those of one number are worth the same, too
	openLists          [][]int32                 // where crowded, instead of open: by offer set
	exclusivityDemands [][]int                   // the demands of each; see exclusivityDemandsOf
	exclusivityPrices  [maxDims]exclusivityPrice // by mutual anti-affinity group
	priceAdaptations   int                       // how often exclusivity prices were looked at
	kindOf             []int32                   // by demand: those of one number are one to feasibility classes
	numKinds           int                       // how many numbers there are
	feasibilityIndex   *feasibilityIndex         // nil: not made for these machines yet
	resourcePricing    *resourcePricing          // the same
	freeAccess         []int8                    // by demand: how much free capacity is open to it; nil: not told apart by that
	setOf              []int                     // by demand, number of its offer set
	offerSets          []*offerSet
	machines           []*machine
	resourcePrices     [maxDims]int64      // what a unit of each resource is worth, micro-dollars << weightShift
	uniformPrices      bool                // who may go where makes next to no difference to prices
	feasibility        *feasibilityClasses // the same by who may go where
	lossShift          uint                // binary digits of the loss that greedy overlooks
	lowerBound         int64               // what the demand costs at least, by resource prices, were it alone
	freeCapacity       [maxDims]float64    // room that will be filled before anything is bought
	largest            vec                 // the most of each resource that a machine has
	narrowRows         []narrowRow         // by demand
	wideRows           []int64             // where there are more resources than a row has, instead of it: by demand the request, then the shares
	resourceDual       []int64             // by demand: what its resources are worth
	dual               []int64             // by demand: what one pod is worth, micro-dollars << worthShift
	biasedDual         []int64             // by demand: worth, exaggerated or not, as fills are built by it
	dualFactor         []float64           // by demand: how much more than its resources a pod is worth, for what it cost before; nil: no more. See learn
	restricted         []bool              // by demand: rules or ports or volumes that a fill must keep
	neighbours         []neighbourRules    // by demand
	maxEach            []int64             // by demand: as many on a machine and no more; nil: whatever has room
	separated          bool                // preferences of pods to be apart are kept
	buf                fillBuffers
	stepBudget         int64 // steps of refining
	interchangeable    map[interchangeKey][]interchangeableOffer
	relaxed            bool // a machine holds what no rule that a bound knows forbids
	samples            int
	sampleSize         int // candidates kept of many
}

// dualShift gives values more digits than prices have.
const dualShift = 12

// newPacking finds the machines of a level that matter for the demands.
func (s *solver) newPacking(l level, demands []*demand) *packing {
	return s.newPackingFor(l, demands, true)
}

// newPackingFor narrows machines to what minValues leaves of them, or does not: a bound may not.
func (s *solver) newPackingFor(l level, demands []*demand, narrow bool) *packing {
	p := &packing{s: s, setOf: make([]int, len(demands)), demands: demands, restricted: make([]bool, len(demands)),
		neighbours: make([]neighbourRules, len(demands)), openDemands: make([]int32, 0, len(demands))}
	if s.numDims <= len(narrowRow{}.request) {
		p.narrowRows = make([]narrowRow, len(demands))
	} else {
		p.wideRows = make([]int64, len(demands)*(s.numDims+len(s.dims)))
	}
	number := map[int]int{}
	var masks []*offerSet
	for i, d := range demands {
		n, ok := number[d.offers.id]
		if !ok {
			n = len(masks)
			number[d.offers.id] = n
			masks = append(masks, d.offers)
		}
		p.setOf[i] = n
		p.openDemands = append(p.openDemands, int32(i))
		copy(p.requestOf(i), d.class.req[:s.numDims])
		p.restricted[i], p.neighbours[i] = d.class.restrictsNeighbours(), d.class.neighbourRules()
	}
	p.lossShift, p.sampleSize = 20, 4*maxCandidates
	if slices.Contains(p.restricted, true) {
		p.sampleSize = maxCandidates
		p.lossShift = 8 // fills change with every pod that hosts tell apart: making all anew each time would take for ever
	}
	if narrow {
		p.applyNodeCaps()
	}
	p.buf = fillBuffers{used: make([]int64, len(demands)), counts: make([]int32, len(s.counters))}
	words := (len(masks) + 63) / 64
	byKey := make(map[machineKey]*machine, min(len(s.sizes), l.hi-l.lo))
	var all []*machine
	admits := make([]uint64, words)
	any := masks[0]
	if len(masks) > 1 {
		any = &offerSet{bits: slices.Clone(any.bits)}
	}
	for _, set := range masks[1:] {
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
		for j, set := range masks {
			if set.contains(i) {
				admits[j>>6] |= 1 << (j & 63)
			}
		}
		s.steps += int64(len(masks))/8 + 1
		key := machineKeyOf(o, admits)
		m := byKey[key]
		if m == nil {
			m = &machine{pool: o.pool, instanceType: o.instanceType, available: *o.allocatable, price: o.price, adjustedCost: s.adjustPrice(o.price) + s.limitCharge(o.pool, o.instanceType.Capacity), admits: slices.Clone(admits), ports: o.ports, quantity: o.quantity,
				capacity: o.instanceType.Capacity}
			byKey[key] = m
			all = append(all, m)
		}
		m.offers = append(m.offers, i)
	})
	p.offerSets, p.openBySet = masks, make([]int, len(masks))
	for _, j := range p.setOf {
		p.openBySet[j]++
	}
	for _, m := range all {
		if narrow {
			p.restrictToMinValues(m, s.minValuesOf(m.pool))
		}
	}
	p.machines = p.dropDominated(all)
	return p
}

// applyNodeCaps has demands that rules over hosts do not tie to others be told apart by a number alone. Where a machine may hold two demands of one
// class they are not.
func (p *packing) applyNodeCaps() {
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

// narrowRow is what a pod of a demand asks for and that as a share of largest, where there are few enough resources to look at all of them at once.
type narrowRow struct{ request, share [4]int64 }

// requestOf is what a pod of a demand asks for.
func (p *packing) requestOf(d int) []int64 {
	if p.narrowRows != nil {
		return p.narrowRows[d].request[:p.s.numDims]
	}
	at := d * (p.s.numDims + len(p.s.dims))
	return p.wideRows[at : at+p.s.numDims]
}

// shareOf is its request as a share of largest; mutual anti-affinity groups have none.
func (p *packing) shareOf(d int) []int64 {
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

// dropDominated drops machines that another beats: no less room, no higher price, no fewer demands, and nothing that limits tell apart.
func (p *packing) dropDominated(all []*machine) []*machine {
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

func (p *packing) dominates(a, b *machine) bool {
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

func (p *packing) machineAdmits(m *machine, d int) bool {
	w := p.setOf[d]
	return m.admits[w>>6]>>(w&63)&1 != 0
}

// copiesAvailable is the first pool of a machine's family whose limits still allow some, and how many of it these and the limited quantity do.
func (p *packing) copiesAvailable(m *machine) (pool int, n int64) {
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

// chargeMachines books machines against limits and limited quantity; a negative number gives them back.
func (p *packing) chargeMachines(m *machine, pool int, copies int64) {
	p.s.limits[pool].charge(m.capacity, copies)
	if m.quantity >= 0 {
		p.s.quantities[m.quantity] -= copies
	}
}

// packGreedily buys machines for the demands until nothing more can be bought. left is by demand and is counted down. Prices are found anew
// whenever half of what was there to buy is bought: what is left asks for another mix of resources.
func (p *packing) packGreedily(remaining []int64) []batch {
	var out []batch
	r := ranking{p: p, fills: make([]fill, len(p.machines))}
	value := p.totalWorth(remaining)
	mark, anew := value, true
	all, to := slices.Clone(p.openDemands), slices.Clone(p.openBySet)
	p.openLists = p.openByOfferSet()
	defer func() { p.openDemands, p.openBySet, p.openLists = all, to, nil }()
	for {
		if len(out)%dropExhaustedEvery == 0 {
			p.dropExhausted(remaining)
		}
		if anew {
			r.rebuild(remaining)
			anew = false
		}
		best := r.bestFill(remaining)
		if best < 0 {
			return out
		}
		f := &r.fills[best]
		copies := unlimited
		for _, it := range f.items {
			copies = min(copies, remaining[it.demand]/it.count)
		}
		b := p.buyCopies(f.machine, f.items, copies, remaining)
		out = append(out, b)
		if value -= float64(f.worth) * float64(b.copies); value < mark/2 && len(remaining) > 2 {
			p.priceDemands(remaining)
			value = p.totalWorth(remaining)
			mark, anew = value, true
		} else if p.adaptivePrices {
			r.adaptExclusivityPrices(&b, f.worth)
		}
	}
}

// dropExhaustedEvery is after how many purchases demands of which nothing is left are dropped.
const dropExhaustedEvery = 32

// totalWorth is what pods are worth together; it only says when to price anew.
func (p *packing) totalWorth(remaining []int64) (sum float64) {
	for d, n := range remaining {
		sum += float64(p.dual[d]) * float64(n)
	}
	return sum
}

// batch is copies of one machine with one fill.
type batch struct {
	machine *machine
	pool    int // of the machine's family
	items   []item
	copies  int64
}

// ranking is machines by what their fills are worth for their price, in a heap: the best is the first, of equals the first by number.
type ranking struct {
	p     *packing
	fills []fill
	heap  []int32
}

// rebuild forgets all fills. Where the problem is crowded one is made when it might be the best: until then it stands where the most that it could be
// worth puts it.
func (r *ranking) rebuild(remaining []int64) {
	p := r.p
	p.numberAlikeDemands()
	u, dear, pods := p.resourcePrices, 1.0, int64(0)
	if p.adaptivePrices {
		p.countRemaining(remaining)
		for k := range p.s.numDims {
			u[k] = max(u[k], p.feasibility.highestPrice(k, func(*feasibilityClass) bool { return true }))
		}
		for d, n := range remaining {
			pods += n
			if p.dualFactor != nil && n > 0 {
				dear = max(dear, p.dualFactor[d])
			}
		}
	}
	r.heap = r.heap[:0]
	for i, m := range p.machines {
		f := &r.fills[i]
		f.machine, f.known, f.items = i, false, f.items[:0]
		if p.adaptivePrices {
			var v sum128
			for k := range p.s.numDims {
				if m.available[k] > 0 {
					v.addProduct(u[k], m.available[k])
				}
			}
			most := int64(v.hi<<(64-priceShift+dualShift) | v.lo>>(priceShift-dualShift))
			f.worth = int64(float64(most)*dear) + pods // worth is rounded up to at least one
		} else {
			p.buildFill(f, remaining)
		}
		r.heap = append(r.heap, int32(i))
	}
	r.heapify()
}

// heapify makes a heap of the machines left.
func (r *ranking) heapify() {
	for i := len(r.heap)/2 - 1; i >= 0; i-- {
		r.siftDown(i)
	}
}

// isBetter says whether the fill of machine a is better than that of b.
func (r *ranking) isBetter(a, b int32) bool {
	h1, l1 := bits.Mul64(uint64(r.fills[a].worth), uint64(r.p.machines[b].adjustedCost))
	h2, l2 := bits.Mul64(uint64(r.fills[b].worth), uint64(r.p.machines[a].adjustedCost))
	if h1 == h2 && l1 == l2 {
		return a < b
	}
	return h1 > h2 || h1 == h2 && l1 > l2
}

// siftDown moves an entry of the heap behind those that are better.
func (r *ranking) siftDown(i int) {
	for {
		c := 2*i + 1
		if c >= len(r.heap) {
			return
		}
		if c+1 < len(r.heap) && r.isBetter(r.heap[c+1], r.heap[c]) {
			c++
		}
		if !r.isBetter(r.heap[c], r.heap[i]) {
			return
		}
		r.heap[i], r.heap[c] = r.heap[c], r.heap[i]
		i = c
	}
}

// dropIfUseless takes an entry of the heap out for good if its machine can't be had or holds nothing: limits only ever get tighter, and pods fewer.
func (r *ranking) dropIfUseless(i int) bool {
	f := &r.fills[r.heap[i]]
	if _, n := r.p.copiesAvailable(r.p.machines[r.heap[i]]); n > 0 && f.worth > 0 {
		return false
	}
	n := len(r.heap) - 1
	r.heap[i] = r.heap[n]
	r.heap = r.heap[:n]
	r.siftDown(i)
	return true
}

// runnerUp is the machine behind the first, -1 if there is none.
func (r *ranking) runnerUp() int32 {
	for len(r.heap) > 1 {
		i := 1
		if len(r.heap) > 2 && r.isBetter(r.heap[2], r.heap[1]) {
			i = 2
		}
		if !r.dropIfUseless(i) {
			return r.heap[i]
		}
	}
	return -1
}

// bestFill returns the machine whose fill is worth most for its price, -1 where none holds anything. A fill is made anew only when the pods left no
// longer allow the one known: with fewer pods no better one comes, near enough. One made anew is taken when it has lost next to nothing, though
// others, not made anew yet, seem a hair better.
func (r *ranking) bestFill(remaining []int64) int {
	p := r.p
	for {
		p.s.steps += int64(len(p.machines)) / 4
		for len(r.heap) > 0 && r.dropIfUseless(0) {
			continue
		}
		if len(r.heap) == 0 {
			return -1
		}
		i := r.heap[0]
		m, f := p.machines[i], &r.fills[i]
		known, stale := f.known, false
		for _, it := range f.items {
			stale = stale || remaining[it.demand] < it.count
		}
		if known && !stale {
			return int(i)
		}
		second := r.runnerUp()
		p.buildFill(f, remaining)
		hair := f.worth > 0 && (second < 0 || !ratioLess(f.worth+f.worth>>p.lossShift, m.adjustedCost, r.fills[second].worth, p.machines[second].adjustedCost))
		r.siftDown(0)
		if known && hair {
			return int(i)
		}
	}
}

// ratioLess says whether a/x < b/y, for amounts not negative. A price of zero is better than any.
func ratioLess(a, x, b, y int64) bool {
	h1, l1 := bits.Mul64(uint64(a), uint64(y))
	h2, l2 := bits.Mul64(uint64(b), uint64(x))
	return h1 < h2 || h1 == h2 && l1 < l2
}

// timesIn is how many copies of req fit.
func timesIn(req, rem *vec, nd int) int64 {
	n := unlimited
	for k := range nd {
		if req[k] > 0 {
			n = min(n, rem[k]/req[k])
		}
	}
	return n
}

// mulDiv is a*b/c without overflow, for amounts not negative and a quotient that fits.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, 1<<63-1))
}

// neighbourRules is what decides how many pods of a demand a fill takes, resources aside: beside each other in memory, for it is asked often.
type neighbourRules struct {
	class   *class
	rules   []rule
	hasMore bool // ports, volumes or a preference to be apart
}

func (c *class) neighbourRules() neighbourRules {
	return neighbourRules{c, c.topology.hostRules, len(c.ports) > 0 || len(c.csiVolumes) > 0 || c.separation.most > 0}
}

// podsNeighboursAllow is how many more pods of a demand the fill takes, ports, volumes and host topology considered.
func (p *packing) podsNeighboursAllow(d int, m *machine, used *occupancy) int64 {
	h := &p.neighbours[d]
	c, n := h.class, unlimited
	if h.hasMore {
		n = podsPortsAllow(c, used.ports)
		if p.separated && c.separation.most > 0 {
			n = min(n, max(0, c.separation.most-p.buf.used[d]))
		}
	}
	for i := range h.rules {
		r := &h.rules[i]
		if r.kind != ruleAffinity && (r.kind != ruleHostSpreadOfOthers || p.buf.counts[r.ownerCounter] > 0) {
			n = min(n, p.s.podsRuleAllows(c, r, int64(p.buf.counts[r.counter]), 0, true))
		}
	}
	if h.hasMore && n > 0 && len(c.csiVolumes) > 0 {
		if _, ok := volumesFit(c, used.handles, m.instanceType.CSILimits); !ok {
			return 0
		}
	}
	return n
}

// countInFill counts pods as in the fill.
func (p *packing) countInFill(c *class, n int64, used *occupancy) {
	for _, id := range c.topology.hostCounters {
		p.buf.counts[id] += int32(n)
		p.buf.touched = append(p.buf.touched, id)
	}
	if len(c.ports) > 0 || len(c.csiVolumes) > 0 {
		used.addClass(c.spec)
	}
}

// maxMachines is how many machines fills are made for. Catalogues of real clouds stay below it once the dominated are gone.
const maxMachines = 256

// thinMachines keeps, of too many machines, the one with the most worth for its price among those of nearly one price that admit the same
// demands, and for each demand one that holds it. What a fill becomes is chosen among all types later.
func (p *packing) thinMachines(remaining []int64) {
	if len(p.machines) <= maxMachines {
		return
	}
	nd := p.s.numDims
	worths := make([]int64, len(p.machines))
	for i, m := range p.machines {
		var v sum128
		for k := range nd {
			if m.available[k] > 0 {
				v.addProduct(max(p.resourcePrices[k], p.feasibility.highestPrice(k, func(g *feasibilityClass) bool { return g.includes(i) })), m.available[k])
			}
		}
		worths[i] = v.micro()
	}
	type bucket struct {
		pool, stock int
		admits      string
		price       int
	}
	best := map[bucket]int{}
	for i, m := range p.machines {
		k := bucket{pool: m.pool, stock: m.quantity, admits: string(appendWords(nil, m.admits))}
		for x := m.price; x > 0; x = x * 7 / 8 {
			k.price++
		}
		if was, ok := best[k]; !ok || ratioLess(worths[was], p.machines[was].adjustedCost, worths[i], m.adjustedCost) {
			best[k] = i
		}
	}
	keep := make([]bool, len(p.machines))
	for _, i := range best {
		keep[i] = true
	}
	for d, n := range remaining {
		least := -1
		for i, m := range p.machines {
			if n <= 0 || !p.machineAdmits(m, d) || !fitsIn(&p.demands[d].class.req, &m.available, nd) {
				continue
			}
			if keep[i] {
				least = -1
				break
			}
			if least < 0 || m.price < p.machines[least].price {
				least = i
			}
		}
		if least >= 0 {
			keep[least] = true
		}
	}
	var out []*machine
	for i, m := range p.machines {
		if keep[i] {
			out = append(out, m)
		}
	}
	p.machines, p.feasibilityIndex, p.resourcePricing = out, nil, nil
}

func appendWords(b []byte, words []uint64) []byte {
	for _, w := range words {
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24), byte(w>>32), byte(w>>40), byte(w>>48), byte(w>>56))
	}
	return b
}
