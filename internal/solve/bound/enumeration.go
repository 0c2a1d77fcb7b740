// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package bound

import (
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// maxStates is how many states an enumeration takes on: numbers of pods left, of each class.
const maxStates = 1 << 14

// maxEnumeration bounds the steps of one, beside a quarter of what the policy allows: machines held against states,
// and patterns against states.
const maxEnumeration = 4_000_000

// boundByEnumeration is the least that machines for the demand cost, found by trying: for few pods a machine more or
// less is much, and prices for parts of machines prove little. It knows every pattern of a machine, and from those
// the cheapest set for every number of pods of each class left (dynamic programming over the counts, as for change in
// coins). What other bounds leave out is left out here too, and of each class existing nodes are first given all that
// they could hold of it, were it alone; so it stays a bound. It is 0 where there is too much to try.
func (s *bounder) boundByEnumeration() (sum int64) {
	for _, g := range s.Groups {
		if len(g.Classes) == 0 {
			continue
		}
		e := enumeration{states: 1}
		var demands []*pack.Demand
		for _, c := range g.Classes {
			n := int64(c.Assigned) - s.podsNodesHold(c)
			if n <= 0 {
				continue
			}
			demands = append(demands, &pack.Demand{Class: c, Offers: c.Filter.Offers, Unbought: n})
			e.most, e.step = append(e.most, n), append(e.step, e.states)
			if n >= maxStates || e.states*(n+1) > maxStates {
				return 0
			}
			e.states *= n + 1
		}
		if len(demands) == 0 {
			continue
		}
		e.p = s.plan.Purchases.NewPackingFor(g.Level, demands, false)
		least, ok := e.leastCost()
		if !ok {
			return 0
		}
		sum += least
	}
	return sum
}

// enumeration is that dynamic program. A state is how many pods of each demand are left, or on one machine, as one
// number: demand d counts step[d].
type enumeration struct {
	p          *pack.Packing
	most, step []int64 // by demand: pods
	states     int64
}

// leastCost is the least price of machines for all pods; false where there is too much to try.
func (e *enumeration) leastCost() (int64, bool) {
	patterns, price, ok := e.maximalPatterns()
	if !ok || !e.allowSteps(len(patterns)) {
		return 0, false
	}
	least := make([]int64, e.states)
	remaining := make([]int64, len(e.most))
	for v := int64(1); v < e.states; v++ {
		e.nextState(remaining)
		least[v] = problem.Unlimited
		for i, f := range patterns {
			rest := int64(0)
			for d, n := range remaining {
				rest += max(0, n-f[d]) * e.step[d]
			}
			if c := price[i] + least[rest]; rest < v && c < least[v] {
				least[v] = c
			}
		}
	}
	return least[e.states-1], least[e.states-1] < problem.Unlimited
}

// allowSteps reports whether so many things may be held against every state, and counts the steps if so.
func (e *enumeration) allowSteps(things int) bool {
	s := e.p.Market.Purchases
	steps := e.states * int64(things) * int64(len(e.most))
	if steps > min(maxEnumeration, s.In.Policy.Work/4) {
		return false
	}
	s.Work.Steps += steps
	return true
}

// nextState counts one state further.
func (e *enumeration) nextState(remaining []int64) {
	for d := range remaining {
		if remaining[d]++; remaining[d] <= e.most[d] {
			return
		}
		remaining[d] = 0
	}
}

// maximalPatterns are the patterns that no other dominates, with the least price of a machine for each: with one pod
// more of any class it would be higher.
func (e *enumeration) maximalPatterns() (patterns [][]int64, price []int64, ok bool) {
	p := e.p
	if !e.allowSteps(len(p.Market.Machines)) {
		return nil, nil, false
	}
	cost := make([]int64, e.states)
	on := make([]int64, len(e.most))
	for v := int64(1); v < e.states; v++ {
		e.nextState(on)
		cost[v] = e.patternPrice(on)
	}
	clear(on)
	for v := int64(1); v < e.states; v++ {
		e.nextState(on)
		largest := cost[v] < problem.Unlimited
		for d, n := range on {
			if n < e.most[d] && cost[v+e.step[d]] <= cost[v] {
				largest = false
			}
		}
		if largest {
			patterns, price = append(patterns, append([]int64(nil), on...)), append(price, cost[v])
		}
	}
	return patterns, price, true
}

// patternPrice is the price of the cheapest machine that holds so many pods of each demand, unlimited where none
// does.
func (e *enumeration) patternPrice(on []int64) int64 {
	p := e.p
	var sum problem.Vec
	for d, n := range on {
		if n > 0 && n > p.Market.OwnHostLimit(d) {
			return problem.Unlimited
		}
		for k := range p.In.NumDims {
			sum[k] += p.Market.Demands[d].Class.Req[k] * n
		}
	}
	for _, m := range p.Market.Machines { // cheapest first
		holds := problem.IsWithin(&sum, &m.Available, p.In.NumDims)
		for d, n := range on {
			holds = holds && (n == 0 || p.Market.MachineAdmits(m, d))
		}
		if holds {
			return m.Price
		}
	}
	return problem.Unlimited
}
