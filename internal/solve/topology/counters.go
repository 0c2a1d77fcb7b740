// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package topology

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// counter counts pods by domain of one topology key: those that its selectors choose, or those that own an
// anti-affinity term.
type counter struct {
	key              int              // of labelTable, or HostKey
	countsOwners     bool             // pods that own the term, not those it selects
	ForSpread        bool             // excludes pods being deleted
	selectors        []model.Selector // a pod counts that all of them choose
	scope            *problem.Scope   // for a spread: only pods on nodes of it count; nil: on all
	counts           domainCounts     // by value of the key, or by host
	initialCounts    domainCounts     // as the problem states them
	Total            int64            // over all domains
	initialTotal     int64
	Expected         int64 // pods on machines that are not packed yet
	uncertain        int64 // on nodes in flight whose domain is not certain
	initialUncertain int64
	version          int // counts changes of counts
}

// Topology is the state of placement rules: pods counted by domain, the rules that read these counts, and the domains
// possible for each class.
type Topology struct {
	in      *problem.Input
	work    *problem.Work
	catalog *problem.Catalog
	inst    *problem.Instance
	usage   *problem.Usage

	Counters        []counter
	ColocatedGroups []*problem.ColocatedGroup // in class order
	HostCount       int                       // number of hosts so far: existing nodes, then opened bins
}

// Reset resets all counts to the initial state of the problem.
func (s *Topology) Reset() {
	for i := range s.Counters {
		c := &s.Counters[i]
		c.counts.resetTo(&c.initialCounts)
		c.Total, c.uncertain = c.initialTotal, c.initialUncertain
		c.version++
	}
	for _, c := range s.inst.Classes {
		for i := range c.Topology.DomainRules {
			clear(c.Topology.DomainRules[i].OwnPods)
		}
	}
}

// addPods counts n pods more, n maybe negative, in the domain that a node with these labels, or the host, is in.
func (x *counter) addPods(vals []int32, host int, n int64) {
	x.version++
	d := host
	if x.key != problem.HostKey {
		v := vals[x.key]
		if v == problem.OpenValue {
			x.uncertain += n
			x.Total += n
			return
		}
		if v == 0 {
			return
		}
		d = int(v)
	}
	x.counts.add(d, int32(n))
	x.Total += n
}

// CountIn returns the count in a domain.
func (x *counter) CountIn(d int) int64 {
	return int64(x.counts.at(d))
}

// CountInDomains adds n pods of the class to the domains of a node with these labels. counted reports which scopes of
// the class the node is in.
func (s *Topology) CountInDomains(c *problem.Class, vals []int32, counted []bool, n int64) {
	for i, id := range c.Topology.DomainCounters {
		if at := c.Topology.CounterScope[i]; at < 0 || counted[at] {
			s.Counters[id].addPods(vals, 0, n)
		}
	}
	for i := range c.Topology.DomainRules {
		r := &c.Topology.DomainRules[i]
		if d := vals[r.Key]; (r.Kind == problem.RuleSpread || r.Kind == problem.RuleAffinity) && r.Hard && d > 0 {
			for int(d) >= len(r.OwnPods) {
				r.OwnPods = append(r.OwnPods, 0)
			}
			r.OwnPods[d] += int32(n)
		}
	}
}

// CountOnHost adds n pods of the class to a host.
func (s *Topology) CountOnHost(c *problem.Class, host int, n int64) {
	for _, id := range c.Topology.HostCounters {
		s.Counters[id].addPods(nil, host, n)
	}
}

// MayStartGroup reports whether a pod may be the first of its required affinity: no pod that it must be near exists, and
// it matches its own selector.
func (s *Topology) MayStartGroup(c *problem.Class) bool {
	for _, rules := range [][]problem.Rule{c.Topology.DomainRules, c.Topology.HostRules} {
		for i := range rules {
			if r := &rules[i]; r.Kind == problem.RuleAffinity && (!r.SelectsOwnPods || s.Counters[r.Counter].Total+s.Counters[r.Counter].Expected > 0) {
				return false
			}
		}
	}
	return true
}

// SelectsNowhere reports whether no domain has a pod that a rule selects, existing or planned.
func (s *Topology) SelectsNowhere(r *problem.Rule) bool {
	return !r.SelectsOwnPods && s.Counters[r.Counter].Total+s.Counters[r.Counter].Expected == 0
}

// LeastCount returns the minimum count among the domains of a topology spread, which is 0 while fewer domains than minDomains
// have a node.
func (s *Topology) LeastCount(r *problem.Rule) int64 {
	x := &s.Counters[r.Counter]
	if r.CachedLeast.Version != x.version+1 || r.CachedLeast.NumDomains != len(r.Domains) {
		r.CachedLeast = problem.CachedMinimum{Version: x.version + 1, NumDomains: len(r.Domains), Least: s.computeLeastCount(r)}
	}
	return r.CachedLeast.Least
}

// EmptiestDomains returns the domains of a spread with the minimum count.
func (s *Topology) EmptiestDomains(r *problem.Rule) (out []int32) {
	least := s.LeastCount(r)
	for _, d := range r.Domains {
		if s.Counters[r.Counter].CountIn(int(d)) == least {
			out = append(out, d)
		}
	}
	return out
}

// computeLeastCount computes the minimum count among the domains of a topology spread, without the cache. It is 0 if fewer
// domains than minDomains have nodes.
func (s *Topology) computeLeastCount(r *problem.Rule) int64 {
	x := &s.Counters[r.Counter]
	out, with := problem.Unlimited, 0
	for _, d := range r.Domains {
		have := x.CountIn(int(d))
		out = min(out, have)
		if r.MinDomains > 1 && (have > 0 || slices.Contains(r.ExistingDomains, d)) {
			with++
		}
	}
	if r.MinDomains > 1 && with < r.MinDomains {
		return 0
	}
	if out == problem.Unlimited {
		return 0
	}
	return out
}

// countFor returns the count of a rule in a domain.
func (s *Topology) countFor(r *problem.Rule, d int) int64 {
	n := s.Counters[r.Counter].CountIn(d)
	for _, id := range r.Minus {
		n -= s.Counters[id].CountIn(d)
	}
	return n
}

// uncertainFor is how many of those that a rule counts are on nodes whose domain is not certain.
func (s *Topology) uncertainFor(r *problem.Rule) int64 {
	n := s.Counters[r.Counter].uncertain
	for _, id := range r.Minus {
		n -= s.Counters[id].uncertain
	}
	return n
}

// totalFor returns the count of a rule over all domains.
func (s *Topology) totalFor(r *problem.Rule) int64 {
	n := s.Counters[r.Counter].Total
	for _, id := range r.Minus {
		n -= s.Counters[id].Total
	}
	return n
}
