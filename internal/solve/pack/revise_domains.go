// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// newDomains calls for each hard spread that did not expect all domains in which the bins may come to stand, with
// those it did not. kube-scheduler will count them, whether the class tolerates their taints or not. It ends when
// call returns false.
func (s *Planner) newDomains(bins []*Bin, call func(k domainRuleKey, r *problem.Rule, more []int32) bool) {
	var bought []uint64
	in := map[topology.DomainKey][]int32{} // where something may come to stand
	for _, c := range s.Inst.Classes {
		for i := range c.Topology.DomainRules {
			r := &c.Topology.DomainRules[i]
			if r.Kind != problem.RuleSpread || !r.Hard {
				continue
			}
			if bought == nil {
				bought = s.Purchases.possibleOffers(bins)
			}
			k := topology.DomainKey{Scope: r.Scope, Key: r.Key}
			there, known := in[k]
			if !known {
				for x := range s.Catalog.Offers {
					o := &s.Catalog.Offers[x]
					if v := o.Labels[r.Key]; v > 0 && bought[x>>6]>>(x&63)&1 != 0 && !slices.Contains(there, v) && (r.Scope == nil || s.Topo.OfferInScope(r.Scope, o)) {
						there = append(there, v)
					}
				}
				in[k] = there
			}
			expected := func(v int32) bool { return slices.Contains(r.Domains, v) }
			if !slices.ContainsFunc(there, func(v int32) bool { return !expected(v) }) {
				continue
			}
			if !call(domainRuleKey{c.ID, i}, r, slices.DeleteFunc(slices.Clone(there), expected)) {
				return
			}
		}
	}
}

// expectNewDomains adds domains with machines for other classes to the spreads that did not expect them.
func (s *Reviser) expectNewDomains(a Assumptions) (Assumptions, bool) {
	found := false
	s.plan.newDomains(s.plan.Placement.Bins, func(k domainRuleKey, r *problem.Rule, more []int32) bool {
		if !found {
			a.spreads, found = maps.Clone(a.spreads), true
		}
		x := spreadRange{slices.Concat(r.Domains, more), slices.Concat(r.FilledByOthers, more), r.ClosedDomains}
		slices.Sort(x.domains)
		a.setSpread(k, x)
		return true
	})
	return a, found
}

// acceptNewDomains reports whether bins bought last may stay: not where they stand in domains that break the spread of a
// pod placed, once those are counted. Where they may, the spreads count them from now on.
func (s *Planner) acceptNewDomains(bins []*Bin) bool {
	type found struct {
		r    *problem.Rule
		more []int32
	}
	var all []found
	breaks := false
	s.newDomains(bins, func(_ domainRuleKey, r *problem.Rule, more []int32) bool {
		breaks = s.Topo.BreaksSpread(r, more)
		all = append(all, found{r, more})
		return !breaks
	})
	if breaks {
		return false
	}
	for _, x := range all {
		x.r.Domains, x.r.FilledByOthers = slices.Concat(x.r.Domains, x.more), slices.Concat(x.r.FilledByOthers, x.more)
		slices.Sort(x.r.Domains)
	}
	return true
}

// dropEmptyDomains takes domains out of the spreads of classes with pods left over where, as it turned out, nothing
// stands and nothing is bought: kube-scheduler does not count them. It is tried, and taken back where it places no
// more pods: a spread over fewer domains is worth less.
func (s *Reviser) dropEmptyDomains(a Assumptions) (Assumptions, bool) {
	now := &emptyDomainTrial{purchaseCaps: a.purchaseCaps, domains: map[domainRuleKey][]int32{}}
	for _, c := range s.Inst.Classes {
		now.unplaced += s.Usage.PlaceablePods(c)
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
	for _, c := range s.Inst.Classes {
		for i := range c.Topology.DomainRules {
			r := &c.Topology.DomainRules[i]
			if r.Kind != problem.RuleSpread || !r.Hard || s.Usage.PlaceablePods(c) == 0 {
				continue
			}
			if bought == nil {
				bought = s.plan.Purchases.possibleOffers(s.plan.Placement.Bins)
			}
			kept := slices.DeleteFunc(slices.Clone(r.Domains), func(v int32) bool {
				return !slices.Contains(r.FilledByOthers, v) && s.plan.isEmptyDomain(r, bought, v)
			})
			if len(kept) < len(r.Domains) {
				if len(now.domains) == 0 {
					a.spreads = maps.Clone(a.spreads)
				}
				k := domainRuleKey{c.ID, i}
				now.domains[k] = r.Domains
				a.setSpread(k, spreadRange{kept, r.FilledByOthers, r.ClosedDomains})
			}
		}
	}
	if len(now.domains) == 0 {
		return a, false
	}
	a.emptyDomainTrial = now
	return a, true
}

// isEmptyDomain reports whether no machine that counts for the spread stands in a domain, or may come to stand there;
// bought is what may be bought: see possibleOffers.
func (s *Planner) isEmptyDomain(r *problem.Rule, bought []uint64, v int32) bool {
	if slices.Contains(r.ExistingDomains, v) {
		return false
	}
	for x := range s.Catalog.Offers {
		if o := &s.Catalog.Offers[x]; o.Labels[r.Key] == v && bought[x>>6]>>(x&63)&1 != 0 && (r.Scope == nil || s.Topo.OfferInScope(r.Scope, o)) {
			return false
		}
	}
	return true
}

// forgetEmptyDomains removes the domains in which nothing stands, now that the plan is made, from the hard spreads of
// pods left over and from those that count them: kube-scheduler does not count such domains, and the pods may fit where
// they would exceed the skew otherwise. What is bought there later is counted again: see acceptNewDomains.
func (s *Planner) forgetEmptyDomains() {
	left := map[int]bool{} // classes
	counted := map[int]bool{}
	for _, c := range s.Inst.Classes {
		if s.Usage.PlaceablePods(c) > 0 {
			left[c.ID] = true
			for _, id := range c.Topology.DomainCounters {
				counted[id] = true
			}
		}
	}
	var bought []uint64
	for _, c := range s.Inst.Classes {
		for i := range c.Topology.DomainRules {
			r := &c.Topology.DomainRules[i]
			if r.Kind != problem.RuleSpread || !r.Hard || !left[c.ID] && !counted[r.Counter] {
				continue
			}
			if bought == nil {
				bought = s.Purchases.possibleOffers(s.Placement.Bins)
			}
			r.Domains = slices.DeleteFunc(slices.Clone(r.Domains), func(v int32) bool { return s.isEmptyDomain(r, bought, v) })
		}
	}
}

// possibleOffers returns all offers with which the planned machines may be launched.
func (s *Purchases) possibleOffers(bins []*Bin) []uint64 {
	out := make([]uint64, (len(s.Catalog.Offers)+63)/64)
	for _, b := range bins {
		for w, bits := range b.offers.Bits {
			if bits &^= out[w]; bits == 0 {
				continue
			}
			for i := w * 64; i < min(w*64+64, len(s.Catalog.Offers)); i++ {
				if bits>>(i&63)&1 == 0 {
					continue
				}
				if s.Work.Steps++; s.offerHoldsBin(b, &s.Catalog.Offers[i]) {
					out[w] |= 1 << (i & 63)
				}
			}
		}
	}
	return out
}

// maxDeferrals is how often a class is put behind others: two classes may be in each other's way.
const maxDeferrals = 3

// DeferCrowdedClasses finds classes whose spread holds only if they are placed before others that it counts, although
// the order is unknown. They are placed after the others in further attempts and, if that was tried, in other domains.
func (s *Reviser) DeferCrowdedClasses(a Assumptions) (Assumptions, bool) {
	closed := map[domainRuleKey][]int32{} // domains to close, beside those that are
	var moved []int
	for _, c := range s.Inst.Classes {
		move := false
		for i := range c.Topology.DomainRules {
			r := &c.Topology.DomainRules[i]
			if r.Kind != problem.RuleSpread || !r.Hard {
				continue
			}
			least := s.Topo.LeastCount(r)
			s.Work.Steps += int64(len(r.OwnPods))
			for d := range r.OwnPods {
				switch {
				case !s.Topo.ExceedsSkew(r, d, least):
				case a.deferrals[c.ID] >= maxDeferrals:
					k := domainRuleKey{c.ID, i}
					closed[k] = append(closed[k], int32(d))
				default:
					move = true
				}
			}
		}
		if move {
			moved = append(moved, c.ID)
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
			r := &s.Inst.Classes[k.class].Topology.DomainRules[k.rule]
			a.setSpread(k, spreadRange{r.Domains, r.FilledByOthers, slices.Concat(r.ClosedDomains, more)})
		}
	}
	return a, len(moved) > 0 || len(closed) > 0
}

// closeStrayStarts finds groups that want to be near each other and begin in a domain where nobody else holds them,
// while pods that they want to be near stand elsewhere: if those came first, kube-scheduler would not let the group
// begin there. It adds the domain to those to be closed to them.
func (s *Reviser) closeStrayStarts(closed map[domainRuleKey][]int32) {
	following := map[[2]int]int64{} // by counter and domain: pods there that came because of others
	each := func(f func(k domainRuleKey, r *problem.Rule, d int)) {
		for _, c := range s.Inst.Classes {
			for i := range c.Topology.DomainRules {
				r := &c.Topology.DomainRules[i]
				s.Work.Steps += int64(len(r.OwnPods))
				for d, n := range r.OwnPods {
					if r.Kind == problem.RuleAffinity && r.SelectsOwnPods && n > 0 { // others follow, and begin nothing
						f(domainRuleKey{c.ID, i}, r, d)
					}
				}
			}
		}
	}
	each(func(_ domainRuleKey, r *problem.Rule, d int) { following[[2]int{r.Counter, d}] += int64(r.OwnPods[d]) })
	each(func(k domainRuleKey, r *problem.Rule, d int) {
		x := &s.Topo.Counters[r.Counter]
		if have := x.CountIn(d); have <= following[[2]int{r.Counter, d}] && x.Total > have && !slices.Contains(r.ClosedDomains, int32(d)) &&
			!slices.Contains(closed[k], int32(d)) {
			closed[k] = append(closed[k], int32(d))
		}
	})
}
