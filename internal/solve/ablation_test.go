// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/solve/bound"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/test/problems"
)

// TestAblation leaves out each lower bound and each stage of packing, one at a time: plans stay valid, and no bound
// is above the cost of the plan that all of them together make.
func TestAblation(t *testing.T) {
	var names []string
	seen := map[string]bool{}
	add := func(name, doc string) {
		if seen[name] || name == "" || doc == "" {
			t.Errorf("%q is listed twice, or without a word of what it is", name)
		}
		seen[name] = true
		names = append(names, name)
	}
	for _, x := range bound.LowerBounds {
		add(x.Name, x.Doc)
	}
	for _, x := range pack.Stages {
		add(x.Name, x.Doc)
	}
	problems := []*Problem{drawnProblem(1, 0, 7), drawnProblem(0, 3, 7)}
	for seed := range int64(12) {
		problems = append(problems, parseProblem(t, randomProblem(randChance{rand.New(rand.NewSource(seed))})))
	}
	whole := DefaultPolicy()
	whole.Work = 3_000_000
	for i, p := range problems {
		with, _ := Solve(p, Memory{}, whole)
		for _, name := range names {
			r := buildResult((&task{problem: p, policy: whole, leaveOut: name}).solveWithAlternatives())
			check(t, p, r)
			if len(with.Refused) == 0 && len(r.Refused) == 0 && r.Cost.BoundMicroPerHour > with.Cost.NewMicroPerHour {
				t.Errorf("problem %d without %s: the bound %d is above the cost %d of the whole plan", i, name, r.Cost.BoundMicroPerHour, with.Cost.NewMicroPerHour)
			}
		}
	}
}

// BenchmarkAblation leaves out each lower bound and each packing stage in turn, on the problems of make bench, on the
// optima's and on drawn ones, and prints a table: how much dearer plans get, how much lower their bounds, both on the
// average and in the worst problem, how many pods more are refused, and the processor time beside the whole's. It is
// docs/design/0013's table; run it with -benchtime 1x.
func BenchmarkAblation(b *testing.B) {
	type set struct {
		name     string
		problems []*Problem
	}
	sets := []set{{"make bench", []*Problem{basicProblem(b), diverseProblem(b, 20000), tianchiProblem(b, false), openbProblem(b), tianchiProblem(b, true),
		problemOf(b, problems.Mix(10000), nil)}}}
	var known, drawn []*Problem
	for seed := range int64(60) {
		known = append(known, parseProblem(b, optimaText(randChance{rand.New(rand.NewSource(seed))}, 4, 3, 6, 9)))
	}
	for seed := range int64(20) {
		known = append(known, parseProblem(b, optimaText(randChance{rand.New(rand.NewSource(1000 + seed))}, 6, 5, 12, 40)))
	}
	for seed := range int64(300) {
		drawn = append(drawn, parseProblem(b, randomProblem(randChance{rand.New(rand.NewSource(seed))})))
	}
	sets = append(sets, set{"optima", known}, set{"drawn", drawn})
	names := []string{""}
	for _, x := range bound.LowerBounds {
		names = append(names, x.Name)
	}
	for _, x := range pack.Stages {
		names = append(names, x.Name)
	}
	for b.Loop() {
		for _, set := range sets {
			fmt.Printf("\n%s, %d problems\n\n| left out | cost, mean and worst, %% | bound, mean and worst, %% | pods refused | time |\n|---|---|---|---|---|\n", set.name, len(set.problems))
			var whole []Result
			wholeMillis := 0.0
			for _, name := range names {
				cost, dearest, lower, lowest, refused := 0.0, 0.0, 0.0, 0.0, 0
				begin := cpuMillis()
				var results []Result
				for _, p := range set.problems {
					results = append(results, buildResult((&task{problem: p, policy: DefaultPolicy(), leaveOut: name}).solveWithAlternatives()))
				}
				millis := cpuMillis() - begin
				if name == "" {
					whole, wholeMillis = results, millis
					continue
				}
				for i, r := range results {
					w := whole[i]
					refused += len(r.Refused) - len(w.Refused)
					if w.Cost.BoundMicroPerHour == 0 || len(r.Refused) != len(w.Refused) {
						continue
					}
					c := float64(r.Cost.NewMicroPerHour)/float64(w.Cost.NewMicroPerHour) - 1
					l := 1 - float64(r.Cost.BoundMicroPerHour)/float64(w.Cost.BoundMicroPerHour)
					cost, lower = cost+c, lower+l
					dearest, lowest = max(dearest, c), max(lowest, l)
				}
				n := float64(len(results))
				fmt.Printf("| %s | %+.2f, %+.2f | %+.2f, %+.2f | %+d | %.2f |\n", name, 100*cost/n, 100*dearest, -100*lower/n, -100*lowest, refused, millis/wholeMillis)
			}
		}
	}
}
