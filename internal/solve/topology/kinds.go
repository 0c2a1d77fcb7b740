// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package topology

import (
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// kind is what tells rules over counted pods apart: how a count is read, what it allows, and what is said of it. Placing,
// packing, bounds and reasons ask the table kinds. A further kind is a problem.RuleKind, one value here, and a function
// in ownRules that makes its rules. A nil function asks for nothing.
type kind struct {
	// allows returns how many more pods of the class may go to a domain with the given count; known is false for a node
	// without the key.
	allows func(s *Topology, c *problem.Class, r *problem.Rule, have, least int64, known bool) int64
	// unpriced returns the rule as plan.Cost.Unpriced has it; empty: the bound knows it.
	unpriced func(c *problem.Class, r *problem.Rule) string
	// reason returns what is said if the rule refuses every domain.
	reason func(r *problem.Rule) plan.Reason

	readsLeast      bool // the least count of any domain matters
	countsUncertain bool // pods in a domain that is not certain yet count in each
	ignoresOpen     bool // a node whose domain is not certain counts as empty, and not as holding all pods counted
	oneWhereOpen    bool // of pods that count themselves only one goes to such a node
}

// kinds are the kinds of rules, by problem.RuleKind.
var kinds = [...]kind{
	problem.RuleSpread: {allows: spreadAllows, readsLeast: true,
		unpriced: func(c *problem.Class, r *problem.Rule) string {
			if r.Hard {
				return "topology spread"
			}
			return ""
		},
		reason: func(r *problem.Rule) plan.Reason {
			d := plan.OfTopologySpread{TopologyKey: r.TopologyKey, MaxSkew: r.MaxSkew}
			if r.Key != problem.HostKey && r.MinDomains > len(r.Domains) {
				d.MinDomains, d.Domains = r.MinDomains, len(r.Domains)
			}
			return plan.Reason{Code: plan.TopologySpread, Detail: d}
		}},
	problem.RuleAffinity: {allows: affinityAllows,
		unpriced: func(c *problem.Class, r *problem.Rule) string {
			if r.Key != problem.HostKey || c.Group == nil { // else the group is one pod
				return unpricedAffinity
			}
			return ""
		},
		reason: func(r *problem.Rule) plan.Reason {
			return plan.Reason{Code: plan.PodAffinity, Detail: plan.OfPodAffinity{TopologyKey: r.TopologyKey, OfGang: r.OfGang}}
		}},
	problem.RuleAnti: {allows: antiAllows, countsUncertain: true, oneWhereOpen: true, unpriced: isUnpricedAffinity,
		reason: func(r *problem.Rule) plan.Reason {
			return plan.Reason{Code: plan.PodAntiAffinity, Detail: plan.OfPodAntiAffinity{TopologyKey: r.TopologyKey, OfDevices: r.OfDevices}}
		}},
	problem.RuleAntiOfOthers: {allows: antiOfOthersAllows, countsUncertain: true, unpriced: isUnpricedAffinity, reason: othersApart},
	problem.RulePreference:   {},
	problem.RuleSharedVolume: {allows: sharedVolumeAllows, ignoresOpen: true,
		reason: func(r *problem.Rule) plan.Reason {
			return plan.Reason{Code: plan.VolumeTopology, Detail: plan.OfVolumeTopology{Name: r.TopologyKey, ToCreate: true}}
		}},
	problem.RuleHostSpreadOfOthers: {allows: hostSpreadOfOthersAllows, reason: othersApart},
}

const unpricedAffinity = "pod affinity and anti-affinity"

func isUnpricedAffinity(*problem.Class, *problem.Rule) string { return unpricedAffinity }

// othersApart is the reason for a rule that other pods have against these.
func othersApart(r *problem.Rule) plan.Reason {
	return plan.Reason{Code: plan.PodAntiAffinity, Detail: plan.OfPodAntiAffinity{TopologyKey: r.TopologyKey, OfOthers: true, OfDevices: r.OfDevices}}
}

// kindsBySuspicion are the kinds in the order in which they are held to be what kept a pod away, where each alone would
// let it on a machine.
var kindsBySuspicion = [...]problem.RuleKind{problem.RuleSharedVolume, problem.RuleAffinity, problem.RuleSpread, problem.RuleAnti, problem.RuleAntiOfOthers}

// MostSuspicious returns the rule of a class that most probably excludes its pods because of pods placed before, nil if
// it has no rule that can refuse.
func MostSuspicious(c *problem.Class) *problem.Rule {
	for _, k := range kindsBySuspicion {
		for _, rules := range [][]problem.Rule{c.Topology.HostRules, c.Topology.DomainRules} {
			for i := range rules {
				if rules[i].Kind == k && rules[i].Hard {
					return &rules[i]
				}
			}
		}
	}
	return nil
}

// Unpriced returns the name of a rule in plan.Cost.Unpriced; empty: the bound takes it into account.
func Unpriced(c *problem.Class, r *problem.Rule) string {
	if f := kinds[r.Kind].unpriced; f != nil {
		return f(c, r)
	}
	return ""
}

// ReasonOf returns the reason for a refusal by a rule.
func ReasonOf(r *problem.Rule) plan.Reason { return kinds[r.Kind].reason(r) }

// PodsRuleAllows returns how many more pods of the class one rule allows in a domain with the given count. known is
// false for a node without the key.
func (s *Topology) PodsRuleAllows(c *problem.Class, r *problem.Rule, have, least int64, known bool) int64 {
	if f := kinds[r.Kind].allows; f != nil {
		return f(s, c, r, have, least, known)
	}
	return problem.Unlimited
}

func spreadAllows(_ *Topology, _ *problem.Class, r *problem.Rule, have, least int64, known bool) int64 {
	switch room := r.MaxSkew + least - have; {
	case !r.Hard:
		return problem.Unlimited
	case !known:
		return 0
	case r.SelectsOwnPods:
		return max(0, room)
	case room < 0:
		return 0
	}
	return problem.Unlimited
}

func affinityAllows(s *Topology, c *problem.Class, _ *problem.Rule, have, _ int64, known bool) int64 {
	if !known || have == 0 && !s.MayStartGroup(c) {
		return 0
	}
	return problem.Unlimited
}

func antiAllows(_ *Topology, _ *problem.Class, r *problem.Rule, have, _ int64, known bool) int64 {
	switch {
	case have > 0:
		return 0
	case r.SelectsOwnPods && known:
		return 1
	}
	return problem.Unlimited
}

func antiOfOthersAllows(_ *Topology, _ *problem.Class, _ *problem.Rule, have, _ int64, _ bool) int64 {
	if have > 0 {
		return 0
	}
	return problem.Unlimited
}

func sharedVolumeAllows(s *Topology, _ *problem.Class, r *problem.Rule, have, _ int64, _ bool) int64 {
	if have < s.Counters[r.Counter].Total {
		return 0
	}
	return problem.Unlimited
}

func hostSpreadOfOthersAllows(_ *Topology, _ *problem.Class, r *problem.Rule, have, _ int64, _ bool) int64 {
	return max(0, r.MaxSkew-have)
}
