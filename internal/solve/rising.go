// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "sort"

// rising says of a list of offers, cheapest first, from which one on some holds an amount: how much of each resource the first so many have at
// most. Where machines are many, a search for the cheapest that holds a few pods passes over most of those that are too small.
type rising struct {
	most  []vec // among the first risingStep offers, the first two times as many, and so on
	known bool
}

// risingStep is how many offers are passed over at a time.
const risingStep = 16

// first is a place in the list before which no offer holds the amount.
func (r *rising) first(s *solver, list []int, req *vec) int {
	if len(list) <= risingStep {
		return 0
	}
	if !r.known {
		r.known, r.most = true, make([]vec, len(list)/risingStep)
		var most vec
		for at, i := range list[:len(r.most)*risingStep] {
			for k, v := range s.offers[i].avail[:s.nd] {
				most[k] = max(most[k], v)
			}
			r.most[at/risingStep] = most
		}
	}
	return sort.Search(len(r.most), func(b int) bool { return fitsIn(req, &r.most[b], s.nd) }) * risingStep
}

// firstOf is that for the offers of a pool.
func (s *solver) firstOf(pool int, req *vec) int {
	if s.ofPool == nil {
		s.ofPool = make([]rising, len(s.in.Pools))
	}
	return s.ofPool[s.twin[pool]].first(s, s.byPrice(pool), req)
}

// firstIn is that for the offers of a level.
func (s *solver) firstIn(level int, req *vec) int {
	if s.ofLevel == nil {
		s.ofLevel = make([]rising, len(s.levels))
	}
	l := s.levels[level]
	return s.ofLevel[level].first(s, s.order[l.lo:l.hi], req)
}
