// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package topology

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// NodeScopes reports which scopes of the class an existing node is in.
func (s *Topology) NodeScopes(c *problem.Class, node int) []bool {
	if len(c.Topology.Scopes) == 0 {
		return nil
	}
	x := s.inst.Nodes.List[node]
	out := make([]bool, len(c.Topology.Scopes))
	for i, on := range c.Topology.Scopes {
		out[i] = on.IncludesNode(&s.in.Keys, s.inst.Nodes.Labels[s.inst.Nodes.ShapeOf[node]], x)
	}
	return out
}

// OfferInScope reports whether a machine of the offer would be in the scope.
func (s *Topology) OfferInScope(on *problem.Scope, o *problem.Offer) bool {
	return on.Includes(&s.in.Keys, o.Labels, s.in.Given.Pools[o.Pool].Taints)
}

// PodsDomainsAllow returns how many more pods of the class the rules for keys larger than a host allow on a node with
// these labels, and the first rule that allows none, nil if all allow some.
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

// PodsHostAllows returns how many more pods of the class the hostname rules allow on a host. The minimum count of a
// hostname spread is taken as zero, because an empty new host is always possible.
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

// PodsNodeAccepts returns how many pods of the class an existing node accepts now by its own properties: labels, taints,
// resources, ports, volumes, and hostname rules. Callers check domains larger than a node.
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

// UnmetPreferenceWeight returns the weight of the preferences about domains that a node with these labels does not
// satisfy.
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

// ExceedsSkew reports whether pods that own a spread were placed in a domain that now exceeds its skew.
func (s *Topology) ExceedsSkew(r *problem.Rule, d int, least int64) bool {
	return r.OwnPods[d] > 0 && s.Counters[r.Counter].CountIn(d)-least > r.MaxSkew
}

// BreaksSpread reports whether placed pods would exceed the skew of their spread if more domains counted.
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

// VolumeMayBeIn reports whether shared volumes of the class that are not provisioned yet may be provisioned in the
// domains of a node with these labels.
func (s *Topology) VolumeMayBeIn(c *problem.Class, vals []int32) bool {
	for i := range c.Topology.DomainRules {
		if r := &c.Topology.DomainRules[i]; r.Kind == problem.RuleSharedVolume && (vals[r.Key] <= 0 || s.Counters[r.Counter].CountIn(int(vals[r.Key])) < s.Counters[r.Counter].Total) {
			return false
		}
	}
	return true
}
