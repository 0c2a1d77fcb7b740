// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// Estimate estimates the work of a problem from its classes, before any of it is done. A unit is about a microsecond on
// the machine where the weights were measured. The estimate depends only on the classes and on the rules of pods on
// nodes that apply to them. What classes have in common counts once. The zero value is an empty problem on nodes without
// such rules.
type Estimate struct {
	Standing StandingRules
	Solves   int64 // how many times the problem is solved: see CountSolves; 0: once

	keys    map[string]bool // label keys that rules on nodes look at
	domains map[string]bool // topology keys of spreads
	wide    map[string]bool // selectors without a label to look them up by, each held against every class
	rules   int64           // of all in wide
	classes int64
}

// CountSolves returns how many times a problem with these NodePools and pods is solved: once without preferences, plus
// once if it has node preferences, plus once if it has preferences about other pods.
func CountSolves(pools []*model.NodePool, demand []*model.Pod) int64 {
	p := Problem{Demand: demand}
	for _, x := range pools {
		p.Pools = append(p.Pools, Pool{NodePool: x})
	}
	n := int64(1)
	forNodes, aboutPods := pack.PreferencesOf(&p)
	if forNodes {
		n++
	}
	if aboutPods {
		n++
	}
	return n
}

// Add adds a class and returns the increase of the estimate.
func (e *Estimate) Add(c *model.Class) int64 { return max(1, e.Solves) * e.addOnce(c) }

// addOnce adds a class and returns by how much the work of one solve grows.
func (e *Estimate) addOnce(c *model.Class) int64 {
	if e.keys == nil {
		e.keys, e.domains, e.wide = map[string]bool{}, map[string]bool{model.LabelHostname: true, model.LabelZone: true}, map[string]bool{}
	}
	if c.Excess.What != "" {
		return classWork
	}
	e.classes++
	n := classWork + int64(len(c.Labels)+len(c.Tolerations))/cheapPartsAUnit + int64(len(c.HostPorts))*portWork + int64(len(c.Volumes))*volumeWork
	for i := range c.Terms {
		n += termWork + e.addRules(c.Terms[i].Requirements) + e.addRules(c.Terms[i].Standing)
	}
	for i := range c.Preferred {
		n += preferredWork + e.addRules(c.Preferred[i].Term.Requirements)
	}
	for d, v := range c.Requests {
		if model.Dim(d) >= model.FirstExtended && v != 0 {
			n += resourceWork
		}
	}
	for i := range c.Spread {
		n += spreadWork
		if key := c.Spread[i].TopologyKey; !e.domains[key] {
			e.domains[key] = true
			n += domainKeyWork
		}
		n += e.addWide(c.Namespace, c.Spread[i].Selector)
	}
	n += e.addPodTerms(c)
	return n + int64(len(e.wide))*widePairWork + e.rules/rulesPairedAUnit + e.Standing.work(c.Namespace)
}

// addRules adds rules on nodes.
func (e *Estimate) addRules(rs model.Requirements) (n int64) {
	for i := range rs {
		n += 1 + int64(len(rs[i].Values))/cheapPartsAUnit
		if !e.keys[rs[i].Key] {
			e.keys[rs[i].Key] = true
			n += keyWork
		}
	}
	return n
}

// addPodTerms adds affinity and anti-affinity.
func (e *Estimate) addPodTerms(c *model.Class) (n int64) {
	for i := range c.Affinity {
		n += affinityWork + e.addWide(c.Namespace, c.Affinity[i].Selector.Pods)
	}
	for _, x := range topology.AntiAffinitySelectors(c) {
		n += antiWork + e.addWide(c.Namespace, x.Pods)
	}
	for i := range c.AntiAffinity {
		if c.AntiAffinity[i].TopologyKey != model.LabelHostname {
			n += domainAntiWork
		}
	}
	for _, list := range [][]model.WeightedPodTerm{c.PreferredAffinity, c.PreferredAntiAffinity} {
		for i := range list {
			n += antiWork + e.addWide(c.Namespace, list[i].Term.Selector.Pods)
		}
	}
	return n
}

// addWide adds a pod selector. A selector that requires a label value is indexed by it; any other is compared with all
// classes, including earlier ones.
func (e *Estimate) addWide(namespace string, rs *model.Requirements) (n int64) {
	if rs == nil {
		return 0
	}
	n = int64(len(*rs)) / cheapPartsAUnit
	for i := range *rs {
		n += int64(len((*rs)[i].Values)) / cheapPartsAUnit
	}
	if findsByLabel(*rs) {
		return n
	}
	key := namespace + " " + rs.Key()
	if e.wide[key] {
		return n
	}
	e.wide[key] = true
	e.rules += int64(len(*rs))
	return n + e.classes*widePairWork + e.classes*int64(len(*rs))/rulesPairedAUnit
}
