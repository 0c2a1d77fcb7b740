// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// explainPool explains a NodePool by name. It returns false if the NodePool does not exist.
func (ex *explanation) explainPool(a *plan.Answer, name string) bool {
	p := ex.Pool(name)
	if p == nil {
		return false
	}
	var own []*disrupt.Candidate
	for _, u := range ex.Candidates() {
		if u.Pool == p {
			own = append(own, u)
		}
	}
	price, nodes, drained := int64(0), 0, 0
	for _, n := range ex.s.Nodes {
		c := ex.Claim(n.Claim)
		if c == nil || c.Pool != name {
			continue
		}
		switch {
		case !c.Deleting.IsZero() || !n.Deleting.IsZero():
			nodes++
			drained++
		case c.Is(lifecycle.Initialized):
			nodes++
		}
		if o := disrupt.NodeOffering(p, disrupt.MachineLabels(c, n)); o != nil {
			price += o.PriceMicro
		}
	}
	coming := 0
	for _, c := range ex.s.Claims {
		if c.Pool == name && c.Deleting.IsZero() && !c.Is(lifecycle.Initialized) {
			coming++
		}
	}
	addFact(a, "nodes", strconv.Itoa(nodes))
	if drained > 0 {
		addFact(a, "draining nodes", strconv.Itoa(drained))
	}
	if coming > 0 {
		addFact(a, "nodes starting", strconv.Itoa(coming))
	}
	addFact(a, "price", formatDollars(price)+"/h")
	if p.Replicas < 0 {
		addFact(a, "consolidation", p.ConsolidationPolicy)
	}
	if p.Deleting {
		addFact(a, "state", "being deleted")
	}
	probe := &model.Pod{Class: &model.Class{}}
	found := func(of plan.Code, r plan.Reason, until time.Time) {
		f := plan.Finding{Of: of, Reason: r, Until: until}
		if of == plan.Demand {
			if list := ex.podRemedies(probe, r); len(list) > 0 {
				f.Change = &list[0]
			}
		} else {
			f.Change = ex.nodeRemedy(&disrupt.Candidate{Pool: p}, r)
		}
		a.Findings = append(a.Findings, f)
	}
	if !p.Ready {
		found(plan.Demand, plan.Reason{Code: plan.PoolNotReady, Pool: name, Detail: plan.OfPoolNotReady{NodePool: name, Said: plan.Words(p.NotReady.Reason + ": " + p.NotReady.Message)}}, time.Time{})
	}
	ex.explainWithheld(found, name)
	if x, barred := ex.StaticBar(p); barred && p.Replicas >= 0 {
		a.Findings = append(a.Findings, plan.Finding{Of: plan.Demand, Reason: x.Why, Until: x.Until})
	}
	for _, b := range ex.Pools() {
		if b.Name == name {
			ex.explainLimits(a, b.NodePool, b.Left, b.NodesLeft, func(r plan.Reason) { found(plan.Demand, r, time.Time{}) })
			break // the others are parts of the same NodePool
		}
	}
	if p.Replicas >= 0 {
		ex.explainMissingReplicas(a, p, found)
	}
	ex.explainRefusedPods(a, name)
	causes := []plan.Code{plan.Empty, plan.Underutilized, plan.Drifted}
	if p.Replicas >= 0 {
		causes = causes[2:] // its nodes are never consolidated
	}
	for _, cause := range causes {
		left, why := ex.BudgetLeft(p, cause)
		addFact(a, "disruption budget for "+string(cause), strconv.FormatInt(max(left, 0), 10)+" more of "+strconv.FormatInt(ex.NodeCount(name).Total, 10)+" nodes may be disrupted now")
		if left <= 0 && ex.NodeCount(name).Total > 0 {
			found(cause, why, disrupt.BudgetOpensAt(p, ex.NodeCount(name), cause, ex.now))
		}
	}
	if p.Replicas < 0 && p.ConsolidationPolicy != "WhenEmptyOrUnderutilized" && p.ConsolidationPolicy != "Balanced" {
		found(plan.Underutilized, plan.Reason{Code: plan.ConsolidationOff, Pool: name, Subject: plan.ObjectOf("nodepool", name), Detail: plan.OfConsolidationOff{Policy: p.ConsolidationPolicy}}, time.Time{})
	}
	if len(own) > 0 && len(ex.s.Pools) > 1 {
		a.Alternatives = append(a.Alternatives, ex.costElsewhere(p, own))
	}
	return true
}

// explainWithheld reports which of the NodePool's plans were rejected: all of them for some time, or those for some
// pods.
func (ex *explanation) explainWithheld(found func(plan.Code, plan.Reason, time.Time), name string) {
	if x, ok := ex.PoolWithheld(name); ok {
		found(plan.Demand, x.Why, x.Until)
		return
	}
	for _, p := range ex.s.Pending { // one pod is an example for all: others have the same error, or are shown by why pod/…
		if x, ok := ex.PodWithheld(p); ok && x.Why.Pool == name {
			found(plan.Demand, x.Why, x.Until)
			return
		}
	}
}

// explainMissingReplicas adds the number of nodes of a static NodePool. If nodes are missing, it reports why the
// NodePool cannot launch more.
func (ex *explanation) explainMissingReplicas(a *plan.Answer, p *model.NodePool, found func(plan.Code, plan.Reason, time.Time)) {
	have := ex.CountReplicas(p)
	addFact(a, "replicas", "has "+strconv.FormatInt(have, 10)+" of "+strconv.FormatInt(p.Replicas, 10))
	if have >= p.Replicas {
		return
	}
	why := ex.StaticRefusal(p)
	told := slices.ContainsFunc(a.Findings, func(f plan.Finding) bool { return f.Of == plan.Demand && f.Reason.Code == why.Code })
	if why.Code != "" && !told {
		found(plan.Demand, why, ex.demandFinding(&model.Class{}, why).Until)
	}
}

// explainRefusedPods reports why the NodePool refuses pods that no other pool accepts, the reasons that affect most
// pods first.
func (ex *explanation) explainRefusedPods(a *plan.Answer, name string) {
	const most = 4 // reasons
	count, example := map[plan.Reason]int{}, map[plan.Reason]*model.Pod{}
	total := 0
	for _, d := range ex.answers().Decisions() {
		if d.Outcome != plan.Refused {
			continue
		}
		if ex.s.IsSuperseded(d.Pod) {
			continue // no change is needed for a pod that a rollout removes
		}
		for _, r := range d.Reasons {
			if r.Pool == name {
				if count[r]++; example[r] == nil {
					example[r] = d.Pod
				}
				total++
			}
		}
	}
	if total == 0 {
		return
	}
	addFact(a, "unschedulable pods", strconv.Itoa(total)+" in the cluster, which no other NodePool can take either")
	reasons := slices.SortedFunc(maps.Keys(count), func(x, y plan.Reason) int {
		return cmp.Or(cmp.Compare(count[y], count[x]), strings.Compare(x.String(), y.String()))
	})
	for _, r := range reasons[:min(most, len(reasons))] {
		at := slices.IndexFunc(a.Findings, func(f plan.Finding) bool {
			return f.Of == plan.Demand && f.Reason.Code == r.Code && (f.Reason.IsSameCheck(r) || r.Code == plan.PoolNotReady)
		})
		if at >= 0 && r.Code != plan.Limit {
			continue
		}
		way, change := ex.findPodWay(example[r], r)
		if way != nil && r.Code == plan.Limit {
			larger := ex.forAll(*way, example[r], ex.waitingLike(example[r]))
			if i := slices.IndexFunc(larger.Changes, func(ch plan.Change) bool { return ch.Object == change.Object && ch.Field == change.Field }); i >= 0 {
				change = &larger.Changes[i]
			}
			change = ex.untilGone(*change, r, example[r], ex.refusals)
		}
		if change != nil && change.Object != a.Subject {
			change = nil // it affects one pod: why pod/NAMESPACE/NAME shows it
		}
		switch {
		case at < 0:
			f := ex.demandFinding(example[r].Class, r)
			f.Pods, f.Change = count[r], change
			a.Findings = append(a.Findings, f)
		case change != nil && a.Findings[at].Change != nil && change.Field == a.Findings[at].Change.Field:
			a.Findings[at].Change = change
		}
	}
}

// refusals returns the reasons why the pending pods of a Snapshot are refused.
func (ex *explanation) refusals(s *model.Snapshot) (out []plan.Reason) {
	for _, d := range ex.WhatIf(s).Decisions() {
		if d.Outcome == plan.Refused {
			out = append(out, d.Reasons...)
		}
	}
	return out
}

// explainLimits adds the remaining amounts of a pool's limits, and reports limits within which no instance type fits.
func (ex *explanation) explainLimits(a *plan.Answer, p *model.NodePool, left model.Resources, nodes int64, found func(plan.Reason)) {
	var least *model.InstanceType // smallest of the types that the requirements allow
	for _, t := range allowedTypes(p) {
		if least == nil || t.Capacity.At(model.CPU) < least.Capacity.At(model.CPU) {
			least = t
		}
	}
	for d, has := range p.HasLimit {
		if !has {
			continue
		}
		dim := model.Dim(d)
		addFact(a, "limit "+ex.s.ResourceNames[d], "leaves "+model.ShortAmount(dim, left.At(dim), 1)+" of "+model.ShortAmount(dim, p.Limits.At(dim), 1))
		if least != nil && left.At(dim) < least.Capacity.At(dim) {
			found(plan.Reason{Code: plan.Limit, Pool: p.Name, Detail: plan.OfLimit{InstanceType: least.Name, Resource: plan.ResourceName(ex.s.ResourceNames[d]),
				Need: plan.Amount(least.Capacity.At(dim)), Left: plan.Amount(max(0, left.At(dim)))}})
		}
	}
	if p.NodeLimit >= 0 {
		addFact(a, "limit nodes", "leaves "+strconv.FormatInt(nodes, 10)+" of "+strconv.FormatInt(p.NodeLimit, 10))
		if nodes == 0 {
			found(plan.Reason{Code: plan.Limit, Pool: p.Name, Detail: plan.OfLimit{Resource: "nodes", Need: 1}})
		}
	}
}

// costElsewhere returns what the pods of a pool's machines would cost on machines of other pools.
func (ex *explanation) costElsewhere(p *model.NodePool, own []*disrupt.Candidate) plan.Alternative {
	alt := plan.Alternative{Kind: plan.Leave, Of: plan.Underutilized, Machines: []plan.Machine{}}
	in := ex.SearchInput()
	in.Candidates = own
	for i := range in.Pools {
		if in.Pools[i].Name == p.Name {
			in.Pools = slices.DeleteFunc(slices.Clone(in.Pools), func(x solve.Pool) bool { return x.Name == p.Name }) // all parts of it
			break
		}
	}
	for _, u := range own {
		alt.NowMicro += max(u.PriceMicro, 0)
		alt.Pods += len(u.Pods)
	}
	e := disrupt.Evaluate(in, own, ex.pol.Disrupt, ex.pol.Solve)
	if e.Command == nil {
		alt.Kind, alt.Why = plan.Replace, e.Why
		return alt
	}
	describeCommand(&alt, e.Command)
	alt.Why = e.Why
	return alt
}
