// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package lp solves linear programs by the simplex method in floating point: small programs as a whole (Maximize),
// and programs whose columns are generated during the solve (CoveringProgram).
//
// Its results guide the search, and prove and decide nothing: callers round to integers and check. Products are
// converted before they are added, which prevents fused multiply-add, so all processors give the same digits. Start
// reading at Maximize.
package lp

import "math"

// tiny is below what counts as different from zero; programs are scaled so that 1 is a usual size.
const tiny = 1e-9

// Maximize finds x ≥ 0 that maximizes gain·x subject to rows[i]·x ≤ limit[i]. Limits must not be negative, so that x = 0
// is feasible. It returns x, the dual value of each row, and the number of pivots. If the program has no finite optimum,
// or needs more than maxPivots, it returns the best point found, and ok is false.
func Maximize(gain []float64, rows [][]float64, limit []float64, maxPivots int) (x, dual []float64, pivots int, ok bool) {
	return MaximizeWithin(gain, rows, limit, nil, maxPivots)
}

// MaximizeWithin is Maximize with the additional bounds x ≤ most; nil: unbounded. The bounds take no rows and have no
// dual values: the dual value of a bound is the gain of the variable beyond its price.
func MaximizeWithin(gain []float64, rows [][]float64, limit, most []float64, maxPivots int) (x, dual []float64, pivots int, ok bool) {
	t := newTable(gain, rows, limit, most)
	for pivots = 0; pivots < maxPivots; pivots++ {
		in := t.entering(pivots)
		if in < 0 {
			ok = true
			break
		}
		switch out, full, step := t.leaving(in); {
		case t.most(t.free[in]) < step:
			t.flip(in)
		case out < 0:
			x, dual = t.solution(len(gain), len(rows))
			return x, dual, pivots, false
		default:
			if full {
				t.mirror(out)
			}
			t.pivot(out, in)
		}
	}
	x, dual = t.solution(len(gain), len(rows))
	return x, dual, pivots, ok
}

// table is a dictionary: basic[i] = b[i] - Σ a[i][k]·free[k], objective = const + Σ gain[k]·free[k]. Variables 0..n-1 are x,
// n+i is the slack of row i. Columns are scaled to a largest entry of 1. A variable that is mirrored stands for what it is short of its most.
type table struct {
	n     int
	a     []float64 // rows of n, one behind the other
	b     []float64
	gain  []float64
	basic []int
	free  []int
	scale []float64
	unit  float64 // gains are divided by it

	upper    []float64 // by variable of x, scaled; nil: none has a most
	mirrored []bool
}

func newTable(gain []float64, rows [][]float64, limit, most []float64) *table {
	n, m := len(gain), len(rows)
	amounts, places := make([]float64, m*n+m+2*n), make([]int, m+n)
	t := &table{n: n, a: amounts[:m*n], b: amounts[m*n:][:m], gain: amounts[m*n+m:][:n], scale: amounts[m*n+m+n:], basic: places[:m], free: places[m:]}
	for k := range t.scale {
		t.free[k], t.scale[k] = k, 1
	}
	for i, row := range rows {
		for k, v := range row[:n] {
			if v = abs(v); v > t.scale[k] || i == 0 && v > 0 {
				t.scale[k] = v
			}
		}
	}
	for k := range n {
		t.gain[k] = gain[k] / t.scale[k]
	}
	if most != nil {
		t.upper, t.mirrored = make([]float64, n), make([]bool, n)
		for k := range n {
			t.upper[k] = most[k] * t.scale[k]
		}
	}
	for k := range n {
		t.unit = max(t.unit, abs(t.gain[k]))
	}
	for k := range n {
		if t.unit > 0 {
			t.gain[k] /= t.unit
		}
	}
	copy(t.b, limit[:m])
	for i, row := range rows {
		t.basic[i] = n + i
		to := t.row(i)
		for k, v := range row[:n] {
			to[k] = v / t.scale[k]
		}
	}
	return t
}

func (t *table) row(i int) []float64 { return t.a[i*t.n : i*t.n+t.n] }

// entering picks the free variable of the greatest gain; after many pivots the first that gains at all, which cannot cycle.
func (t *table) entering(pivots int) int {
	best := -1
	for k, g := range t.gain {
		if g <= tiny {
			continue
		}
		if pivots > 50*(len(t.gain)+1) {
			if best < 0 || t.free[k] < t.free[best] {
				best = k
			}
			continue
		}
		if best < 0 || g > t.gain[best] {
			best = k
		}
	}
	return best
}

// most is how far a variable may rise.
func (t *table) most(v int) float64 {
	if v < len(t.upper) {
		return t.upper[v]
	}
	return math.Inf(1)
}

// leaving is the row whose basic variable is the first to come to its end as a free one rises, -1 if none does; full says that this end is its
// most, and step how far the free one rises until then.
func (t *table) leaving(in int) (out int, full bool, step float64) {
	out, step = -1, math.Inf(1)
	for i := range t.b {
		q, up := 0.0, false
		switch f := t.row(i)[in]; {
		case f > tiny:
			q = t.b[i] / f
		case f < -tiny && t.basic[i] < len(t.upper):
			q, up = max(0, t.upper[t.basic[i]]-t.b[i])/-f, true
		default:
			continue
		}
		if out < 0 || q < step || q == step && t.basic[i] < t.basic[out] {
			out, full, step = i, up, q
		}
	}
	return out, full, step
}

// flip takes a free variable from none to its most, or back.
func (t *table) flip(in int) {
	v := t.free[in]
	for i := range t.b {
		row := t.row(i)
		t.b[i] = max(0, t.b[i]-float64(row[in]*t.upper[v])) // negative by rounding only
		row[in] = -row[in]
	}
	t.gain[in] = -t.gain[in]
	t.mirrored[v] = !t.mirrored[v]
}

// mirror has a row count what its basic variable is short of its most.
func (t *table) mirror(row int) {
	v := t.basic[row]
	t.b[row] = max(0, t.upper[v]-t.b[row])
	r := t.row(row)
	for k := range r {
		r[k] = -r[k]
	}
	t.mirrored[v] = !t.mirrored[v]
}

func (t *table) pivot(out, in int) {
	row := t.row(out)
	inv := 1 / row[in]
	for k := range row {
		row[k] *= inv
	}
	row[in] = inv
	t.b[out] *= inv
	for i := range t.b {
		other := t.row(i)
		f := other[in]
		if i == out || f == 0 {
			continue
		}
		for k, v := range row {
			other[k] -= float64(f * v)
		}
		other[in] = -float64(f * inv)
		t.b[i] -= float64(f * t.b[out])
		if t.b[i] < 0 {
			t.b[i] = 0 // rounding only: leaving took the smallest ratio
		}
	}
	f := t.gain[in]
	for k, v := range row {
		t.gain[k] -= float64(f * v)
	}
	t.gain[in] = -float64(f * inv)
	t.basic[out], t.free[in] = t.free[in], t.basic[out]
}

func (t *table) solution(n, rows int) (x, dual []float64) {
	x, dual = make([]float64, n), make([]float64, rows)
	for i, v := range t.basic {
		if v < n {
			x[v] = t.b[i] / t.scale[v]
		}
	}
	for v, m := range t.mirrored {
		if m {
			x[v] = max(0, t.upper[v]/t.scale[v]-x[v])
		}
	}
	for k, v := range t.free {
		if v >= n {
			dual[v-n] = max(0, -t.gain[k]) * t.unit
		}
	}
	return x, dual
}

func abs(v float64) float64 {
	if v < 0 {
		return -v
	}
	return v
}
