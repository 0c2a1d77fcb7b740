// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
)

// maxMasterRows is how many demands column generation takes on; with more of them fills come out well by themselves, for there is always a
// pod that fits the gap.
const maxMasterRows = 640

// column is a fill of a machine, and how many of it the program buys.
type column struct {
	machine   int
	items     []item
	fractions []float64 // amounts instead of the items': a relaxed fill, only ever for a bound
}

func (c *column) amount(i int) float64 {
	if c.fractions != nil {
		return c.fractions[i]
	}
	return float64(c.items[i].count)
}

// master is the program over columns: the cheapest fractional number of each such that every demand is met. It is solved by the
// revised simplex method with the inverse of the basis kept whole: inverse[i] is the row of basic variable i.
type master struct {
	p          *packing
	rows       []int // demands that some machine holds
	rowOf      []int // by demand, -1: none
	need       []float64
	cols       []column
	basic      []int // column by row; -1-r: surplus of row r
	x          []float64
	y          []float64
	inverse    [][]float64
	direction  []float64 // scratch
	pricesOnly bool      // count prices alone: for a proof
	meanDuals  []float64 // a mean of what pods were worth in the rounds before, by row
	smoothing  float64   // how much of the worth asked at is taken from it
}

// newMaster begins with a machine full of one demand for each demand.
func newMaster(p *packing, remaining []int64) *master {
	t := &master{p: p, rowOf: make([]int, len(remaining))}
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

// initBasis makes the first columns, one a row, the basis.
func (t *master) initBasis() {
	n := len(t.rows)
	t.basic, t.x, t.y, t.direction = make([]int, n), make([]float64, n), make([]float64, n), make([]float64, n)
	t.inverse = make([][]float64, n)
	for r := range n {
		t.inverse[r] = make([]float64, n)
		if t.need[r] < 0 { // no more than so much: nothing of it is used yet
			t.basic[r], t.inverse[r][r], t.x[r] = -1-r, -1, -t.need[r]
			continue
		}
		t.basic[r] = r
		k := t.cols[r].amount(0)
		t.inverse[r][r] = 1 / k
		t.x[r] = t.need[r] / k
		t.y[r] = t.columnCost(t.cols[r].machine) / k
	}
}

// cheapestAlone is the machine that holds pods of one demand at the least price for each.
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

// tryColumn brings a column into the basis if that makes the plan cheaper, and says whether it did.
func (t *master) tryColumn(c column) bool {
	gain := -t.columnCost(c.machine)
	for i, it := range c.items {
		gain += float64(t.y[t.rowOf[it.demand]] * c.amount(i))
	}
	if gain <= 1e-7*t.columnCost(c.machine)+1e-9 || c.machine < 0 && gain < 1e-3 {
		return false
	}
	for i := range t.direction {
		t.direction[i] = 0
		row := t.inverse[i]
		for j, it := range c.items {
			t.direction[i] += float64(row[t.rowOf[it.demand]] * c.amount(j))
		}
	}
	t.cols = append(t.cols, c)
	if !t.enterColumn(len(t.cols)-1, -gain) {
		t.cols = t.cols[:len(t.cols)-1]
		return false
	}
	return true
}

// enterSurplus lets rows be met more than fully where their price has become negative.
func (t *master) enterSurplus() {
	for r := range t.rows {
		if t.y[r] >= -1e-9 {
			continue
		}
		for i := range t.direction {
			t.direction[i] = -t.inverse[i][r]
		}
		t.enterColumn(-1-r, t.y[r])
	}
}

// enterColumn pivots on the row that runs out first; cost is the reduced cost, negative.
func (t *master) enterColumn(col int, cost float64) bool {
	out, least := -1, 0.0
	for i, s := range t.direction {
		if s <= 1e-8 {
			continue
		}
		q := t.x[i] / s
		switch {
		case out < 0 || q < least-1e-12:
			out, least = i, q
		case q <= least+1e-12 && s > t.direction[out]: // of equals the largest pivot, which rounding hurts least
			out, least = i, min(q, least)
		}
	}
	if out < 0 {
		return false
	}
	t.pivot(out, col, cost, least)
	for i := range t.x {
		t.x[i] = max(0, t.x[i]) // negative by rounding only
	}
	return true
}

// pivot makes a column basic in place of that of a row, at least of it. step is what it takes of all basic ones.
func (t *master) pivot(out, col int, cost, least float64) {
	row, inv := t.inverse[out], 1/t.direction[out]
	for k := range row {
		row[k] *= inv
	}
	for i, s := range t.direction {
		if i == out || s == 0 {
			continue
		}
		other := t.inverse[i]
		for k, v := range row {
			if v != 0 {
				other[k] -= float64(s * v)
			}
		}
		t.x[i] -= float64(s * least)
	}
	t.x[out] = least
	t.basic[out] = col
	for k, v := range row {
		t.y[k] += float64(cost * v)
	}
	t.p.s.steps += int64(len(row)*len(row))/4 + 1
}

// columnCost is what the program counts for a machine; free capacity, -1, costs nothing.
func (t *master) columnCost(m int) float64 {
	if m < 0 {
		return 0
	}
	if t.pricesOnly {
		return float64(t.p.machines[m].price)
	}
	return float64(t.p.machines[m].adjustedCost)
}

// demandTotals is how much there is of each demand: a column may hold as much.
func (t *master) demandTotals() []int64 {
	out := make([]int64, len(t.p.demands))
	for i, d := range t.rows {
		out[d] = int64(t.need[i] + 0.5)
	}
	return out
}

// objective is the cost of the fractional plan.
func (t *master) objective() float64 {
	sum := 0.0
	for i, b := range t.basic {
		if b >= 0 {
			sum += float64(t.x[i] * t.columnCost(t.cols[b].machine))
		}
	}
	return sum
}

// maxSmoothing is how much of the prices asked at is the mean of those before, and keepCalm how much of that mean stays each round. Prices
// straight from the program swing: what is asked for at one extreme is of no use at the next. Asked at a mean, half the rounds do.
const (
	maxSmoothing = 0.7
	meanDecay    = 0.8
)

// generateColumns makes columns until none makes the plan cheaper, or the work allowed is done. It says which. Each round asks every machine
// for fills by what pods are worth now: at first those that are quickly made, and tables only once these bring nothing more.
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
		case !fine && !hosted:
			fine = true
		case t.smoothing > 0:
			t.smoothing = 0
		default:
			return true
		}
	}
	return false
}

// priceMachine offers the program fills of one machine, and returns how many it took.
func (t *master) priceMachine(mi int, whole []int64, hosted, fine bool) (found int) {
	p := t.p
	take := func(f *fill) {
		if len(f.items) > 0 && t.tryColumn(column{machine: mi, items: slices.Clone(f.items)}) {
			found++
		}
	}
	for _, power := range [...]int{0, 5} {
		t.setDuals(power)
		f := fill{machine: mi}
		p.buildFill(&f, whole)
		take(&f)
	}
	if hosted {
		return found // the searches know nothing of rules between pods
	}
	t.setDuals(0)
	if fine {
		p.tableFills(mi, whole, take)
		return found
	}
	f := fill{machine: mi}
	sack := knapsack{p: p, machine: p.machines[mi], whole: whole}
	sack.search(&f)
	take(&f)
	return found
}

// recompute works out amounts and prices anew from the inverse, so that rounding does not add up.
func (t *master) recompute() {
	clear(t.y)
	for i, b := range t.basic {
		x := 0.0
		for k, v := range t.inverse[i] {
			x += float64(v * t.need[k])
		}
		t.x[i] = max(0, x)
		if b < 0 {
			continue
		}
		c := t.columnCost(t.cols[b].machine)
		for k, v := range t.inverse[i] {
			t.y[k] += float64(c * v)
		}
	}
}

// setDuals tells the packing what pods are worth now. The power says how much more the fills should lean towards pods that are
// worth more than their resources.
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

// roundAndPack rounds the fractional plan down, and lets greedy buy the rest at the prices found.
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

// buyWholeCopies buys as many machines of a column as a part of the program has whole ones, and pods are left for.
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

// buyCopies buys copies of a fill as far as limits allow.
func (p *packing) buyCopies(mi int, items []item, copies int64, remaining []int64) batch {
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

// refundBatches takes back what batches were charged.
func (p *packing) refundBatches(batches []batch) {
	for _, b := range batches {
		p.chargeMachines(b.machine, b.pool, -b.copies)
	}
}

// adjustedCostOf is what plans are compared by: each fill counts as the machine that holds it for least, which is what will be bought, whichever it was
// made for.
func (p *packing) adjustedCostOf(batches []batch) (sum int64) {
	for i := range batches {
		sum += p.cheapestHolder(&batches[i]) * batches[i].copies
	}
	return sum
}

// cheapestHolder is the adjusted cost of that machine.
func (p *packing) cheapestHolder(b *batch) int64 {
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
