// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "github.com/dovetail-sh/dovetail/internal/model"

// limitPricing is what machines are counted dearer by for what they take of limits. A plan that looks at prices alone may spend a limit on machines that
// are cheap and hold little, and leave pods without one. Where that happens, limit prices are tried, low ones first, until no pod is left without
// a machine; if none helps that much, the one is kept with which fewest pods are.
type limitPricing struct {
	rate     []int64 // by resource: micro-dollars << weightShift for a unit, what the plan without limit prices paid for what it took of limits
	level    int     // of tollLevels
	unplaced []int64 // by level tried: pods left without a machine
	done     bool
}

// limitPriceLevels are quarters of the rate.
var limitPriceLevels = [...]int64{0, 1, 4, 32}

// limitCharge is the limit price of a machine of the pool.
func (s *solver) limitCharge(pool int, capacity model.Resources) int64 {
	f := &s.families[s.equivalentPool[pool]]
	if s.limitPricing.level == 0 || !f.limited {
		return 0
	}
	var sum sum128
	for d, h := range f.has {
		if h && d < len(s.limitPricing.rate) {
			sum.addProduct(s.limitPricing.rate[d], capacity.At(model.Dim(d)))
		}
	}
	return mulDiv(sum.micro(), limitPriceLevels[s.limitPricing.level], 4)
}

// raiseLimitPrices tries the next limit price, where limits left pods short. It says whether the attempt must be made again.
func (s *solver) raiseLimitPrices(short []*demand) bool {
	t := &s.limitPricing
	if t.done {
		return false
	}
	n := int64(0)
	for _, d := range short {
		n += d.unbought
	}
	if t.level == 0 && (n == 0 || !s.buysFromLimitedPools()) {
		t.done = true
		return false
	}
	t.unplaced = append(t.unplaced, n)
	if n > 0 && t.level+1 < len(limitPriceLevels) && s.steps < s.stepLimit {
		if t.level == 0 {
			s.setLimitRates()
		}
		t.level++
		return true
	}
	best := 0
	for i, m := range t.unplaced {
		if m < t.unplaced[best] {
			best = i
		}
	}
	again := best != t.level
	t.level, t.done = best, true
	return again
}

// buysFromLimitedPools says whether machines are bought from pools whose amounts are limited: of fewer or more of them the same pods could be held.
func (s *solver) buysFromLimitedPools() bool {
	for _, b := range s.bins {
		for _, h := range s.limits[b.pool].has {
			if h {
				return true
			}
		}
	}
	return false
}

// setLimitRates reads the rate off the plan without limit prices.
func (s *solver) setLimitRates() {
	var taken []int64
	var price int64
	for _, b := range s.bins {
		if !s.limits[b.pool].limited {
			continue
		}
		price += b.price * b.copies
		for d, h := range s.limits[b.pool].has {
			for d >= len(taken) {
				taken = append(taken, 0)
			}
			if h {
				taken[d] += b.charged.At(model.Dim(d)) * b.copies
			}
		}
	}
	s.limitPricing.rate = make([]int64, len(taken))
	for d, n := range taken {
		if n > 0 {
			s.limitPricing.rate[d] = min(mulDiv(price, 1<<priceShift, n), 1<<50)
		}
	}
}
