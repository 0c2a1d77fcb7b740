// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// raiseLimitPrices returns assumptions with the next limit price, if limits left pods without a machine. At the end, it
// selects the limit price with which the fewest pods were left.
func (s *Reviser) raiseLimitPrices(a Assumptions) (Assumptions, bool) {
	t := &a.limitPrices
	if t.done {
		return a, false
	}
	n := countPods(s.unbought)
	if t.level == 0 && (n == 0 || !s.buysFromLimitedPools()) {
		t.done = true
		return a, false
	}
	t.unplaced = append(slices.Clip(t.unplaced), n)
	if n > 0 && t.level+1 < len(limitPriceLevels) && s.Work.Steps < s.Work.StepLimit {
		if t.level == 0 {
			t.rate = s.limitRates()
		}
		t.level++
		return a, true
	}
	best := 0
	for i, m := range t.unplaced {
		if m < t.unplaced[best] {
			best = i
		}
	}
	again := best != t.level
	t.level, t.done = best, true
	return a, again
}

// buysFromLimitedPools reports whether machines are bought from pools with limited amounts. If so, a smaller or larger
// number of them may hold the same pods.
func (s *Reviser) buysFromLimitedPools() bool {
	for _, b := range s.plan.Placement.Bins {
		for _, h := range s.plan.Purchases.Limits[b.Pool].Has {
			if h {
				return true
			}
		}
	}
	return false
}

// overflowsLimits reports whether machines are bought from a pool whose limits do not allow another machine like one of
// them, and other machines are bought from another pool.
func (s *Reviser) overflowsLimits() bool {
	bins := s.plan.Placement.Bins
	return slices.ContainsFunc(bins, func(b *Bin) bool {
		left := &s.plan.Purchases.Limits[b.Pool]
		return left.Limited && left.CopiesAllowed(b.charged) == 0 && slices.ContainsFunc(bins, func(o *Bin) bool { return o.Pool != b.Pool })
	})
}

// limitRates computes the rate of limitPricing from the plan without limit prices.
func (s *Reviser) limitRates() []int64 {
	var taken []int64
	var price int64
	for _, b := range s.plan.Placement.Bins {
		if !s.plan.Purchases.Limits[b.Pool].Limited {
			continue
		}
		price += b.price * b.Copies
		for d, h := range s.plan.Purchases.Limits[b.Pool].Has {
			for d >= len(taken) {
				taken = append(taken, 0)
			}
			if h {
				taken[d] += b.charged.At(model.Dim(d)) * b.Copies
			}
		}
	}
	rate := make([]int64, len(taken))
	for d, n := range taken {
		if n > 0 {
			rate[d] = min(problem.MulDiv(price, 1<<problem.PriceShift, n), 1<<50)
		}
	}
	return rate
}
