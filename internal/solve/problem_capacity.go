// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "sort"

// capacityIndex finds the offers large enough for an amount in a list sorted by price: it knows how much of each
// resource the first so many have at most. Where machines are many, a search for the cheapest that holds a few pods
// passes over most of those that are too small.
type capacityIndex struct {
	maxima []vec // among the first capacityIndexStep offers, the first two times as many, and so on
	known  bool
}

// capacityIndexStep is how many offers are passed over at a time.
const capacityIndexStep = 16

// firstCandidate is a place in the list before which no offer holds the amount.
func (r *capacityIndex) firstCandidate(s *offerCatalog, list []int, req *vec) int {
	if len(list) <= capacityIndexStep {
		return 0
	}
	if !r.known {
		r.known, r.maxima = true, make([]vec, len(list)/capacityIndexStep)
		var most vec
		for at, i := range list[:len(r.maxima)*capacityIndexStep] {
			for k, v := range s.offers[i].allocatable[:s.numDims] {
				most[k] = max(most[k], v)
			}
			r.maxima[at/capacityIndexStep] = most
		}
	}
	return sort.Search(len(r.maxima), func(b int) bool { return fitsIn(req, &r.maxima[b], s.numDims) }) * capacityIndexStep
}

// firstPoolCandidate is a place among the pool's offers, cheapest first, before which none holds the amount.
func (s *offerCatalog) firstPoolCandidate(pool int, req *vec) int {
	if s.poolCapacityIndex == nil {
		s.poolCapacityIndex = make([]capacityIndex, len(s.input.Pools))
	}
	return s.poolCapacityIndex[s.equivalentPool[pool]].firstCandidate(s, s.poolOffersCheapestFirst(pool), req)
}

// firstLevelCandidate is a place among the level's offers, cheapest first, before which none holds the amount.
func (s *offerCatalog) firstLevelCandidate(level int, req *vec) int {
	if s.levelCapacityIndex == nil {
		s.levelCapacityIndex = make([]capacityIndex, len(s.levels))
	}
	l := s.levels[level]
	return s.levelCapacityIndex[level].firstCandidate(s, s.offersByPrice[l.lo:l.hi], req)
}
