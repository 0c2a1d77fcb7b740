// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"slices"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// explainPod explains a pod by namespace/name. It returns false if the pod does not exist.
func (ex *explanation) explainPod(a *plan.Answer, key string) bool {
	for _, p := range ex.s.Pending {
		if p.Key() == key {
			ex.explainPending(a, p)
			return true
		}
	}
	for _, n := range ex.s.Nodes {
		for _, p := range n.Pods {
			if p.Key() == key {
				ex.explainBound(a, n, p)
				return true
			}
		}
	}
	return false
}

// explainPending explains what a pending pod waits for, or why it is refused and what would help.
func (ex *explanation) explainPending(a *plan.Answer, p *model.Pod) {
	reasons := ex.explainWaiting(a, p)
	if len(reasons) == 0 {
		return
	}
	if old, is := ex.oldRevision(p); is {
		a.Findings = append(a.Findings, old)
		for _, r := range reasons {
			a.Findings = append(a.Findings, ex.demandFinding(p.Class, r))
		}
		return
	}
	if _, short := ex.CameShort(p); !short {
		reasons = ex.ownFirst(ex.s, p, reasons)
	}
	ex.addUnusableNodes(a, reasons)
	const most = 8 // pools for which a way is searched, nearest miss first
	alike := ex.waitingLike(p)
	for i, r := range reasons {
		f := ex.demandFinding(p.Class, r)
		if i < most {
			w, ch := ex.findPodWay(p, r)
			if f.Change = ch; w != nil {
				a.Ways = append(a.Ways, ex.forAll(*w, p, alike))
			}
		}
		a.Findings = append(a.Findings, f)
	}
}

// oldRevision returns the finding for a pod that the rollout of its Deployment removes. Changes of the Deployment's
// template do not affect such a pod.
func (ex *explanation) oldRevision(p *model.Pod) (plan.Finding, bool) {
	if !ex.s.IsSuperseded(p) || p.Deployment == "" {
		return plan.Finding{}, false
	}
	of := plan.OfOldRevision{Deployment: plan.ObjectOf("deployment", p.Namespace+"/"+p.Deployment), ReplicaSet: p.Namespace + "/" + p.Owner.Name}
	return plan.Finding{Of: plan.Demand, Reason: plan.Reason{Code: plan.OldRevision, Subject: of.Deployment, Detail: of}}, true
}

// ownFirst returns the reasons why a pending pod of a Snapshot would be refused if no other pod were pending. If there
// are none, it returns next. The capacity that other pods use differs from plan to plan.
func (ex *explanation) ownFirst(s *model.Snapshot, p *model.Pod, next []plan.Reason) []plan.Reason {
	only, q := onlyPod(s, p.UID, "")
	if alt, own := outcomeFor(ex.WhatIf(only), q); alt == nil {
		return own
	}
	return next
}

// addUnusableNodes adds the nodes on which no pod can run, but that count against the limits of NodePools that refuse a
// pod: up to three of each NodePool, and the number of the others.
func (ex *explanation) addUnusableNodes(a *plan.Answer, reasons []plan.Reason) {
	const most = 3
	done := map[string]bool{}
	for _, r := range reasons {
		if r.Code != plan.Limit || done[r.Pool] {
			continue
		}
		done[r.Pool] = true
		found, fact := 0, "counts against the limit of nodepool/"+r.Pool
		for _, c := range ex.s.Claims {
			n := ex.NodeOf(c)
			if n == nil || n.Ready || c.Pool != r.Pool {
				continue
			}
			if found++; found > most {
				continue
			}
			state := "which is not Ready"
			switch {
			case !c.Deleting.IsZero():
				state += " and has been terminating since " + c.Deleting.UTC().Format(time.RFC3339)
			case !c.Is(lifecycle.Initialized):
				state += " yet"
			}
			addFact(a, fact, "node/"+n.Name+", "+state)
			a.Related = append(a.Related, "node/"+n.Name)
		}
		if found > most {
			addFact(a, fact, "and "+strconv.Itoa(found-most)+" more nodes that are not Ready")
		}
	}
}

// demandFinding returns the finding for a reason why no node is launched for a pod. If a part of a plan is withheld,
// or capacity is missing, it includes the time of the next attempt.
func (ex *explanation) demandFinding(c *model.Class, r plan.Reason) plan.Finding {
	f := plan.Finding{Of: plan.Demand, Reason: r}
	if r.Code == plan.OutOfCapacity {
		f.Until = ex.capacityRetry(c, r.Pool)
	}
	if x, ok := ex.PoolWithheld(r.Pool); ok && r.Code == plan.PlanRefused {
		f.Until = x.Until
	}
	return f
}

// capacityRetry returns when the first of the offerings that lack capacity, and that a NodePool may launch for a class, is offered again. It is zero if
// that is unknown.
func (ex *explanation) capacityRetry(c *model.Class, pool string) (first time.Time) {
	p := ex.Pool(pool)
	if p == nil {
		return first
	}
	for _, t := range allowedTypes(p) {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if !o.LacksCapacity() || o.Until.IsZero() || !p.MayBuyOffering(o) || !c.Requests.Fits(t.Allocatable) || !allowsOffering(c, t, o) {
				continue
			}
			if first.IsZero() || o.Until.Before(first) {
				first = o.Until
			}
		}
	}
	return first
}

// allowsOffering reports whether the node affinity of a class allows the labels of an offering, as far as its type and zone determine them.
func allowsOffering(c *model.Class, t *model.InstanceType, o *model.Offering) bool {
	return len(c.Terms) == 0 || slices.ContainsFunc(c.Terms, func(term model.NodeTerm) bool {
		return term.Requirements.AllowOffering(o) && !slices.ContainsFunc(term.Requirements, func(q model.Requirement) bool {
			value, known := t.Labels[q.Key]
			return known && !q.Matches(value, true)
		})
	})
}

// explainWaiting explains what a pending pod waits for, according to the decisions of the next step. If the pod is
// refused, it returns the reasons, which it does not add to the answer.
func (ex *explanation) explainWaiting(a *plan.Answer, p *model.Pod) []plan.Reason {
	addFact(a, "state", "pending since "+p.Created.UTC().Format(time.RFC3339))
	slots := ex.SlotsOf(p)
	for _, slot := range slots {
		addFact(a, "reserved on", "nodeclaim/"+slot.Claim.Name)
		a.Related = append(a.Related, "nodeclaim/"+slot.Claim.Name)
		addFact(a, "bound by", ex.bindingParty(p, slot))
		ex.explainComing(a, slot.Claim)
		if n := ex.NodeOf(slot.Claim); n != nil && n.Ready {
			if v, lacksDriver := p.Class.UnusableVolume(n); lacksDriver {
				addFact(a, "waits for", "CSI driver "+v.Driver+" to be registered on node/"+n.Name)
			} else if v != nil {
				addFact(a, "waits for", "node/"+n.Name+" to get the labels that the volume of claim "+v.Claim+" requires, which its CSI driver sets")
			}
		}
	}
	if on := ex.ExpectedOn(p); on.Node != "" {
		addFact(a, "expected on", "node/"+on.Node)
		if !on.Ends.IsZero() {
			addFact(a, "waits for", "pods on node/"+on.Node+" that terminate by "+on.Ends.UTC().Format(time.RFC3339)+", before a new node would be ready")
		}
		if i := slices.IndexFunc(ex.s.Nodes, func(n *model.Node) bool { return n.Name == on.Node }); i >= 0 {
			ex.explainComing(a, ex.Claim(ex.s.Nodes[i].Claim))
		}
	}
	if x, ok := ex.PodWithheld(p); ok {
		a.Findings = append(a.Findings, plan.Finding{Of: plan.Demand, Reason: x.Why, Until: x.Until})
		return nil
	}
	alt, reasons := outcomeFor(ex.answers(), p)
	if x, over := ex.GivenUp(p); over {
		f := plan.Finding{Of: plan.Demand, Reason: x.Why, Until: x.Until}
		a.Findings = append(a.Findings, f)
		if then, _ := outcomeOf(ex.withoutMemory(), p); then != nil { // it is tried again at that time
			a.Ways = append(a.Ways, plan.Way{Of: plan.Demand, Changes: []plan.Change{}, After: f.Until, Then: *then})
		}
		return nil
	}
	if alt == nil && slices.ContainsFunc(reasons, func(r plan.Reason) bool { return r.Code == plan.UnusedLaunches }) {
		then, _ := outcomeOf(ex.withoutMemory(), p)
		switch {
		case ex.explainUnused(a, p, then):
			return nil
		case reasons[0].Code == plan.UnusedLaunches: // one node is tried at a time
			a.Findings = append(a.Findings, plan.Finding{Of: plan.Demand, Reason: reasons[0]})
			return nil
		}
	}
	if why, short := ex.CameShort(p); short {
		return []plan.Reason{why}
	}
	if alt != nil {
		a.Alternatives = append(a.Alternatives, *alt)
		if a.Step == nil {
			since := p.Unschedulable
			if since.IsZero() {
				since = p.Created
			}
			a.Step = &plan.Step{Of: plan.Demand, Since: since}
			switch {
			case alt.Kind == plan.Fit && !ex.ExpectedOn(p).Ends.IsZero():
				a.Step.Of = plan.PodsEnding
			case alt.Kind == plan.Fit:
				a.Step.Of = plan.Scheduling
			}
		}
	}
	return reasons
}

// explainUnused explains that unused launches prevent a launch for a pending pod, and reports whether that is so. The
// launch is tried when the back-off ends, or immediately after the cause is removed.
func (ex *explanation) explainUnused(a *plan.Answer, p *model.Pod, then *plan.Alternative) bool {
	if then == nil || then.Kind != plan.Buy && !ex.IsPassedOver(p) {
		return false
	}
	x, barred := ex.LaunchBar(p, then.Pool)
	if !barred {
		return false
	}
	f := plan.Finding{Of: plan.Demand, Reason: x.Why, Until: x.Until}
	if x.Cause.Code == plan.Taint {
		f.Change = &plan.Change{Object: "node/" + x.Node, Field: "spec.taints[" + plan.DetailOf[plan.OfTaint](x.Cause).String() + "]", Op: plan.Remove}
	}
	a.Findings = append(a.Findings, f)
	a.Ways = append(a.Ways, plan.Way{Of: plan.Demand, Changes: []plan.Change{}, After: f.Until, Then: *then})
	return true
}

// explainComing explains what a NodeClaim that a pod waits for is itself waiting for.
func (ex *explanation) explainComing(a *plan.Answer, c *model.Claim) {
	if c == nil || c.Is(lifecycle.Initialized) {
		return
	}
	for _, step := range []string{lifecycle.Launched, lifecycle.Registered, lifecycle.Initialized} {
		if cond := c.Conditions[step]; !cond.True() {
			addFact(a, "nodeclaim/"+c.Name, "not "+step+" yet"+withColon(cond.Message))
			break
		}
	}
	ex.addStage(a, c)
}

// withColon returns s after a colon, or an empty string if s is empty.
func withColon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// onlyPod returns the cluster with one pending pod, or the pods of its gang, and with only the given pool, if it is
// named.
func onlyPod(s *model.Snapshot, uid, pool string) (*model.Snapshot, *model.Pod) {
	out := *s
	i := slices.IndexFunc(s.Pending, func(p *model.Pod) bool { return p.UID == uid })
	out.Pending = s.Pending[i : i+1]
	if gang := s.Pending[i].Gang; gang.Least > 0 {
		out.Pending = slices.DeleteFunc(slices.Clone(s.Pending), func(p *model.Pod) bool { return p.Gang.Name != gang.Name })
	}
	if pool != "" {
		out.Pools = slices.DeleteFunc(slices.Clone(s.Pools), func(p *model.NodePool) bool { return p.Name != pool })
	}
	return &out, s.Pending[i]
}

// findPodWay searches for changes after which the pod is placed, starting with the reason of one pool. Each change
// makes one check pass. It also returns the first change.
func (ex *explanation) findPodWay(p *model.Pod, r plan.Reason) (*plan.Way, *plan.Change) {
	w := plan.Way{Of: plan.Demand, Pool: r.Pool}
	cur, asked := ex.s, r
	gone := func(first plan.Change) *plan.Change {
		return ex.untilGone(first, asked, p, func(s *model.Snapshot) []plan.Reason {
			_, against := outcomeFor(ex.WhatIf(s), p)
			return ex.ownFirst(s, p, against)
		})
	}
	taken := false // other pods use the capacity that the changes add
	const deep = 6
	for range deep {
		found := false
		x := &explanation{Standing: decide.Glance(cur, ex.now, ex.pol), s: cur, now: ex.now, pol: ex.pol}
		_, q := onlyPod(cur, p.UID, "")
		for _, ch := range x.podRemedies(q, r) {
			if slices.ContainsFunc(w.Changes, func(o plan.Change) bool { return o.Object == ch.Object && o.Field == ch.Field && o.Value == ch.Value }) {
				continue
			}
			next, err := Apply(cur, ch)
			if err != nil {
				continue
			}
			only, q := onlyPod(next, p.UID, r.Pool)
			alt, against := outcomeFor(ex.WhatIf(only), q)
			if alt == nil && (len(against) == 0 || sameCheck(against[0], r)) {
				continue
			}
			w.Changes, cur, found = append(w.Changes, ch), next, true
			if alt != nil {
				// The pod is placed if it is the only one. Is it also placed together with all others?
				first := w.Changes[0]
				_, against = outcomeFor(ex.WhatIf(cur), q)
				if len(against) == 0 {
					w.Then = *alt
					ex.leaveOutUnneeded(p, &w)
					return &w, &first
				}
				taken = true
				if larger, ok := ex.raiseLimits(w); ok {
					if out, err := ex.after(larger.Changes); err == nil {
						if alt, _ := outcomeFor(out, q); alt != nil {
							larger.Then = *alt
							return &larger, gone(first)
						}
					}
				}
			}
			r = against[max(0, slices.IndexFunc(against, func(o plan.Reason) bool { return o.Pool == r.Pool }))]
			break
		}
		if !found {
			break
		}
	}
	if len(w.Changes) == 0 {
		return nil, nil
	}
	if taken {
		return nil, gone(w.Changes[0])
	}
	return nil, &w.Changes[0]
}

// untilGone returns a change that removes a reason. The value is raised repeatedly if other pods use the added
// capacity. against returns the reasons why pods of a Snapshot are refused.
func (ex *explanation) untilGone(ch plan.Change, r plan.Reason, p *model.Pod, against func(*model.Snapshot) []plan.Reason) *plan.Change {
	const most = 8 // maximum number of raises
	for range most {
		next, err := Apply(ex.s, ch)
		if err != nil {
			break
		}
		reasons := against(next)
		left := slices.IndexFunc(reasons, func(o plan.Reason) bool { return o.Pool == r.Pool && o.IsSameCheck(r) })
		if left < 0 {
			break
		}
		x := &explanation{Standing: decide.Glance(next, ex.now, ex.pol), s: next, now: ex.now, pol: ex.pol}
		list := x.podRemedies(p, reasons[left])
		more := slices.IndexFunc(list, func(o plan.Change) bool { return o.Object == ch.Object && o.Field == ch.Field && o.Value != ch.Value })
		if more < 0 {
			break
		}
		ch = list[more]
	}
	return &ch
}

// leaveOutUnneeded removes the changes from a way without which the pod is still placed. A later change can make an
// earlier one unnecessary.
func (ex *explanation) leaveOutUnneeded(p *model.Pod, w *plan.Way) {
	for i := 0; i < len(w.Changes) && len(w.Changes) > 1; {
		rest := slices.Delete(slices.Clone(w.Changes), i, i+1)
		if out, err := ex.after(rest); err == nil {
			if alt, _ := outcomeFor(out, p); alt != nil {
				w.Changes, w.Then = rest, *alt
				continue
			}
		}
		i++
	}
}

// bindingParty returns who will bind a pod to the node of its slot, and when or why.
func (ex *explanation) bindingParty(p *model.Pod, slot decide.Slot) string {
	why := ex.BindRefusal(p)
	switch {
	case p.Binding != "":
		return "Dovetail, which is binding it to node/" + p.Binding
	case !slot.Claim.Reserved:
		return "kube-scheduler, because the node is not reserved (" + slot.Claim.NoReserve + ")"
	case why.Code == plan.BindingRefused:
		return "kube-scheduler, because the API server refused the binding by Dovetail"
	case why.Code != "":
		return "kube-scheduler, because of " + plan.DetailOf[plan.OfNotBindable](why).Field + " (" + why.Summary() + ")"
	case slot.Contest == landing.ByTolerant:
		return "kube-scheduler, because other pending pods tolerate the node's taints and may be scheduled on it"
	case slot.Contest == landing.ByUnseenBind:
		return "kube-scheduler, because it may have bound other pods to the node before the node was reserved"
	}
	return "Dovetail, as soon as the node is Ready"
}

// explainBound explains how a bound pod could leave its node, and what prevents that.
func (ex *explanation) explainBound(a *plan.Answer, n *model.Node, p *model.Pod) {
	state := "bound"
	if !p.Bound.IsZero() {
		state += " since " + p.Bound.UTC().Format(time.RFC3339)
	}
	addFact(a, "state", state)
	addFact(a, "node", n.Name)
	if p.ReservedFor != "" {
		addFact(a, "reserved by", "nodeclaim/"+p.ReservedFor)
	}
	if !p.Deleting.IsZero() {
		addFact(a, "grace period ends", p.Deleting.UTC().Format(time.RFC3339))
	}
	a.Related = append(a.Related, "node/"+n.Name)
	c := ex.Claim(n.Claim)
	if !p.Deleting.IsZero() && (c == nil || c.Deleting.IsZero()) {
		addTermination(a, p)
		return
	}
	if c != nil {
		if pool := ex.Pool(c.Pool); pool != nil {
			a.Findings = append(a.Findings, ex.podObstacles(disrupt.NewCandidate(c, n, pool, ex.Cutoff()), p)...)
			ex.addPodHolds(a, c, p)
		}
		if r, ok := ex.Rollout(p, ex.Pool(c.Pool)); ok {
			leaves := "after its replacement is Ready, by a rollout restart of deployment/" + p.Namespace + "/" + p.Deployment
			if r.Refused.Code != "" {
				leaves = "before its replacement is Ready: " + r.Refused.Summary() + " (" + plan.DetailOf[plan.OfNoSurge](r.Refused).Field + ")"
			}
			addFact(a, "eviction", leaves)
			a.Related = append(a.Related, "deployment/"+p.Namespace+"/"+p.Deployment)
		}
	}
	for _, u := range ex.Candidates() {
		if u.Node != n {
			continue
		}
		fs, alt := ex.listObstacles(u, plan.Underutilized)
		for _, f := range fs {
			if f.Reason.Subject == plan.ObjectOf("pod", p.Key()) && !slices.ContainsFunc(a.Findings, func(o plan.Finding) bool { return o.Reason.Code == f.Reason.Code }) {
				a.Findings = append(a.Findings, f)
			}
		}
		if alt != nil {
			a.Alternatives = append(a.Alternatives, *alt)
		}
	}
}

// addPodHolds adds what prevents the eviction of a pod from a node that is being drained, as determined by lifecycle.
func (ex *explanation) addPodHolds(a *plan.Answer, c *model.Claim, p *model.Pod) {
	if c.Deleting.IsZero() {
		return
	}
	a.Step = &plan.Step{Of: plan.Draining, Since: c.Deleting}
	switch {
	case p.Mirror, model.Tolerated(disrupt.DisruptedTaint, p.Class.Tolerations):
		addFact(a, "eviction", "none; it terminates with its node")
	case !p.Deleting.IsZero():
		a.Step = &plan.Step{Of: plan.PodTerminating, Since: p.Deleting}
	}
	for _, f := range ex.holdsOf(c) {
		if f.Reason.Subject == plan.ObjectOf("pod", p.Key()) {
			a.Findings = append(a.Findings, f)
		}
	}
}
