// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"math/rand"
	"testing"

	"github.com/dovetail-sh/dovetail/test/problems"
)

// TestLargePlansPass holds plans for some hundred pods of every kind, with nodes standing and without, against
// verify, and each against the same problem shuffled.
func TestLargePlansPass(t *testing.T) {
	withNodes := mixProblem(900)
	withNodes.Nodes = standing(40, 8, 0.6)
	limited := mixProblem(600)
	limited.Pools[0].Left, limited.Pools[0].HasLimit = limited.Pools[0].Left.With(0, 60_000), []bool{true}
	pol := DefaultPolicy()
	pol.Work = 20_000_000
	for name, p := range map[string]*Problem{"mix": mixProblem(900), "mix and nodes": withNodes, "mix and a limit": limited} {
		t.Run(name, func(t *testing.T) {
			r, mem := Solve(p, Memory{}, pol)
			check(t, p, r)
			if len(r.New) == 0 {
				t.Fatal("nothing was bought")
			}
			if r.Cost.BoundMicroPerHour == 0 || r.Stats.Work == 0 {
				t.Fatalf("no bound: %+v", r.Cost)
			}
			want := describe(p, r)
			for i := range 3 {
				q := shuffled(p, rand.New(rand.NewSource(int64(i))))
				got, _ := Solve(q, Memory{}, pol)
				if describe(q, got) != want {
					t.Fatal("the plan depends on the order of its input")
				}
			}
			again, _ := Solve(p, mem, pol)
			check(t, p, again)
		})
	}
}

// TestCrowded keeps bars for a problem in which every machine has a place for one of a clique: what it costs, and
// that it takes one packing. With places at one price from the first machine to the last it was 1.107 of the bound in
// 6.2 million steps.
func TestCrowded(t *testing.T) {
	p := problemOf(t, problems.Mix(10_000), nil)
	r, _ := Solve(p, Memory{}, DefaultPolicy())
	check(t, p, r)
	if len(r.Refused) > 0 {
		t.Errorf("%d pods are refused", len(r.Refused))
	}
	if got := float64(r.Cost.NewMicroPerHour) / float64(r.Cost.BoundMicroPerHour); got > 1.1 {
		t.Errorf("the plan costs %.3f of the bound, want at most 1.1", got)
	}
	if r.Stats.Work > 4_000_000 {
		t.Errorf("%d steps were taken, want at most 4,000,000", r.Stats.Work)
	}
	want := describe(p, r)
	q := shuffled(p, rand.New(rand.NewSource(1)))
	if got, _ := Solve(q, Memory{}, DefaultPolicy()); describe(q, got) != want {
		t.Error("the plan depends on the order of its input")
	}
}
