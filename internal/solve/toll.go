// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "github.com/dovetail-sh/dovetail/internal/model"

// toll is what machines are counted dearer by for what they take of limits. A plan that looks at prices alone may spend a limit on machines that
// are cheap and hold little, and leave pods without one. Where that happens, tolls are tried, low ones first, until no pod is left without
// a machine; if none helps that much, the one is kept with which fewest pods are.
type toll struct {
	rate  []int64 // by resource: micro-dollars << weightShift for a unit, what the plan without tolls paid for what it took of limits
	level int     // of tollLevels
	short []int64 // by level tried: pods left without a machine
	done  bool
}

// tollLevels are quarters of the rate.
var tollLevels = [...]int64{0, 1, 4, 32}

// tollOf is the toll of a machine of the pool.
func (s *solver) tollOf(pool int, capacity model.Resources) int64 {
	f := &s.families[s.twin[pool]]
	if s.toll.level == 0 || !f.limited {
		return 0
	}
	var sum wide
	for d, h := range f.has {
		if h && d < len(s.toll.rate) {
			sum.addMul(s.toll.rate[d], capacity.At(model.Dim(d)))
		}
	}
	return mulDiv(sum.micro(), tollLevels[s.toll.level], 4)
}

// raise tries the next toll, where limits left pods short. It says whether the attempt must be made again.
func (s *solver) raise(short []*demand) bool {
	t := &s.toll
	if t.done {
		return false
	}
	n := int64(0)
	for _, d := range short {
		n += d.n
	}
	if t.level == 0 && (n == 0 || !s.strained()) {
		t.done = true
		return false
	}
	t.short = append(t.short, n)
	if n > 0 && t.level+1 < len(tollLevels) && s.work < s.deadline {
		if t.level == 0 {
			s.setTolls()
		}
		t.level++
		return true
	}
	best := 0
	for i, m := range t.short {
		if m < t.short[best] {
			best = i
		}
	}
	again := best != t.level
	t.level, t.done = best, true
	return again
}

// strained says whether machines are bought from pools whose amounts are limited: of fewer or more of them the same pods could be held.
func (s *solver) strained() bool {
	for _, b := range s.bins {
		for _, h := range s.left[b.pool].has {
			if h {
				return true
			}
		}
	}
	return false
}

// setTolls reads the rate off the plan without tolls.
func (s *solver) setTolls() {
	var taken []int64
	var price int64
	for _, b := range s.bins {
		if !s.left[b.pool].limited {
			continue
		}
		price += b.price * b.copies
		for d, h := range s.left[b.pool].has {
			for d >= len(taken) {
				taken = append(taken, 0)
			}
			if h {
				taken[d] += b.charged.At(model.Dim(d)) * b.copies
			}
		}
	}
	s.toll.rate = make([]int64, len(taken))
	for d, n := range taken {
		if n > 0 {
			s.toll.rate[d] = min(mulDiv(price, 1<<weightShift, n), 1<<50)
		}
	}
}
