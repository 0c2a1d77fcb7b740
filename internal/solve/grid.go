// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "math"

// grid finds good fills of one machine by a table that is exact in whole pods and in two resources: one of which there are few, such as
// GPUs, and the one that is worth most. The others are paid for at prices, which are searched for until as much of them is used as there
// is. It finds what a search that starts from fractions does not: that a machine with four GPUs and 48 cores holds three pods of
// 12.5 cores, and which to put beside them.
//
// The table is that of a bounded knapsack: best[r][c] is the most that pods within r units of the few and c cells of the other are worth
// beyond what they pay. Requests are rounded down to cells, so a fill may turn out too large; that is mended when it is used.
type grid struct {
	p    *packing
	m    *machine
	ds   []int
	most []int64

	few, main int   // resources; few is -1 where there is none
	unit      int64 // of few
	cell      int64 // of main
	rows      int   // best has so many rows of so many cells
	cells     int

	best  []int64
	paid  int64 // what the other resources of the machine are worth
	layer []gridItem
	taken []uint64 // by layer and place in best: a pod of the layer is in the fill
}

// gridItem is up to some power of two of pods of one demand.
type gridItem struct {
	i    int // of ds
	n    int64
	more bool // any number of them
	r, c int  // what they take
	gain int64
}

// maxFew and maxCells bound the table.
const (
	maxFew   = 16
	maxCells = 512
)

// gridFills makes the best fills that the table finds of a machine, if any may be worth more than it: the best of all, and the best with
// each demand in it.
func (p *packing) gridFills(mi int, whole []int64, take func(*fill)) {
	m, nd := p.machines[mi], p.s.nd
	price := m.effort << ceilingShift
	g := grid{p: p, m: m, few: -1, main: -1}
	g.ds, g.most = p.candidates(m, whole)
	if len(g.ds) == 0 {
		return
	}
	w, _ := p.relax(m, g.ds, nil)
	if p.ceilingAt(m, g.ds, g.most, &w) <= price {
		return
	}
	for _, x := range g.fills(w, price) {
		f := fill{m: mi}
		rem := m.avail
		for i, n := range x {
			req := &p.demands[g.ds[i]].c.req
			if n = min(n, timesIn(req, &rem, nd)); n > 0 {
				f.items = append(f.items, item{g.ds[i], n})
				for k := range nd {
					rem[k] -= req[k] * n
				}
			}
		}
		p.build(&f, whole) // fills up what rounding has left free
		take(&f)
	}
}

// gridFill is a fill with what it is worth and what it uses of the resource whose price is searched for.
type gridFill struct {
	fill       []int64 // by position in ds
	worth, use float64
}

// gridPrices is how many prices are tried.
const gridPrices = 7

// fills are the best ones, from prices near those sought; none where the table shows that none is worth more than the machine.
func (g *grid) fills(w [maxDims]int64, price int64) (out [][]int64) {
	g.choose(&w)
	if g.main < 0 {
		return nil
	}
	k := g.searched(&w)
	room := 0.0
	if k >= 0 {
		room = float64(g.m.avail[k])
	}
	var over, under *gridFill // using more of resource k than there is, and no more
	for range gridPrices {
		top, x := g.solve(&w)
		if top <= price {
			return nil
		}
		a := &gridFill{fill: x}
		for i, n := range x {
			a.worth += float64(float64(g.p.worth[g.ds[i]]) * float64(n))
			if k >= 0 {
				a.use += float64(float64(g.p.demands[g.ds[i]].c.req[k]) * float64(n))
			}
		}
		if a.use > room {
			over = a
		} else {
			under = a
		}
		if k < 0 || under == a && w[k] == 0 {
			break
		}
		next := nextPrice(float64(w[k]), over, under)
		if math.Abs(next-float64(w[k])) <= 1e-6*next || next >= 1<<60 {
			break
		}
		w[k] = int64(next)
	}
	if under != nil {
		out = append(out, under.fill)
	}
	if over != nil {
		out = append(out, over.fill)
	}
	return append(out, g.others(price)...)
}

// nextPrice is the one at which both fills are as good as each other, or one further on while only one side is known.
func nextPrice(was float64, over, under *gridFill) float64 {
	const unit = 1 << (weightShift - worthShift)
	switch {
	case under == nil:
		return float64(was*1.5) + over.worth/(16*over.use)*unit
	case over == nil:
		return was / 2
	case over.use <= under.use || over.worth <= under.worth:
		return 0
	}
	return (over.worth - under.worth) / (over.use - under.use) * unit
}

// choose picks the two resources and the sizes of units and cells.
func (g *grid) choose(w *[maxDims]int64) {
	nd := g.p.s.nd
	var divisor, asked [maxDims]int64
	for _, d := range g.ds {
		for k, q := range g.p.demands[d].c.req[:nd] {
			if q > 0 {
				divisor[k], asked[k] = gcd(divisor[k], q), asked[k]+1
			}
		}
	}
	rows := int64(maxFew + 1)
	for k := range g.p.s.dims {
		if asked[k] == 0 || g.m.avail[k] <= 0 || asked[k] == int64(len(g.ds)) {
			continue
		}
		if n := g.m.avail[k]/divisor[k] + 1; n < rows {
			g.few, g.unit, rows = k, divisor[k], n
		}
	}
	g.rows = 1
	if g.few >= 0 {
		g.rows = int(rows)
	}
	worth := 0.0
	for k := range g.p.s.dims {
		if k == g.few || asked[k] == 0 || g.m.avail[k] <= 0 {
			continue
		}
		if v := float64(w[k]) * float64(g.m.avail[k]); v > worth || g.main < 0 {
			g.main, worth = k, v
		}
	}
	if g.main >= 0 {
		g.cell = max(divisor[g.main], (g.m.avail[g.main]+maxCells-1)/maxCells)
		g.cells = int(g.m.avail[g.main]/g.cell) + 1
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// searched is the resource whose price is worth searching for, of those that the table does not count; -1 if there is none.
func (g *grid) searched(w *[maxDims]int64) int {
	best, worth := -1, 0.0
	for k := range g.p.s.dims {
		if k == g.few || k == g.main || g.m.avail[k] <= 0 {
			continue
		}
		if v := float64(w[k]) * float64(g.m.avail[k]); v > worth {
			best, worth = k, v
		}
	}
	return best
}

// solve fills the table at some prices and returns what the best fill is worth at most, rounded up, with the fill.
func (g *grid) solve(w *[maxDims]int64) (int64, []int64) {
	prices := *w
	prices[g.main] = 0
	if g.few >= 0 {
		prices[g.few] = 0
	}
	g.list(&prices)
	size := g.rows * g.cells
	words := (size + 63) / 64
	if cap(g.best) < size {
		g.best = make([]int64, size)
	}
	g.best = g.best[:size]
	clear(g.best)
	if n := words * len(g.layer); cap(g.taken) < n {
		g.taken = make([]uint64, n)
	} else {
		g.taken = g.taken[:n]
		clear(g.taken)
	}
	for l := range g.layer {
		g.lay(&g.layer[l], g.taken[l*words:(l+1)*words])
	}
	g.p.s.work += int64(size * len(g.layer) / 2)
	g.paid = roomAt(&prices, &g.m.avail, g.p.s.nd)
	return g.best[size-1] + roomAt(&prices, &g.m.avail, g.p.s.nd) + 1, g.trace(size - 1)
}

// trace reads off the fill behind a place in the table.
func (g *grid) trace(at int) []int64 {
	words := (len(g.best) + 63) / 64
	fill := make([]int64, len(g.ds))
	for l := len(g.layer) - 1; l >= 0; {
		it := &g.layer[l]
		if g.taken[l*words+at>>6]>>(at&63)&1 == 0 {
			l--
			continue
		}
		fill[it.i] += it.n
		at -= it.r*g.cells + it.c
		if !it.more {
			l--
		}
	}
	return fill
}

// others are the best fills with a pod of each demand, as far as they are worth more than so much at the prices of the table.
func (g *grid) others(least int64) (out [][]int64) {
	least -= g.paid
	for l := range g.layer {
		it := &g.layer[l]
		if !it.more && it.n > 1 {
			continue
		}
		at := len(g.best) - 1 - it.r*g.cells - it.c
		if g.best[at]+it.gain <= least {
			continue
		}
		fill := g.trace(at)
		if fill[it.i]++; fill[it.i] <= g.most[it.i] {
			out = append(out, fill)
		}
	}
	return out
}

// lay adds a layer to the table.
func (g *grid) lay(it *gridItem, taken []uint64) {
	step := func(r int) {
		to, from := g.best[r*g.cells+it.c:(r+1)*g.cells], g.best[(r-it.r)*g.cells:(r-it.r+1)*g.cells-it.c]
		base := r*g.cells + it.c
		if it.more && it.r == 0 { // a pod on top of pods of its own
			for c, v := range from {
				if v += it.gain; v > to[c] {
					to[c] = v
					taken[(base+c)>>6] |= 1 << ((base + c) & 63)
				}
			}
			return
		}
		for c := len(from) - 1; c >= 0; c-- {
			if v := from[c] + it.gain; v > to[c] {
				to[c] = v
				taken[(base+c)>>6] |= 1 << ((base + c) & 63)
			}
		}
	}
	if it.more {
		for r := it.r; r < g.rows; r++ {
			step(r)
		}
		return
	}
	for r := g.rows - 1; r >= it.r; r-- {
		step(r)
	}
}

// list makes the layers: demands that gain beyond what they pay, without those for which another is never worse.
func (g *grid) list(prices *[maxDims]int64) {
	nd := g.p.s.nd
	g.layer = g.layer[:0]
	var all []gridItem
	for i, d := range g.ds {
		req := &g.p.demands[d].c.req
		it := gridItem{i: i, n: 1, more: g.most[i] >= timesIn(req, &g.m.avail, nd), c: int(req[g.main] / g.cell), gain: g.p.worth[d] - roomAt(prices, req, nd)}
		if g.few >= 0 {
			it.r = int(req[g.few] / g.unit)
		}
		if it.gain > 0 {
			if it.more && it.r == 0 && it.c == 0 { // takes nothing that the table counts
				it.more = false
			}
			all = append(all, it)
		}
	}
	for x, a := range all {
		beaten := false
		for y, b := range all {
			if y != x && b.more && b.r <= a.r && b.c <= a.c && b.gain >= a.gain && (a.r != b.r || a.c != b.c || a.gain != b.gain || y < x || !a.more) {
				beaten = true
				break
			}
		}
		if beaten {
			continue
		}
		if a.more {
			g.layer = append(g.layer, a)
			continue
		}
		left := min(g.most[a.i], timesIn(&g.p.demands[g.ds[a.i]].c.req, &g.m.avail, nd))
		for n := int64(1); left > 0; n *= 2 {
			n = min(n, left)
			left -= n
			if many := (gridItem{i: a.i, n: n, r: a.r * int(n), c: a.c * int(n), gain: a.gain * n}); many.r < g.rows && many.c < g.cells {
				g.layer = append(g.layer, many)
			}
		}
	}
}
