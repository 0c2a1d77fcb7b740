// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// maxStates is how many states an enumeration takes on: numbers of pods left, of each demand.
const maxStates = 1 << 14

// maxEnumeration bounds the steps of one, beside a quarter of what the policy allows: machines held against states,
// and patterns against states.
const maxEnumeration = 4_000_000

// Enumeration finds the cheapest machines for few pods by trying: for few pods a machine more or less is much, and prices for parts of machines prove and
// find little. It knows every pattern of a machine, and from those the cheapest set for every number of pods of each demand left (dynamic programming
// over the counts, as for change in coins). Limits, quantities and rules between pods are unknown to it.
//
// A state is how many pods of each demand are left, or on one machine, as one number: demand d counts step[d].
type Enumeration struct {
	p          *Packing
	most, step []int64 // by demand: pods
	states     int64
	mostEach   func(d int) int64    // pods of a demand that one machine may hold
	cost       func(*Machine) int64 // micro-dollars an hour
	patterns   []enumeratedPattern  // that no other dominates
	chosen     []int32              // by state: the pattern of one of its machines
}

// enumeratedPattern is what one machine holds, by demand, and the cheapest machine for it.
type enumeratedPattern struct {
	counts  []int64
	machine int
	cost    int64
}

// NewEnumeration returns an enumeration for so many pods of each demand of a packing; false if there is too much to try.
func NewEnumeration(p *Packing, pods []int64, mostEach func(d int) int64, cost func(*Machine) int64) (*Enumeration, bool) {
	e := &Enumeration{p: p, most: pods, states: 1, mostEach: mostEach, cost: cost}
	for _, n := range pods {
		e.step = append(e.step, e.states)
		if n >= maxStates || e.states*(n+1) > maxStates {
			return nil, false
		}
		e.states *= n + 1
	}
	return e, true
}

// LeastCost returns the least cost of machines for all pods; false if there is too much to try, or no machine holds one of them.
func (e *Enumeration) LeastCost() (int64, bool) {
	if !e.findPatterns() || !e.allowSteps(len(e.patterns)) {
		return 0, false
	}
	least := make([]int64, e.states)
	e.chosen = make([]int32, e.states)
	remaining := make([]int64, len(e.most))
	for v := int64(1); v < e.states; v++ {
		e.nextState(remaining)
		least[v] = problem.Unlimited
		for i := range e.patterns {
			f := &e.patterns[i]
			rest := int64(0)
			for d, n := range remaining {
				rest += max(0, n-f.counts[d]) * e.step[d]
			}
			if c := f.cost + least[rest]; rest < v && c < least[v] {
				least[v], e.chosen[v] = c, int32(i)
			}
		}
	}
	return least[e.states-1], least[e.states-1] < problem.Unlimited
}

// packExactly packs the demands at the least cost, if they are few and limits allow it; otherwise it leaves them.
func (p *Packing) packExactly(remaining []int64) (out []batch) {
	if slices.Contains(p.Market.Restricted, true) {
		return nil
	}
	e, ok := NewEnumeration(p, slices.Clone(remaining), p.Market.maxPodsOf, func(m *Machine) int64 {
		if m.Quantity >= 0 {
			return problem.Unlimited
		}
		return m.AdjustedCost
	})
	if !ok {
		return nil
	}
	if _, ok = e.LeastCost(); !ok {
		return nil
	}
	for v := e.states - 1; v > 0; {
		f := &e.patterns[e.chosen[v]]
		var items []Item
		for d, n := range remaining {
			if n = min(n, f.counts[d]); n > 0 {
				items = append(items, Item{Demand: d, Count: n})
				v -= n * e.step[d]
			}
		}
		b := p.Market.buyCopies(f.machine, items, 1, remaining)
		if b.copies == 0 {
			return out // a limit
		}
		out = append(out, b)
	}
	return out
}

// allowSteps reports whether so many things may be held against every state, and counts the steps if so.
func (e *Enumeration) allowSteps(things int) bool {
	s := e.p.Market.Purchases
	steps := e.states * int64(things) * int64(len(e.most))
	if steps > min(maxEnumeration, s.In.Policy.Work/4) {
		return false
	}
	s.Work.Steps += steps
	return true
}

// nextState counts one state further.
func (e *Enumeration) nextState(remaining []int64) {
	for d := range remaining {
		if remaining[d]++; remaining[d] <= e.most[d] {
			return
		}
		remaining[d] = 0
	}
}

// findPatterns finds the patterns that no other dominates, with the cheapest machine for each: with one pod more of any demand it would cost more. It
// reports false if there is too much to try.
func (e *Enumeration) findPatterns() bool {
	if !e.allowSteps(len(e.p.Market.Machines)) {
		return false
	}
	cost, machine := make([]int64, e.states), make([]int, e.states)
	on := make([]int64, len(e.most))
	for v := int64(1); v < e.states; v++ {
		e.nextState(on)
		machine[v], cost[v] = e.cheapestMachine(on)
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
			e.patterns = append(e.patterns, enumeratedPattern{slices.Clone(on), machine[v], cost[v]})
		}
	}
	return true
}

// cheapestMachine returns the cheapest machine that holds so many pods of each demand and what it costs, unlimited if none does.
func (e *Enumeration) cheapestMachine(on []int64) (machine int, cost int64) {
	p := e.p
	var sum problem.Vec
	cost = problem.Unlimited
	for d, n := range on {
		if n > 0 && n > e.mostEach(d) {
			return -1, cost
		}
		for k := range p.In.NumDims {
			sum[k] += p.Market.Demands[d].Class.Req[k] * n
		}
	}
	for i, m := range p.Market.Machines {
		c := e.cost(m)
		holds := c < cost && problem.IsWithin(&sum, &m.Available, p.In.NumDims)
		for d, n := range on {
			holds = holds && (n == 0 || p.Market.MachineAdmits(m, d))
		}
		if holds {
			machine, cost = i, c
		}
	}
	return machine, cost
}
