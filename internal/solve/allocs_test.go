// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "testing"

// TestHotLoopAllocatesNothing counts allocations where a plan spends its time: making a fill, finding the best of all fills and asking the
// program for a column, once the memory they work in is there.
func TestHotLoopAllocatesNothing(t *testing.T) {
	s := compile(diverseProblem(t, 3000), Memory{}, DefaultPolicy())
	s.siteMaps, s.siteIDs, s.caps, s.banned = map[siteMapKey][]site{}, map[string]int{}, map[siteKey]int64{}, map[[2]int]bool{}
	s.deadline = DefaultPolicy().Work
	s.remember()
	s.place(s.classes)
	p := s.newPacking(s.levels[0], s.demands)
	left := make([]int64, len(p.demands))
	for i, d := range p.demands {
		left[i] = d.n
	}
	if len(left) < 20 || len(p.machines) < 20 {
		t.Fatalf("%d demands and %d machines are too few to say anything", len(left), len(p.machines))
	}
	p.price(left)
	r := ranking{p: p, fills: make([]fill, len(p.machines))}
	steady := func(name string, allowed float64, call func()) {
		t.Helper()
		call()
		if n := testing.AllocsPerRun(100, call); n > allowed {
			t.Errorf("%s allocates %.1f times, want at most %.0f", name, n, allowed)
		}
	}
	steady("a fill", 0, func() {
		for i := range r.fills {
			r.fills[i].m = i
			p.build(&r.fills[i], left)
		}
	})
	steady("the best of all fills", 0, func() {
		r.begin(left)
		if r.best(left) < 0 {
			t.Fatal("no machine holds anything")
		}
	})
	m := newMaster(p, left)
	m.center = make([]float64, len(m.rows))
	m.generate(s.work + 1_000_000)
	steady("working out prices", 0, m.settle)
	steady("what pods are worth", 0, func() { m.value2worth(5) })
	c := column{m: m.cols[0].m, items: m.cols[0].items}
	steady("an offer that is refused", 0, func() { m.offer(c) })
}
