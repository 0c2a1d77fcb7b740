// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import "math"

// boundSaving is the most, in micro-dollars an hour, that any command could save that takes some of the search's
// candidates and evicts at most so many pods.
//
// It is a Lagrangian bound. Pods that leave a set S of candidates find free capacity on the other nodes, or nodes are
// bought for them. At dual prices, at which no node on sale is worth more than it costs, what is bought costs at
// least what the pods of S are worth, less what the free capacity of all nodes outside of S is. So with p the price
// of a candidate, n its pods, w what its pods and its own free capacity are worth, F what all free capacity is worth
// and E the evictions, S saves at most
//
//	sum p - max(0, sum w - F)  <=  E*a + F*b + sum of max(0, p - n*a - w*b)  for each a >= 0 and b from 0 to 1,
//
// in which the sum on the right is over all candidates. It is convex in a and b, and minimised by ternary search: any
// a and b give a valid bound. Budgets, limits and what pods ask of their neighbours are left out, which keeps it one.
func (s *search) boundSaving(evictions int) int64 {
	type item struct{ price, pods, value float64 }
	items := make([]item, 0, len(s.candidates))
	dearest := 0.0 // price a pod
	for i := range s.candidates {
		c := &s.candidates[i]
		x := item{float64(max(c.PriceMicro, 0)), float64(len(c.Pods)), float64(c.podValue)}
		if at, open := s.builder.capacity.indexOf[c.Node.Name]; open {
			x.value += s.pricing.duals.valueOfFree(s.builder.capacity.freeOf(at))
		}
		items = append(items, x)
		dearest = max(dearest, x.price/max(1, x.pods))
	}
	bound := func(a, b float64) float64 {
		sum := float64(evictions)*a + float64(s.pricing.freeValue+1)*b
		for _, x := range items {
			sum += max(0, x.price-float64(x.pods*a)-float64(x.value*b))
		}
		return sum
	}
	best := min(bound(0, 0), bound(0, 1))
	minimise(0, 1, func(b float64) float64 {
		v := minimise(0, dearest, func(a float64) float64 { return bound(a, b) })
		best = min(best, v)
		return v
	})
	return int64(math.Ceil(best * (1 + 1e-9)))
}

// minimise is about the least value of a convex function between two points, by ternary search.
func minimise(low, high float64, f func(float64) float64) float64 {
	const steps = 30
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
