// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "math/bits"

// independentParts numbers offer sets so that those of different numbers have no offer of the level in common, nor, where shared is asked for, a limit or a limited quantity:
// what goes to the ones and what goes to the others are problems apart. The first offer set is in part 0, and so on.
func (s *solver) independentParts(l level, masks []*offerSet, shared bool) (of []int, n int) {
	parent := make([]int, len(masks))
	for i := range parent {
		parent[i] = i
	}
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	join := func(a, b int) {
		if a, b = root(a), root(b); a < b {
			parent[b] = a
		} else {
			parent[a] = b
		}
	}
	owner := make([]int32, l.hi-l.lo) // by offer: an offer set that has it, and one
	byPool, byStock := map[int]int{}, map[int]int{}
	for j, set := range masks {
		pool := -1
		set.forEach(l, func(i int) {
			if was := owner[i-l.lo]; was > 0 {
				join(int(was-1), j)
			}
			owner[i-l.lo] = int32(j + 1)
			o := &s.offers[i]
			if !shared {
				return
			}
			if o.pool != pool && s.families[o.pool].limited {
				pool = o.pool
				if was, ok := byPool[pool]; ok {
					join(was, j)
				}
				byPool[pool] = j
			}
			if o.quantity >= 0 {
				if was, ok := byStock[o.quantity]; ok {
					join(was, j)
				}
				byStock[o.quantity] = j
			}
		})
	}
	of = make([]int, len(masks))
	for j := range masks {
		if r := root(j); r < j {
			of[j] = of[r]
		} else {
			of[j] = n
			n++
		}
	}
	return of, n
}

// forEach calls for every offer of the level that is in the offer set, ascending.
func (set *offerSet) forEach(l level, call func(i int)) {
	for w := l.lo >> 6; w<<6 < l.hi; w++ {
		for b := set.bits[w]; b != 0; b &= b - 1 {
			if i := w<<6 + bits.TrailingZeros64(b); i >= l.lo && i < l.hi {
				call(i)
			}
		}
	}
}

// independentDemands splits demands into problems apart.
func (s *solver) independentDemands(l level, demands []*demand) [][]*demand {
	number := map[int]int{}
	var masks []*offerSet
	at := make([]int, len(demands))
	for i, d := range demands {
		k, ok := number[d.offers.id]
		if !ok {
			k = len(masks)
			number[d.offers.id] = k
			masks = append(masks, d.offers)
		}
		at[i] = k
	}
	if len(masks) < 2 {
		return [][]*demand{demands}
	}
	of, n := s.independentParts(l, masks, true)
	if n < 2 {
		return [][]*demand{demands}
	}
	out := make([][]*demand, n)
	for i, d := range demands {
		out[of[at[i]]] = append(out[of[at[i]]], d)
	}
	return out
}
