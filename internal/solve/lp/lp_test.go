// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lp

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*(1+math.Abs(a)+math.Abs(b)) }

func TestKnown(t *testing.T) {
	x, dual, _, ok := Maximize([]float64{3, 5}, [][]float64{{1, 0}, {0, 2}, {3, 2}}, []float64{4, 12, 18}, 100)
	if !ok || !near(x[0], 2) || !near(x[1], 6) || !near(dual[0], 0) || !near(dual[1], 1.5) || !near(dual[2], 1) {
		t.Fatal(x, dual, ok)
	}
}

func TestUnbounded(t *testing.T) {
	if _, _, _, ok := Maximize([]float64{1}, [][]float64{{-1}}, []float64{1}, 100); ok {
		t.Fatal("a program without a finite optimum was called solved")
	}
}

// TestBothSides holds every answer against its own proof: x keeps the limits, the duals are prices under which nothing more pays, and
// both are worth the same.
func TestBothSides(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, m := rapid.IntRange(1, 5).Draw(rt, "n"), rapid.IntRange(1, 12).Draw(rt, "m")
		scale := math.Pow(10, float64(rapid.IntRange(-6, 6).Draw(rt, "scale")))
		num := func(limit int) float64 { return float64(rapid.IntRange(0, limit).Draw(rt, "v")) }
		gain, rows, limit := make([]float64, n), make([][]float64, m+n), make([]float64, m+n)
		for k := range gain {
			gain[k] = num(100)
		}
		for i := range rows {
			rows[i], limit[i] = make([]float64, n), num(1000)
			for k := range n {
				rows[i][k] = num(50) * scale
			}
			if i >= m { // so that every optimum is finite
				rows[i][i-m] += scale
			}
		}
		var most []float64
		if rapid.Bool().Draw(rt, "most") {
			most = make([]float64, n)
			for k := range most {
				most[k] = num(20) / scale
			}
		}
		x, dual, _, ok := MaximizeWithin(gain, rows, limit, most, 1000)
		if !ok {
			rt.Fatal("no optimum")
		}
		primal, other, terms := 0.0, 0.0, 0.0 // terms: the size of what other is the difference of, which its rounding errors are relative to
		for k := range x {
			primal += gain[k] * x[k]
			if most != nil && x[k] > most[k]*(1+1e-9) {
				rt.Fatalf("variable %d is %g, at most %g", k, x[k], most[k])
			}
		}
		for i := range rows {
			used := 0.0
			for k := range x {
				used += rows[i][k] * x[k]
			}
			if used > limit[i]+1e-6*(1+limit[i]) {
				rt.Fatalf("row %d uses %g of %g", i, used, limit[i])
			}
			other += dual[i] * limit[i]
		}
		for k := range x {
			worth := 0.0
			for i := range rows {
				worth += dual[i] * rows[i][k]
			}
			if most != nil {
				other += max(0, gain[k]-worth) * most[k]
				terms += (gain[k] + worth) * most[k]
				continue
			}
			if worth < gain[k]-1e-6*(1+gain[k]) {
				rt.Fatalf("variable %d gains %g at a price of %g", k, gain[k], worth)
			}
		}
		if !near(primal, other) && math.Abs(primal-other) > 1e-12*terms {
			rt.Fatalf("%g on one side, %g on the other", primal, other)
		}
	})
}
