// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/solve/explain"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
)

// planOf solves a problem without looking for alternatives.
func planOf(p *Problem, pol Policy) *pack.Planner {
	return (&task{problem: p, policy: pol}).solveAssuming(pack.Alternative{})
}

// TestEverythingCountsSteps holds what looks at many offers, machines or domains against the steps that it counts: a
// budget that knows nothing of them bounds nothing.
func TestEverythingCountsSteps(t *testing.T) {
	var b strings.Builder
	b.WriteString("pool default\n")
	for i := range 20 {
		fmt.Fprintf(&b, "type t%d cpu=%d mem=%dGi price=0.%03d\n", i, 2+i, 4+2*i, 40+20*i)
	}
	types := b.String()
	b.WriteString("pod web x6 cpu=1 mem=1Gi label=app=web spread=zone:1:app=web\npod large cpu=100 mem=1Gi\n")
	p := parseProblem(t, b.String())
	const offers, groups = 20 * 3, 10
	s := planOf(p, DefaultPolicy())
	steps := func(what string, least int64, call func()) {
		t.Helper()
		before := s.Work.Steps
		if call(); s.Work.Steps-before < least {
			t.Errorf("%s counts %d steps, want at least %d", what, s.Work.Steps-before, least)
		}
	}
	for _, c := range s.Inst.Classes {
		if c.Pods[0].Name == "large" {
			steps("a reason", offers, func() { explain.New(s).Class(c) })
		}
	}
	steps("a look for what is crowded", 3, func() { pack.NewReviser(s, nil, 0).DeferCrowdedClasses(s.Purchases.Assumptions) })
	b.Reset()
	b.WriteString(types)
	for i := range groups {
		fmt.Fprintf(&b, "pod near%d x3 cpu=1 mem=1Gi label=app=n%d near=host:app=n%d apart=host:app=x\n", i, i, i)
	}
	if r, _ := Solve(parseProblem(t, b.String()), Memory{}, DefaultPolicy()); r.Stats.Work < groups*offers || len(r.Refused) > 0 {
		t.Errorf("%d groups that share a host count %d steps, want at least %d; %d pods are refused", groups, r.Stats.Work, groups*offers, len(r.Refused))
	}
}
