// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"math"
	"slices"
)

// maxLessons is how often a packing is made anew with what was learnt, maxIdle how often in a row without coming to anything.
const (
	maxLessons = 16
	maxIdle    = 8
)

// learn packs again and again, with pods worth more that came to machines on which little else found room: a pod of just over half of the
// cheapest machine, say, for which prices of resources would have all its small neighbours packed first, among themselves. What a machine costs
// beyond what its pods are worth raises their worth, by the root of the ratio; where that leads astray, a step half as long is taken from the best
// packing. It keeps the cheapest that leaves no more pods than the first, and the worths behind it. A lesson takes about each steps.
func (p *packing) learn(whole, left []int64, batches []batch, each int64) []batch {
	if len(p.demands) < 2 || slices.ContainsFunc(left, func(n int64) bool { return n > 0 }) {
		return batches // what limits leave without a machine has all of it made anew
	}
	if p.haggled >= enoughHaggling {
		return batches
	}
	until := min(p.s.work+p.work/4, p.s.deadline)
	if len(p.demands) <= maxRows {
		until = min(p.s.work+p.work/8, p.s.deadline) // refine needs the rest
	}
	if slices.Contains(p.hosted, true) {
		until = min(until, p.s.work+p.work/64) // packing is slow there, for what it takes in steps
	}
	if p.s.work+each > until {
		return batches
	}
	p.price(whole)
	plain := slices.Clone(p.worth)
	best, dear := batches, slices.Repeat([]float64{1}, len(p.demands))
	least := slices.Clone(dear)
	last, roots := best, 1
	for lesson, idle := 0, 0; lesson < maxLessons && idle < maxIdle && p.s.work+each <= until && p.worthwhile(best); lesson++ {
		p.dear = p.dearer(last, plain, dear, roots)
		dear = p.dear
		p.refund(best)
		rest := slices.Clone(whole)
		p.fares, p.haggled = [maxDims]fare{}, 0
		p.price(rest)
		last = p.pack(rest)
		idle++
		if covers(rest, left) && p.effortOf(last) < p.effortOf(best) {
			copy(left, rest)
			best, least, idle = last, dear, 0
			continue
		}
		p.refund(last)
		p.charge(best)
		if cost := p.effortOf(best); p.effortOf(last) > cost+cost/16 {
			last, dear, roots = best, least, roots+1
		}
	}
	p.dear = least
	p.price(whole)
	return best
}

// dearer is by how much pods are to be worth more than what their resources are, after a packing; the more roots, the less.
func (p *packing) dearer(batches []batch, plain []int64, was []float64, roots int) []float64 {
	paid, pods := make([]float64, len(was)), make([]float64, len(was))
	for _, b := range batches {
		worth := 0.0
		for _, it := range b.items {
			worth += float64(float64(plain[it.d]) * was[it.d] * float64(it.n))
		}
		ratio := float64(b.m.effort) * (1 << worthShift) / worth
		for _, it := range b.items {
			n := float64(it.n * b.copies)
			paid[it.d] += float64(ratio * n)
			pods[it.d] += n
		}
	}
	out := slices.Clone(was)
	for d, n := range pods {
		if n == 0 {
			continue
		}
		step := paid[d] / n
		for range roots {
			step = math.Sqrt(step)
		}
		out[d] = min(max(out[d]*step, 1.0/16), 16)
	}
	return out
}
