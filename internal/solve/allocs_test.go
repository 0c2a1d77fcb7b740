// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/solve/lp"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
)

// TestHotLoopAllocatesNothing counts allocations where a plan spends its time: making a fill, finding the best of all
// fills and asking the program for a column, once the memory they work in is there.
func TestHotLoopAllocatesNothing(t *testing.T) {
	s := pack.NewPlanner(diverseProblem(t, 3000), DefaultPolicy(), nil, "", 0)
	s.Work.StepLimit = DefaultPolicy().Work
	s.Placement.PlaceClasses(s.Inst.Classes)
	p := s.Purchases.NewPacking(s.Catalog.Levels[0], s.Placement.Demands)
	remaining := make([]int64, len(p.Market.Demands))
	for i, d := range p.Market.Demands {
		remaining[i] = d.Unbought
	}
	if len(remaining) < 20 || len(p.Market.Machines) < 20 {
		t.Fatalf("%d demands and %d machines are too few to say anything", len(remaining), len(p.Market.Machines))
	}
	p.Prices.PriceDemands(remaining)
	r := pack.Ranking{P: p, Patterns: make([]pack.Pattern, len(p.Market.Machines))}
	steady := func(name string, allowed float64, call func()) {
		t.Helper()
		call()
		if n := testing.AllocsPerRun(100, call); n > allowed {
			t.Errorf("%s allocates %.1f times, want at most %.0f", name, n, allowed)
		}
	}
	steady("a fill", 0, func() {
		for i := range r.Patterns {
			r.Patterns[i].Machine = i
			p.BuildPattern(&r.Patterns[i], remaining)
		}
	})
	steady("the best of all fills", 0, func() {
		r.Rebuild(remaining)
		if r.BestPattern(remaining) < 0 {
			t.Fatal("no machine holds anything")
		}
	})
	m := pack.NewMaster(p, remaining)
	m.MeanDuals = make([]float64, len(m.Program.Rows))
	m.GenerateColumns(s.Work.Steps + 1_000_000)
	steady("working out prices", 0, m.Program.Recompute)
	steady("what pods are worth", 0, func() { m.SetDuals(5) })
	c := lp.Column{Machine: m.Program.Cols[0].Machine, Items: m.Program.Cols[0].Items}
	steady("an offer that is refused", 0, func() { m.Program.TryColumn(c) })
}
