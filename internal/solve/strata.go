// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"math/bits"
	"slices"
)

// feasibilityClasses are prices of resources by who may go where: what only large machines hold, or only those of one zone, is worth more for the same
// room than what goes anywhere. One price a resource for all of it falls for machines that are cheap and small: it takes many of them for
// room that no large pod can use.
//
// The program behind them gives room of each machine, resource by resource, to the feasibility classes that may go there. So a certificate is a price
// for each feasibility class and resource such that no machine costs less than its room is worth, each resource at the highest price among the feasibility classes
// that the machine may hold.
type feasibilityClasses struct {
	p       *packing
	classes []feasibilityClass
	classOf []int            // by demand: its feasibility class, -1: none
	prices  [][maxDims]int64 // by feasibility class: micro-dollars << weightShift
}

// feasibilityClass is lastDemand that may go to about the same machines, taken as if each might go wherever one of them may.
type feasibilityClass struct {
	machines     []uint64 // machines, by number in packing
	requests     vec
	leastRequest vec // of each resource the least that one of its pods asks for
}

// maxFeasibilityClasses bounds the rows of the program: so many feasibility classes, a row for each of their resources.
const maxFeasibilityClasses = 24

// feasibilityClassesOf groups demands by the machines that may hold them; whole is how many pods of each there are. Sets of machines that offer each
// resource at nearly the same least price count as one: as nearly as it takes to have few enough.
func (p *packing) feasibilityClassesOf(whole []int64) *feasibilityClasses {
	if p.feasibilityIndex == nil {
		p.feasibilityIndex = p.newFeasibilityIndex()
	}
	t := p.feasibilityIndex
	t.round++
	t.sets = t.sets[:0]
	p.s.steps += int64(len(p.machines) * len(p.offerSets))
	for d, x := range p.demands {
		if whole[d] <= 0 {
			continue
		}
		k := &t.kinds[p.kindOf[d]]
		if k.round != t.round {
			if k.round == 0 {
				t.findMachines(k, p.setOf[d], &x.class.req, p.freeAccessOf(d))
			}
			p.s.steps += k.steps
			if g := k.set; g != nil && g.round != t.round {
				g.round, g.requests, g.leastRequest = t.round, vec{}, vec{}
				t.sets = append(t.sets, g)
			}
			k.round = t.round
		}
		if k.set != nil {
			k.set.addPods(&x.class.req, whole[d], p.s.numDims)
		}
	}
	words := (len(p.machines) + 63) / 64
	x := &feasibilityClasses{p: p, classOf: t.classOf}
	for digits := 8; ; digits-- {
		x.classes = x.classes[:0]
		type unit struct {
			price  [maxDims]int64
			access int8
		}
		byUnit := map[unit]int{}
		for _, g := range t.sets {
			k := unit{g.unitPrice, g.access}
			for i, v := range k.price {
				if n := bits.Len64(uint64(v)); n > digits {
					k.price[i] = v >> (n - digits) << (n - digits)
				}
				if digits < 0 {
					k.price[i] = 0
				}
			}
			at, ok := byUnit[k]
			if !ok {
				at = len(x.classes)
				byUnit[k] = at
				x.classes = append(x.classes, feasibilityClass{machines: make([]uint64, words)})
			}
			g.class = at
			x.classes[at].merge(&g.feasibilityClass, p.s.numDims)
		}
		if len(x.classes) <= maxFeasibilityClasses {
			break
		}
	}
	for d := range x.classOf {
		x.classOf[d] = -1
		if g := t.kinds[p.kindOf[d]].set; whole[d] > 0 && g != nil {
			x.classOf[d] = g.class
		}
	}
	return x
}

// feasibilityIndex is what feasibility classes of the same demands and machines have in common, however many pods are left.
type feasibilityIndex struct {
	p           *packing
	kinds       []demandKind
	byBits      map[string]*machineSet
	admitted    [][]uint64 // by offer set: the machines that it admits, and the least of each resource that all of them have
	least       []vec
	machinesBuf []uint64 // scratch
	round       int      // of strataOf
	sets        []*machineSet
	classOf     []int
}

// demandKind is lastDemand that ask for the same and may go to the same offers.
type demandKind struct {
	set   *machineSet // nil: only machines of limited quantity hold it: it is worth nothing here
	steps int64       // that finding it takes
	round int         // the last with any left; 0: not looked at yet
}

// machineSet is lastDemand that may go to the same machines.
type machineSet struct {
	feasibilityClass
	unitPrice [maxDims]int64 // least price of a unit of each resource
	access    int8
	class     int // its feasibility class
	round     int
}

func (p *packing) freeAccessOf(d int) int8 {
	if p.freeAccess == nil {
		return 0
	}
	return p.freeAccess[d]
}

func (p *packing) newFeasibilityIndex() *feasibilityIndex {
	words := (len(p.machines) + 63) / 64
	t := &feasibilityIndex{p: p, byBits: map[string]*machineSet{}, admitted: make([][]uint64, len(p.offerSets)),
		least: make([]vec, len(p.offerSets)), machinesBuf: make([]uint64, words), classOf: make([]int, len(p.demands))}
	for j := range p.offerSets {
		t.admitted[j] = make([]uint64, words)
		first := true
		for i, m := range p.machines {
			if m.quantity >= 0 || m.admits[j>>6]>>(j&63)&1 == 0 {
				continue
			}
			t.admitted[j][i>>6] |= 1 << (i & 63)
			for k := range p.s.numDims {
				if first || m.available[k] < t.least[j][k] {
					t.least[j][k] = m.available[k]
				}
			}
			first = false
		}
	}
	p.numberKinds()
	t.kinds = make([]demandKind, p.numKinds)
	return t
}

// numberKinds numbers demands that ask for the same and may go to the same offers.
func (p *packing) numberKinds() {
	if p.kindOf != nil {
		return
	}
	type alike struct {
		mask   int
		req    vec
		access int8
	}
	number, last := map[alike]int32{}, alike{mask: -1}
	p.kindOf = make([]int32, len(p.demands))
	for d := range p.demands {
		k := alike{mask: p.setOf[d], access: p.freeAccessOf(d)}
		copy(k.req[:], p.requestOf(d))
		if k == last { // those of one size follow each other, mostly
			p.kindOf[d] = p.kindOf[d-1]
			continue
		}
		last = k
		n, ok := number[k]
		if !ok {
			n = int32(len(number))
			number[k] = n
		}
		p.kindOf[d] = n
	}
	p.numKinds = len(number)
}

// findMachines looks for the machines that may hold a kind of demand.
func (t *feasibilityIndex) findMachines(x *demandKind, mask int, req *vec, access int8) {
	p, on := t.p, t.machinesBuf
	copy(on, t.admitted[mask])
	if !fitsIn(req, &t.least[mask], p.s.numDims) {
		for i, m := range p.machines {
			if on[i>>6]>>(i&63)&1 != 0 && !fitsIn(req, &m.available, p.s.numDims) {
				on[i>>6] &^= 1 << (i & 63)
			}
		}
		x.steps = int64(len(p.machines))
	}
	if !slices.ContainsFunc(on, func(w uint64) bool { return w != 0 }) {
		return
	}
	k := string(append(appendWords(nil, on), byte(access)))
	g := t.byBits[k]
	if g == nil {
		g = &machineSet{feasibilityClass: feasibilityClass{machines: slices.Clone(on)}, access: access}
		for i, m := range p.machines {
			for k := range p.s.dims {
				if on[i>>6]>>(i&63)&1 != 0 && m.available[k] > 0 {
					if v := mulDiv(m.price, 1<<priceShift, m.available[k]); g.unitPrice[k] == 0 || v < g.unitPrice[k] {
						g.unitPrice[k] = v
					}
				}
			}
		}
		t.byBits[k] = g
	}
	x.set = g
}

// addPods adds n pods of a demand.
func (g *feasibilityClass) addPods(req *vec, n int64, nd int) {
	none := g.requests == vec{}
	for k := range nd {
		if none || req[k] < g.leastRequest[k] {
			g.leastRequest[k] = req[k]
		}
		g.requests[k] += req[k] * n
	}
}

// merge adds what another feasibility class has.
func (g *feasibilityClass) merge(o *feasibilityClass, nd int) {
	for i, w := range o.machines {
		g.machines[i] |= w
	}
	none := g.requests == vec{}
	for k := range nd {
		if none || o.leastRequest[k] < g.leastRequest[k] {
			g.leastRequest[k] = o.leastRequest[k]
		}
		g.requests[k] += o.requests[k]
	}
}

// solvePrices solves the program for the demand less a part that free capacity will hold, by resource, and rounds so that the prices are a certificate.
// vacant is free capacity that the program itself gives to feasibility classes.
func (x *feasibilityClasses) solvePrices(free []float64, vacant []pooledCapacity) {
	p, nd := x.p, x.p.s.numDims
	var total [maxDims]float64
	for _, g := range x.classes {
		for k := range nd {
			total[k] += float64(g.requests[k])
		}
	}
	t := &master{p: p, pricesOnly: true}
	row := make([]int, len(x.classes)*nd) // by feasibility class and resource; -1: none
	for i := range x.classes {
		for k := range nd {
			at := i*nd + k
			row[at] = -1
			need := float64(x.classes[i].requests[k])
			if total[k] > 0 {
				need *= max(0, 1-free[k]/total[k])
			}
			m := x.cheapestSource(i, k)
			if need <= 0 || m < 0 {
				continue
			}
			row[at] = len(t.rows)
			t.rowOf, t.rows, t.need = append(t.rowOf, len(t.rows)), append(t.rows, len(t.rows)), append(t.need, need)
			t.cols = append(t.cols, column{machine: m, items: []item{{demand: row[at]}}, fractions: []float64{float64(p.machines[m].available[k])}})
		}
	}
	for range vacant { // behind the others: no more than all of it is used
		t.rowOf, t.rows, t.need = append(t.rowOf, len(t.rows)), append(t.rows, len(t.rows)), append(t.need, -1)
	}
	first := len(t.rows) - len(vacant)
	t.initBasis()
	var c column
	highest := func(on uint64, room *vec) { // each resource goes to the feasibility class that pays most
		for k := range nd {
			best := -1
			for b := on; b != 0 && room[k] > 0; b &= b - 1 {
				if r := row[bits.TrailingZeros64(b)*nd+k]; r >= 0 && t.y[r] > 0 && (best < 0 || t.y[r] > t.y[best]) {
					best = r
				}
			}
			if best >= 0 {
				c.items, c.fractions = append(c.items, item{demand: best}), append(c.fractions, float64(room[k]))
			}
		}
	}
	may := make([]uint64, len(p.machines)) // by machine: feasibility classes
	for mi := range p.machines {
		for i := range x.classes {
			if x.classes[i].includes(mi) {
				may[mi] |= 1 << i
			}
		}
	}
	for range maxPricingRounds {
		t.recompute()
		better := false
		for mi, m := range p.machines {
			if m.quantity >= 0 {
				continue
			}
			c.machine, c.items, c.fractions = mi, c.items[:0], c.fractions[:0]
			highest(may[mi], &m.available)
			if t.tryColumn(c) {
				better, c = true, column{}
			}
		}
		for v := range vacant {
			c.machine, c.items, c.fractions = -1, c.items[:0], c.fractions[:0]
			highest(vacant[v].classes, &vacant[v].free)
			c.items, c.fractions = append(c.items, item{demand: first + v}), append(c.fractions, -1)
			if t.tryColumn(c) {
				better, c = true, column{}
			}
		}
		p.s.steps += int64(len(p.machines) * len(row))
		t.enterSurplus()
		if !better {
			break
		}
	}
	t.recompute()
	x.prices = make([][maxDims]int64, len(x.classes))
	for at, r := range row {
		if r >= 0 {
			if v := t.y[r] * (1 << priceShift); v > 0 && v < 1<<60 {
				x.prices[at/nd][at%nd] = int64(v)
			}
		}
	}
	for i := range p.machines {
		x.lowerPrices(i)
	}
}

// maxPricingRounds bounds the rounds of the program; a few do, mostly.
const maxPricingRounds = 100

func (g *feasibilityClass) includes(machine int) bool {
	return g.machines[machine>>6]>>(machine&63)&1 != 0
}

// cheapestSource is the machine that holds feasibility class i at the least price for a unit of resource k, -1 where none has any.
func (x *feasibilityClasses) cheapestSource(i, k int) int {
	best := -1
	for mi, m := range x.p.machines {
		if x.classes[i].includes(mi) && m.available[k] > 0 && (best < 0 || ratioLess(x.p.machines[best].available[k], x.p.machines[best].price, m.available[k], m.price)) {
			best = mi
		}
	}
	return best
}

// lowerPrices takes prices down until the room of a machine is worth no more than it costs.
func (x *feasibilityClasses) lowerPrices(mi int) {
	m, nd := x.p.machines[mi], x.p.s.numDims
	if m.quantity >= 0 {
		return
	}
	for {
		var v sum128
		for k := range nd {
			if u := x.highestPrice(k, func(g *feasibilityClass) bool { return g.includes(mi) }); u > 0 && m.available[k] > 0 {
				v.addProduct(u, m.available[k])
			}
		}
		limit := priceSum(m.price)
		if !limit.less(v) {
			return
		}
		for i := range x.classes {
			if x.classes[i].includes(mi) {
				scaleDown(&x.prices[i], limit, v, nd)
			}
		}
	}
}

// highestPrice is the highest price of a resource among some feasibility classes.
func (x *feasibilityClasses) highestPrice(k int, which func(*feasibilityClass) bool) (u int64) {
	for i := range x.prices {
		if x.prices[i][k] > u && which(&x.classes[i]) {
			u = x.prices[i][k]
		}
	}
	return u
}

// totalWorth is what all pods are worth.
func (x *feasibilityClasses) totalWorth() (sum sum128) {
	for i := range x.classes {
		for k := range x.p.s.numDims {
			sum.addProduct(x.prices[i][k], x.classes[i].requests[k])
		}
	}
	return sum
}

// freeCapacityWorth is at least what pods of some feasibility classes on so much free capacity are worth.
func freeCapacityWorth(all []*feasibilityClasses, free []int64) (sum sum128) {
	for k, v := range free {
		u := int64(0)
		for _, x := range all {
			u = max(u, x.highestPrice(k, func(g *feasibilityClass) bool { return fitsSlice(&g.leastRequest, free) }))
		}
		if v > 0 {
			sum.addProduct(u, v)
		}
	}
	return sum
}
