// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// maxStates is the maximum number of states of an enumeration. A state is a combination of pod counts of each demand.
const maxStates = 1 << 14

// maxEnumeration is the maximum number of steps of an enumeration. A quarter of the policy's limit also applies. A step
// compares a machine, or a pattern, with a state.
const maxEnumeration = 4_000_000

// Enumeration finds the cheapest machines for a small number of pods by trying all combinations. For few pods, one
// machine more or less makes a large difference, and prices for parts of machines give weak bounds and plans. It
// computes all patterns of a machine, and from them the cheapest set of machines for each combination of remaining pods
// by dynamic programming over the counts, as in the change-making problem. It does not consider limits, quantities and
// rules between pods.
//
// A state is the number of remaining pods of each demand, or of the pods on one machine, encoded as one number: a pod
// of demand d counts step[d].
type Enumeration struct {
	p          *Packing
	most, step []int64 // by demand: number of pods, and the value of a pod in a state
	states     int64
	mostEach   func(d int) int64    // maximum number of pods of a demand on one machine
	cost       func(*Machine) int64 // micro-dollars per hour
	patterns   []enumeratedPattern  // patterns that no other pattern dominates
	chosen     []int32              // by state: the pattern of one of its machines
}

// enumeratedPattern is the number of pods of each demand on one machine, and the cheapest machine for them.
type enumeratedPattern struct {
	counts  []int64
	machine int
	cost    int64
}

// NewEnumeration returns an enumeration for the given number of pods of each demand of a packing, or false if there are
// too many states.
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

// LeastCost returns the lowest cost of machines for all pods. It returns false if there are too many steps, or if no
// machine fits one of the pods.
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

// packExactly packs the demands at the lowest cost, if they are few and limits allow it. Otherwise, it leaves them in
// remaining.
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
			return out // a limit prevents it
		}
		out = append(out, b)
	}
	return out
}

// allowSteps reports whether the given number of things may be compared with every state. If so, it counts the steps.
func (e *Enumeration) allowSteps(things int) bool {
	s := e.p.Market.Purchases
	steps := e.states * int64(things) * int64(len(e.most))
	if steps > min(maxEnumeration, s.In.Policy.Work/4) {
		return false
	}
	s.Work.Steps += steps
	return true
}

// nextState advances remaining to the next state.
func (e *Enumeration) nextState(remaining []int64) {
	for d := range remaining {
		if remaining[d]++; remaining[d] <= e.most[d] {
			return
		}
		remaining[d] = 0
	}
}

// findPatterns finds the patterns that no other pattern dominates, with the cheapest machine for each: one more pod of
// any demand would increase the cost. It returns false if there are too many steps.
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

// cheapestMachine returns the cheapest machine that fits the given number of pods of each demand, and its cost. The
// cost is problem.Unlimited if there is none.
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
