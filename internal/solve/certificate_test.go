// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/solve/bound"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// TestAnyPricesAreABound puts prices out of the air, and prices of the program bent in every direction, in place of
// those found: whatever they are, what is left of them after the check in integers must not prove more than the
// cheapest of all packings costs.
func TestAnyPricesAreABound(t *testing.T) {
	tight, tried := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		c := rapidChance{rt}
		var b strings.Builder
		b.WriteString("pool default\n")
		for i := range 1 + c.n(4) {
			fmt.Fprintf(&b, "type t%d cpu=%d mem=%dGi price=%d.%06d zones=a\n", i, 1+c.n(8), 1+c.n(16), c.n(3), 1+c.n(999_999))
		}
		for i := range 1 + c.n(5) {
			fmt.Fprintf(&b, "pod w%d cpu=%dm mem=%dMi\n", i, 100*(1+c.n(40)), 1+c.n(6000))
		}
		p := parseProblem(t, b.String())
		s := bound.NewBounder(planOf(p, DefaultPolicy()))
		optimum, fit := cheapest(p)
		if fit == 0 {
			return
		}
		if len(s.Groups) != 1 {
			rt.Fatalf("one pool has %d groups", len(s.Groups))
		}
		g := s.GroupClasses()[0]
		any := func() int64 {
			switch c.n(4) {
			case 0:
				return 0
			case 1:
				return int64(c.n(1 << 20))
			case 2:
				return int64(c.n(1<<30)) << c.n(25)
			}
			return 1 << c.n(60)
		}
		bent := func(v int64) int64 { return v + v/1000*int64(c.n(401)-200) + int64(c.n(3)) - 1 }
		check := func(what string, bound int64) {
			tried++
			if bound*100 > optimum*99 {
				tight++
			}
			if bound > optimum {
				rt.Fatalf("%s----\n%s prove %d, the cheapest packing costs %d", b.String(), what, bound, optimum)
			}
		}
		good := pack.ResourcePrices(g.Sizes, g.Cost, g.Total[:s.In.NumDims], s.In.NumDims)
		for _, of := range []func(int) int64{func(k int) int64 { return good[k] }, func(k int) int64 { return max(0, bent(good[k])) }, func(int) int64 { return any() }} {
			var u [problem.MaxDims]int64
			var sum problem.Sum128
			for k := range s.In.NumDims {
				u[k] = min(of(k), 1<<59)
			}
			pack.LowerToFeasible(&u, g.Sizes, g.Cost, s.In.NumDims)
			for k := range s.In.NumDims {
				sum.AddProduct(u[k], g.Sum[k])
			}
			check("prices of resources", sum.Micro())
		}
		found := make([]int64, len(g.Classes)) // what pods are worth by resources
		for i, x := range g.Classes {
			var v problem.Sum128
			for k := range s.In.NumDims {
				v.AddProduct(good[k], x.Req[k])
			}
			found[i] = v.Dual()
		}
		for _, of := range []func(int) int64{func(i int) int64 { return found[i] }, func(i int) int64 { return max(0, bent(found[i])) },
			func(int) int64 { return min(any(), math.MaxInt64>>20) }} {
			worth := make([]int64, len(g.Classes))
			for i := range worth {
				worth[i] = of(i)
			}
			scaled, stocked := s.CertifyDuals(g.Level, g.Classes, worth)
			sum := -stocked
			for i, v := range scaled {
				sum += v * int64(g.Classes[i].Assigned)
			}
			check(fmt.Sprint("worths ", worth), sum>>problem.DualShift)
		}
	})
	if tried == 0 || tight == 0 {
		t.Fatalf("%d bounds were looked at, %d of them within a hundredth of the optimum", tried, tight)
	}
}
