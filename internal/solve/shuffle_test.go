// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"fmt"
	"math/rand"
	"os"
	"testing"
)

// TestShuffles plans the problems of the benchmarks in other orders of all that they hold, and wants the same plan
// byte for byte: pods, nodes and what stands on them, pools, types and offerings. In the soak it is fifty orders of
// each, refined as far as by default; else the larger ones are shuffled less often and refined for a few rounds only.
func TestShuffles(t *testing.T) {
	soak := os.Getenv("DOVETAIL_SOAK") != ""
	for _, x := range []struct {
		name  string
		make  func(testing.TB) *Problem
		times int
	}{
		{"basic", basicProblem, 50},
		{"diverse", func(tb testing.TB) *Problem { return diverseProblem(tb, 20000) }, 10},
		{"openb", openbProblem, 10},
		{"mix", func(testing.TB) *Problem { return mixProblem(900) }, 10},
		{"one pod", func(tb testing.TB) *Problem { return onePodProblem(tb, false) }, 50},
		{"tianchi", func(tb testing.TB) *Problem { return tianchiProblem(tb, false) }, 3},
		{"tianchi with its rules", func(tb testing.TB) *Problem { return tianchiProblem(tb, true) }, 1},
		{"many", manyProblem, 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := x.make(t)
			pol := DefaultPolicy()
			pol.Work = 4_000_000
			times := x.times
			switch {
			case soak:
				times, pol.Work = 50, DefaultPolicy().Work
			case testing.Short():
				times = min(times, 5)
			}
			plan := func(p *Problem) string {
				r, mem := Solve(p, Memory{}, pol)
				out := fmt.Sprintf("%s%+v", describe(p, r), r.Cost)
				if soak || x.name == "basic" { // with what the first remembers
					again, _ := Solve(p, mem, pol)
					out += fmt.Sprintf("\n%s%+v", describe(p, again), again.Cost)
				}
				return out
			}
			want := plan(p)
			for i := range times {
				if plan(shuffled(p, rand.New(rand.NewSource(int64(i))))) != want {
					t.Fatalf("the plan depends on the order of its input: shuffle %d", i)
				}
			}
		})
	}
}
