// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
)

// guess is what one way to answer a problem assumes where there is no telling beforehand what will turn out cheaper.
type guess struct {
	begin map[int]string // by class: the site where a group that must share a domain begins; none: the cheapest for one pod
	fill  fillOrder
}

// fillOrder is whether pods go into room left on machines of other weights before their own buys for them.
type fillOrder int8

const (
	fillNone fillOrder = iota
	fillDown           // into room on those of higher weight
	fillUp             // into room on those of lower weight, which buy first
)

// begun is a group that must share a domain, and where it could have begun.
type begun struct {
	class int
	at    string
	sites []string
}

// maxAgain bounds how often a problem is answered anew by another guess, and againPods the pods of problems for which that is done: among
// many, one group or what is left of one weight matters little.
const (
	maxAgain  = 24
	againPods = 1000
	againWork = 20_000_000
)

// best answers the problem by other guesses too, where there are any and the first answer came cheap enough to afford them, and keeps the
// cheapest that refuses no more pods.
func best(p *Problem, mem Memory, pol Policy) *solver {
	s := answer(p, mem, pol, guess{})
	left := min(pol.Work/2, againWork)
	try := func(g guess) bool {
		if left <= 0 {
			return false
		}
		x := answer(p, mem, pol, g)
		left -= x.work + int64(len(p.Demand))*1000
		for class, at := range g.begin { // in whichever order: all must hold
			if !slices.ContainsFunc(x.begun, func(b begun) bool { return b.class == class && b.at == at }) {
				return false // nothing could be had there, and the group came to follow others instead of leading them
			}
		}
		if !x.better(s) {
			return false
		}
		s = x
		return true
	}
	if len(p.Demand) > againPods || pol.Work == 0 {
		return s
	}
	tries := 0
	if s.severalLevels() {
		tries += 2
		try(guess{fill: fillDown})
		try(guess{fill: fillUp})
	}
	for again := true; again; {
		again = false
		for _, b := range s.begun {
			for _, site := range b.sites {
				if site == b.at || tries >= maxAgain {
					continue
				}
				tries++
				g := guess{begin: map[int]string{b.class: site}, fill: s.guess.fill}
				for class, at := range s.guess.begin {
					if class != b.class {
						g.begin[class] = at
					}
				}
				again = try(g) || again
			}
		}
	}
	return s
}

// severalLevels says whether machines of more than one weight are bought.
func (s *solver) severalLevels() bool {
	for _, b := range s.bins {
		if s.in.Pools[b.pool].before(&s.in.Pools[s.bins[0].pool]) != 0 {
			return true
		}
	}
	return false
}

// better says whether this answer places more pods, or as many for less.
func (s *solver) better(o *solver) bool {
	refused := func(s *solver) (n int) {
		for _, c := range s.classes {
			n += c.left()
		}
		return n
	}
	return cmp.Or(cmp.Compare(refused(s), refused(o)), cmp.Compare(s.effort(), o.effort())) < 0
}

// effort is what the machines cost, and what each costs beside its price.
func (s *solver) effort() (sum int64) {
	for _, b := range s.bins {
		sum += s.effortOf(s.leastPrice(b)) * b.copies
	}
	return sum
}

// leastPrice is the price of the cheapest machine that holds a bin, -1 where none does.
func (s *solver) leastPrice(b *bin) int64 {
	first := s.firstOf(b.pool, &b.req)
	s.work += int64(first)
	for _, i := range s.byPrice(b.pool)[first:] {
		s.work++
		if o := &s.offers[i]; b.mask.has(i) && s.binFits(b, o) {
			return o.price
		}
	}
	return -1
}

// effortOf is a price and what a machine costs beside it: Policy.MachineMicro, but never more than a hundredth of the price. Small machines bear
// less of it, so that two never seem cheaper than one twice their size and price, and cheap machines are not kept out by it.
func (s *solver) effortOf(price int64) int64 {
	m := s.pol.MachineMicro
	if m <= 0 {
		return price
	}
	return price + max(1, mulDiv(m, max(0, price), price+effortParts*m))
}

// effortParts is the part of a price that effort adds at most.
const effortParts = 100

// elsewhere says whether the guess has a group begin at another site.
func (s *solver) elsewhere(c *class, at *site) bool {
	want, ok := s.guess.begin[c.id]
	return ok && want != at.name
}

// begins notes that the first of a group that must share a domain goes to one of the sites.
func (s *solver) begins(c *class, at *site, could []string) {
	if !slices.ContainsFunc(s.begun, func(b begun) bool { return b.class == c.id }) {
		s.begun = append(s.begun, begun{class: c.id, at: at.name, sites: could})
	}
}

// fillLeft puts pods into what is left on machines bought before.
func (s *solver) fillLeft(demands []*demand) {
	if len(s.bins) == 0 || len(demands) == 0 {
		return
	}
	s.separate()
	t := s.spare
	if t == nil {
		t = &tidying{s: s}
	}
	t.undo = t.undo[:0]
	t.prepare()
	var targets []int
	for i := range t.bins {
		targets = append(targets, i)
	}
	for _, d := range demands {
		if d.c.of != nil {
			continue // a lump has a machine bought
		}
		it := binItem{class: d.c.id, n: d.n, mask: d.mask}
		for _, j := range targets {
			n := t.takes(j, -1, &it)
			if n == 0 && s.spare != nil && t.turn(j, &it) {
				n = t.takes(j, -1, &it)
			}
			if n > 0 {
				t.move(j, -1, &it, n)
			}
		}
		d.n = it.n
	}
}
