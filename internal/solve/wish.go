// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "github.com/dovetail-sh/dovetail/internal/model"

// Wishes are what pods prefer: node affinity terms, domains with or without other pods, nodes without a PreferNoSchedule taint they do
// not tolerate. A wish has a price, never a veto: one of weight 100 is worth Policy.PreferencePPM of what the pod costs anyway. To be
// near others on one host is left to kube-scheduler, which weighs it when it places the pod.

// preferNoSchedule is the weight of a PreferNoSchedule taint not tolerated.
const preferNoSchedule = 100

// wishOf is wishMask, found once.
func (s *solver) wishOf(c *class) *mask {
	if c.wish == nil {
		c.wish = s.wishMask(c)
	}
	return c.wish
}

// wished narrows some of the offers of a class to those that it would rather have.
func (s *solver) wished(c *class, m *mask) *mask {
	if w := s.wishOf(c); w != c.mask {
		return s.and(m, w)
	}
	return m
}

// wishMask narrows the offers of a class to those it would pay for, within the first level that holds it; all of them where it has no
// wish, or none that tells offers apart.
func (s *solver) wishMask(c *class) *mask {
	if len(c.c.Preferred) == 0 && !s.discouraged {
		return c.mask
	}
	li, _ := s.cheapest(c.mask, &c.req)
	if li == len(s.levels) {
		return c.mask
	}
	l := s.levels[li]
	terms := make([]term, len(c.c.Preferred))
	for i := range terms {
		p := &c.c.Preferred[i].Term
		terms[i] = s.termOf(p.Requirements)
		terms[i].names = p.Names
		terms[i].none = len(terms[i].reqs) == 0 && p.Names == nil
	}
	score := make([]int64, l.hi-l.lo)
	unit := map[int64]int64{} // by score: the least that a pod costs
	most := int64(0)
	first := true
	for i := l.lo; i < l.hi; i++ {
		o := &s.offers[i]
		if !c.mask.has(i) || !fitsIn(&c.req, o.avail, s.nd) {
			continue
		}
		n := s.wishScore(c, terms, o)
		score[i-l.lo] = n
		price := mulDiv(o.price, 1<<10, timesIn(&c.req, o.avail, s.nd))
		if was, ok := unit[n]; !ok || price < was {
			unit[n] = price
		}
		if first || n > most {
			most, first = n, false
		}
	}
	if len(unit) < 2 {
		return c.mask
	}
	best, bestCost := most, int64(-1)
	for n, price := range unit { // the least cost, of equals the most wishes: whatever the order
		cost := s.withWish(price, most-n)
		if bestCost < 0 || cost < bestCost || cost == bestCost && n > best {
			best, bestCost = n, cost
		}
	}
	bits := make([]uint64, len(c.mask.bits))
	copy(bits, c.mask.bits)
	for i := l.lo; i < l.hi; i++ {
		if score[i-l.lo] < best {
			bits[i>>6] &^= 1 << (i & 63)
		}
	}
	return s.internMask(bits)
}

// wishScore is the weight of the wishes that an offer meets.
func (s *solver) wishScore(c *class, terms []term, o *offer) (n int64) {
	for i := range terms {
		if terms[i].matches(&s.keys, o.vals, nil, "") {
			n += int64(c.c.Preferred[i].Weight)
		}
	}
	for _, t := range s.in.Pools[o.pool].Taints {
		if t.Effect == model.PreferNoSchedule && !model.Tolerated(t, c.c.Tolerations) {
			n -= preferNoSchedule
		}
	}
	return n
}

// withWish is a price with what wishes of that weight, not met, are worth.
func (s *solver) withWish(price, unmet int64) int64 {
	if unmet <= 0 {
		return price
	}
	return price + mulDiv(price, s.pol.PreferencePPM*unmet/100, 1_000_000)
}

// wishRules are the preferred pod affinity and anti-affinity terms over keys larger than a host.
func (t *topoCompiler) wishRules(c *class, add func(rule)) {
	one := func(w *model.WeightedPodTerm, sign int64) {
		if w.Term.TopologyKey != model.LabelHostname {
			add(rule{kind: ruleWish, counter: t.counter(w.Term.TopologyKey, false, false, w.Term.Selector), name: w.Term.TopologyKey,
				weight: sign * int64(w.Weight)})
		}
	}
	for i := range c.c.PreferredAffinity {
		one(&c.c.PreferredAffinity[i], 1)
	}
	for i := range c.c.PreferredAntiAffinity {
		one(&c.c.PreferredAntiAffinity[i], -1)
	}
}

// unmetWishes is the weight of the wishes that a site does not meet.
func (s *solver) unmetWishes(c *class, vals []int32) (n int64) {
	for i := range c.topo.wide {
		r := &c.topo.wide[i]
		if r.kind != ruleWish {
			continue
		}
		there := vals[r.key] > 0 && s.counters[r.counter].at(int(vals[r.key])) > 0
		switch {
		case r.weight > 0 && !there:
			n += r.weight
		case r.weight < 0 && there:
			n -= r.weight
		}
	}
	return n
}

// apart is what a class would rather: no more than so many of its pods on one machine, and how much that weighs.
type apart struct {
	most   int64 // 0: no such wish
	weight int64
}

// apartOf reads it from ScheduleAnyway spreads and preferred anti-affinity over hostname that a class has against itself. Those from the
// scheduler's own defaults are the scheduler's to see to.
func (s *solver) apartOf(c *model.Class) (a apart) {
	wish := func(most, weight int64, sel model.Selector) {
		if s.selects(&sel, c) && (a.most == 0 || most < a.most) {
			a = apart{most, weight}
		}
	}
	for i := range c.Spread {
		if x := &c.Spread[i]; !x.Hard && x.TopologyKey == model.LabelHostname {
			wish(int64(x.MaxSkew), 100, model.Selector{Namespaces: []string{c.Namespace}, Pods: x.Selector})
		}
	}
	for i := range c.PreferredAntiAffinity {
		if x := &c.PreferredAntiAffinity[i]; x.Term.TopologyKey == model.LabelHostname {
			wish(1, int64(x.Weight), x.Term.Selector)
		}
	}
	return a
}

// unspread is what batches cost beside their effort: pods that would rather be apart and are not, at what that wish is worth.
func (p *packing) unspread(batches []batch) (sum int64) {
	for _, b := range batches {
		for _, it := range b.items {
			if a := p.demands[it.d].c.apart; a.most > 0 && it.n > a.most {
				unit := p.plain[it.d] >> worthShift
				sum += (p.s.withWish(unit, a.weight) - unit) * (it.n - a.most) * b.copies
			}
		}
	}
	return sum
}
