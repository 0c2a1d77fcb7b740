// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"math/bits"
	"slices"
)

// maxAsked bounds how many pairs of room and class are looked at for a bound.
const maxAsked = 2_000_000

// vacancy is free room that the same strata may use, taken as one machine: of it there is one, and it costs nothing.
type vacancy struct {
	on   uint64 // strata, by number
	free vec
}

// boundBesideRooms is the bound by strata where much room is free. Prices of resources alone see that the room would do for all pods, and
// say that nothing need be bought; but no large pod goes into what is left on many machines. So pods are told apart by how much of the room is
// open to them too, and the program gives what is free to those that may have it.
func (s *solver) boundBesideRooms(groups []*boundGroup, ls []level, useful []int) int64 {
	var classes []*class
	for i, g := range groups {
		if ls[i] != ls[0] {
			return 0 // of several weights each would need its own
		}
		classes = append(classes, g.classes...)
	}
	if len(classes) == 0 || len(useful) == 0 || len(useful)*len(classes) > maxAsked {
		return 0
	}
	p, whole := s.provingOf(ls[0], classes)
	p.access = s.accessOf(classes, useful)
	x := p.strataOf(whole)
	vacant := x.vacancies(useful, whole)
	x.price(make([]float64, s.nd), vacant)
	total := x.worth()
	var rooms wide
	var most [maxDims]int64
	for k := range s.nd {
		most[k] = x.most(k, func(*stratum) bool { return true })
	}
	for i := range vacant {
		for k, v := range vacant[i].free[:s.nd] {
			rooms.addMul(x.dearest(k, vacant[i].on), v)
		}
	}
	s.stockWorth(&most, &rooms)
	if !rooms.less(total) {
		return 0
	}
	return total.sub(rooms).micro()
}

// accessOf is, by class, how much of the free room is on rooms that hold one of its pods: in powers of four of a part, 0 for none.
func (s *solver) accessOf(classes []*class, useful []int) []int8 {
	nd := s.nd
	var sum vec
	for _, room := range useful {
		for k, v := range s.start.free[room*nd : room*nd+nd] {
			sum[k] += max(0, v)
		}
	}
	out := make([]int8, len(classes))
	for i, c := range classes {
		part := int64(0) // millionths, of the resource of which it is least
		var have vec
		any := false
		for _, room := range useful {
			if free := s.start.free[room*nd : room*nd+nd]; fitsSlice(&c.req, free) && s.admits(c.filter, room) {
				any = true
				for k, v := range free {
					have[k] += max(0, v)
				}
			}
		}
		if !any {
			continue
		}
		part = 1_000_000
		for k := range nd {
			if c.req[k] > 0 {
				part = min(part, mulDiv(have[k], 1_000_000, max(1, sum[k])))
			}
		}
		out[i] = int8(1 + (bits.Len64(uint64(part))+1)/2)
	}
	s.work += int64(len(useful) * len(classes))
	return out
}

// vacancies joins the free room of rooms that the same strata may use. Of each no more counts than pods that fit could take.
func (x *strata) vacancies(useful []int, whole []int64) (out []vacancy) {
	p, s, nd := x.p, x.p.s, x.p.s.nd
	at := map[uint64]int{}
	for _, room := range useful {
		free := s.start.free[room*nd : room*nd+nd]
		on := uint64(0)
		var used vec
		for d, y := range p.demands {
			if whole[d] <= 0 || x.of[d] < 0 || !fitsSlice(&y.c.req, free) || !s.admits(y.c.filter, room) {
				continue
			}
			on |= 1 << x.of[d]
			n := whole[d]
			for k, v := range free {
				if q := y.c.req[k]; q > 0 {
					n = min(n, v/q)
				}
			}
			for k := range nd {
				used[k] += y.c.req[k] * n
			}
		}
		if on == 0 {
			continue
		}
		i, ok := at[on]
		if !ok {
			i = len(out)
			at[on] = i
			out = append(out, vacancy{on: on})
		}
		for k, v := range free {
			out[i].free[k] += max(0, min(v, used[k]))
		}
	}
	s.work += int64(len(useful) * len(p.demands))
	if len(out) > maxVacancies { // few rows: what little the others have goes to all strata that may have any of it
		slices.SortStableFunc(out, func(a, b vacancy) int { return bits.OnesCount64(b.on) - bits.OnesCount64(a.on) })
		last := &out[maxVacancies-1]
		for _, v := range out[maxVacancies:] {
			last.on |= v.on
			for k := range nd {
				last.free[k] += v.free[k]
			}
		}
		out = out[:maxVacancies]
	}
	return out
}

// maxVacancies bounds the rows of the program that rooms add.
const maxVacancies = 64

// dearest is the highest price of a resource among strata by number.
func (x *strata) dearest(k int, on uint64) (u int64) {
	for ; on != 0; on &= on - 1 {
		u = max(u, x.u[bits.TrailingZeros64(on)][k])
	}
	return u
}
