// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "testing"

// TestHotLoopAllocatesNothing counts allocations where a plan spends its time: making a fill, finding the best of all
// fills and asking the program for a column, once the memory they work in is there.
func TestHotLoopAllocatesNothing(t *testing.T) {
	s := newPlanner(diverseProblem(t, 3000), Memory{}, DefaultPolicy())
	s.stepLimit = DefaultPolicy().Work
	s.placeClasses(s.classes)
	p := s.newPacking(s.levels[0], s.demands)
	remaining := make([]int64, len(p.demands))
	for i, d := range p.demands {
		remaining[i] = d.unbought
	}
	if len(remaining) < 20 || len(p.machines) < 20 {
		t.Fatalf("%d demands and %d machines are too few to say anything", len(remaining), len(p.machines))
	}
	p.priceDemands(remaining)
	r := ranking{p: p, patterns: make([]pattern, len(p.machines))}
	steady := func(name string, allowed float64, call func()) {
		t.Helper()
		call()
		if n := testing.AllocsPerRun(100, call); n > allowed {
			t.Errorf("%s allocates %.1f times, want at most %.0f", name, n, allowed)
		}
	}
	steady("a fill", 0, func() {
		for i := range r.patterns {
			r.patterns[i].machine = i
			p.buildPattern(&r.patterns[i], remaining)
		}
	})
	steady("the best of all fills", 0, func() {
		r.rebuild(remaining)
		if r.bestPattern(remaining) < 0 {
			t.Fatal("no machine holds anything")
		}
	})
	m := newMaster(p, remaining)
	m.meanDuals = make([]float64, len(m.rows))
	m.generateColumns(s.steps + 1_000_000)
	steady("working out prices", 0, m.recompute)
	steady("what pods are worth", 0, func() { m.setDuals(5) })
	c := column{machine: m.cols[0].machine, items: m.cols[0].items}
	steady("an offer that is refused", 0, func() { m.tryColumn(c) })
}
