// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "slices"

// dive makes a plan of the program in whole machines: whole numbers of its columns are bought, then one of the column that it wants the largest
// part of, filled up with what is worth most; the program is solved again for what is left, with the columns that it has, and so on. Where there are
// few machines of many kinds most of the plan lies in such parts, and what greedy buys for them all at once costs more. It ends when nothing is
// left, or so much work is done: the rest is greedy's.
func (t *master) dive(remaining []int64, until int64) (out []batch) {
	p := t.p
	t.smoothing = 0
	t.recompute()
	for p.s.steps < until {
		before := len(out)
		for i, b := range t.basic {
			if b >= 0 {
				out = t.buyWholeCopies(out, b, t.x[i], remaining)
			}
		}
		if !slices.ContainsFunc(t.rows, func(d int) bool { return remaining[d] > 0 }) {
			return out
		}
		if len(out) == before {
			f := t.fillLargestFraction(remaining)
			b := p.buyCopies(f.machine, f.items, min(1, int64(len(f.items))), remaining)
			if b.copies == 0 {
				break
			}
			out = append(out, b)
		}
		if !t.resolveDual(remaining) {
			break
		}
	}
	p.priceDemands(remaining)
	return append(out, p.packGreedily(remaining)...)
}

// clone is the program as it stands, to be solved on without changing it.
func (t *master) clone() *master {
	x := *t
	x.cols, x.need, x.basic = slices.Clip(t.cols), slices.Clone(t.need), slices.Clone(t.basic)
	x.x, x.y, x.direction = slices.Clone(t.x), slices.Clone(t.y), slices.Clone(t.direction)
	x.inverse = slices.Clone(t.inverse)
	for i, row := range x.inverse {
		x.inverse[i] = slices.Clone(row)
	}
	return &x
}

// fillLargestFraction is a fill of the column that the program wants the largest part of, as far as what is left allows, filled up.
func (t *master) fillLargestFraction(remaining []int64) *fill {
	p := t.p
	best := -1
	for i, b := range t.basic {
		if b >= 0 && t.x[i] > 1e-6 && (best < 0 || t.x[i] > t.x[best]+1e-9) {
			best = i
		}
	}
	f := &fill{}
	if best < 0 {
		return f
	}
	c := &t.cols[t.basic[best]]
	f.machine = c.machine
	f.items = append(f.items, c.items...)
	t.setDuals(0)
	p.buildFill(f, remaining)
	return f
}

// resolveDual solves the program for what is left, with the columns that there are, by the dual simplex method: prices stay as good as they are, and where
// more of a column would have to be given back than was wanted another takes its place. It says whether that came to an end.
func (t *master) resolveDual(remaining []int64) bool {
	for r, d := range t.rows {
		t.need[r] = float64(remaining[d])
	}
	for i := range t.basic {
		x := 0.0
		for k, v := range t.inverse[i] {
			x += float64(v * t.need[k])
		}
		t.x[i] = x
	}
	basic := make([]bool, len(t.cols))
	for _, b := range t.basic {
		if b >= 0 {
			basic[b] = true
		}
	}
	for range 4 * len(t.rows) {
		out := -1
		for i, x := range t.x {
			if x < -1e-7 && (out < 0 || x < t.x[out]) {
				out = i
			}
		}
		if out < 0 {
			for i := range t.x {
				t.x[i] = max(0, t.x[i])
			}
			return true
		}
		in, cost, found := t.dualRatioTest(out, basic)
		if !found {
			return false
		}
		for i, row := range t.inverse {
			t.direction[i] = 0
			if in < 0 {
				t.direction[i] = -row[-1-in]
				continue
			}
			c := &t.cols[in]
			for j, it := range c.items {
				t.direction[i] += float64(row[t.rowOf[it.demand]] * c.amount(j))
			}
		}
		if t.direction[out] > -1e-8 {
			return false
		}
		if b := t.basic[out]; b >= 0 {
			basic[b] = false
		}
		if in >= 0 {
			basic[in] = true
		}
		t.pivot(out, in, cost, t.x[out]/t.direction[out])
	}
	return false
}

// dualRatioTest finds what takes the place of the basic column of a row at the least cost, and what one of it costs beyond what it is worth.
func (t *master) dualRatioTest(out int, basic []bool) (in int, cost float64, found bool) {
	row := t.inverse[out]
	least := 0.0
	try := func(col int, by, over float64) {
		if by >= -1e-8 {
			return
		}
		if ratio := max(0, over) / -by; !found || ratio < least-1e-12 {
			in, cost, found, least = col, max(0, over), true, ratio
		}
	}
	for i := range t.cols {
		if basic[i] {
			continue
		}
		c := &t.cols[i]
		by, over := 0.0, t.columnCost(c.machine)
		for j, it := range c.items {
			r := t.rowOf[it.demand]
			by += float64(row[r] * c.amount(j))
			over -= float64(t.y[r] * c.amount(j))
		}
		try(i, by, over)
	}
	for r := range t.rows {
		try(-1-r, -row[r], t.y[r])
	}
	t.p.s.steps += int64(len(t.cols))
	return in, cost, found
}
