// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

// Solve places and buys for every pod, starting from one alternative. Attempts are made until none of the assumptions
// they were made with turns out to be wrong; then what was bought is consolidated, and pods left out are tried once
// more.
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
