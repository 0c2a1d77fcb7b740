// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"math/rand"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/solve/bound"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
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
