// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import "github.com/dovetail-sh/dovetail/internal/model"

// preferNoScheduleWeight is the weight of a PreferNoSchedule taint that is not tolerated.
//
// Preferences for nodes are node affinity terms, and nodes without such a taint. One has a price, never a veto: of
// weight 100 it is worth Policy.PreferencePPM of what the pod costs anyway. Preferences about other pods, to be in a
// domain or on a host with or without them, never make a plan dearer: see Solve. To be near others on one host is left
// to kube-scheduler, which weighs it when it places the pod.
const preferNoScheduleWeight = 100

// PreferredOffersOf is like findPreferredOffers, cached per class.
func (s *Instance) PreferredOffersOf(c *Class) *OfferSet {
	if c.PreferredOffers == nil {
		c.PreferredOffers, c.PreferenceGain = s.findPreferredOffers(c)
	}
	return c.PreferredOffers
}

// PreferAmong restricts offers of a class to those that satisfy its preferences at an acceptable price.
func (s *Instance) PreferAmong(c *Class, set *OfferSet) *OfferSet {
	if w := s.PreferredOffersOf(c); w != c.Offers {
		return s.catalog.Intersect(set, w)
	}
	return set
}

// findPreferredOffers narrows the offers of a class to those it would pay for, within the first level that holds it:
// a pod costs least there, what it gives up counted. All of them where it has no preference, or none that tells
// offers apart. It returns as well the weight of the preferences that they meet above what the offer that meets least does.
func (s *Instance) findPreferredOffers(c *Class) (preferred *OfferSet, gain int64) {
	if len(c.Spec.Preferred) == 0 && !s.catalog.hasPreferNoSchedule || s.in.Heeded == NoPreferences {
		return c.Offers, 0
	}
	level, _ := s.catalog.CheapestLevel(c.Offers, &c.Req)
	if level == len(s.catalog.Levels) {
		return c.Offers, 0
	}
	l := s.catalog.Levels[level]
	terms := make([]term, len(c.Spec.Preferred))
	for i := range terms {
		p := &c.Spec.Preferred[i].Term
		terms[i] = s.in.compileTerm(p.Requirements)
		terms[i].Names = p.Names
		terms[i].MatchesNothing = len(terms[i].Requirements) == 0 && p.Names == nil
	}
	score := make([]int64, l.Hi-l.Lo)
	unit := map[int64]int64{} // by score: the least that a pod costs
	most := int64(0)
	first := true
	for i := l.Lo; i < l.Hi; i++ {
		o := &s.catalog.Offers[i]
		if !c.Offers.Contains(i) || !IsWithin(&c.Req, o.Allocatable, s.in.NumDims) {
			continue
		}
		n := s.in.preferenceScore(c, terms, o)
		score[i-l.Lo] = n
		price := MulDiv(o.Price, 1<<10, TimesIn(&c.Req, o.Allocatable, s.in.NumDims))
		if was, ok := unit[n]; !ok || price < was {
			unit[n] = price
		}
		if first || n > most {
			most, first = n, false
		}
	}
	if len(unit) < 2 {
		return c.Offers, 0
	}
	best, bestCost, least := most, int64(-1), most
	for n, price := range unit { // the least cost, of equals the most preferences: whatever the order
		least = min(least, n)
		cost := s.in.AddPreferenceCost(price, most-n)
		if bestCost < 0 || cost < bestCost || cost == bestCost && n > best {
			best, bestCost = n, cost
		}
	}
	bits := make([]uint64, len(c.Offers.Bits))
	copy(bits, c.Offers.Bits)
	for i := l.Lo; i < l.Hi; i++ {
		if score[i-l.Lo] < best {
			bits[i>>6] &^= 1 << (i & 63)
		}
	}
	return s.catalog.InternOfferSet(bits), best - least
}

// preferenceScore is the weight of the preferences that an offer meets.
func (s *Input) preferenceScore(c *Class, terms []term, o *Offer) (n int64) {
	for i := range terms {
		if terms[i].matches(&s.Keys, o.Labels, nil, "") {
			n += int64(c.Spec.Preferred[i].Weight)
		}
	}
	for _, t := range s.Given.Pools[o.Pool].Taints {
		if t.Effect == model.PreferNoSchedule && !model.Tolerated(t, c.Spec.Tolerations) {
			n -= preferNoScheduleWeight
		}
	}
	return n
}

// AddPreferenceCost returns a price plus the value of unmet preferences of this weight.
func (s *Input) AddPreferenceCost(price, unmet int64) int64 {
	if unmet <= 0 {
		return price
	}
	return price + MulDiv(price, s.Policy.PreferencePPM*unmet/100, 1_000_000)
}

// separationOf reads it from ScheduleAnyway spreads and preferred anti-affinity over hostname that a class has
// against itself. Those from kube-scheduler's own defaults are left to kube-scheduler.
func (s *problemCompiler) separationOf(c *model.Class) (a separation) {
	if s.in.Heeded != AllPreferences {
		return a
	}
	addLimit := func(most, weight int64, sel model.Selector) {
		if s.in.SelectorMatches(&sel, c) && (a.Most == 0 || most < a.Most) {
			a = separation{most, weight}
		}
	}
	for i := range c.Spread {
		if x := &c.Spread[i]; !x.Hard && x.TopologyKey == model.LabelHostname {
			addLimit(int64(x.MaxSkew), 100, model.Selector{Namespaces: []string{c.Namespace}, Pods: x.Selector})
		}
	}
	for i := range c.PreferredAntiAffinity {
		if x := &c.PreferredAntiAffinity[i]; x.Term.TopologyKey == model.LabelHostname {
			addLimit(1, int64(x.Weight), x.Term.Selector)
		}
	}
	return a
}
