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
	ForSpread        bool             // pods being deleted do not count
	selectors        []model.Selector // a pod counts that all of them choose
	scope            *problem.Scope   // for a spread: only pods on nodes of it count; nil: on all
	counts           domainCounts     // by value of the key, or by host
	initialCounts    domainCounts     // as the problem states them
	Total            int64            // in all domains together
	initialTotal     int64
	Expected         int64 // on machines that are still to be packed
	uncertain        int64 // on nodes in flight whose domain is not certain
	initialUncertain int64
	version          int // counts changes of counts
}

// Topology is who may be where: the pods counted by domain, the rules that read these counts, and the domains a class
// could go to.
type Topology struct {
	in      *problem.Input
	work    *problem.Work
	catalog *problem.Catalog
	inst    *problem.Instance
	usage   *problem.Usage

	Counters        []counter
	ColocatedGroups []*problem.ColocatedGroup // in class order
	HostCount       int                       // hosts numbered so far: existing nodes, then bins as they are opened
}

// Reset takes all counts back to what the problem states.
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

// CountIn is the count in a domain.
func (x *counter) CountIn(d int) int64 {
	return int64(x.counts.at(d))
}

// CountInDomains counts n pods more of the class in the domains of a node with these labels. InScope says which of
// the class's scopes the node is in.
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

// CountOnHost counts n pods more of the class on a host.
func (s *Topology) CountOnHost(c *problem.Class, host int, n int64) {
	for _, id := range c.Topology.HostCounters {
		s.Counters[id].addPods(nil, host, n)
	}
}

// NodeScopes says which scopes of the class an existing node is in.
func (s *Topology) NodeScopes(c *problem.Class, node int) []bool {
	if len(c.Topology.Scopes) == 0 {
		return nil
	}
	x := s.inst.Nodes.List[node]
	out := make([]bool, len(c.Topology.Scopes))
	for i, on := range c.Topology.Scopes {
		out[i] = on.Includes(&s.in.Keys, s.inst.Nodes.Labels[s.inst.Nodes.ShapeOf[node]], x.Open, x.Name, x.Taints)
	}
	return out
}

// OfferInScope says whether a machine of the offer would be in the scope.
func (s *Topology) OfferInScope(on *problem.Scope, o *problem.Offer) bool {
	return on.Includes(&s.in.Keys, o.Labels, nil, "", s.in.Given.Pools[o.Pool].Taints)
}

// LeastCount is the least count among the domains of a spread; 0 while fewer domains than its MinDomains have a node.
func (s *Topology) LeastCount(r *problem.Rule) int64 {
	x := &s.Counters[r.Counter]
	if r.CachedLeast.Version != x.version+1 || r.CachedLeast.NumDomains != len(r.Domains) {
		r.CachedLeast = problem.CachedMinimum{Version: x.version + 1, NumDomains: len(r.Domains), Least: s.computeLeastCount(r)}
	}
	return r.CachedLeast.Least
}

// computeLeastCount finds that without the cache.
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

// MayStartGroup says whether a pod may be the first of its required affinity: no pod that it wants to be near is
// anywhere, and it selects itself.
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

// PodsDomainsAllow is how many more pods of the class the rules over keys larger than a host let onto a node with
// these labels, and the first rule that lets in none, nil where all let in some.
func (s *Topology) PodsDomainsAllow(c *problem.Class, vals []int32) (int64, *problem.Rule) {
	n := problem.Unlimited
	for i := range c.Topology.DomainRules {
		r := &c.Topology.DomainRules[i]
		k, d, have, least := &kinds[r.Kind], vals[r.Key], int64(0), int64(0)
		switch {
		case d == problem.OpenValue:
			if !k.ignoresOpen {
				have = s.totalFor(r)
			}
			if k.oneWhereOpen && r.SelectsOwnPods {
				n = min(n, 1)
			}
		case d > 0:
			have = s.countFor(r, int(d))
			if k.countsUncertain {
				have += s.uncertainFor(r)
			}
		}
		if k.readsLeast {
			least = s.LeastCount(r)
		}
		m := s.PodsRuleAllows(c, r, have, least, d > 0)
		if m == 0 || slices.Contains(r.ClosedDomains, d) {
			return 0, r
		}
		n = min(n, m)
	}
	return n, nil
}

// PodsHostAllows is how many more pods of the class the rules over hostname let onto a host. The least count of a
// spread over hosts is taken as zero: a new host may always come, and comes empty.
func (s *Topology) PodsHostAllows(c *problem.Class, host int) int64 {
	n := problem.Unlimited
	for i := range c.Topology.HostRules {
		r := &c.Topology.HostRules[i]
		if r.Kind == problem.RuleHostSpreadOfOthers && s.Counters[r.OwnerCounter].CountIn(host) == 0 {
			continue
		}
		if n = min(n, s.PodsRuleAllows(c, r, s.countFor(r, host), 0, true)); n == 0 {
			return 0
		}
	}
	return n
}

// PodsNodeAccepts is how many pods of the class may be put on an existing node now as far as the node itself is
// concerned: labels, taints, resources, ports, volumes, and rules over hosts. Domains larger than a node are for the
// caller to see to.
func (s *Topology) PodsNodeAccepts(c *problem.Class, node int) int64 {
	x := s.inst.Nodes.List[node]
	if x.Closed || x.Drained {
		return 0
	}
	n := s.usage.PodsFittingNode(c, node)
	if n == 0 || !s.inst.NodeAdmits(c.Filter, node) {
		return 0
	}
	if len(c.Topology.HostRules) > 0 {
		n = min(n, s.PodsHostAllows(c, node))
	}
	if n > 0 && c.Occupies {
		n = min(n, s.usage.OccupancyOf(node).Allows(c, problem.TraitsOf(x)))
	}
	return n
}

// UnmetPreferenceWeight is the weight of the preferences over domains that a node with these labels does not meet.
func (s *Topology) UnmetPreferenceWeight(c *problem.Class, vals []int32) (n int64) {
	for i := range c.Topology.DomainRules {
		r := &c.Topology.DomainRules[i]
		if r.Kind != problem.RulePreference {
			continue
		}
		there := vals[r.Key] > 0 && s.Counters[r.Counter].CountIn(int(vals[r.Key])) > 0
		switch {
		case r.Weight > 0 && !there:
			n += r.Weight
		case r.Weight < 0 && there:
			n -= r.Weight
		}
	}
	return n
}

// ExceedsSkew says whether pods that own a spread were placed in a domain that now holds too many for it.
func (s *Topology) ExceedsSkew(r *problem.Rule, d int, least int64) bool {
	return r.OwnPods[d] > 0 && s.Counters[r.Counter].CountIn(d)-least > r.MaxSkew
}

// BreaksSpread says whether pods placed would exceed the skew of their spread were more domains counted.
func (s *Topology) BreaksSpread(r *problem.Rule, more []int32) bool {
	wide := *r
	wide.Domains = slices.Concat(r.Domains, more)
	least := s.computeLeastCount(&wide)
	for d := range r.OwnPods {
		if s.ExceedsSkew(r, d, least) {
			return true
		}
	}
	return false
}

// WouldCrowd reports whether one more pod of the class at an assignment would leave a pod placed there beyond its
// spread, if that came last, or a group that begins elsewhere without the right to, if this one came first.
func (s *Assignments) WouldCrowd(c *problem.Class, where *TopologyAssignment) bool {
	for _, id := range c.Topology.DomainCounters {
		if x := &s.topo.Counters[id]; !x.ForSpread && where.Labels[x.key] != 0 && s.groupBeganElsewhere(id, where.Labels[x.key]) {
			return true
		}
	}
	return s.CrowdedSpread(c, where) != nil
}

// CrowdedSpread returns the spread of a pod placed at an assignment that one more pod of the class there would exceed, if
// that pod came last; nil if there is none.
func (s *Assignments) CrowdedSpread(c *problem.Class, where *TopologyAssignment) *problem.Rule {
	for i, id := range c.Topology.DomainCounters {
		x := &s.topo.Counters[id]
		d := where.Labels[x.key]
		if at := c.Topology.CounterScope[i]; !x.ForSpread || d <= 0 || at >= 0 && !where.InScope[at] {
			continue
		}
		for _, other := range s.inst.Classes {
			for j := range other.Topology.DomainRules {
				r := &other.Topology.DomainRules[j]
				if r.Kind == problem.RuleSpread && r.Hard && r.Counter == id && int(d) < len(r.OwnPods) && r.OwnPods[d] > 0 && x.CountIn(int(d))+1-s.topo.LeastCount(r) > r.MaxSkew {
					return r
				}
			}
		}
	}
	return nil
}

// groupBeganElsewhere says whether a group that wants to be near what a counter counts begins in another domain,
// where no other pod holds it.
func (s *Assignments) groupBeganElsewhere(id int, where int32) bool {
	leaning := map[int]int64{} // by domain
	for _, c := range s.inst.Classes {
		for i := range c.Topology.DomainRules {
			r := &c.Topology.DomainRules[i]
			if r.Kind != problem.RuleAffinity || !r.SelectsOwnPods || r.Counter != id {
				continue
			}
			s.work.Steps += int64(len(r.OwnPods))
			for d, n := range r.OwnPods {
				if n > 0 && d != int(where) {
					leaning[d] += int64(n)
				}
			}
		}
	}
	for d, n := range leaning {
		if s.topo.Counters[id].CountIn(d) <= n {
			return true
		}
	}
	return false
}

// VolumeMayBeIn says whether the volumes that pods of the class share, and that are still to be made, may be made in
// the domains of a node with these labels.
func (s *Topology) VolumeMayBeIn(c *problem.Class, vals []int32) bool {
	for i := range c.Topology.DomainRules {
		if r := &c.Topology.DomainRules[i]; r.Kind == problem.RuleSharedVolume && (vals[r.Key] <= 0 || s.Counters[r.Counter].CountIn(int(vals[r.Key])) < s.Counters[r.Counter].Total) {
			return false
		}
	}
	return true
}
