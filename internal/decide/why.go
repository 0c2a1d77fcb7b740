// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Why says how an object stands now and what is in the way of what might become of it: of a machine for a pod, of giving a node back, of
// a pool's buying and giving back. The subject is pod/NAMESPACE/NAME, node/NAME or nodepool/NAME. It decides nothing and changes nothing.
func Why(s *model.Snapshot, mem Memory, now time.Time, pol Policy, subject string) (plan.Answer, error) {
	st := newStep(s, mem, now, pol)
	st.mem.units = nil // not to be shared with the next step
	st.gather()
	st.hold()
	st.remember(nil, nil)
	st.units()
	st.guard = disrupt.NewGuard(s.PDBs, now)
	a := plan.Answer{Subject: subject, At: now, Facts: []plan.Fact{}, Findings: []plan.Finding{}}
	kind, name, _ := strings.Cut(subject, "/")
	var ok bool
	switch kind {
	case "pod":
		ok = st.whyPod(&a, name)
	case "node":
		ok = st.whyNode(&a, name)
	case "nodepool":
		ok = st.whyPool(&a, name)
	default:
		return a, fmt.Errorf("subject %q: use pod/NAMESPACE/NAME, node/NAME or nodepool/NAME", subject)
	}
	if !ok {
		return a, fmt.Errorf("subject %q: the cluster has no such %s", subject, kind)
	}
	return a, nil
}

func fact(a *plan.Answer, name, value string) {
	a.Facts = append(a.Facts, plan.Fact{Name: name, Value: value})
}

func found(a *plan.Answer, of plan.Code, r plan.Reason, pod string) {
	a.Findings = append(a.Findings, plan.Finding{Of: of, Reason: r, Change: plan.Remedy(r, pod)})
}

func usd(micro int64) string { return "$" + strconv.FormatFloat(float64(micro)/1e6, 'f', 4, 64) }

func (st *step) whyPod(a *plan.Answer, key string) bool {
	for _, p := range st.s.Pending {
		if p.Key() != key {
			continue
		}
		fact(a, "state", "pending since "+p.Created.UTC().Format(time.RFC3339))
		for _, name := range sortedKeys(st.held) {
			if slices.ContainsFunc(st.held[name].pods, func(q *model.Pod) bool { return q.UID == p.UID }) {
				fact(a, "room is kept for it on", "nodeclaim/"+name)
			}
		}
		if was, ok := st.mem.onRoom[p.UID]; ok {
			fact(a, "expected on", "node/"+was.room)
		}
		if !st.cover[p.UID] && !st.wanted(p) {
			found(a, plan.Demand, leftAlone(p), "pod/"+key)
		}
		out := WhatIf(st.s, st.now, st.pol)
		for _, d := range out.Pods {
			if d.Pod.UID != p.UID {
				continue
			}
			if d.Target != "" {
				fact(a, "would go to", string(d.Outcome)+" "+d.Target)
			}
			if d.Outcome == plan.Refused {
				for _, r := range d.Reasons {
					found(a, plan.Demand, r, "pod/"+key)
				}
			}
		}
		return true
	}
	for _, n := range st.s.Nodes {
		for _, p := range n.Pods {
			if p.Key() != key {
				continue
			}
			fact(a, "state", "bound since "+p.Bound.UTC().Format(time.RFC3339))
			fact(a, "node", n.Name)
			if p.ReservedFor != "" {
				fact(a, "landed by the reservation of", "nodeclaim/"+p.ReservedFor)
			}
			if !p.Deleting.IsZero() {
				fact(a, "being deleted since", p.Deleting.UTC().Format(time.RFC3339))
			}
			for _, u := range st.unit {
				if u.Node != n {
					continue
				}
				for _, r := range st.guard.Blocks(u, plan.Underutilized, false) {
					if r.Subject == "pod/"+key {
						found(a, plan.Underutilized, r, "pod/"+key)
					}
				}
			}
			return true
		}
	}
	return false
}

func (st *step) whyNode(a *plan.Answer, name string) bool {
	i := slices.IndexFunc(st.s.Nodes, func(n *model.Node) bool { return n.Name == name })
	if i < 0 {
		return false
	}
	n := st.s.Nodes[i]
	c := st.index.claims[n.Claim]
	if !n.Deleting.IsZero() && c == nil {
		fact(a, "state", "being deleted since "+n.Deleting.UTC().Format(time.RFC3339))
		return true
	}
	if c == nil || st.index.pools[c.Pool] == nil {
		fact(a, "state", "not a machine of any NodePool: it is used, and never given back")
		return true
	}
	fact(a, "nodeclaim", c.Name)
	fact(a, "nodepool", c.Pool)
	fact(a, "machine", n.Labels[model.LabelInstanceType]+" "+n.Labels[model.LabelZone]+" "+n.Labels[model.LabelCapacityType])
	if !c.Deleting.IsZero() {
		fact(a, "state", "being given back since "+c.Deleting.UTC().Format(time.RFC3339))
		for _, p := range n.Pods {
			if held, _ := disrupt.Held(p, st.now); held {
				found(a, plan.Draining, plan.Reason{Code: plan.PodDoNotDisrupt, Pool: c.Pool, Subject: "pod/" + p.Key(), Key: disrupt.DoNotDisrupt, Want: "not set", Have: p.DoNotDisrupt}, "")
			}
		}
		return true
	}
	for _, u := range st.unit {
		if u.Node != n {
			continue
		}
		if u.PriceMicro >= 0 {
			fact(a, "price", usd(u.PriceMicro)+" an hour")
		}
		fact(a, "pods to move", strconv.Itoa(len(u.Pods)))
		if u.Move != "" {
			fact(a, "move under way", u.Move)
		}
		for _, cause := range st.causes(u) {
			st.whyUnit(a, u, cause)
		}
	}
	return true
}

// causes are what a machine might go for now.
func (st *step) causes(u *disrupt.Unit) []plan.Code {
	var out []plan.Code
	if u.Claim.Is(drifted) {
		out = append(out, plan.Drifted)
	}
	if u.Claim.ExpireAfter >= 0 && !st.now.Before(u.Claim.Created.Add(u.Claim.ExpireAfter)) {
		out = append(out, plan.Expired)
	}
	if !disrupt.Occupied(u.Node) {
		return append(out, plan.Empty)
	}
	return append(out, plan.Underutilized)
}

func (st *step) whyUnit(a *plan.Answer, u *disrupt.Unit, cause plan.Code) {
	blocks := st.guard.Blocks(u, cause, false)
	for _, r := range blocks {
		found(a, cause, r, "")
	}
	if left, why := st.left(u.Pool, cause); left <= 0 && st.count[u.Pool.Name].Total > 0 {
		found(a, cause, why, "")
	}
	if u.Claim.Is(lifecycle.Initialized) && cause == plan.Underutilized {
		if v := st.mem.consolidation.Verdict(u.Node.Name); v.Code != "" {
			found(a, cause, v, "")
		} else if len(blocks) == 0 {
			fact(a, "consolidation", "not examined since it changed")
		}
	}
	if s, ok := st.mem.shunned[u.Claim.UID]; ok && st.now.Before(s.until) {
		found(a, cause, plan.Reason{Code: plan.Aborted, Pool: u.Pool.Name, Subject: "node/" + u.Node.Name, Want: "past " + s.until.UTC().Format(time.RFC3339),
			Have: strconv.Itoa(s.times) + " moves taken back"}, "")
	}
}

func (st *step) whyPool(a *plan.Answer, name string) bool {
	p := st.index.pools[name]
	if p == nil {
		return false
	}
	machines, price := 0, int64(0)
	for _, u := range st.unit {
		if u.Pool == p {
			machines++
			price += max(u.PriceMicro, 0)
		}
	}
	fact(a, "machines", strconv.Itoa(machines))
	fact(a, "price", usd(price)+" an hour")
	fact(a, "consolidation", p.ConsolidationPolicy)
	if !p.Ready {
		found(a, plan.Demand, plan.Reason{Code: plan.PoolNotReady, Pool: name, Subject: "nodepool/" + name, Have: p.NotReady.Reason + ": " + p.NotReady.Message}, "")
	}
	if p.Deleting {
		fact(a, "state", "being deleted")
	}
	for _, b := range st.buyable() {
		if b.Name != name {
			continue
		}
		for d, has := range p.HasLimit {
			if has {
				left := b.Left.At(model.Dim(d))
				fact(a, "limit "+st.s.ResourceNames[d], "leaves "+model.FormatAmount(model.Dim(d), left)+" of "+model.FormatAmount(model.Dim(d), p.Limits.At(model.Dim(d))))
				if left <= 0 {
					found(a, plan.Demand, plan.Reason{Code: plan.Limit, Pool: name, Key: st.s.ResourceNames[d], Have: "0", Want: "any"}, "")
				}
			}
		}
		if b.NodesLeft == 0 {
			found(a, plan.Demand, plan.Reason{Code: plan.Limit, Pool: name, Key: "nodes", Have: "0", Want: "1"}, "")
		}
	}
	for _, cause := range []plan.Code{plan.Empty, plan.Underutilized, plan.Drifted} {
		left, why := st.left(p, cause)
		fact(a, "budget for "+string(cause), strconv.FormatInt(max(left, 0), 10)+" more of "+strconv.FormatInt(st.count[name].Total, 10))
		if left <= 0 && st.count[name].Total > 0 {
			found(a, cause, why, "")
		}
	}
	if p.ConsolidationPolicy != "WhenEmptyOrUnderutilized" && p.ConsolidationPolicy != "Balanced" {
		found(a, plan.Underutilized, plan.Reason{Code: plan.ConsolidationOff, Pool: name, Subject: "nodepool/" + name, Key: "spec.disruption.consolidationPolicy",
			Want: "WhenEmptyOrUnderutilized", Have: p.ConsolidationPolicy}, "")
	}
	return true
}
