// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"maps"
	"slices"
)

// newDomains calls for each hard spread that did not expect all domains in which the bins may come to stand, with
// those it did not. kube-scheduler will count them, whether the class tolerates their taints or not. It ends when
// call returns false.
func (s *planner) newDomains(bins []*bin, call func(k domainRuleKey, r *rule, more []int32) bool) {
	var bought []uint64
	in := map[domainKey][]int32{} // where something may come to stand
	for _, c := range s.classes {
		for i := range c.topology.domainRules {
			r := &c.topology.domainRules[i]
			if r.kind != ruleSpread || !r.hard {
				continue
			}
			if bought == nil {
				bought = s.possibleOffers(bins)
			}
			k := domainKey{r.scope, r.key}
			there, known := in[k]
			if !known {
				for x := range s.offers {
					o := &s.offers[x]
					if v := o.labels[r.key]; v > 0 && bought[x>>6]>>(x&63)&1 != 0 && !slices.Contains(there, v) && (r.scope == nil || s.offerInScope(r.scope, o)) {
						there = append(there, v)
					}
				}
				in[k] = there
			}
			expected := func(v int32) bool { return slices.Contains(r.domains, v) }
			if !slices.ContainsFunc(there, func(v int32) bool { return !expected(v) }) {
				continue
			}
			if !call(domainRuleKey{c.id, i}, r, slices.DeleteFunc(slices.Clone(there), expected)) {
				return
			}
		}
	}
}

// expectNewDomains adds domains to the spreads that did not expect them: machines bought for others stand there now.
func (s *reviser) expectNewDomains(a assumptions) (assumptions, bool) {
	found := false
	s.newDomains(s.bins, func(k domainRuleKey, r *rule, more []int32) bool {
		if !found {
			a.spreads, found = maps.Clone(a.spreads), true
		}
		x := spreadRange{slices.Concat(r.domains, more), slices.Concat(r.filledByOthers, more), r.closedDomains}
		slices.Sort(x.domains)
		a.setSpread(k, x)
		return true
	})
	return a, found
}

// acceptNewDomains says whether bins bought last may stay: not where they stand in domains that break the spread of a
// pod placed, once those are counted. Where they may, the spreads count them from now on.
func (s *planner) acceptNewDomains(bins []*bin) bool {
	type found struct {
		r    *rule
		more []int32
	}
	var all []found
	breaks := false
	s.newDomains(bins, func(_ domainRuleKey, r *rule, more []int32) bool {
		breaks = s.breaksSpread(r, more)
		all = append(all, found{r, more})
		return !breaks
	})
	if breaks {
		return false
	}
	for _, x := range all {
		x.r.domains, x.r.filledByOthers = slices.Concat(x.r.domains, x.more), slices.Concat(x.r.filledByOthers, x.more)
		slices.Sort(x.r.domains)
	}
	return true
}

// dropEmptyDomains takes domains out of the spreads of classes with pods left over where, as it turned out, nothing
// stands and nothing is bought: kube-scheduler does not count them. It is tried, and taken back where it places no
// more pods: a spread over fewer domains is worth less.
func (s *reviser) dropEmptyDomains(a assumptions) (assumptions, bool) {
	now := &emptyDomainTrial{purchaseCaps: a.purchaseCaps, domains: map[domainRuleKey][]int32{}}
	for _, c := range s.classes {
		now.unplaced += s.placeablePods(c)
	}
	was := a.emptyDomainTrial
	if was != nil && now.unplaced >= was.unplaced {
		a.emptyDomainTrial, a.purchaseCaps, a.keepEmptyDomains = nil, was.purchaseCaps, true
		a.spreads = maps.Clone(a.spreads)
		for k, domains := range was.domains {
			x := a.spreads[k]
			x.domains = domains
			a.setSpread(k, x)
		}
		return a, true
	}
	if now.unplaced == 0 || a.keepEmptyDomains {
		return a, false
	}
	var bought []uint64
	for _, c := range s.classes {
		for i := range c.topology.domainRules {
			r := &c.topology.domainRules[i]
			if r.kind != ruleSpread || !r.hard || s.placeablePods(c) == 0 {
				continue
			}
			if bought == nil {
				bought = s.possibleOffers(s.bins)
			}
			kept := slices.DeleteFunc(slices.Clone(r.domains), func(v int32) bool {
				return !slices.Contains(r.standingDomains, v) && !slices.Contains(r.filledByOthers, v) && !s.isBoughtIn(r, bought, v)
			})
			if len(kept) < len(r.domains) {
				if len(now.domains) == 0 {
					a.spreads = maps.Clone(a.spreads)
				}
				k := domainRuleKey{c.id, i}
				now.domains[k] = r.domains
				a.setSpread(k, spreadRange{kept, r.filledByOthers, r.closedDomains})
			}
		}
	}
	if len(now.domains) == 0 {
		return a, false
	}
	a.emptyDomainTrial = now
	return a, true
}

// isBoughtIn says whether a machine that counts for the spread may come to stand in a domain.
func (s *reviser) isBoughtIn(r *rule, bought []uint64, v int32) bool {
	for x := range s.offers {
		if o := &s.offers[x]; o.labels[r.key] == v && bought[x>>6]>>(x&63)&1 != 0 && (r.scope == nil || s.offerInScope(r.scope, o)) {
			return true
		}
	}
	return false
}

// possibleOffers is every offer that some of the machines bought may turn out to be.
func (s *purchases) possibleOffers(bins []*bin) []uint64 {
	out := make([]uint64, (len(s.offers)+63)/64)
	for _, b := range bins {
		for w, bits := range b.offers.bits {
			if bits &^= out[w]; bits == 0 {
				continue
			}
			for i := w * 64; i < min(w*64+64, len(s.offers)); i++ {
				if bits>>(i&63)&1 == 0 {
					continue
				}
				if s.steps++; s.offerHoldsBin(b, &s.offers[i]) {
					out[w] |= 1 << (i & 63)
				}
			}
		}
	}
	return out
}

// maxDeferrals is how often a class is put behind others: two classes may be in each other's way.
const maxDeferrals = 3

// deferCrowdedClasses finds classes whose spread is kept only if they come before others that it counts, and nobody
// can say who comes first. Those are placed after the others from then on, and where that was tried, go elsewhere.
func (s *reviser) deferCrowdedClasses(a assumptions) (assumptions, bool) {
	closed := map[domainRuleKey][]int32{} // domains to close, beside those that are
	var moved []int
	for _, c := range s.classes {
		move := false
		for i := range c.topology.domainRules {
			r := &c.topology.domainRules[i]
			if r.kind != ruleSpread || !r.hard {
				continue
			}
			least := s.leastCount(r)
			s.steps += int64(len(r.ownPods))
			for d := range r.ownPods {
				switch {
				case !s.exceedsSkew(r, d, least):
				case a.deferrals[c.id] >= maxDeferrals:
					k := domainRuleKey{c.id, i}
					closed[k] = append(closed[k], int32(d))
				default:
					move = true
				}
			}
		}
		if move {
			moved = append(moved, c.id)
		}
	}
	s.closeStrayStarts(closed)
	if len(moved) > 0 {
		if a.deferrals = maps.Clone(a.deferrals); a.deferrals == nil {
			a.deferrals = map[int]int{}
		}
		for _, id := range moved {
			a.deferrals[id]++
		}
	}
	if len(closed) > 0 {
		a.spreads = maps.Clone(a.spreads)
		for k, more := range closed {
			r := &s.classes[k.class].topology.domainRules[k.rule]
			a.setSpread(k, spreadRange{r.domains, r.filledByOthers, slices.Concat(r.closedDomains, more)})
		}
	}
	return a, len(moved) > 0 || len(closed) > 0
}

// closeStrayStarts finds groups that want to be near each other and begin in a domain where nobody else holds them,
// while pods that they want to be near stand elsewhere: if those came first, kube-scheduler would not let the group
// begin there. It adds the domain to those to be closed to them.
func (s *reviser) closeStrayStarts(closed map[domainRuleKey][]int32) {
	following := map[[2]int]int64{} // by counter and domain: pods there that came because of others
	each := func(f func(k domainRuleKey, r *rule, d int)) {
		for _, c := range s.classes {
			for i := range c.topology.domainRules {
				r := &c.topology.domainRules[i]
				s.steps += int64(len(r.ownPods))
				for d, n := range r.ownPods {
					if r.kind == ruleAffinity && r.selectsOwnPods && n > 0 { // others follow, and begin nothing
						f(domainRuleKey{c.id, i}, r, d)
					}
				}
			}
		}
	}
	each(func(_ domainRuleKey, r *rule, d int) { following[[2]int{r.counter, d}] += int64(r.ownPods[d]) })
	each(func(k domainRuleKey, r *rule, d int) {
		x := &s.counters[r.counter]
		if have := x.countIn(d); have <= following[[2]int{r.counter, d}] && x.total > have && !slices.Contains(r.closedDomains, int32(d)) &&
			!slices.Contains(closed[k], int32(d)) {
			closed[k] = append(closed[k], int32(d))
		}
	})
}
