// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package verify independently checks a plan, rule by rule and with simple code: every pod may run where the plan
// places it, no node or limit is exceeded, and every pod appears once.
//
// It shares no code with solve, so that a bug there is not repeated here. It never repairs a plan: it reports which
// part violates which rule, and that part is not carried out (contract 2). Where rules are ambiguous, it follows
// kube-scheduler.
//
// Start reading at Plan. Its checks are in verify.go, node.go (with admission.go), claims.go, totals.go, and
// topology.go (with topologyterms.go). Separate from it are BindingCheck in binding.go, which reports whether one pod
// may be bound to one node now, and Gangs and GangsApart in gangs.go, which also read the Snapshot.
package verify

import (
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Plan returns all violations, none if the plan may be carried out.
func Plan(in *Input) []Violation {
	c := &checker{in: in, nodes: map[string]*ExistingNode{}, pools: map[string]*Pool{}, offered: map[string]map[*model.InstanceType]bool{},
		variants: map[variantKey]*variant{}, verdicts: map[verdictKey]string{}}
	wanted := map[string]bool{}
	for _, a := range in.OnNodes {
		wanted[a.Node] = true
	}
	for i := range in.Nodes {
		if wanted[in.Nodes[i].Name] {
			c.nodes[in.Nodes[i].Name] = &in.Nodes[i]
		}
	}
	for i := range in.Pools {
		p := &in.Pools[i]
		c.pools[p.Name] = p
		if c.offered[p.Name] == nil { // several pools may be parts of one NodePool
			c.offered[p.Name] = map[*model.InstanceType]bool{}
		}
		for _, t := range p.Types {
			c.offered[p.Name][t] = true
		}
	}
	c.checkAnswers()
	for i := range in.OnNodes {
		c.checkPlacement(&in.OnNodes[i])
	}
	for i := range in.New {
		c.checkMachine(i, &in.New[i])
	}
	c.checkClaims()
	c.checkLimits()
	c.checkSharedLimits()
	c.checkLimitedOfferings()
	c.checkExclusiveVolumes()
	c.checkCost()
	c.checkTopology()
	return c.found
}

// checkAnswers checks that the pods answered are the pods of the demand, each once, and that a refusal has a reason.
func (c *checker) checkAnswers() {
	times := make(map[*model.Pod]int, len(c.in.Demand))
	for _, p := range c.in.Demand {
		times[p] = 0
	}
	answer := func(p *model.Pod, where Site) {
		if _, asked := times[p]; !asked {
			c.addViolation(Answer, p, where, "was not asked about")
		}
		times[p]++
	}
	for _, a := range c.in.OnNodes {
		for _, p := range a.Pods {
			answer(p, Site{Node: a.Node})
		}
	}
	for i, m := range c.in.New {
		for _, p := range m.Pods {
			answer(p, siteOf(i, &m))
		}
	}
	for _, r := range c.in.Refused {
		answer(r.Pod, Site{})
		if len(r.Reasons) == 0 {
			c.addViolation(Answer, r.Pod, Site{}, "refused without a reason")
		}
	}
	for _, p := range c.in.Demand {
		if times[p] != 1 {
			c.addViolation(Answer, p, Site{}, "answered %d times", times[p])
		}
	}
}
