// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// Machine is equal offers: one type of one pool at one price with the same capacity, which admit the same demands.
// Only machines that no other dominates in capacity, price and demands are packed.
type Machine struct {
	pool         int
	instanceType *model.InstanceType
	Available    problem.Vec // for pods; less than the type has where MinValues asks for other types too
	Price        int64       // micro-dollars an hour
	AdjustedCost int64       // see AdjustPrice, with limit prices; plans are compared by it
	Admits       []uint64    // offer sets of demands, as a bitmap by number in Market
	offers       []int
	ports        problem.TakenPorts // by DaemonSets
	traits       problem.NodeTraits
	searchFutile bool            // searching its patterns for a ceiling came to no end
	Quantity     int             // as Offer.Quantity
	capacity     model.Resources // that limits are charged
}

// Item is a number of pods of one demand on a machine.
type Item struct {
	Demand int
	Count  int64
}

// Pattern is what one machine holds, and what that is worth at the duals, micro-dollars << DualShift.
type Pattern struct {
	Machine int
	items   []Item // by demand
	worth   int64
	made    bool
}

// batch is copies of one machine with one pattern.
type batch struct {
	machine *Machine
	pool    int // of the machine's family
	items   []Item
	copies  int64
}

// Market is demands and the machines that they may be packed onto, all of one level.
type Market struct {
	topology.Compiled
	Purchases *Purchases
	Demands   []*Demand

	offerSets []*problem.OfferSet
	SetOf     []int // by demand: the number of its offer set
	Machines  []*Machine

	requestBlocks []requestBlock // blocksEach of them a demand: what a pod of it asks for
	blocksEach    int
	sizeOf        []int32                  // by demand: those that follow each other with one number ask for the same
	maxEach       []int64                  // by demand: as many on a machine and no more; nil: as many as have room
	Restricted    []bool                   // by demand: rules, ports or volumes say what may be beside its pods
	neighbours    []problem.NeighbourRules // by demand: which
	Relaxed       bool                     // for a bound: patterns need only keep the rules that a bound knows

	exclusivityDemands [][]int           // by mutual anti-affinity group; see exclusivityDemandsOf
	feasibilityIndex   *feasibilityIndex // nil: not made for these machines yet
	FreeAccess         []int8            // by demand: how much free capacity is open to it; nil: not told apart by that
	kindOf             []int32           // by demand: those of one number ask for the same and may go to the same offers
	numKinds           int               // how many numbers there are
}

// Prices is what pods and resources are worth in a packing: dual prices, which guide greedy packing and prove
// bounds.
type Prices struct {
	topology.Compiled
	Market *Market

	resourcePrices  [problem.MaxDims]int64   // of a unit of each resource, micro-dollars << PriceShift
	resourcePricing *resourcePricing         // nil: not made for these machines yet
	feasibility     *FeasibilityClasses      // prices of resources by who may go where
	uniformPrices   bool                     // who may go where makes next to no difference to prices
	freeCapacity    [problem.MaxDims]float64 // of existing nodes, which is filled before anything is bought
	largest         problem.Vec              // the most of each resource that a machine has
	lowerBound      int64                    // what the demands cost at least by resource prices, were they alone, micro-dollars an hour

	Dual         []int64   // by demand: what one pod is worth, micro-dollars << DualShift
	resourceDual []int64   // by demand: what its resources are worth, in the same unit
	biasedDual   []int64   // by demand: dual, exaggerated or not, as patterns are built by it
	dualFactor   []float64 // by demand: how much more than its resources a pod is worth, for what it cost before; nil: no more. See learnDuals

	exclusivityPrices [problem.MaxDims]exclusivityPrice // by mutual anti-affinity group
	adaptivePrices    bool                              // see adaptExclusivityPrices
	priceAdaptations  int                               // how often exclusivity prices were looked at
}

// Packing is the work of buying machines for demands within one level: patterns, and the order to buy them in.
type Packing struct {
	topology.Compiled
	Market *Market
	Prices *Prices

	stepBudget int64 // for refining
	separated  bool  // preferences of pods to be apart are kept
	lossShift  uint  // binary digits of the loss that greedy overlooks

	buf         patternBuffers
	openDemands []int32   // demands that pods may be left of
	openBySet   []int     // by offer set: how many of them
	openLists   [][]int32 // with adaptive prices, instead of openDemands: by offer set
	samples     int       // taken so far
	sampleSize  int       // candidates kept of many
}

// NewPacking is a packing of demands onto the machines of a level.
func (s *Purchases) NewPacking(l problem.Level, demands []*Demand) *Packing {
	return s.NewPackingFor(l, demands, true)
}

// NewPackingFor is a packing of demands onto the machines of a level, narrowed to what MinValues leaves of them or
// not: a bound may not narrow.
func (s *Purchases) NewPackingFor(l problem.Level, demands []*Demand, keepMinValues bool) *Packing {
	p := &Packing{Compiled: s.Compiled, openDemands: make([]int32, 0, len(demands))}
	p.Market = &Market{Compiled: s.Compiled, Purchases: s, SetOf: make([]int, len(demands)), sizeOf: make([]int32, len(demands)), Demands: demands, Restricted: make([]bool, len(demands)),
		neighbours: make([]problem.NeighbourRules, len(demands))}
	p.Prices = &Prices{Compiled: s.Compiled, Market: p.Market}
	p.Market.blocksEach = max(1, (s.In.NumDims+blockSize-1)/blockSize)
	p.Market.requestBlocks = make([]requestBlock, len(demands)*p.Market.blocksEach)
	number := map[int]int{}
	var offerSets []*problem.OfferSet
	for i, d := range demands {
		n, ok := number[d.Offers.ID]
		if !ok {
			n = len(offerSets)
			number[d.Offers.ID] = n
			offerSets = append(offerSets, d.Offers)
		}
		p.Market.SetOf[i], p.Market.sizeOf[i] = n, int32(i)
		if i > 0 && d.Class.Req == demands[i-1].Class.Req {
			p.Market.sizeOf[i] = p.Market.sizeOf[i-1]
		}
		p.openDemands = append(p.openDemands, int32(i))
		for k, v := range d.Class.Req[:s.In.NumDims] {
			p.Market.requestBlocks[i*p.Market.blocksEach+k/blockSize].request[k%blockSize] = v
		}
		p.Market.Restricted[i], p.Market.neighbours[i] = d.Class.RestrictsNeighbours(), d.Class.NeighbourRules()
	}
	p.dropIdleRules()
	p.lossShift, p.sampleSize = 20, 4*maxCandidates
	if slices.Contains(p.Market.Restricted, true) {
		p.sampleSize = maxCandidates
		p.lossShift = 8 // patterns change with every restricted pod: making all anew each time would take too long
	}
	if keepMinValues {
		p.Market.applyNodeCaps()
	}
	p.buf = patternBuffers{used: make([]int64, len(demands)), counts: make([]int32, len(s.Topo.Counters))}
	all := s.machinesOf(l, offerSets, func(i int) bool { return s.Catalog.Offers[i].DominatedBy < 0 })
	p.Market.offerSets, p.openBySet = offerSets, make([]int, len(offerSets))
	for _, j := range p.Market.SetOf {
		p.openBySet[j]++
	}
	if keepMinValues {
		v := valueNarrowing{Compiled: s.Compiled, market: p.Market}
		all = v.restrictAllToMinValues(l, all)
	}
	p.Market.Machines = p.Market.dropDominated(all)
	return p
}

// dropIdleRules leaves out of the rules that patterns are held against those that pods on nodes have against others: no
// pod of the demands is counted by them, and there may be thousands.
func (p *Packing) dropIdleRules() {
	counted := make([]bool, len(p.Topo.Counters))
	for _, d := range p.Market.Demands {
		for _, id := range d.Class.Topology.HostCounters {
			counted[id] = true
		}
	}
	isAsked := func(r *problem.Rule) bool { return r.Kind != problem.RuleAntiOfOthers || counted[r.Counter] }
	for i := range p.Market.neighbours {
		h, kept := &p.Market.neighbours[i], 0
		for j := range h.Rules {
			if isAsked(&h.Rules[j]) {
				kept++
			}
		}
		if kept == len(h.Rules) {
			continue
		}
		rules := make([]problem.Rule, 0, kept) // the class's own list stays as it is
		for j := range h.Rules {
			if isAsked(&h.Rules[j]) {
				rules = append(rules, h.Rules[j])
			}
		}
		h.Rules = rules
	}
}

// machinesOf makes machines of the offers of a level that are in some of the sets, numbered by place in the list, and are
// wanted. Offers that nothing tells apart are one machine.
func (s *Purchases) machinesOf(l problem.Level, offerSets []*problem.OfferSet, wanted func(i int) bool) []*Machine {
	words := (len(offerSets) + 63) / 64
	byKey := make(map[machineKey]*Machine, min(len(s.Catalog.Sizes), l.Hi-l.Lo))
	var all []*Machine
	admits := make([]uint64, words)
	any := offerSets[0]
	if len(offerSets) > 1 {
		any = &problem.OfferSet{Bits: slices.Clone(any.Bits)}
	}
	for _, set := range offerSets[1:] {
		for i := l.Lo >> 6; i<<6 < l.Hi; i++ {
			any.Bits[i] |= set.Bits[i]
		}
	}
	any.ForEach(l, func(i int) {
		if !wanted(i) {
			return
		}
		o := &s.Catalog.Offers[i]
		clear(admits)
		for j, set := range offerSets {
			if set.Contains(i) {
				admits[j>>6] |= 1 << (j & 63)
			}
		}
		s.Work.Steps += int64(len(offerSets))/8 + 1
		key := machineKeyOf(o, admits)
		m := byKey[key]
		if m == nil {
			m = &Machine{pool: o.Pool, instanceType: o.InstanceType, Available: *o.Allocatable, Price: o.Price, ports: problem.TakenPorts(nil).Take(&o.Ports), traits: o.Traits(), Quantity: o.Quantity,
				AdjustedCost: s.In.AdjustPrice(o.Price) + s.limitCharge(o.Pool, o.Charge), Admits: slices.Clone(admits),
				capacity: o.Charge}
			byKey[key] = m
			all = append(all, m)
		}
		m.offers = append(m.offers, i)
	})
	return all
}

// applyNodeCaps has demands whose rules over hosts concern no other class be restricted by a number alone. Where a
// machine may hold two demands of one class they are not.
func (p *Market) applyNodeCaps() {
	first := map[*problem.Class]int{}
	for i, d := range p.Demands {
		if d.Class.MaxPerNewNode == 0 {
			continue
		}
		if p.maxEach == nil {
			p.maxEach = slices.Repeat([]int64{problem.Unlimited}, len(p.Demands))
		}
		p.maxEach[i], p.Restricted[i] = d.Class.MaxPerNewNode, false
		j, ok := first[d.Class]
		if !ok {
			first[d.Class] = i
			continue
		}
		for w, bits := range d.Offers.Bits {
			if bits&p.Demands[j].Offers.Bits[w] != 0 {
				p.Restricted[i], p.Restricted[j] = true, true
			}
		}
	}
}

// requestBlock is what a pod of a demand asks for of some resources, and that as a share of Prices.largest, in parts of
// 1<<shareShift; mutual anti-affinity groups have no share.
type requestBlock struct{ request, share [blockSize]int64 }

// blockSize is how many resources a block has.
const blockSize = 4

// machineKey is what offers have in common that are one machine.
type machineKey struct {
	pool, size, quantity int
	price                int64
	instanceType         string
	admits               uint64
	more                 string // of what it admits, and its variant
}

func machineKeyOf(o *problem.Offer, admits []uint64) machineKey {
	k := machineKey{pool: o.Pool, size: o.Size, quantity: o.Quantity, price: o.Price, instanceType: o.InstanceType.Name, admits: admits[0]}
	if len(admits) > 1 || len(o.Variant) > 0 {
		more := problem.AppendWords(nil, admits[1:])
		for _, r := range o.Variant {
			more = append(append(more, r.Values[0]...), 0)
		}
		k.more = string(more)
	}
	return k
}

// dropDominated drops machines that another dominates: no less capacity, no higher price, no fewer demands, and
// nothing that limits tell apart. It sorts them by price.
func (p *Market) dropDominated(all []*Machine) []*Machine {
	slices.SortStableFunc(all, func(a, b *Machine) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(b.Available[0], a.Available[0]))
	})
	var kept []*Machine
	for _, m := range all {
		if !slices.ContainsFunc(kept, func(k *Machine) bool { return p.dominates(k, m) }) {
			kept = append(kept, m)
		}
	}
	return kept
}

// dominates says whether a is as good as b for every demand, price aside.
func (p *Market) dominates(a, b *Machine) bool {
	if a.Quantity >= 0 || !problem.IsWithin(&b.Available, &a.Available, p.In.NumDims) || !a.traits.Dominates(&b.traits) {
		return false
	}
	for i, w := range b.Admits {
		if w&^a.Admits[i] != 0 {
			return false
		}
	}
	l := &p.Catalog.Families[a.pool]
	if !l.Limited {
		return true
	}
	if a.pool != b.pool {
		return false
	}
	for d, h := range l.Has {
		if h && a.capacity.At(model.Dim(d)) > b.capacity.At(model.Dim(d)) {
			return false
		}
	}
	return true
}

// MachineAdmits says whether pods of a demand may go to the machine, resources aside.
func (p *Market) MachineAdmits(m *Machine, d int) bool {
	w := p.SetOf[d]
	return m.Admits[w>>6]>>(w&63)&1 != 0
}

// maxPodsOf is how many pods of a demand a new machine may hold whatever fits; see Class.MaxPerNewNode.
func (p *Market) maxPodsOf(d int) int64 {
	if p.maxEach == nil {
		return problem.Unlimited
	}
	return p.maxEach[d]
}

// OwnHostLimit is how many pods of a demand one new machine may hold by the class's own ports and anti-affinity.
func (p *Market) OwnHostLimit(d int) int64 {
	c := p.Demands[d].Class
	n := problem.Unlimited
	for i := range c.Topology.HostRules {
		if r := &c.Topology.HostRules[i]; r.SelectsOwnPods && r.Hard {
			if r.Kind == problem.RuleAnti {
				n = 1 // a spread sets no such limit: where every host has some, one host may have more
			}
		}
	}
	return min(n, c.MostAlone(p.In))
}

// patternCandidates are the demands that a pattern of the machine may hold, and how many pods of each.
func (p *Market) patternCandidates(m *Machine, whole []int64) (ds []int, most []int64) {
	nd := p.In.NumDims
	for d, n := range whole {
		req := &p.Demands[d].Class.Req
		if n <= 0 || !p.MachineAdmits(m, d) || !problem.FitsIn(req, &m.Available, nd) {
			continue
		}
		n = min(n, problem.TimesIn(req, &m.Available, nd))
		if p.Relaxed {
			n = min(n, p.OwnHostLimit(d))
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
func (p *Market) copiesAvailable(m *Machine) (pool int, n int64) {
	for _, pool = range p.Catalog.Families[m.pool].Pools {
		if n = p.Purchases.Limits[pool].CopiesAllowed(m.capacity); n > 0 {
			break
		}
	}
	if m.Quantity >= 0 {
		n = min(n, p.Purchases.Quantities[m.Quantity])
	}
	return pool, n
}

// chargeMachines books machines against limits and limited quantities; a negative number gives them back.
func (p *Market) chargeMachines(m *Machine, pool int, copies int64) {
	p.Purchases.Limits[pool].Charge(m.capacity, copies)
	if m.Quantity >= 0 {
		p.Purchases.Quantities[m.Quantity] -= copies
	}
}

// buyCopies buys copies of a pattern as far as limits allow; none is a zero batch.
func (p *Market) buyCopies(mi int, items []Item, copies int64, remaining []int64) batch {
	m := p.Machines[mi]
	pool, most := p.copiesAvailable(m)
	copies = min(copies, most)
	if copies <= 0 {
		return batch{}
	}
	for _, it := range items {
		remaining[it.Demand] -= it.Count * copies
	}
	p.chargeMachines(m, pool, copies)
	return batch{machine: m, pool: pool, items: slices.Clone(items), copies: copies}
}

// chargeBatches charges limits for batches whose charge was taken back.
func (p *Market) chargeBatches(batches []batch) {
	for _, b := range batches {
		p.chargeMachines(b.machine, b.pool, b.copies)
	}
}

// refundBatches takes back what limits were charged for batches.
func (p *Market) refundBatches(batches []batch) {
	for _, b := range batches {
		p.chargeMachines(b.machine, b.pool, -b.copies)
	}
}

// adjustedCostOf is what plans are compared by: each pattern counts as the machine that holds it at the least
// adjusted cost, which is what will be bought, whichever it was made for.
func (p *Market) adjustedCostOf(batches []batch) (sum int64) {
	for i := range batches {
		sum += p.cheapestHolder(&batches[i]) * batches[i].copies
	}
	return sum
}

// cheapestHolder is the adjusted cost of that machine.
func (p *Market) cheapestHolder(b *batch) int64 {
	least := b.machine.AdjustedCost
	if b.machine.Quantity >= 0 {
		return least
	}
	var sum problem.Vec
	for _, it := range b.items {
		c := p.Demands[it.Demand].Class
		if c.Occupies {
			return least
		}
		for k, v := range c.Req[:p.In.NumDims] {
			sum[k] += v * it.Count
		}
	}
	p.Work.Steps += int64(len(p.Machines)) / 4
	for _, m := range p.Machines {
		if m.AdjustedCost < least && m.Quantity < 0 && problem.FitsIn(&sum, &m.Available, p.In.NumDims) && !slices.ContainsFunc(b.items, func(it Item) bool { return !p.MachineAdmits(m, it.Demand) }) {
			least = m.AdjustedCost
		}
	}
	return least
}

// countPodsIn is how many pods batches hold.
func countPodsIn(batches []batch) (n int64) {
	for _, b := range batches {
		for _, it := range b.items {
			n += it.Count * b.copies
		}
	}
	return n
}
