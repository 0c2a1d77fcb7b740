// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// explainLimit returns the reason for the limit that excludes every offer that fits, nil if there is none.
func (s *Explainer) explainLimit(c *problem.Class, pi int) *plan.Reason {
	left := &s.plan.Purchases.Limits[pi]
	if !left.Limited {
		return nil
	}
	var least *problem.Offer
	lo, hi := s.Catalog.PoolOfferRange(pi)
	for i := lo; i < hi; i++ {
		o := &s.Catalog.Offers[i]
		if !c.Filter.Offers.Contains(i) || !problem.IsWithin(&c.Req, o.Allocatable, s.In.NumDims) {
			continue
		}
		if left.CopiesAllowed(o.Charge) > 0 {
			return nil
		}
		if least == nil || cmp.Or(cmp.Compare(o.InstanceType.Capacity.At(model.CPU), least.InstanceType.Capacity.At(model.CPU)), cmp.Compare(o.Price, least.Price)) < 0 {
			least = o
		}
	}
	if least == nil {
		return nil
	}
	short, ok := left.Shortage(least.Charge)
	if !ok {
		return nil
	}
	return s.limitReason(least, short)
}

// limitReason says that a limit does not allow a node of an offer.
func (s *Explainer) limitReason(o *problem.Offer, x problem.Shortage) *plan.Reason {
	if x.Limit == problem.OwnLimits {
		own := plan.OfLimit{InstanceType: o.InstanceType.Name, Resource: "nodes", Need: 1}
		if !x.Nodes {
			own.Resource, own.Need, own.Left = plan.ResourceName(s.In.ResourceName(x.Dim)), plan.Amount(x.Need), plan.Amount(x.Left)
		}
		return &plan.Reason{Code: plan.Limit, Detail: own}
	}
	l := s.In.Given.Limits[x.Limit] // with what this plan takes of it
	var short model.LimitShortage
	switch {
	case x.Nodes:
		l.UsedNodes = max(l.UsedNodes, l.Nodes)
		short = l.ShortOfNodes()
	case s.In.IsDollars(x.Dim):
		l.UsedMicro = max(l.UsedMicro, l.MicroPerHour-x.Left)
		short = l.ShortOfDollars(x.Need)
	default:
		l.Used = l.Used.With(x.Dim, max(l.Used.At(x.Dim), l.Most.At(x.Dim)-x.Left))
		short = l.ShortOf(x.Dim, s.In.ResourceName(x.Dim), x.Need)
	}
	r := plan.ShortOfLimit(l.Name, short)
	return &r
}

// explainRest returns the reason of the first check that fails after an offer of the pool fits, is available and is within limits. The
// checks run in this order: minValues, topology rules (explainTopology), constraints of one node such as ports and volumes
// (problem.NodeConstraints), unsupported fields, and pods that were placed before (explainOthers).
func (s *Explainer) explainRest(c *problem.Class, pi int) plan.Reason {
	if need := s.Catalog.MinValuesOf(pi); len(need) > 0 {
		if s.plan.Purchases.Assumptions.BannedPools[pack.ClassPool{Class: c.ID, Pool: pi}] {
			return plan.Reason{Code: plan.MinValues, Detail: plan.OfMinValues{Label: need[0].Key, Want: need[0].MinValues, Together: true}}
		}
		if r := s.explainMinValues(c, pi); r != nil {
			return *r
		}
	}
	if r := s.explainTopology(c, pi); r != nil {
		return *r
	}
	if r := s.Usage.ExplainNode(c, pi); r != nil {
		return *r
	}
	if len(c.Spec.Unsolved) > 0 {
		return plan.Reason{Code: plan.Unsupported, Detail: plan.OfUnsupported{Field: c.Spec.Unsolved[0]}}
	}
	if c.Unsolvable != "" {
		return plan.Reason{Code: plan.Unsupported, Detail: plan.OfUnsupported{Field: c.Unsolvable}}
	}
	return s.explainOthers(c, pi)
}

// explainMinValues says which minValues no claim for a pod of the class can have, nil if one can have all. What a claim
// may become has one capacity type and one set of the pool's own labels, and is in one domain of those that topology
// asks about. The reason is of the claim that lacks the fewest values.
func (s *Explainer) explainMinValues(c *problem.Class, pi int) *plan.Reason {
	sets := []*problem.OfferSet{c.Filter.Offers}
	if len(c.Topology.Keys) > 0 {
		sets = sets[:0]
		for _, at := range s.Assignments.OfferAssignments(c) {
			sets = append(sets, at.Offers)
		}
	}
	lo, hi := s.Catalog.PoolOfferRange(pi)
	count := s.Catalog.CountValues(pi)
	together := func(i, j int) bool { // a machine of a limited quantity is of one type
		a, b := &s.Catalog.Offers[i], &s.Catalog.Offers[j]
		return a.Quantity == b.Quantity && (a.Quantity < 0 || a.InstanceType == b.InstanceType) && s.Catalog.AreInterchangeable(i, j)
	}
	var lacking *plan.Reason
	fewest := 0
	for _, set := range sets {
		var tried []int
		for i := lo; i < hi; i++ {
			if !set.Contains(i) || slices.ContainsFunc(tried, func(j int) bool { return together(i, j) }) {
				continue
			}
			tried = append(tried, i)
			s.Work.Steps += int64(hi - lo)
			count.Reset()
			for j := lo; j < hi; j++ {
				if set.Contains(j) && count.Gains(j) && problem.IsWithin(&c.Req, s.Catalog.Offers[j].Allocatable, s.In.NumDims) && together(i, j) {
					count.Add(j)
				}
			}
			if count.IsMet() {
				return nil
			}
			if n := count.Lacking(); lacking == nil || n < fewest {
				r, have := count.FirstUnmet()
				fewest = n
				lacking = &plan.Reason{Code: plan.MinValues, Detail: plan.OfMinValues{Label: r.Key, Want: r.MinValues, Have: have}}
			}
		}
	}
	if lacking == nil {
		return lacking
	}
	count.Reset()
	for i := lo; i < hi; i++ {
		if c.Filter.Offers.Contains(i) && problem.IsWithin(&c.Req, s.Catalog.Offers[i].Allocatable, s.In.NumDims) {
			count.Add(i)
		}
	}
	if r, _ := count.FirstUnmet(); r == nil && plan.DetailOf[plan.OfMinValues](*lacking).Have > 0 { // they fit the pod, but not all on the same node
		d := plan.DetailOf[plan.OfMinValues](*lacking)
		if len(c.Topology.Keys) > 0 && d.Label != model.LabelCapacityType {
			d.Bound = true
		} else {
			d.OneNode = true
		}
		lacking.Detail = d
	}
	return lacking
}

// explainOthers returns the reason if a machine could be launched for one pod alone: pods placed before prevent it.
func (s *Explainer) explainOthers(c *problem.Class, pi int) plan.Reason {
	if r := topology.MostSuspicious(c); r != nil {
		return topology.ReasonOf(r)
	}
	if r := s.crowdedSpread(c, pi); r != nil {
		return plan.Reason{Code: plan.TopologySpread, Detail: plan.OfTopologySpread{TopologyKey: r.TopologyKey, MaxSkew: r.MaxSkew, OfOthers: true}}
	}
	if shared := s.plan.Purchases.Limits[pi].SharedWith(); len(shared) > 0 {
		return plan.Reason{Code: plan.SharedLimit, Detail: plan.OfSharedLimit{Limit: s.In.Given.Limits[shared[0]].Name, Taken: true}}
	}
	if s.plan.Purchases.Limits[pi].Limited {
		return plan.Reason{Code: plan.Limit, Detail: plan.OfLimit{Taken: true}}
	}
	var full *problem.Offer
	lo, hi := s.Catalog.PoolOfferRange(pi)
	s.Work.Steps += int64(hi - lo)
	for i := lo; i < hi; i++ {
		o := &s.Catalog.Offers[i]
		if !o.Available || !c.Offers.Contains(i) || !problem.IsWithin(&c.Req, o.Allocatable, s.In.NumDims) {
			continue
		}
		if o.Offering.Labels[model.LabelNodeGroup] == "" || o.Offering.Most == 0 {
			full = nil
			break
		}
		if full == nil || o.Price < full.Price {
			full = o
		}
	}
	if full != nil {
		return *groupFull(full.Offering)
	}
	return plan.Reason{Code: plan.OutOfCapacity, Detail: plan.OfOutOfCapacity{}}
}

// crowdedSpread returns the spread of other pods in the plan that keeps the class out of each domain in which the pool's
// limits allow a node that holds it; nil if a domain is open. Once those pods have been scheduled, it refuses nothing.
func (s *Explainer) crowdedSpread(c *problem.Class, pi int) (first *problem.Rule) {
	if len(c.Topology.DomainCounters) == 0 {
		return nil
	}
	for _, at := range s.Assignments.AssignmentsOf(c) {
		if at.Offers == nil || !s.hasRoom(c, pi, at.Offers) {
			continue
		}
		r := s.Assignments.CrowdedSpread(c, at)
		if r == nil {
			return nil
		}
		if first == nil {
			first = r
		}
	}
	return first
}

// hasRoom reports whether the pool's limits allow a node of a set of offers that holds a pod of the class.
func (s *Explainer) hasRoom(c *problem.Class, pi int, set *problem.OfferSet) bool {
	lo, hi := s.Catalog.PoolOfferRange(pi)
	s.Work.Steps += int64(hi - lo)
	for i := lo; i < hi; i++ {
		o := &s.Catalog.Offers[i]
		if set.Contains(i) && o.Available && problem.IsWithin(&c.Req, o.Allocatable, s.In.NumDims) && (!s.plan.Purchases.Limits[pi].Limited || s.plan.Purchases.Limits[pi].CopiesAllowed(o.Charge) > 0) {
			return true
		}
	}
	return false
}

// explainTopology names the first rule that refuses the class in every domain the pool could buy in; where domains
// differ, the one met in the first of them by name speaks, of those where a volume that the pods share will be made,
// if there is one.
func (s *Explainer) explainTopology(c *problem.Class, pi int) *plan.Reason {
	var first *problem.Rule
	var tried []*topology.TopologyAssignment // in which the pool could buy
	disk := false                            // where it is met the volume may be
	if len(c.Topology.Keys) > 0 {
		s.Work.Steps += int64(len(s.Inst.Nodes.List))
		for _, at := range s.Assignments.AssignmentsOf(c) {
			if at.Offers == nil || !s.Catalog.SetHasPool(at.Offers, pi) {
				continue
			}
			tried = append(tried, at)
			n, r := s.Topo.PodsDomainsAllow(c, at.Labels)
			if n > 0 {
				first = nil
				break
			}
			if d := s.Topo.VolumeMayBeIn(c, at.Labels); first == nil || d && !disk {
				first, disk = r, d
			}
		}
	}
	if first == nil && c.Topology.HostAffinity && !s.Topo.MayStartGroup(c) {
		for i := range c.Topology.HostRules {
			if c.Topology.HostRules[i].Kind == problem.RuleAffinity {
				first = &c.Topology.HostRules[i]
			}
		}
	}
	if first == nil {
		return nil
	}
	r := topology.ReasonOf(first)
	switch d := r.Detail.(type) {
	case plan.OfTopologySpread:
		if d.Undefined = hasNoDomain(first, tried); !d.Undefined && d.MinDomains == 0 {
			d.Fewest = s.emptiestDomains(first, tried)
			if shift := s.shiftFrom(pi, first, d.Fewest); shift != nil {
				d.Shifted, d.Shift, d.Until = shift.Zone, shift.ID, shift.Until
			}
		}
		r.Detail = d
	case plan.OfPodAffinity:
		d.Undefined, d.Nowhere = hasNoDomain(first, tried), s.Topo.SelectsNowhere(first)
		r.Detail = d
	}
	return &r
}

// hasNoDomain reports whether no node of the pool would have the label of a rule.
func hasNoDomain(r *problem.Rule, tried []*topology.TopologyAssignment) bool {
	return r.Key != problem.HostKey && !slices.ContainsFunc(tried, func(at *topology.TopologyAssignment) bool { return at.Labels[r.Key] != 0 })
}

// shiftFrom returns the zonal shift away from one of some domains of a rule in which the pool has offerings; nil: there is none.
func (s *Explainer) shiftFrom(pi int, r *problem.Rule, domains plan.List) *model.ZonalShift {
	if r.Key == problem.HostKey || domains == "" || s.In.Keys.Keys[r.Key] != model.LabelZone {
		return nil
	}
	names := domains.Names()
	lo, hi := s.Catalog.PoolOfferRange(pi)
	s.Work.Steps += int64(hi - lo)
	for i := lo; i < hi; i++ {
		if o := s.Catalog.Offers[i].Offering; o.Shift != nil && slices.Contains(names, o.Zone) {
			return o.Shift
		}
	}
	return nil
}

// emptiestDomains returns the domains with the fewest pods of a spread, which keep all others from taking more; none if
// the pool could buy in one of them.
func (s *Explainer) emptiestDomains(r *problem.Rule, tried []*topology.TopologyAssignment) plan.List {
	if r.Key == problem.HostKey {
		return ""
	}
	var names []string
	for _, d := range s.Topo.EmptiestDomains(r) {
		if slices.ContainsFunc(tried, func(at *topology.TopologyAssignment) bool {
			return at.Labels[r.Key] == d || at.Labels[r.Key] == problem.OpenValue
		}) {
			return ""
		}
		names = append(names, s.In.Keys.ValueNames[r.Key][d])
	}
	slices.Sort(names)
	return plan.ListOf(names)
}
