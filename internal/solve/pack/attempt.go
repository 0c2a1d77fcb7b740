// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

// Solve places pods and launches machines for the rest, starting from one alternative. Attempts are repeated until none
// of their assumptions is refuted. Then the machines are consolidated, and pods left out are tried once more.
func (s *Planner) Solve(way Alternative) {
	a := Assumptions{Alternative: way}
	if way.LimitLevel > 0 {
		a.limitPrices = limitPricing{rate: way.LimitRate, level: way.LimitLevel, done: true}
	}
	for attempt := 0; ; attempt++ {
		if attempt > 0 {
			s.reset()
		}
		s.assume(a)
		r := NewReviser(s, s.placeAndBuy(), attempt)
		again := false
		if a, again = r.revise(purchaseRevisions, a); again {
			continue
		}
		s.colocation.placeColocated()
		if a, again = r.revise(placementRevisions, a); !again {
			if a.limitPrices.level == 0 && r.overflowsLimits() {
				s.LimitRate = r.limitRates()
			}
			break
		}
	}
	if s.In.Runs(stageConsolidation) {
		s.Placement.consolidateBins()
	}
	if s.In.Runs(stageLeftovers) {
		s.placeLeftovers()
	}
	s.Placement.mergeEqualBins()
}
