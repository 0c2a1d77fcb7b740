// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/lp"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// master is the restricted master problem of column generation: the program with the columns generated so far.
type master struct {
	topology.Compiled
	Program   *lp.CoveringProgram
	p         *Packing
	MeanDuals []float64 // by row: mean of the values of pods in earlier rounds
	smoothing float64   // weight of MeanDuals in the duals for which columns are generated
}

// NewMaster returns a master program with one column per demand: the cheapest machine for each pod, with as many pods
// as fit, but at most the remaining ones. A column with more pods than remain would make a share of a large machine
// seem cheaper than a whole small one.
func NewMaster(p *Packing, remaining []int64) *master {
	t := &master{Compiled: p.Compiled, p: p, Program: &lp.CoveringProgram{Steps: &p.Work.Steps, RowOf: make([]int, len(remaining))}}
	for _, m := range p.Market.Machines {
		t.Program.Cost = append(t.Program.Cost, float64(m.AdjustedCost))
	}
	for d, n := range remaining {
		t.Program.RowOf[d] = -1
		if n <= 0 {
			continue
		}
		c, ok := p.cheapestAlone(d, n)
		if !ok {
			continue
		}
		t.Program.RowOf[d] = len(t.Program.Rows)
		t.Program.Rows = append(t.Program.Rows, d)
		t.Program.Need = append(t.Program.Need, float64(n))
		t.Program.Cols = append(t.Program.Cols, c)
	}
	t.Program.InitBasis()
	return t
}

// cheapestAlone returns the machine that holds pods of one demand, at most the given number, at the lowest cost per
// pod. It returns false if there is none.
func (p *Packing) cheapestAlone(d int, most int64) (lp.Column, bool) {
	best, bestN := -1, int64(0)
	for i, m := range p.Market.Machines {
		c := p.Market.Demands[d].Class
		if m.Quantity >= 0 || !p.Market.MachineAdmits(m, d) || !problem.IsWithin(&c.Req, &m.Available, p.In.NumDims) {
			continue
		}
		n := problem.TimesIn(&c.Req, &m.Available, p.In.NumDims)
		if p.Market.Restricted[d] {
			n = min(n, p.podsNeighboursAllow(d, m, &problem.Occupancy{Ports: m.ports}))
		}
		if n = min(n, most, p.Market.maxPodsOf(d)); n <= 0 {
			continue
		}
		if best < 0 || problem.RatioLess(bestN, p.Market.Machines[best].AdjustedCost, n, m.AdjustedCost) {
			best, bestN = i, n
		}
	}
	return lp.Column{Machine: best, Items: []Item{{Demand: d, Count: bestN}}}, best >= 0
}

// demandTotals returns the number of pods of each demand, which is the maximum number in a column.
func (t *master) demandTotals() []int64 {
	out := make([]int64, len(t.p.Market.Demands))
	for i, d := range t.Program.Rows {
		out[d] = int64(t.Program.Need[i] + 0.5)
	}
	return out
}

// maxSmoothing is the weight of the mean of earlier duals in the duals at which machines are priced. meanDecay is the
// share of that mean that remains in each round. The duals of the program oscillate: a pattern generated for one
// extreme is useless for the next. Pricing at a mean halves the number of rounds.
const (
	maxSmoothing = 0.7
	meanDecay    = 0.8
)

// GenerateColumns generates columns until no column makes the plan cheaper (done), or the steps are used up. Each round
// tries every machine for patterns at the current duals: first with fast searches, and with tables only when those find
// nothing more.
func (t *master) GenerateColumns(until int64) (done bool) {
	p := t.p
	whole := t.demandTotals()
	hosted := slices.Contains(p.Market.Restricted, true)
	center := make([]float64, len(t.Program.Rows))
	for i, d := range t.Program.Rows {
		center[i] = float64(p.Prices.resourceDual[d]) / (1 << problem.DualShift)
	}
	t.MeanDuals, t.smoothing = center, maxSmoothing
	fine, slow := false, 0
	near := float64(p.Prices.lowerBound) * (1 + float64(p.In.Policy.MaxGapPPM)*0.75e-6)
	for round := 0; p.Work.Steps < until; round++ {
		t.Program.Recompute()
		for i := range center {
			if round > 0 {
				center[i] = float64(meanDecay*center[i]) + float64((1-meanDecay)*max(0, t.Program.Y[i]))
			}
		}
		before := t.Program.Objective()
		found := 0
		for mi, m := range p.Market.Machines {
			if p.Work.Steps >= until {
				return false
			}
			if m.Quantity < 0 { // greedily bought before: the program would buy more than the quantity
				found += t.priceMachine(mi, whole, hosted, fine)
			}
		}
		t.Program.EnterSurplus()
		if slow++; before-t.Program.Objective() > 1e-5*before {
			slow = 0
		}
		switch {
		case t.Program.Objective() <= near:
			return true // rounding to whole machines will cost more than the remaining gain
		case found > 0 && slow <= 6:
			t.smoothing = maxSmoothing
		case found > 0:
			return false
		case !fine && !hosted && p.In.Runs(stageTable):
			fine = true
		case t.smoothing > 0:
			t.smoothing = 0
		default:
			return true
		}
	}
	return false
}

// priceMachine adds patterns of one machine to the program, and returns the number of patterns that the program
// accepted.
func (t *master) priceMachine(mi int, whole []int64, hosted, fine bool) (found int) {
	p := t.p
	take := func(f *Pattern) {
		if len(f.items) > 0 && t.Program.TryColumn(lp.Column{Machine: mi, Items: slices.Clone(f.items)}) {
			found++
		}
	}
	for _, power := range [...]int{0, 5} {
		t.SetDuals(power)
		f := Pattern{Machine: mi}
		p.BuildPattern(&f, whole)
		take(&f)
	}
	if hosted {
		return found // the searches do not support rules between pods
	}
	t.SetDuals(0)
	if fine {
		p.tablePatterns(mi, whole, take)
		return found
	}
	f := Pattern{Machine: mi}
	sack := knapsack{p: p, machine: p.Market.Machines[mi], whole: whole}
	sack.search(&f)
	take(&f)
	return found
}

// SetDuals sets the current values of pods in the packing. power determines how strongly patterns favor pods that are
// worth more than their resources.
func (t *master) SetDuals(power int) {
	p := t.p
	for i, d := range t.Program.Rows {
		p.Prices.Dual[d] = int64((float64(max(0, t.Program.Y[i])*(1-t.smoothing)) + float64(t.smoothing*t.MeanDuals[i])) * (1 << problem.DualShift))
		ratio, biased := float64(p.Prices.Dual[d])/float64(p.Prices.resourceDual[d]), float64(p.Prices.Dual[d])
		for range power {
			biased *= ratio
		}
		p.Prices.biasedDual[d] = int64(min(biased, 1<<44))>>biasShift + 1
	}
}

// roundAndPack rounds the fractional plan down, and buys machines greedily for the remaining pods.
func (t *master) roundAndPack(remaining []int64) []batch {
	p := t.p
	var out []batch
	type part struct {
		col int
		x   float64
	}
	var parts []part
	for i, b := range t.Program.Basic {
		if b >= 0 && t.Program.X[i] > 1e-9 {
			parts = append(parts, part{b, t.Program.X[i]})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.col, b.col) })
	for _, x := range parts {
		out = t.buyWholeCopies(out, x.col, x.x, remaining)
	}
	p.Prices.PriceDemands(remaining)
	return append(out, p.packGreedily(remaining)...)
}

// buyWholeCopies buys the whole machines in the amount of a column, but no more than the remaining pods fill.
func (t *master) buyWholeCopies(out []batch, col int, part float64, remaining []int64) []batch {
	c := &t.Program.Cols[col]
	copies := int64(part + 1e-6)
	for _, it := range c.Items {
		copies = min(copies, remaining[it.Demand]/it.Count)
	}
	for copies > 0 { // each pool of a family provides some
		b := t.p.Market.buyCopies(c.Machine, c.Items, copies, remaining)
		if b.copies == 0 {
			break
		}
		out, copies = append(out, b), copies-b.copies
	}
	return out
}
