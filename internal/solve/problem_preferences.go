// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"github.com/dovetail-sh/dovetail/internal/model"
)

// preferNoScheduleWeight is the weight of a PreferNoSchedule taint that is not tolerated.
//
// Preferences are node affinity terms, domains with or without other pods, nodes without such a taint. A preference
// has a price, never a veto: one of weight 100 is worth Policy.PreferencePPM of what the pod costs anyway. To be near
// others on one host is left to kube-scheduler, which weighs it when it places the pod.
const preferNoScheduleWeight = 100

// preferredOffersOf is findPreferredOffers, done once for a class.
func (s *problem) preferredOffersOf(c *class) *offerSet {
	if c.preferredOffers == nil {
		c.preferredOffers = s.findPreferredOffers(c)
	}
	return c.preferredOffers
}

// preferAmong narrows some of the offers of a class to those that it would pay for to have its preferences met.
func (s *problem) preferAmong(c *class, set *offerSet) *offerSet {
	if w := s.preferredOffersOf(c); w != c.offers {
		return s.intersect(set, w)
	}
	return set
}

// findPreferredOffers narrows the offers of a class to those it would pay for, within the first level that holds it:
// a pod costs least there, what it gives up counted. All of them where it has no preference, or none that tells
// offers apart.
func (s *problem) findPreferredOffers(c *class) *offerSet {
	if len(c.spec.Preferred) == 0 && !s.hasPreferNoSchedule {
		return c.offers
	}
	level, _ := s.cheapestLevel(c.offers, &c.req)
	if level == len(s.levels) {
		return c.offers
	}
	l := s.levels[level]
	terms := make([]term, len(c.spec.Preferred))
	for i := range terms {
		p := &c.spec.Preferred[i].Term
		terms[i] = s.compileTerm(p.Requirements)
		terms[i].names = p.Names
		terms[i].matchesNothing = len(terms[i].requirements) == 0 && p.Names == nil
	}
	score := make([]int64, l.hi-l.lo)
	unit := map[int64]int64{} // by score: the least that a pod costs
	most := int64(0)
	first := true
	for i := l.lo; i < l.hi; i++ {
		o := &s.offers[i]
		if !c.offers.contains(i) || !fitsIn(&c.req, o.allocatable, s.numDims) {
			continue
		}
		n := s.preferenceScore(c, terms, o)
		score[i-l.lo] = n
		price := mulDiv(o.price, 1<<10, timesIn(&c.req, o.allocatable, s.numDims))
		if was, ok := unit[n]; !ok || price < was {
			unit[n] = price
		}
		if first || n > most {
			most, first = n, false
		}
	}
	if len(unit) < 2 {
		return c.offers
	}
	best, bestCost := most, int64(-1)
	for n, price := range unit { // the least cost, of equals the most preferences: whatever the order
		cost := s.addPreferenceCost(price, most-n)
		if bestCost < 0 || cost < bestCost || cost == bestCost && n > best {
			best, bestCost = n, cost
		}
	}
	bits := make([]uint64, len(c.offers.bits))
	copy(bits, c.offers.bits)
	for i := l.lo; i < l.hi; i++ {
		if score[i-l.lo] < best {
			bits[i>>6] &^= 1 << (i & 63)
		}
	}
	return s.internOfferSet(bits)
}

// preferenceScore is the weight of the preferences that an offer meets.
func (s *problemInput) preferenceScore(c *class, terms []term, o *offer) (n int64) {
	for i := range terms {
		if terms[i].matches(&s.keys, o.labels, nil, "") {
			n += int64(c.spec.Preferred[i].Weight)
		}
	}
	for _, t := range s.input.Pools[o.pool].Taints {
		if t.Effect == model.PreferNoSchedule && !model.Tolerated(t, c.spec.Tolerations) {
			n -= preferNoScheduleWeight
		}
	}
	return n
}

// addPreferenceCost is a price with what unmet preferences of that weight are worth.
func (s *problemInput) addPreferenceCost(price, unmet int64) int64 {
	if unmet <= 0 {
		return price
	}
	return price + mulDiv(price, s.policy.PreferencePPM*unmet/100, 1_000_000)
}

// separation is a preference of a class for no more than so many of its pods on one machine.
type separation struct {
	most   int64 // 0: no such preference
	weight int64 // of the preference, 100 at most
}

// separationOf reads it from ScheduleAnyway spreads and preferred anti-affinity over hostname that a class has
// against itself. Those from kube-scheduler's own defaults are left to kube-scheduler.
func (s *problemCompiler) separationOf(c *model.Class) (a separation) {
	wish := func(most, weight int64, sel model.Selector) {
		if s.selectorMatches(&sel, c) && (a.most == 0 || most < a.most) {
			a = separation{most, weight}
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
