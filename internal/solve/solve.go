// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// Memory stores the columns of the last solve. The zero value is empty. Any Memory is valid for any problem.
type Memory struct {
	columns *pack.RememberedColumns
}

// Solve places every pod of the demand on an existing node or on a node to launch, or refuses it with reasons. The
// returned Memory makes the next solve of a similar problem cheaper.
func Solve(p *Problem, mem Memory, pol Policy) (Result, Memory) {
	t := task{problem: p, memory: mem, policy: pol}
	s := t.solveWithPreferences()
	res := buildResult(s)
	if len(s.Purchases.NextColumns.Columns) > 0 {
		columns := s.Purchases.NextColumns // a pointer into the planner would keep it, and through what it was given all those before it
		mem.columns = &columns
	}
	return res, mem
}

// task is what Solve is given, and a bound or stage to leave out in a test; see LowerBounds and stages.
type task struct {
	problem  *Problem
	memory   Memory
	policy   Policy
	leaveOut string
}

// solveAssuming solves the problem starting from one alternative.
func (t *task) solveAssuming(way pack.Alternative) *pack.Planner {
	s := pack.NewPlanner(t.problem, t.policy, t.memory.columns, t.leaveOut, way.Heeded)
	s.Solve(way)
	return s
}

// Other alternatives are tried for problems of at most maxPodsForAlternatives pods, because with more pods the start of
// one group or the remainder of one level matters little. At most maxAlternatives are tried, with about alternativeSteps
// steps.
const (
	maxAlternatives        = 24
	maxPodsForAlternatives = 1000
	alternativeSteps       = 20_000_000
)

// solveWithPreferences solves the problem without preferences, then with those for nodes, then with those about other
// pods too. Preferences for nodes, which have a price of their own, may make machines dearer but not more of them;
// preferences about other pods may not make the plan dearer. Where they would, the zones of the machines are chosen by
// them as far as that costs nothing. So a preference is worth no more when nodes are bought than when they are consolidated: see
// docs/design/0017-preferences.md.
func (t *task) solveWithPreferences() *pack.Planner {
	solve := func(heeded problem.Preferences) *pack.Planner {
		return t.solveWithAlternatives(pack.Alternative{Heeded: heeded})
	}
	forNodes, aboutPods := pack.PreferencesOf(t.problem)
	if !forNodes && !aboutPods {
		return solve(problem.AllPreferences)
	}
	s := solve(problem.NoPreferences)
	if forNodes {
		with := solve(problem.NodePreferences)
		if with.KeepsNodePreferences(s) {
			s = with
		}
	}
	if !aboutPods {
		return s
	}
	if with := solve(problem.AllPreferences); with.CostsNoMoreThan(s) {
		return with
	}
	s.ChooseZonesByPreference()
	return s
}

// solveWithAlternatives also solves the problem with other alternatives if it is small enough and there are any. It
// returns the cheapest plan that refuses no more pods.
func (t *task) solveWithAlternatives(way pack.Alternative) *pack.Planner {
	s := t.solveAssuming(way)
	if len(t.problem.Demand) > maxPodsForAlternatives || t.policy.Work == 0 || !s.In.Runs(pack.StageAlternatives) {
		return s
	}
	return t.tryAlternatives(s)
}

// tryAlternatives solves the problem from other alternatives than the plan s did, and returns the best of all plans.
func (t *task) tryAlternatives(s *pack.Planner) *pack.Planner {
	left := min(t.policy.Work/2, alternativeSteps)
	try := func(way pack.Alternative) bool {
		if left <= 0 {
			return false
		}
		way.Heeded = s.In.Heeded
		x := t.solveAssuming(way)
		left -= x.Work.Steps + int64(len(t.problem.Demand))*1000
		for class, at := range way.GroupStarts { // in whichever order: all must hold
			if !slices.ContainsFunc(x.Placement.StartedGroups, func(b pack.GroupStart) bool { return b.Class == class && b.Chosen == at }) {
				return false // nothing could be had there, and the group came to follow others instead of leading them
			}
		}
		if !x.IsBetterThan(s) || way.PackSpreads && !x.RefusesNoOtherThan(s) {
			return false
		}
		s = x
		return true
	}
	tries := 0
	if s.Placement.BuysFromSeveralLevels() {
		tries += 2
		try(pack.Alternative{Reuse: pack.ReuseFromHigher})
		try(pack.Alternative{Reuse: pack.ReuseFromLower})
	}
	for level, rate := 1, s.LimitRate; rate != nil && level < pack.LimitLevels; level++ {
		tries++
		try(s.Purchases.Assumptions.With(func(way *pack.Alternative) { way.LimitRate, way.LimitLevel = rate, level }))
	}
	if s.Placement.MayPackSpreads() {
		tries++
		try(s.Purchases.Assumptions.With(func(way *pack.Alternative) { way.PackSpreads = true }))
	}
	for again := true; again; {
		again = false
		for _, b := range s.Placement.StartedGroups {
			for _, site := range b.Possible {
				if site == b.Chosen || tries >= maxAlternatives {
					continue
				}
				tries++
				again = try(s.Purchases.Assumptions.With(func(way *pack.Alternative) {
					way.GroupStarts = maps.Clone(way.GroupStarts)
					if way.GroupStarts == nil {
						way.GroupStarts = map[int]string{}
					}
					way.GroupStarts[b.Class] = site
				})) || again
			}
		}
	}
	return t.tryOrders(s, left)
}

// maxOrders bounds how often classes are put before all others.
const maxOrders = 4

// tryOrders solves the problem with those classes placed first that pods of others crowded out, then with those that are
// crowded out instead too, within so many steps. It returns the best of all plans that refuse no pod which the first placed.
func (t *task) tryOrders(s *pack.Planner, left int64) *pack.Planner {
	first, way := s, s.Purchases.Assumptions.Alternative
	for x, tries := s, 0; tries < maxOrders && left > 0; tries++ {
		before := len(way.Early)
		for _, class := range x.CrowdedOut() {
			if !slices.Contains(way.Early, class) {
				way.Early = append(slices.Clip(way.Early), class)
			}
		}
		if len(way.Early) == before {
			break
		}
		x = t.solveAssuming(way)
		left -= x.Work.Steps + int64(len(t.problem.Demand))*1000
		if x.IsBetterThan(s) && x.RefusesNoOtherThan(first) {
			s = x
		}
	}
	return s
}
