// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"math"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// patternTable finds good patterns of one machine by a table that is exact in whole pods and in two resources: one
// that is scarce, such as GPUs, and the one that is worth most. The others are paid for at prices, which are searched
// for until as much of them is used as there is. It finds what a search that starts from fractions does not: that a
// machine with four GPUs and 48 cores holds three pods of 12.5 cores, and which to put beside them.
//
// The table is that of a bounded knapsack: best[r][c] is the most that pods within r units of the scarce and c cells
// of the primary resource are worth beyond what they pay. Requests are rounded down to cells, so a pattern may turn
// out too large; that is repaired when it is used.
type patternTable struct {
	p       *Packing
	machine *Machine
	demands []int
	most    []int64

	scarce, primary int   // resources; scarce is -1 where there is none
	unit            int64 // of the scarce resource
	cell            int64 // of the primary resource
	rows            int   // best has so many rows of so many cells
	cells           int

	best  []int64
	paid  int64 // what the other resources of the machine are worth
	layer []tableItem
	taken []uint64 // by layer and place in best: a pod of the layer is in the pattern
}

// tableItem is up to some power of two of pods of one demand.
type tableItem struct {
	position  int // its demand's, in patternTable.demands
	count     int64
	unbounded bool // any number of them
	r, c      int  // what they take
	gain      int64
}

// maxScarce and maxCells limit the size of the table.
const (
	maxScarce = 16
	maxCells  = 512
)

// tablePatterns makes the best patterns that the table finds of a machine, if any may be worth more than it costs:
// the best of all, and the best with each demand in it. Without it the plan for openb's GPUs is 0.2 % dearer, some
// drawn ones 0.8 %.
func (p *Packing) tablePatterns(mi int, whole []int64, take func(*Pattern)) {
	m, nd := p.Market.Machines[mi], p.In.NumDims
	price := m.AdjustedCost << CeilingShift
	g := patternTable{p: p, machine: m, scarce: -1, primary: -1}
	g.demands, g.most = p.Market.patternCandidates(m, whole)
	if len(g.demands) == 0 {
		return
	}
	w, _ := p.Prices.RelaxKnapsack(m, g.demands, nil)
	if p.Prices.CeilingAtPrices(m, g.demands, g.most, &w) <= price {
		return
	}
	for _, x := range g.bestPatterns(w, price) {
		f := Pattern{Machine: mi}
		rem := m.Available
		for i, n := range x {
			req := &p.Market.Demands[g.demands[i]].Class.Req
			if n = min(n, problem.TimesIn(req, &rem, nd)); n > 0 {
				f.items = append(f.items, Item{Demand: g.demands[i], Count: n})
				for k := range nd {
					rem[k] -= req[k] * n
				}
			}
		}
		p.BuildPattern(&f, whole) // fills up what rounding has left free
		take(&f)
	}
}

// tablePattern is a pattern with its value and its use of the resource whose price is searched.
type tablePattern struct {
	counts     []int64 // by place in patternTable.demands
	worth, use float64
}

// tablePrices is how many prices are tried.
const tablePrices = 7

// bestPatterns are the best ones at prices near those sought, as counts; none where the table shows that none is
// worth more than the machine costs.
func (g *patternTable) bestPatterns(w [problem.MaxDims]int64, price int64) (out [][]int64) {
	g.chooseResources(&w)
	if g.primary < 0 {
		return nil
	}
	k := g.searchedResource(&w)
	room := 0.0
	if k >= 0 {
		room = float64(g.machine.Available[k])
	}
	var over, under *tablePattern // using more of resource k than there is, and no more
	for range tablePrices {
		top, x := g.solveAt(&w)
		if top <= price {
			return nil
		}
		a := &tablePattern{counts: x}
		for i, n := range x {
			a.worth += float64(float64(g.p.Prices.Dual[g.demands[i]]) * float64(n))
			if k >= 0 {
				a.use += float64(float64(g.p.Market.Demands[g.demands[i]].Class.Req[k]) * float64(n))
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
		out = append(out, under.counts)
	}
	if over != nil {
		out = append(out, over.counts)
	}
	return append(out, g.patternsWithEach(price)...)
}

// nextPrice is the price at which both patterns are as good as each other, or one further on while only one side is
// known.
func nextPrice(was float64, over, under *tablePattern) float64 {
	const unit = 1 << (problem.PriceShift - problem.DualShift)
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

// chooseResources picks the two resources and the sizes of units and cells.
func (g *patternTable) chooseResources(w *[problem.MaxDims]int64) {
	nd := g.p.In.NumDims
	var divisor, asked [problem.MaxDims]int64
	for _, d := range g.demands {
		for k, q := range g.p.Market.Demands[d].Class.Req[:nd] {
			if q > 0 {
				divisor[k], asked[k] = gcd(divisor[k], q), asked[k]+1
			}
		}
	}
	rows := int64(maxScarce + 1)
	for k := range g.p.In.Dims {
		if asked[k] == 0 || g.machine.Available[k] <= 0 || asked[k] == int64(len(g.demands)) {
			continue
		}
		if n := g.machine.Available[k]/divisor[k] + 1; n < rows {
			g.scarce, g.unit, rows = k, divisor[k], n
		}
	}
	g.rows = 1
	if g.scarce >= 0 {
		g.rows = int(rows)
	}
	worth := 0.0
	for k := range g.p.In.Dims {
		if k == g.scarce || asked[k] == 0 || g.machine.Available[k] <= 0 {
			continue
		}
		if v := float64(w[k]) * float64(g.machine.Available[k]); v > worth || g.primary < 0 {
			g.primary, worth = k, v
		}
	}
	if g.primary >= 0 {
		g.cell = max(divisor[g.primary], (g.machine.Available[g.primary]+maxCells-1)/maxCells)
		g.cells = int(g.machine.Available[g.primary]/g.cell) + 1
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// searchedResource is the resource whose price is worth searching for, of those that the table does not count; -1 if
// there is none.
func (g *patternTable) searchedResource(w *[problem.MaxDims]int64) int {
	best, worth := -1, 0.0
	for k := range g.p.In.Dims {
		if k == g.scarce || k == g.primary || g.machine.Available[k] <= 0 {
			continue
		}
		if v := float64(w[k]) * float64(g.machine.Available[k]); v > worth {
			best, worth = k, v
		}
	}
	return best
}

// solveAt fills the table at some prices and returns an upper bound on the value of the best pattern, rounded up, with
// the pattern.
func (g *patternTable) solveAt(w *[problem.MaxDims]int64) (int64, []int64) {
	prices := *w
	prices[g.primary] = 0
	if g.scarce >= 0 {
		prices[g.scarce] = 0
	}
	g.listLayers(&prices)
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
		g.addLayer(&g.layer[l], g.taken[l*words:(l+1)*words])
	}
	g.p.Work.Steps += int64(size * len(g.layer) / 2)
	g.paid = costAt(&prices, &g.machine.Available, g.p.In.NumDims)
	return g.best[size-1] + costAt(&prices, &g.machine.Available, g.p.In.NumDims) + 1, g.tracePattern(size - 1)
}

// tracePattern reads off the pattern behind a place in the table.
func (g *patternTable) tracePattern(at int) []int64 {
	words := (len(g.best) + 63) / 64
	fill := make([]int64, len(g.demands))
	for l := len(g.layer) - 1; l >= 0; {
		it := &g.layer[l]
		if g.taken[l*words+at>>6]>>(at&63)&1 == 0 {
			l--
			continue
		}
		fill[it.position] += it.count
		at -= it.r*g.cells + it.c
		if !it.unbounded {
			l--
		}
	}
	return fill
}

// patternsWithEach are the best patterns with a pod of each demand, as far as they are worth more than so much at the
// prices of the table.
func (g *patternTable) patternsWithEach(least int64) (out [][]int64) {
	least -= g.paid
	for l := range g.layer {
		it := &g.layer[l]
		if !it.unbounded && it.count > 1 {
			continue
		}
		at := len(g.best) - 1 - it.r*g.cells - it.c
		if g.best[at]+it.gain <= least {
			continue
		}
		fill := g.tracePattern(at)
		if fill[it.position]++; fill[it.position] <= g.most[it.position] {
			out = append(out, fill)
		}
	}
	return out
}

// addLayer adds a layer to the table.
func (g *patternTable) addLayer(it *tableItem, taken []uint64) {
	step := func(r int) {
		to, from := g.best[r*g.cells+it.c:(r+1)*g.cells], g.best[(r-it.r)*g.cells:(r-it.r+1)*g.cells-it.c]
		base := r*g.cells + it.c
		if it.unbounded && it.r == 0 { // a pod on top of pods of its own
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
	if it.unbounded {
		for r := it.r; r < g.rows; r++ {
			step(r)
		}
		return
	}
	for r := g.rows - 1; r >= it.r; r-- {
		step(r)
	}
}

// listLayers makes the layers: demands that gain beyond what they pay, without those for which another is never
// worse.
func (g *patternTable) listLayers(prices *[problem.MaxDims]int64) {
	nd := g.p.In.NumDims
	g.layer = g.layer[:0]
	var all []tableItem
	for i, d := range g.demands {
		req := &g.p.Market.Demands[d].Class.Req
		it := tableItem{position: i, count: 1, unbounded: g.most[i] >= problem.TimesIn(req, &g.machine.Available, nd), c: int(req[g.primary] / g.cell), gain: g.p.Prices.Dual[d] - costAt(prices, req, nd)}
		if g.scarce >= 0 {
			it.r = int(req[g.scarce] / g.unit)
		}
		if it.gain > 0 {
			if it.unbounded && it.r == 0 && it.c == 0 { // takes nothing that the table counts
				it.unbounded = false
			}
			all = append(all, it)
		}
	}
	for x, a := range all {
		beaten := false
		for y, b := range all {
			if y != x && b.unbounded && b.r <= a.r && b.c <= a.c && b.gain >= a.gain && (a.r != b.r || a.c != b.c || a.gain != b.gain || y < x || !a.unbounded) {
				beaten = true
				break
			}
		}
		if beaten {
			continue
		}
		if a.unbounded {
			g.layer = append(g.layer, a)
			continue
		}
		left := min(g.most[a.position], problem.TimesIn(&g.p.Market.Demands[g.demands[a.position]].Class.Req, &g.machine.Available, nd))
		for n := int64(1); left > 0; n *= 2 {
			n = min(n, left)
			left -= n
			if many := (tableItem{position: a.position, count: n, r: a.r * int(n), c: a.c * int(n), gain: a.gain * n}); many.r < g.rows && many.c < g.cells {
				g.layer = append(g.layer, many)
			}
		}
	}
}
