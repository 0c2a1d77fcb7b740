// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "math/bits"

// parts numbers masks so that those of different numbers have no offer of the level in common, nor, where shared is asked for, a limit or a stock:
// what goes to the ones and what goes to the others are problems apart. The first mask is in part 0, and so on.
func (s *solver) parts(l level, masks []*mask, shared bool) (of []int, n int) {
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
	owner := make([]int32, l.hi-l.lo) // by offer: a mask that has it, and one
	byPool, byStock := map[int]int{}, map[int]int{}
	for j, m := range masks {
		pool := -1
		m.each(l, func(i int) {
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
			if o.stock >= 0 {
				if was, ok := byStock[o.stock]; ok {
					join(was, j)
				}
				byStock[o.stock] = j
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

// each calls for every offer of the level that is in the mask, ascending.
func (m *mask) each(l level, call func(i int)) {
	for w := l.lo >> 6; w<<6 < l.hi; w++ {
		for b := m.bits[w]; b != 0; b &= b - 1 {
			if i := w<<6 + bits.TrailingZeros64(b); i >= l.lo && i < l.hi {
				call(i)
			}
		}
	}
}

// demandParts splits demands into problems apart.
func (s *solver) demandParts(l level, demands []*demand) [][]*demand {
	number := map[int]int{}
	var masks []*mask
	at := make([]int, len(demands))
	for i, d := range demands {
		k, ok := number[d.mask.id]
		if !ok {
			k = len(masks)
			number[d.mask.id] = k
			masks = append(masks, d.mask)
		}
		at[i] = k
	}
	if len(masks) < 2 {
		return [][]*demand{demands}
	}
	of, n := s.parts(l, masks, true)
	if n < 2 {
		return [][]*demand{demands}
	}
	out := make([][]*demand, n)
	for i, d := range demands {
		out[of[at[i]]] = append(out[of[at[i]]], d)
	}
	return out
}
