// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
)

// maxMasterRows is how many demands column generation takes on; with more of them patterns come out well by
// themselves, for there is always a pod that fits the gap.
const maxMasterRows = 640

// master is the restricted master problem of column generation: the program over the columns made so far.
type master struct {
	coveringProgram
	p         *packing
	meanDuals []float64 // by row: a mean of what pods were worth in the rounds before
	smoothing float64   // how much of the duals asked at is taken from it
}

// newMaster begins with one column for each demand: a machine full of it, the cheapest for each pod.
func newMaster(p *packing, remaining []int64) *master {
	t := &master{p: p, coveringProgram: coveringProgram{s: &p.s.problemInput, machines: p.machines, rowOf: make([]int, len(remaining))}}
	for d, n := range remaining {
		t.rowOf[d] = -1
		if n <= 0 {
			continue
		}
		c, ok := p.cheapestAlone(d)
		if !ok {
			continue
		}
		t.rowOf[d] = len(t.rows)
		t.rows = append(t.rows, d)
		t.need = append(t.need, float64(n))
		t.cols = append(t.cols, c)
	}
	t.initBasis()
	return t
}

// cheapestAlone is the machine that holds pods of one demand at the least cost for each; false where none does.
func (p *packing) cheapestAlone(d int) (column, bool) {
	best, bestN := -1, int64(0)
	for i, m := range p.machines {
		c := p.demands[d].class
		if m.quantity >= 0 || !p.machineAdmits(m, d) || !fitsIn(&c.req, &m.available, p.s.numDims) {
			continue
		}
		n := timesIn(&c.req, &m.available, p.s.numDims)
		if p.restricted[d] {
			n = min(n, p.podsNeighboursAllow(d, m, &occupancy{ports: m.ports}))
		}
		if n = min(n, p.maxPodsOf(d)); n <= 0 {
			continue
		}
		if best < 0 || ratioLess(bestN, p.machines[best].adjustedCost, n, m.adjustedCost) {
			best, bestN = i, n
		}
	}
	return column{machine: best, items: []item{{d, bestN}}}, best >= 0
}

// demandTotals is the pods of each demand: a column may hold as many.
func (t *master) demandTotals() []int64 {
	out := make([]int64, len(t.p.demands))
	for i, d := range t.rows {
		out[d] = int64(t.need[i] + 0.5)
	}
	return out
}

// maxSmoothing is how much of the duals that machines are priced at is the mean of those before, and meanDecay how
// much of that mean stays each round. Duals straight from the program swing: a pattern asked for at one extreme is of
// no use at the next. Priced at a mean, half the rounds do.
const (
	maxSmoothing = 0.7
	meanDecay    = 0.8
)

// generateColumns makes columns until none makes the plan cheaper, and says so, or the steps allowed are done. Each
// round asks every machine for patterns at the duals of now: at first those that are quickly made, and tables only
// once these bring nothing more.
func (t *master) generateColumns(until int64) (done bool) {
	p := t.p
	whole := t.demandTotals()
	hosted := slices.Contains(p.restricted, true)
	center := make([]float64, len(t.rows))
	for i, d := range t.rows {
		center[i] = float64(p.resourceDual[d]) / (1 << dualShift)
	}
	t.meanDuals, t.smoothing = center, maxSmoothing
	fine, slow := false, 0
	near := float64(p.lowerBound) * (1 + float64(p.s.policy.MaxGapPPM)*0.75e-6)
	for round := 0; p.s.steps < until; round++ {
		t.recompute()
		for i := range center {
			if round > 0 {
				center[i] = float64(meanDecay*center[i]) + float64((1-meanDecay)*max(0, t.y[i]))
			}
		}
		before := t.objective()
		found := 0
		for mi, m := range p.machines {
			if p.s.steps >= until {
				return false
			}
			if m.quantity < 0 { // greedy has had the others: the program would buy more than there are
				found += t.priceMachine(mi, whole, hosted, fine)
			}
		}
		t.enterSurplus()
		if slow++; before-t.objective() > 1e-5*before {
			slow = 0
		}
		switch {
		case t.objective() <= near:
			return true // whole machines instead of parts will cost more than what is still to be won
		case found > 0 && slow <= 6:
			t.smoothing = maxSmoothing
		case found > 0:
			return false
		case !fine && !hosted && p.s.runs(stageTable):
			fine = true
		case t.smoothing > 0:
			t.smoothing = 0
		default:
			return true
		}
	}
	return false
}

// priceMachine offers the program patterns of one machine, and returns how many it took.
func (t *master) priceMachine(mi int, whole []int64, hosted, fine bool) (found int) {
	p := t.p
	take := func(f *pattern) {
		if len(f.items) > 0 && t.tryColumn(column{machine: mi, items: slices.Clone(f.items)}) {
			found++
		}
	}
	for _, power := range [...]int{0, 5} {
		t.setDuals(power)
		f := pattern{machine: mi}
		p.buildPattern(&f, whole)
		take(&f)
	}
	if hosted {
		return found // the searches know nothing of rules between pods
	}
	t.setDuals(0)
	if fine {
		p.tablePatterns(mi, whole, take)
		return found
	}
	f := pattern{machine: mi}
	sack := knapsack{p: p, machine: p.machines[mi], whole: whole}
	sack.search(&f)
	take(&f)
	return found
}

// setDuals tells the packing what pods are worth now. power says how much more patterns should lean towards pods that
// are worth more than their resources.
func (t *master) setDuals(power int) {
	p := t.p
	for i, d := range t.rows {
		p.dual[d] = int64((float64(max(0, t.y[i])*(1-t.smoothing)) + float64(t.smoothing*t.meanDuals[i])) * (1 << dualShift))
		ratio, lean := float64(p.dual[d])/float64(p.resourceDual[d]), float64(p.dual[d])
		for range power {
			lean *= ratio
		}
		p.biasedDual[d] = int64(min(lean, 1<<44))>>biasShift + 1
	}
}

// roundAndPack rounds the fractional plan down, and buys greedily for the rest.
func (t *master) roundAndPack(remaining []int64) []batch {
	p := t.p
	var out []batch
	type part struct {
		col int
		x   float64
	}
	var parts []part
	for i, b := range t.basic {
		if b >= 0 && t.x[i] > 1e-9 {
			parts = append(parts, part{b, t.x[i]})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.col, b.col) })
	for _, x := range parts {
		out = t.buyWholeCopies(out, x.col, x.x, remaining)
	}
	p.priceDemands(remaining)
	return append(out, p.packGreedily(remaining)...)
}

// buyWholeCopies buys as many machines of a column as there are whole ones in its amount, and pods left for.
func (t *master) buyWholeCopies(out []batch, col int, part float64, remaining []int64) []batch {
	c := &t.cols[col]
	copies := int64(part + 1e-6)
	for _, it := range c.items {
		copies = min(copies, remaining[it.demand]/it.count)
	}
	for copies > 0 { // each pool of a family takes some
		b := t.p.buyCopies(c.machine, c.items, copies, remaining)
		if b.copies == 0 {
			break
		}
		out, copies = append(out, b), copies-b.copies
	}
	return out
}
