// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import "sort"

// capacityIndex finds the offers large enough for an amount in a list sorted by price: it knows how much of each
// resource the first so many have at most. Where machines are many, a search for the cheapest that holds a few pods
// passes over most of those that are too small.
type capacityIndex struct {
	maxima []Vec // among the first capacityIndexStep offers, the first two times as many, and so on
	known  bool
}

// capacityIndexStep is how many offers are passed over at a time.
const capacityIndexStep = 16

// firstCandidate is a place in the list before which no offer holds the amount.
func (r *capacityIndex) firstCandidate(s *Catalog, list []int, req *Vec) int {
	if len(list) <= capacityIndexStep {
		return 0
	}
	if !r.known {
		r.known, r.maxima = true, make([]Vec, len(list)/capacityIndexStep)
		var most Vec
		for at, i := range list[:len(r.maxima)*capacityIndexStep] {
			for k, v := range s.Offers[i].Allocatable[:s.in.NumDims] {
				most[k] = max(most[k], v)
			}
			r.maxima[at/capacityIndexStep] = most
		}
	}
	return sort.Search(len(r.maxima), func(b int) bool { return FitsIn(req, &r.maxima[b], s.in.NumDims) }) * capacityIndexStep
}

// FirstPoolCandidate is a place among the pool's offers, cheapest first, before which none holds the amount.
func (s *Catalog) FirstPoolCandidate(pool int, req *Vec) int {
	if s.poolCapacityIndex == nil {
		s.poolCapacityIndex = make([]capacityIndex, len(s.in.Given.Pools))
	}
	return s.poolCapacityIndex[s.EquivalentPool[pool]].firstCandidate(s, s.PoolOffersCheapestFirst(pool), req)
}

// firstLevelCandidate is a place among the level's offers, cheapest first, before which none holds the amount.
func (s *Catalog) firstLevelCandidate(level int, req *Vec) int {
	if s.levelCapacityIndex == nil {
		s.levelCapacityIndex = make([]capacityIndex, len(s.Levels))
	}
	l := s.Levels[level]
	return s.levelCapacityIndex[level].firstCandidate(s, s.offersByPrice[l.Lo:l.Hi], req)
}
