// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import "math"

// savingBound is the most, in micro-dollars an hour, that any command could save that takes some of the given machines away and evicts at most so
// many pods.
//
// It is a Lagrangian bound. Pods that leave a set S of machines find free room on the others, or are bought for. At prices of resources at which no
// machine on sale is worth more than it costs, what is bought costs at least as much as the pods of S are worth, less what the free room on all
// machines outside of S is. So with p the price of a machine, n its pods, w what its pods and its own free room are worth, F what all free room is
// worth and E the evictions, S saves at most
//
//	sum p - max(0, sum w - F)  <=  E*a + F*b + sum of max(0, p - n*a - w*b)  for each a >= 0 and b from 0 to 1,
//
// in which the sum on the right is over all machines. It is convex in a and b, and looked for there by ternary search: any a and b give a valid
// bound. Budgets, limits and what pods ask of their neighbours are left out, which keeps it one.
func (s *search) savingBound(look []rankedCandidate, evictions int) int64 {
	const steps = 30
	type machine struct{ price, pods, worth float64 }
	list := make([]machine, 0, len(look))
	dearest := 0.0 // price a pod
	for i := range look {
		c := &look[i]
		x := machine{float64(max(c.PriceMicro, 0)), float64(len(c.Pods)), float64(c.worth)}
		if at, stands := s.f.at[c.Node.Name]; stands {
			x.worth += s.freeWorth(at)
		}
		list = append(list, x)
		dearest = max(dearest, x.price/max(1, x.pods))
	}
	value := func(a, b float64) float64 {
		sum := float64(evictions)*a + float64(s.free+1)*b
		for _, x := range list {
			sum += max(0, x.price-float64(x.pods*a)-float64(x.worth*b))
		}
		return sum
	}
	best := math.Inf(1)
	least := func(low, high float64, f func(float64) float64) float64 {
		for range steps {
			third := (high - low) / 3
			if f(low+third) <= f(high-third) {
				high -= third
			} else {
				low += third
			}
		}
		return f((low + high) / 2)
	}
	least(0, 1, func(b float64) float64 {
		v := least(0, dearest, func(a float64) float64 { return value(a, b) })
		best = min(best, v)
		return v
	})
	return int64(math.Ceil(min(best, value(0, 0), value(0, 1)) * (1 + 1e-9)))
}

// freeWorth is what the free room of a machine that stands is worth at the prices of resources, in micro-dollars an hour.
func (s *search) freeWorth(room int) float64 {
	sum := 0.0
	for d, v := range s.f.free[room*s.f.nd : (room+1)*s.f.nd] {
		if d < len(s.x) {
			sum += float64(s.x[d] * float64(max(0, v)))
		}
	}
	return sum
}
