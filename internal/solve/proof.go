// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"math/bits"
	"slices"
)

// prove makes a lower bound of what each pod of each class is said to be worth (micro-dollars << worthShift). No machine can be filled
// with more than ceiling says; scaled down until that is at most its price, for every machine, the worths are a certificate in the
// way of Farley: what the pods are worth together, no plan can undercut. Everything is integer and rounded against the bound.
func (s *solver) prove(l level, classes []*class, worth []int64) (scaled []int64, stocked int64) {
	lots := classLots(classes, worth)
	firsts := make([]*class, len(lots))
	for i, x := range lots {
		firsts[i] = classes[x[0]]
	}
	p, whole := s.provingOf(l, firsts)
	p.worth = make([]int64, len(lots))
	for i, x := range lots {
		p.worth[i], whole[i] = worth[x[0]], 0
		for _, j := range x {
			whole[i] += int64(classes[j].taken)
		}
	}
	num, den := int64(1), int64(1) // the least of price / ceiling
	for _, m := range p.machines {
		if m.stock >= 0 {
			continue
		}
		price := m.price << ceilingShift
		top, _, _ := p.ceiling(m, whole, price)
		if top > price && less(price, top, num, den) {
			num, den = price, top
		}
	}
	scaled = make([]int64, len(worth))
	for i, v := range worth {
		scaled[i] = mulDiv(v, num, den)
	}
	for i, x := range lots {
		p.worth[i] = scaled[x[0]]
	}
	best := make([]int64, len(s.start.stock)) // what one of a stock can save, offered by whichever pool
	for _, m := range p.machines {
		if m.stock >= 0 {
			top, _, _ := p.ceiling(m, whole, 1<<62)
			best[m.stock] = max(best[m.stock], top-m.price<<ceilingShift)
		}
	}
	for i, v := range best {
		stocked += v * min(s.start.stock[i], int64(len(s.in.Demand)))
	}
	return scaled, stocked
}

// provingOf is the machines and demands of a proof, and how many pods there are of each.
func (s *solver) provingOf(l level, classes []*class) (*packing, []int64) {
	all, demands := make([]demand, len(classes)), make([]*demand, len(classes))
	whole := make([]int64, len(classes))
	for i, c := range classes {
		all[i] = demand{c: c, mask: c.filter.mask, n: int64(c.taken)} // also where this plan could not keep minValues: another might
		demands[i], whole[i] = &all[i], int64(c.taken)
	}
	p := s.newPackingOf(l, demands, false)
	p.proving = true
	return p, whole
}

// ceilingShift is the number of binary digits behind the point in a ceiling.
const ceilingShift = worthShift

// less says whether a/b < c/d.
func less(a, b, c, d int64) bool {
	h1, l1 := bits.Mul64(uint64(a), uint64(d))
	h2, l2 := bits.Mul64(uint64(c), uint64(b))
	return h1 < h2 || h1 == h2 && l1 < l2
}

// ceiling is at least what any fill of the machine is worth, micro-dollars << ceilingShift: the room at some resource prices, and for
// each demand worth more than its room, the difference as often as a fill can hold one. Any prices give a ceiling; good ones are
// found by relaxing the fill.
func (p *packing) ceiling(m *machine, whole []int64, price int64) (top int64, ds []int, amount []float64) {
	var most []int64
	ds, most = p.candidates(m, whole)
	var w [maxDims]int64
	w, amount = p.relax(m, ds, most)
	top = p.ceilingAt(m, ds, most, &w)
	if top > price && !m.relaxed && p.searchable(m, ds) && p.s.work < p.s.deadline {
		v, whole, done := p.exhaust(m, ds, most, price, top)
		if v < top {
			top = v
		}
		if whole != nil {
			amount = whole
		}
		m.relaxed = !done // not to be tried again: the bound will make do with fractions
	}
	return top, ds, amount
}

// candidates are the demands that the machine may hold, and how many of each.
func (p *packing) candidates(m *machine, whole []int64) (ds []int, most []int64) {
	nd := p.s.nd
	for d, n := range whole {
		req := &p.demands[d].c.req
		if n <= 0 || !p.admits(m, d) || !fitsIn(req, &m.avail, nd) {
			continue
		}
		n = min(n, timesIn(req, &m.avail, nd))
		if p.proving {
			n = min(n, p.selfLimit(d))
		} else {
			n = min(n, p.atMost(d))
		}
		if n > 0 {
			ds, most = append(ds, d), append(most, n)
		}
	}
	return ds, most
}

// selfLimit is how many pods of a demand one new machine may hold by the class's own rules over hosts.
func (p *packing) selfLimit(d int) int64 {
	c := p.demands[d].c
	n := unlimited
	for i := range c.topo.host {
		if r := &c.topo.host[i]; r.self && r.hard {
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

// ceilingAt is the ceiling at given resource prices, rounded up.
func (p *packing) ceilingAt(m *machine, ds []int, most []int64, w *[maxDims]int64) int64 {
	nd := p.s.nd
	up := func(v wide) int64 { // to worthShift digits
		lo, c := bits.Add64(v.lo, 1<<(weightShift-worthShift)-1, 0)
		return int64((v.hi+c)<<(64-weightShift+worthShift) | lo>>(weightShift-worthShift))
	}
	var room wide
	for k := range nd {
		if m.avail[k] > 0 {
			room.addMul(w[k], m.avail[k])
		}
	}
	sum := up(room)
	for i, d := range ds {
		var v wide
		for k := range nd {
			v.addMul(w[k], p.demands[d].c.req[k])
		}
		down := int64(v.hi<<(64-weightShift+worthShift) | v.lo>>(weightShift-worthShift))
		if gain := p.worth[d] - down; gain > 0 {
			sum += gain * most[i]
		}
	}
	return sum
}

// exhaust lowers a ceiling by trying fills, with the best fill found that is worth more than the price, if there is one. Where trying all that
// might be worth more than the price takes too many steps, those are tried that might be worth a little more than it, and more and more; done
// says that one of these came to an end. What could not be shown stays as it was.
func (p *packing) exhaust(m *machine, ds []int, most []int64, price, ceiling int64) (top int64, amount []float64, done bool) {
	x := exhaustion{p: p, nd: p.s.nd}
	x.list(m, ds, most)
	x.n, x.best = make([]int64, len(x.items)), make([]int64, len(x.items))
	for _, ppm := range [...]int64{0, 2_000, 5_000, 10_000, 20_000, 40_000} {
		x.target = max(x.target, price+mulDiv(price, ppm, 1_000_000))
		if x.target >= ceiling || p.s.work >= p.s.deadline {
			break
		}
		x.steps, x.rem = maxExhaustSteps, m.avail
		done = x.search(0, 0)
		p.s.work += (maxExhaustSteps - max(0, x.steps)) * int64(len(x.w)*x.nd)
		if done {
			ceiling = x.target
			break
		}
	}
	if x.found {
		amount = make([]float64, len(ds))
		for i, n := range x.best {
			amount[x.items[i].at] = float64(n)
		}
	}
	return ceiling, amount, done
}

// maxExhaustItems is how many demands a search may take on: with more it hardly ever ends, unless a machine holds no more than maxExhaustPods.
const (
	maxExhaustItems = 40
	maxExhaustWide  = 80
	maxExhaustPods  = 5
)

// searchable says whether a search of the machine's fills has a chance to end.
func (p *packing) searchable(m *machine, ds []int) bool {
	if len(ds) <= maxExhaustItems {
		return true
	}
	if len(ds) > maxExhaustWide {
		return false
	}
	for _, d := range ds {
		if timesIn(&p.demands[d].c.req, &m.avail, p.s.nd) > maxExhaustPods {
			return false
		}
	}
	return true
}

// maxExhaustSteps bounds one try.
const maxExhaustSteps = int64(20_000)

// exhaustion is the search behind exhaust. At each step it knows, for what is free and the items still to come, several ceilings,
// each by its own resource prices, and gives a branch up as soon as one of them shows it hopeless.
type exhaustion struct {
	p      *packing
	nd     int
	items  []sackItem
	w      [][maxDims]int64
	gain   [][]int64 // by prices and item: what this item and those after it may be worth beyond their room
	rare   int       // the resource that fewest items ask for, -1 if all ask for all; those that do come first
	common [maxDims]int64
	unit   []int64 // by item: what a unit of the rare resource is worth at most from here on, at common prices
	rest   []int64 // and what the items that do not ask for it are worth beyond their room
	rem    vec
	target int64
	steps  int64
	n      []int64 // by item: in the fill being tried
	best   []int64 // the last fill that was worth more than the target
	found  bool
}

// list orders the items: those that ask for what others do not first, large before small; and finds prices for the whole and for the
// ends of the list.
func (x *exhaustion) list(m *machine, ds []int, most []int64) {
	var asked [maxDims]int
	for i, d := range ds {
		it := sackItem{d: d, at: i, req: &x.p.demands[d].c.req, most: most[i]}
		for k := range x.nd {
			if it.req[k] > 0 {
				asked[k]++
			}
			if m.avail[k] > 0 {
				it.size = max(it.size, mulDiv(it.req[k], 1<<20, m.avail[k]))
			}
		}
		x.items = append(x.items, it)
	}
	x.rare = -1
	for k := range x.p.s.dims {
		if asked[k] > 0 && asked[k] < len(ds) && (x.rare < 0 || asked[k] < asked[x.rare]) {
			x.rare = k
		}
	}
	isRare := func(it *sackItem) bool { return x.rare >= 0 && it.req[x.rare] > 0 }
	slices.SortStableFunc(x.items, func(a, b sackItem) int {
		if ra, rb := isRare(&a), isRare(&b); ra != rb {
			if ra {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.size, a.size)
	})
	n, rare := len(x.items), 0
	for rare < n && isRare(&x.items[rare]) {
		rare++
	}
	common := x.pricesFrom(m, rare)
	x.orderRare(rare, &common)
	for _, from := range [...]int{0, rare, rare + (n-rare)/8, rare + (n-rare)/4, rare + (n-rare)/2} {
		if from < n {
			x.w = append(x.w, x.pricesFrom(m, from))
		}
	}
	for _, w := range x.w {
		gain := make([]int64, n+1)
		for i := n - 1; i >= 0; i-- {
			it := &x.items[i]
			gain[i] = gain[i+1] + max(0, x.p.worth[it.d]-roomAt(&w, it.req, x.nd))*it.most
		}
		x.gain = append(x.gain, gain)
	}
}

// orderRare puts the items that ask for the rare resource in the order of what they are worth beyond their other room, for a unit of
// it: from any of them on, none makes more of a unit than the first.
func (x *exhaustion) orderRare(rare int, common *[maxDims]int64) {
	x.common, x.unit = *common, make([]int64, len(x.items)+1)
	if rare == 0 {
		return
	}
	x.common[x.rare] = 0
	each := func(it *sackItem) int64 {
		return max(0, x.p.worth[it.d]-roomAt(&x.common, it.req, x.nd))/it.req[x.rare] + 1
	}
	slices.SortStableFunc(x.items[:rare], func(a, b sackItem) int { return cmp.Compare(each(&b), each(&a)) })
	for i := rare - 1; i >= 0; i-- {
		x.unit[i] = max(x.unit[i+1], each(&x.items[i]))
	}
	x.rest = make([]int64, len(x.items)+1)
	for i := len(x.items) - 1; i >= rare; i-- {
		it := &x.items[i]
		x.rest[i] = x.rest[i+1] + max(0, x.p.worth[it.d]-roomAt(&x.common, it.req, x.nd))*it.most
	}
	for i := range rare {
		x.rest[i] = x.rest[rare]
	}
}

// pricesFrom are the resource prices of the machine for the items from one on.
func (x *exhaustion) pricesFrom(m *machine, from int) [maxDims]int64 {
	var ds []int
	var most []int64
	for _, it := range x.items[from:] {
		ds, most = append(ds, it.d), append(most, it.most)
	}
	w, _ := x.p.relax(m, ds, most)
	return w
}

// roomAt is what an amount costs at w, rounded down, micro-dollars << worthShift.
func roomAt(w *[maxDims]int64, v *vec, nd int) int64 {
	var sum wide
	for k := range nd {
		if v[k] > 0 {
			sum.addMul(w[k], v[k])
		}
	}
	return int64(sum.hi<<(64-weightShift+worthShift) | sum.lo>>(weightShift-worthShift))
}

// search tries all ways to go on from item i, with fills worth this much so far, that may be worth more than the target, and raises that to the
// most that it finds. It says whether it came to an end within the steps allowed.
func (x *exhaustion) search(i int, worth int64) bool {
	if x.steps--; x.steps < 0 {
		return false
	}
	for j := range x.w {
		if worth+roomAt(&x.w[j], &x.rem, x.nd)+1+x.gain[j][i] <= x.target {
			return true
		}
	}
	if x.rest != nil && worth+roomAt(&x.common, &x.rem, x.nd)+1+x.unit[i]*max(0, x.rem[x.rare])+x.rest[i] <= x.target {
		return true
	}
	for i < len(x.items) && !fitsIn(x.items[i].req, &x.rem, x.nd) {
		i++
		x.steps--
	}
	if i == len(x.items) {
		if worth > x.target {
			x.target, x.found = worth, true
			copy(x.best, x.n)
		}
		return true
	}
	it := &x.items[i]
	was := x.rem
	for n := min(it.most, timesIn(it.req, &x.rem, x.nd)); n >= 0; n-- {
		x.rem, x.n[i] = was, n
		for k := range x.nd {
			x.rem[k] -= it.req[k] * n
		}
		if !x.search(i+1, worth+x.p.worth[it.d]*n) {
			x.n[i] = 0
			return false
		}
		if i+1 == len(x.items) {
			break // fewer of the last are worth less
		}
	}
	x.rem, x.n[i] = was, 0
	return true
}
