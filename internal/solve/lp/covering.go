// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lp

import "slices"

// Item is a number of pods of one demand on a machine.
type Item struct {
	Demand int
	Count  int64
}

// Column is a pattern of one machine in a CoveringProgram.
type Column struct {
	Machine   int // index in CoveringProgram.Cost; -1: free capacity, which costs nothing
	Items     []Item
	Fractions []float64 // by item: amounts instead of counts, for a relaxed pattern used only in a bound
}

// amount is how much of item i the column holds.
func (c *Column) amount(i int) float64 {
	if c.Fractions != nil {
		return c.Fractions[i]
	}
	return float64(c.Items[i].Count)
}

// CoveringProgram is the linear program over columns: the cheapest fractional number of each that covers every demand.
// It is solved by the revised simplex method with an explicit inverse of the basis: inverse[i] is the row of basic
// variable i.
type CoveringProgram struct {
	Steps   *int64    // counts the work
	Cost    []float64 // by machine, micro-dollars per hour
	Rows    []int     // by row: its demand; demands that fit on no machine have no row
	RowOf   []int     // by demand: its row; -1: none
	Need    []float64 // by row: required amount; negative: the maximum use of a limited resource
	Cols    []Column
	Basic   []int     // by row: the column in the basis; -1-r: surplus of row r
	X       []float64 // by row: value of the basic variable
	Y       []float64 // by row: its dual price
	inverse [][]float64

	direction []float64 // scratch
}

// Clone returns a copy of the program that can be solved further without changing the original.
func (t *CoveringProgram) Clone() *CoveringProgram {
	out := *t
	out.Cols, out.Need, out.Basic = slices.Clip(t.Cols), slices.Clone(t.Need), slices.Clone(t.Basic)
	out.X, out.Y, out.direction = slices.Clone(t.X), slices.Clone(t.Y), slices.Clone(t.direction)
	out.inverse = slices.Clone(t.inverse)
	for i, row := range out.inverse {
		out.inverse[i] = slices.Clone(row)
	}
	return &out
}

// InitBasis makes the first columns, one per row, the basis.
func (t *CoveringProgram) InitBasis() {
	n := len(t.Rows)
	t.Basic, t.X, t.Y, t.direction = make([]int, n), make([]float64, n), make([]float64, n), make([]float64, n)
	t.inverse = make([][]float64, n)
	for r := range n {
		t.inverse[r] = make([]float64, n)
		if t.Need[r] < 0 { // no more than so much: nothing of it is used yet
			t.Basic[r], t.inverse[r][r], t.X[r] = -1-r, -1, -t.Need[r]
			continue
		}
		t.Basic[r] = r
		k := t.Cols[r].amount(0)
		t.inverse[r][r] = 1 / k
		t.X[r] = t.Need[r] / k
		t.Y[r] = t.columnCost(t.Cols[r].Machine) / k
	}
}

// TryColumn enters a column into the basis if its reduced cost is negative, and reports whether it did.
func (t *CoveringProgram) TryColumn(c Column) bool {
	gain := -t.columnCost(c.Machine)
	for i, it := range c.Items {
		gain += float64(t.Y[t.RowOf[it.Demand]] * c.amount(i))
	}
	if gain <= 1e-7*t.columnCost(c.Machine)+1e-9 || c.Machine < 0 && gain < 1e-3 {
		return false
	}
	for i := range t.direction {
		t.direction[i] = 0
		row := t.inverse[i]
		for j, it := range c.Items {
			t.direction[i] += float64(row[t.RowOf[it.Demand]] * c.amount(j))
		}
	}
	t.Cols = append(t.Cols, c)
	if !t.enterColumn(len(t.Cols)-1, -gain) {
		t.Cols = t.Cols[:len(t.Cols)-1]
		return false
	}
	return true
}

// EnterSurplus allows rows to be covered in excess if their dual has become negative.
func (t *CoveringProgram) EnterSurplus() {
	for r := range t.Rows {
		if t.Y[r] >= -1e-9 {
			continue
		}
		for i := range t.direction {
			t.direction[i] = -t.inverse[i][r]
		}
		t.enterColumn(-1-r, t.Y[r])
	}
}

// enterColumn pivots on the row that runs out first; cost is the reduced cost, negative. It says no where no row
// does.
func (t *CoveringProgram) enterColumn(col int, cost float64) bool {
	out, least := -1, 0.0
	for i, s := range t.direction {
		if s <= 1e-8 {
			continue
		}
		q := t.X[i] / s
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
	for i := range t.X {
		t.X[i] = max(0, t.X[i]) // negative by rounding only
	}
	return true
}

// pivot makes a column basic in place of that of row out, in the amount least; direction is what one of it takes of
// every basic column.
func (t *CoveringProgram) pivot(out, col int, cost, least float64) {
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
		t.X[i] -= float64(s * least)
	}
	t.X[out] = least
	t.Basic[out] = col
	for k, v := range row {
		t.Y[k] += float64(cost * v)
	}
	*t.Steps += int64(len(row)*len(row))/4 + 1
}

// columnCost returns the cost of a machine; free capacity, -1, costs nothing.
func (t *CoveringProgram) columnCost(m int) float64 {
	if m < 0 {
		return 0
	}
	return t.Cost[m]
}

// Objective returns the cost of the fractional plan.
func (t *CoveringProgram) Objective() float64 {
	sum := 0.0
	for i, b := range t.Basic {
		if b >= 0 {
			sum += float64(t.X[i] * t.columnCost(t.Cols[b].Machine))
		}
	}
	return sum
}

// Recompute computes amounts and duals from the inverse, so that rounding errors do not accumulate.
func (t *CoveringProgram) Recompute() {
	clear(t.Y)
	for i, b := range t.Basic {
		x := 0.0
		for k, v := range t.inverse[i] {
			x += float64(v * t.Need[k])
		}
		t.X[i] = max(0, x)
		if b < 0 {
			continue
		}
		c := t.columnCost(t.Cols[b].Machine)
		for k, v := range t.inverse[i] {
			t.Y[k] += float64(c * v)
		}
	}
}

// ResolveDual solves the program for the remaining demand, with the existing columns, by the dual simplex method:
// reduced costs stay nonnegative, and another column replaces one whose amount would become negative. It reports whether
// it finished.
func (t *CoveringProgram) ResolveDual(remaining []int64) bool {
	for r, d := range t.Rows {
		t.Need[r] = float64(remaining[d])
	}
	for i := range t.Basic {
		x := 0.0
		for k, v := range t.inverse[i] {
			x += float64(v * t.Need[k])
		}
		t.X[i] = x
	}
	basic := make([]bool, len(t.Cols))
	for _, b := range t.Basic {
		if b >= 0 {
			basic[b] = true
		}
	}
	for range 4 * len(t.Rows) {
		out := -1
		for i, x := range t.X {
			if x < -1e-7 && (out < 0 || x < t.X[out]) {
				out = i
			}
		}
		if out < 0 {
			for i := range t.X {
				t.X[i] = max(0, t.X[i])
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
			c := &t.Cols[in]
			for j, it := range c.Items {
				t.direction[i] += float64(row[t.RowOf[it.Demand]] * c.amount(j))
			}
		}
		if t.direction[out] > -1e-8 {
			return false
		}
		if b := t.Basic[out]; b >= 0 {
			basic[b] = false
		}
		if in >= 0 {
			basic[in] = true
		}
		t.pivot(out, in, cost, t.X[out]/t.direction[out])
	}
	return false
}

// dualRatioTest finds what takes the place of the basic column of a row at the least cost, and its reduced cost;
// false where nothing can.
func (t *CoveringProgram) dualRatioTest(out int, basic []bool) (in int, cost float64, found bool) {
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
	for i := range t.Cols {
		if basic[i] {
			continue
		}
		c := &t.Cols[i]
		by, over := 0.0, t.columnCost(c.Machine)
		for j, it := range c.Items {
			r := t.RowOf[it.Demand]
			by += float64(row[r] * c.amount(j))
			over -= float64(t.Y[r] * c.amount(j))
		}
		try(i, by, over)
	}
	for r := range t.Rows {
		try(-1-r, -row[r], t.Y[r])
	}
	*t.Steps += int64(len(t.Cols))
	return in, cost, found
}

// ToleranceShift is the tolerance of a bound relative to the value of the program, and the maximum excess of a machine's
// patterns over its price until then: one part in 1<<ToleranceShift.
const ToleranceShift = 10

// maxProvenShare is how much of the duals that machines are asked at are those that have proved most so far.
const maxProvenShare = 0.8

// AddRound adds the columns of a round and solves again. It returns the weight of the best duals so far in the duals of
// the next round, and whether to stop: the bound is close enough to the value of the program, or no column was found at
// its own duals.
func (t *CoveringProgram) AddRound(found []Column, best, held float64) (next float64, done bool) {
	better := false
	for _, c := range found {
		better = t.TryColumn(c) || better
	}
	t.EnterSurplus()
	t.Recompute()
	switch {
	case best >= t.Objective()*(1-1.0/(1<<ToleranceShift)), !better && held == 0:
		return 0, true
	case better:
		return maxProvenShare, false
	case held > 0.1:
		return held / 2, false
	}
	return 0, false
}
