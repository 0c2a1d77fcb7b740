// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// explainLimit says which limit keeps every offer that fits from being bought, nil if none does.
func (s *explainer) explainLimit(c *class, pi int) *plan.Reason {
	left := &s.limits[pi]
	if !left.limited {
		return nil
	}
	var least *model.InstanceType
	lo, hi := s.poolOfferRange(pi)
	for i := lo; i < hi; i++ {
		o := &s.offers[i]
		if !c.filter.offers.contains(i) || !fitsIn(&c.req, o.allocatable, s.numDims) {
			continue
		}
		if left.copiesAllowed(o.instanceType.Capacity) > 0 {
			return nil
		}
		if least == nil || o.instanceType.Capacity.At(model.CPU) < least.Capacity.At(model.CPU) {
			least = o.instanceType
		}
	}
	if least == nil {
		return nil
	}
	if left.nodes == 0 {
		return &plan.Reason{Code: plan.Limit, Subject: least.Name, Key: "nodes", Want: "1", Have: "0"}
	}
	for d, h := range left.has {
		if want := least.Capacity.At(model.Dim(d)); h && want > 0 && left.amounts[d] < want {
			return &plan.Reason{Code: plan.Limit, Subject: least.Name, Key: s.resourceName(model.Dim(d)),
				Want: model.FormatAmount(model.Dim(d), want), Have: model.FormatAmount(model.Dim(d), max(0, left.amounts[d]))}
		}
	}
	return nil
}

// explainRest makes the checks that remain where an offer fits and could be had: minValues, topology, ports, volumes.
func (s *explainer) explainRest(c *class, pi int) plan.Reason {
	need := s.minValuesOf(pi)
	if len(need) > 0 {
		var types []*model.InstanceType
		lo, hi := s.poolOfferRange(pi)
		s.steps += int64(hi - lo)
		for i := lo; i < hi; i++ {
			if o := &s.offers[i]; c.filter.offers.contains(i) && fitsIn(&c.req, o.allocatable, s.numDims) && !slices.Contains(types, o.instanceType) {
				types = append(types, o.instanceType)
			}
		}
		if s.assumptions.bannedPools[classPool{c.id, pi}] {
			return plan.Reason{Code: plan.MinValues, Key: need[0].Key, Want: fmt.Sprint(need[0].MinValues),
				Have: "fewer that hold the pods together in one zone and capacity type"}
		}
		if r := need.firstUnmet(types); r != nil {
			return plan.Reason{Code: plan.MinValues, Key: r.Key, Want: fmt.Sprint(r.MinValues), Have: fmt.Sprint(len(distinctValues(r.Key, types)))}
		}
		if r := s.minValuesScattered(c, pi, need); r != nil {
			return *r
		}
	}
	if r := s.explainTopology(c, pi); r != nil {
		return *r
	}
	for i := range c.spec.HostPorts {
		for _, d := range s.daemons {
			for _, p := range d.spec.Class.HostPorts {
				if p.Conflicts(c.spec.HostPorts[i]) {
					return plan.Reason{Code: plan.HostPortConflict, Key: fmt.Sprintf("%d/%s", p.Port, p.Protocol),
						Subject: d.spec.Namespace + "/" + d.spec.Name, Want: "a free port", Have: "a DaemonSet's pod has it on every node"}
				}
			}
		}
	}
	if r := s.explainVolumes(c, pi); r != nil {
		return *r
	}
	if len(c.spec.Unsolved) > 0 {
		return plan.Reason{Code: plan.Unsupported, Have: c.spec.Unsolved[0]}
	}
	if c.unsolvable != "" {
		return plan.Reason{Code: plan.Unsupported, Have: c.unsolvable}
	}
	return s.explainOthers(c, pi)
}

// minValuesScattered says whether the types that minValues wants are never to be had together: a machine whose pods
// topology ties stands in one domain, and a claim has one capacity type and one set of the pool's own labels.
func (s *explainer) minValuesScattered(c *class, pi int, need minValues) *plan.Reason {
	masks := []*offerSet{c.filter.offers}
	if len(c.topology.keys) > 0 {
		masks = masks[:0]
		for _, at := range s.offerAssignments(c) {
			masks = append(masks, at.offers)
		}
	}
	lo, hi := s.poolOfferRange(pi)
	var lacking *plan.Reason
	for _, set := range masks {
		var tried []int
		for i := lo; i < hi; i++ {
			if !set.contains(i) || slices.ContainsFunc(tried, func(j int) bool { return s.areInterchangeable(i, j) }) {
				continue
			}
			tried = append(tried, i)
			s.steps += int64(hi - lo)
			var types []*model.InstanceType
			for j := lo; j < hi; j++ {
				if set.contains(j) && s.areInterchangeable(i, j) && fitsIn(&c.req, s.offers[j].allocatable, s.numDims) && !slices.Contains(types, s.offers[j].instanceType) {
					types = append(types, s.offers[j].instanceType)
				}
			}
			r := need.firstUnmet(types)
			if r == nil {
				return nil
			}
			lacking = &plan.Reason{Code: plan.MinValues, Key: r.Key, Want: fmt.Sprint(r.MinValues),
				Have: "fewer that hold the pod in one domain and capacity type"}
		}
	}
	return lacking
}

// explainOthers is the reason where a machine could be had for one pod alone: others, placed before, are in the way.
func (s *explainer) explainOthers(c *class, pi int) plan.Reason {
	for _, kind := range [...]ruleKind{ruleSharedVolume, ruleAffinity, ruleSpread, ruleAnti, ruleAntiOfOthers} {
		for _, rules := range [][]rule{c.topology.hostRules, c.topology.domainRules} {
			for i := range rules {
				if rules[i].kind == kind && rules[i].hard {
					return ruleReason(&rules[i])
				}
			}
		}
	}
	if s.limits[pi].limited {
		return plan.Reason{Code: plan.Limit, Have: "other pods took what the pool's limits left"}
	}
	var full *offer
	lo, hi := s.poolOfferRange(pi)
	s.steps += int64(hi - lo)
	for i := lo; i < hi; i++ {
		o := &s.offers[i]
		if !o.available || !c.offers.contains(i) || !fitsIn(&c.req, o.allocatable, s.numDims) {
			continue
		}
		if o.offering.Labels[model.LabelNodeGroup] == "" || o.offering.Most == 0 {
			full = nil
			break
		}
		if full == nil || o.price < full.price {
			full = o
		}
	}
	if full != nil {
		return *groupFull(full.offering)
	}
	return plan.Reason{Code: plan.OutOfCapacity, Want: "an offering with capacity", Have: "other pods took the last"}
}

// explainVolumes says which volume keeps the class away, nil if none does.
func (s *explainer) explainVolumes(c *class, pi int) *plan.Reason {
	if v := s.exclusiveVolumeInUse(c); v != nil {
		return &plan.Reason{Code: plan.VolumeExclusive, Key: v.Claim, Want: "the volume to itself", Have: "another pod uses it"}
	}
	if len(c.csiVolumes) == 0 {
		return nil
	}
	lo, hi := s.poolOfferRange(pi)
	for i := lo; i < hi; i++ {
		if o := &s.offers[i]; c.offers.contains(i) {
			driver, ok := volumesFit(c, nil, o.instanceType.CSILimits)
			if ok {
				return nil
			}
			return &plan.Reason{Code: plan.VolumeLimit, Subject: o.instanceType.Name, Key: driver, Want: fmt.Sprint(len(c.csiVolumes)),
				Have: fmt.Sprint(o.instanceType.CSILimits[driver])}
		}
	}
	return nil
}

// explainTopology names the first rule that refuses the class in every domain the pool could buy in; where domains
// differ, the one met in the first of them by name speaks, of those where a volume that the pods share will be made,
// if there is one.
func (s *explainer) explainTopology(c *class, pi int) *plan.Reason {
	var first *rule
	disk := false // where it is met the volume may be
	if len(c.topology.keys) > 0 {
		s.steps += int64(len(s.nodes.list))
		for _, at := range s.assignmentsOf(c) {
			if at.offers == nil || !s.setHasPool(at.offers, pi) {
				continue
			}
			n, r := s.podsDomainsAllow(c, at.labels)
			if n > 0 {
				first = nil
				break
			}
			if d := s.volumeMayBeIn(c, at.labels); first == nil || d && !disk {
				first, disk = r, d
			}
		}
	}
	if first == nil && c.topology.hostAffinity && !s.mayStartGroup(c) {
		for i := range c.topology.hostRules {
			if c.topology.hostRules[i].kind == ruleAffinity {
				first = &c.topology.hostRules[i]
			}
		}
	}
	if first == nil {
		return nil
	}
	r := ruleReason(first)
	return &r
}

// ruleReason is the reason that a rule stands for.
func ruleReason(r *rule) plan.Reason {
	switch r.kind {
	case ruleSpread:
		return plan.Reason{Code: plan.TopologySpread, Key: r.topologyKey, Want: fmt.Sprintf("skew at most %d", r.maxSkew), Have: "every domain would exceed it"}
	case ruleAffinity:
		return plan.Reason{Code: plan.PodAffinity, Key: r.topologyKey, Want: "a domain with a pod that the term selects", Have: "none with room"}
	case ruleSharedVolume:
		return plan.Reason{Code: plan.VolumeTopology, Key: r.topologyKey, Want: "the domain in which the volume will be made", Have: "none with room"}
	case ruleAnti:
		return plan.Reason{Code: plan.PodAntiAffinity, Key: r.topologyKey, Want: "a domain without a pod that the term selects", Have: "none with room"}
	}
	return plan.Reason{Code: plan.PodAntiAffinity, Key: r.topologyKey, Want: "a domain without a pod whose term selects this one", Have: "none with room"}
}
