// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// sortedDaemons returns DaemonSets by namespace and name: where not all of them fit, the first do.
func sortedDaemons(list []*model.Daemon) []*model.Daemon {
	return slices.SortedFunc(slices.Values(list), func(a, b *model.Daemon) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// daemonRulesOf returns the rules between a class and the DaemonSets; nil: there are none.
func (s *problemCompiler) daemonRulesOf(c *model.Class) *daemonRules {
	if len(s.inst.Daemons) == 0 {
		return nil
	}
	r := &daemonRules{}
	if len(c.AntiAffinity) > 0 || s.daemonsHaveTerms {
		for i, d := range s.inst.Daemons {
			if x := s.in.apartFrom(c, d.Spec.Pod()); x != nil {
				if r.apart == nil {
					r.apart = make([]*apartFrom, len(s.inst.Daemons))
				}
				r.apart[i] = x
			}
		}
	}
	if len(c.Affinity) > 0 {
		s.findNearDaemons(r, c)
	}
	if r.apart == nil && r.near == nil {
		return nil
	}
	return r
}

// apartFrom returns the first anti-affinity term between pods of two classes, nil if there is none.
func (s *Input) apartFrom(c, daemon *model.Class) *apartFrom {
	for i := range c.AntiAffinity {
		if t := &c.AntiAffinity[i]; s.SelectorMatches(&t.Selector, daemon) {
			return &apartFrom{topologyKey: t.TopologyKey, own: true, ofDevices: t.Selector.IsOfDevices()}
		}
	}
	for i := range daemon.AntiAffinity {
		if t := &daemon.AntiAffinity[i]; s.SelectorMatches(&t.Selector, c) {
			return &apartFrom{topologyKey: t.TopologyKey, ofDevices: t.Selector.IsOfDevices()}
		}
	}
	return nil
}

// findNearDaemons notes which DaemonSets meet the required affinity of a class, as far as they have pods anywhere.
func (s *problemCompiler) findNearDaemons(r *daemonRules, c *model.Class) {
	for i := range c.Affinity {
		r.selectors = append(r.selectors, c.Affinity[i].Selector)
	}
	for i, d := range s.inst.Daemons {
		if s.in.AllSelectorsMatch(r.selectors, d.Spec.Pod()) && s.standsSomewhere(d) {
			if r.near == nil {
				r.near = make([]bool, len(s.inst.Daemons))
			}
			r.near[i] = true
		}
	}
	if r.near == nil {
		return
	}
	for i := range c.Affinity {
		t := affinityTerm{key: HostKey, name: c.Affinity[i].TopologyKey}
		if t.name != model.LabelHostname {
			t.key, t.domains = s.in.Keys.Ids[t.name], map[string]bool{}
			for j := range s.in.Given.Nodes {
				x := &s.in.Given.Nodes[j]
				if v, ok := x.Labels[t.name]; ok && !x.Drained && s.in.hasPodSelected(x, r.selectors) {
					t.domains[v] = true
				}
			}
		}
		r.terms = append(r.terms, t)
	}
}

// standsSomewhere reports whether pods of a DaemonSet run on some node, or may on one that is launched.
func (s *problemCompiler) standsSomewhere(d *daemon) bool {
	return slices.ContainsFunc(s.in.Given.Pools, func(p Pool) bool { return d.Filter.mayReach(s.in.Keys.Keys, &p, s.catalog.ProviderKeysOf(p.Types)) }) ||
		slices.ContainsFunc(s.in.Given.Nodes, func(x ExistingNode) bool { return runsDaemon(&x, d.Spec) })
}

// hasPodSelected reports whether a pod on a node is one that all selectors choose.
func (s *Input) hasPodSelected(x *ExistingNode, selectors []model.Selector) bool {
	return slices.ContainsFunc(x.Pods, func(p *model.Pod) bool { return s.AllSelectorsMatch(selectors, p.Class) })
}

// standing returns the DaemonSets whose pods stand on a new node of a pool with these label values.
func (s *Instance) standing(p *Pool, vals []int32) (out []int) {
	for i, d := range s.Daemons {
		if model.Untolerated(p.Taints, d.Filter.Tolerations) == nil && d.Filter.Passes(&s.in.Keys, vals, nil, "") {
			out = append(out, i)
		}
	}
	return out
}

// LargestDaemon returns the DaemonSet on new nodes of an offer with the largest request of a resource, and the request;
// nil if none requests it.
func (s *Instance) LargestDaemon(o *Offer, dim int) (most *model.Daemon, request int64) {
	for _, i := range s.standing(&s.in.Given.Pools[o.Pool], o.Labels) {
		if d := s.Daemons[i]; d.req[dim] > request {
			most, request = d.Spec, d.req[dim]
		}
	}
	return most, request
}

// DaemonRequests returns the total requests of a resource by DaemonSets on new nodes of an offer.
func (s *Instance) DaemonRequests(o *Offer, dim int) (sum int64) {
	for _, i := range s.standing(&s.in.Given.Pools[o.Pool], o.Labels) {
		sum += s.Daemons[i].req[dim]
	}
	return sum
}

// admitBeside reports whether classes of the filter may be on a new node with these label values where these DaemonSets stand.
func (s *Instance) admitBeside(r *daemonRules, vals []int32, standing []int) bool {
	if r == nil {
		return true
	}
	if r.apart != nil && slices.ContainsFunc(standing, func(i int) bool { return r.apart[i] != nil }) {
		return false
	}
	return r.near == nil || r.isNear(&s.in.Keys, vals, slices.ContainsFunc(standing, func(i int) bool { return r.near[i] }))
}

// isNear reports whether a node with these label values meets the affinity: a pod that does is on it (beside), or in its domains.
func (r *daemonRules) isNear(t *labelTable, vals []int32, beside bool) bool {
	for _, x := range r.terms {
		switch {
		case x.key == HostKey:
			if !beside {
				return false
			}
		case vals[x.key] == 0, !beside && (vals[x.key] == OpenValue || !x.domains[t.ValueNames[x.key][vals[x.key]]]):
			return false
		}
	}
	return true
}

// OfferAdmits reports whether the labels and DaemonSets of an offer admit classes of the filter.
func (s *Instance) OfferAdmits(f *nodeFilter, o *Offer) bool {
	return f.Passes(&s.in.Keys, o.Labels, nil, "") && (f.daemons == nil || s.admitBeside(f.daemons, o.Labels, s.standing(&s.in.Given.Pools[o.Pool], o.Labels)))
}

// DaemonRefusal returns the DaemonSet that excludes a class from nodes of an offer, because of an anti-affinity term of
// either, or because the class must be near its pods and it has none there; nil if there is none.
func (s *Instance) DaemonRefusal(c *Class, o *Offer) *plan.Reason {
	r := c.Filter.daemons
	if r == nil {
		return nil
	}
	standing := s.standing(&s.in.Given.Pools[o.Pool], o.Labels)
	for _, i := range standing {
		if r.apart != nil && r.apart[i] != nil {
			d, x := s.Daemons[i].Spec, r.apart[i]
			return &plan.Reason{Code: plan.PodAntiAffinity, Detail: plan.OfPodAntiAffinity{
				DaemonSet: plan.ObjectOf("daemonset", d.Namespace+"/"+d.Name), TopologyKey: x.topologyKey, OfOthers: !x.own, OfDevices: x.ofDevices, Daemons: true}}
		}
	}
	if s.admitBeside(r, o.Labels, standing) {
		return nil
	}
	d := s.Daemons[slices.Index(r.near, true)].Spec
	return &plan.Reason{Code: plan.PodAffinity, Detail: plan.OfPodAffinity{DaemonSet: plan.ObjectOf("daemonset", d.Namespace+"/"+d.Name), TopologyKey: r.terms[0].name, Daemons: true}}
}
