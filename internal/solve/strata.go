// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"math/bits"
	"slices"
)

// strata are prices of resources by who may go where: what only large machines hold, or only those of one zone, is worth more for the same
// room than what goes anywhere. One price a resource for all of it falls for machines that are cheap and small: it takes many of them for
// room that no large pod can use.
//
// The program behind them gives room of each machine, resource by resource, to the strata that may go there. So a certificate is a price
// for each stratum and resource such that no machine costs less than its room is worth, each resource at the highest price among the strata
// that the machine may hold.
type strata struct {
	p    *packing
	list []stratum
	of   []int            // by demand: its stratum, -1: none
	u    [][maxDims]int64 // by stratum: micro-dollars << weightShift
}

// stratum is demands that may go to about the same machines, taken as if each might go wherever one of them may.
type stratum struct {
	on    []uint64 // machines, by number in packing
	sum   vec
	least vec // of each resource the least that one of its pods asks for
}

// maxStrata bounds the rows of the program: so many strata, a row for each of their resources.
const maxStrata = 24

// strataOf groups demands by the machines that may hold them; whole is how many pods of each there are. Sets of machines that offer each
// resource at nearly the same least price count as one: as nearly as it takes to have few enough.
func (p *packing) strataOf(whole []int64) *strata {
	if p.sorts == nil {
		p.sorts = p.newSorting()
	}
	t := p.sorts
	t.round++
	t.sets = t.sets[:0]
	p.s.work += int64(len(p.machines) * len(p.masks))
	for d, x := range p.demands {
		if whole[d] <= 0 {
			continue
		}
		k := &t.kinds[p.kind[d]]
		if k.round != t.round {
			if k.round == 0 {
				t.find(k, p.maskOf[d], &x.c.req, p.accessOf(d))
			}
			p.s.work += k.steps
			if g := k.set; g != nil && g.round != t.round {
				g.round, g.sum, g.least = t.round, vec{}, vec{}
				t.sets = append(t.sets, g)
			}
			k.round = t.round
		}
		if k.set != nil {
			k.set.add(&x.c.req, whole[d], p.s.nd)
		}
	}
	words := (len(p.machines) + 63) / 64
	x := &strata{p: p, of: t.of}
	for digits := 8; ; digits-- {
		x.list = x.list[:0]
		type unit struct {
			price  [maxDims]int64
			access int8
		}
		byUnit := map[unit]int{}
		for _, g := range t.sets {
			k := unit{g.unit, g.access}
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
				at = len(x.list)
				byUnit[k] = at
				x.list = append(x.list, stratum{on: make([]uint64, words)})
			}
			g.at = at
			x.list[at].join(&g.stratum, p.s.nd)
		}
		if len(x.list) <= maxStrata {
			break
		}
	}
	for d := range x.of {
		x.of[d] = -1
		if g := t.kinds[p.kind[d]].set; whole[d] > 0 && g != nil {
			x.of[d] = g.at
		}
	}
	return x
}

// sorting is what strata of the same demands and machines have in common, however many pods are left.
type sorting struct {
	p      *packing
	kinds  []stratumKind
	byBits map[string]*stratumSet
	wide   [][]uint64 // by mask: the machines that it admits, and the least of each resource that all of them have
	least  []vec
	on     []uint64 // scratch
	round  int      // of strataOf
	sets   []*stratumSet
	of     []int
}

// stratumKind is demands that ask for the same and may go to the same offers.
type stratumKind struct {
	set   *stratumSet // nil: only machines of limited stock hold it: it is worth nothing here
	steps int64       // that finding it takes
	round int         // the last with any left; 0: not looked at yet
}

// stratumSet is demands that may go to the same machines.
type stratumSet struct {
	stratum
	unit   [maxDims]int64 // least price of a unit of each resource
	access int8
	at     int // its stratum
	round  int
}

func (p *packing) accessOf(d int) int8 {
	if p.access == nil {
		return 0
	}
	return p.access[d]
}

func (p *packing) newSorting() *sorting {
	words := (len(p.machines) + 63) / 64
	t := &sorting{p: p, byBits: map[string]*stratumSet{}, wide: make([][]uint64, len(p.masks)),
		least: make([]vec, len(p.masks)), on: make([]uint64, words), of: make([]int, len(p.demands))}
	for j := range p.masks {
		t.wide[j] = make([]uint64, words)
		first := true
		for i, m := range p.machines {
			if m.stock >= 0 || m.admits[j>>6]>>(j&63)&1 == 0 {
				continue
			}
			t.wide[j][i>>6] |= 1 << (i & 63)
			for k := range p.s.nd {
				if first || m.avail[k] < t.least[j][k] {
					t.least[j][k] = m.avail[k]
				}
			}
			first = false
		}
	}
	p.findKinds()
	t.kinds = make([]stratumKind, p.kinds)
	return t
}

// findKinds numbers demands that ask for the same and may go to the same offers.
func (p *packing) findKinds() {
	if p.kind != nil {
		return
	}
	type alike struct {
		mask   int
		req    vec
		access int8
	}
	number, last := map[alike]int32{}, alike{mask: -1}
	p.kind = make([]int32, len(p.demands))
	for d := range p.demands {
		k := alike{mask: p.maskOf[d], access: p.accessOf(d)}
		copy(k.req[:], p.req(d))
		if k == last { // those of one size follow each other, mostly
			p.kind[d] = p.kind[d-1]
			continue
		}
		last = k
		n, ok := number[k]
		if !ok {
			n = int32(len(number))
			number[k] = n
		}
		p.kind[d] = n
	}
	p.kinds = len(number)
}

// find looks for the machines that may hold a kind of demand.
func (t *sorting) find(x *stratumKind, mask int, req *vec, access int8) {
	p, on := t.p, t.on
	copy(on, t.wide[mask])
	if !fitsIn(req, &t.least[mask], p.s.nd) {
		for i, m := range p.machines {
			if on[i>>6]>>(i&63)&1 != 0 && !fitsIn(req, &m.avail, p.s.nd) {
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
		g = &stratumSet{stratum: stratum{on: slices.Clone(on)}, access: access}
		for i, m := range p.machines {
			for k := range p.s.dims {
				if on[i>>6]>>(i&63)&1 != 0 && m.avail[k] > 0 {
					if v := mulDiv(m.price, 1<<weightShift, m.avail[k]); g.unit[k] == 0 || v < g.unit[k] {
						g.unit[k] = v
					}
				}
			}
		}
		t.byBits[k] = g
	}
	x.set = g
}

// add adds n pods of a demand.
func (g *stratum) add(req *vec, n int64, nd int) {
	none := g.sum == vec{}
	for k := range nd {
		if none || req[k] < g.least[k] {
			g.least[k] = req[k]
		}
		g.sum[k] += req[k] * n
	}
}

// join adds what another stratum has.
func (g *stratum) join(o *stratum, nd int) {
	for i, w := range o.on {
		g.on[i] |= w
	}
	none := g.sum == vec{}
	for k := range nd {
		if none || o.least[k] < g.least[k] {
			g.least[k] = o.least[k]
		}
		g.sum[k] += o.sum[k]
	}
}

// price solves the program for the demand less a part that free room will hold, by resource, and rounds so that the prices are a certificate.
// vacant is free room that the program itself gives to strata.
func (x *strata) price(free []float64, vacant []vacancy) {
	p, nd := x.p, x.p.s.nd
	var total [maxDims]float64
	for _, g := range x.list {
		for k := range nd {
			total[k] += float64(g.sum[k])
		}
	}
	t := &master{p: p, bare: true}
	row := make([]int, len(x.list)*nd) // by stratum and resource; -1: none
	for i := range x.list {
		for k := range nd {
			at := i*nd + k
			row[at] = -1
			need := float64(x.list[i].sum[k])
			if total[k] > 0 {
				need *= max(0, 1-free[k]/total[k])
			}
			m := x.cheapest(i, k)
			if need <= 0 || m < 0 {
				continue
			}
			row[at] = len(t.rows)
			t.rowOf, t.rows, t.need = append(t.rowOf, len(t.rows)), append(t.rows, len(t.rows)), append(t.need, need)
			t.cols = append(t.cols, column{m: m, items: []item{{d: row[at]}}, part: []float64{float64(p.machines[m].avail[k])}})
		}
	}
	for range vacant { // behind the others: no more than all of it is used
		t.rowOf, t.rows, t.need = append(t.rowOf, len(t.rows)), append(t.rows, len(t.rows)), append(t.need, -1)
	}
	first := len(t.rows) - len(vacant)
	t.begin()
	var c column
	highest := func(on uint64, room *vec) { // each resource goes to the stratum that pays most
		for k := range nd {
			best := -1
			for b := on; b != 0 && room[k] > 0; b &= b - 1 {
				if r := row[bits.TrailingZeros64(b)*nd+k]; r >= 0 && t.y[r] > 0 && (best < 0 || t.y[r] > t.y[best]) {
					best = r
				}
			}
			if best >= 0 {
				c.items, c.part = append(c.items, item{d: best}), append(c.part, float64(room[k]))
			}
		}
	}
	may := make([]uint64, len(p.machines)) // by machine: strata
	for mi := range p.machines {
		for i := range x.list {
			if x.list[i].has(mi) {
				may[mi] |= 1 << i
			}
		}
	}
	for range maxStrataRounds {
		t.settle()
		better := false
		for mi, m := range p.machines {
			if m.stock >= 0 {
				continue
			}
			c.m, c.items, c.part = mi, c.items[:0], c.part[:0]
			highest(may[mi], &m.avail)
			if t.offer(c) {
				better, c = true, column{}
			}
		}
		for v := range vacant {
			c.m, c.items, c.part = -1, c.items[:0], c.part[:0]
			highest(vacant[v].on, &vacant[v].free)
			c.items, c.part = append(c.items, item{d: first + v}), append(c.part, -1)
			if t.offer(c) {
				better, c = true, column{}
			}
		}
		p.s.work += int64(len(p.machines) * len(row))
		t.surplus()
		if !better {
			break
		}
	}
	t.settle()
	x.u = make([][maxDims]int64, len(x.list))
	for at, r := range row {
		if r >= 0 {
			if v := t.y[r] * (1 << weightShift); v > 0 && v < 1<<60 {
				x.u[at/nd][at%nd] = int64(v)
			}
		}
	}
	for i := range p.machines {
		x.lower(i)
	}
}

// maxStrataRounds bounds the rounds of the program; a few do, mostly.
const maxStrataRounds = 100

func (g *stratum) has(machine int) bool { return g.on[machine>>6]>>(machine&63)&1 != 0 }

// cheapest is the machine that holds stratum i at the least price for a unit of resource k, -1 where none has any.
func (x *strata) cheapest(i, k int) int {
	best := -1
	for mi, m := range x.p.machines {
		if x.list[i].has(mi) && m.avail[k] > 0 && (best < 0 || ratioLess(x.p.machines[best].avail[k], x.p.machines[best].price, m.avail[k], m.price)) {
			best = mi
		}
	}
	return best
}

// lower takes prices down until the room of a machine is worth no more than it costs.
func (x *strata) lower(mi int) {
	m, nd := x.p.machines[mi], x.p.s.nd
	if m.stock >= 0 {
		return
	}
	for {
		var v wide
		for k := range nd {
			if u := x.most(k, func(g *stratum) bool { return g.has(mi) }); u > 0 && m.avail[k] > 0 {
				v.addMul(u, m.avail[k])
			}
		}
		limit := priceWide(m.price)
		if !limit.less(v) {
			return
		}
		for i := range x.list {
			if x.list[i].has(mi) {
				shrink(&x.u[i], limit, v, nd)
			}
		}
	}
}

// most is the highest price of a resource among some strata.
func (x *strata) most(k int, which func(*stratum) bool) (u int64) {
	for i := range x.u {
		if x.u[i][k] > u && which(&x.list[i]) {
			u = x.u[i][k]
		}
	}
	return u
}

// worth is what all pods are worth.
func (x *strata) worth() (sum wide) {
	for i := range x.list {
		for k := range x.p.s.nd {
			sum.addMul(x.u[i][k], x.list[i].sum[k])
		}
	}
	return sum
}

// roomWorth is at least what pods of some strata on so much free room are worth.
func roomWorth(all []*strata, free []int64) (sum wide) {
	for k, v := range free {
		u := int64(0)
		for _, x := range all {
			u = max(u, x.most(k, func(g *stratum) bool { return fitsSlice(&g.least, free) }))
		}
		if v > 0 {
			sum.addMul(u, v)
		}
	}
	return sum
}
