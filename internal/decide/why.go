// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"cmp"
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

// Why says how an object stands now, what is in the way of what might become of it, what the alternatives would cost, and what would
// have to change. The subject is pod/NAMESPACE/NAME, node/NAME or nodepool/NAME. It decides nothing and changes nothing: what it says of a
// change it knows from making it in thought (Apply) and looking again.
func Why(s *model.Snapshot, mem Memory, now time.Time, pol Policy, subject string) (plan.Answer, error) {
	st := newExplanation(s, mem, now, pol)
	a := plan.Answer{Subject: subject, At: now, Facts: []plan.Fact{}, Findings: []plan.Finding{}, Alternatives: []plan.Alternative{}, Ways: []plan.Way{}}
	kind, name, _ := strings.Cut(subject, "/")
	var ok bool
	switch kind {
	case "pod":
		ok = st.explainPod(&a, name)
	case "node":
		ok = st.explainNode(&a, name)
	case "nodepool":
		ok = st.explainPool(&a, name)
	default:
		return a, fmt.Errorf("subject %q: use pod/NAMESPACE/NAME, node/NAME or nodepool/NAME", subject)
	}
	if !ok {
		return a, &plan.NoSuchObject{Kind: kind, Subject: subject}
	}
	slices.SortStableFunc(a.Ways, func(x, y plan.Way) int {
		return cmp.Or(cmp.Compare(st.wayDistance(x), st.wayDistance(y)), cmp.Compare(x.Then.NewMicro, y.Then.NewMicro))
	})
	return a, nil
}

// newExplanation returns a step that only looks: how everything stands, with nothing decided.
func newExplanation(s *model.Snapshot, mem Memory, now time.Time, pol Policy) *explanation {
	st := read(s, mem, now, pol, Request{}, explaining)
	st.run(st.decisions(Request{}), explaining)
	return &explanation{st}
}

// wayDistance orders ways: fewer changes are nearer, and waiting is near for an hour.
func (ex *explanation) wayDistance(w plan.Way) int {
	n := 2 * len(w.Changes)
	if w.After.After(ex.now.Add(time.Hour)) {
		n += 7
	}
	return n
}

func addFact(a *plan.Answer, name, value string) {
	a.Facts = append(a.Facts, plan.Fact{Name: name, Value: value})
}

func formatDollars(micro int64) string {
	return "$" + strconv.FormatFloat(float64(micro)/1e6, 'f', 4, 64)
}

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

func (ex *explanation) explainPending(a *plan.Answer, p *model.Pod) {
	addFact(a, "state", "pending since "+p.Created.UTC().Format(time.RFC3339))
	for _, name := range sortedKeys(ex.reservations.byClaim) {
		if h := ex.reservations.byClaim[name]; slices.ContainsFunc(h.pods, func(q *model.Pod) bool { return q.UID == p.UID }) {
			addFact(a, "room is kept for it on", "nodeclaim/"+name)
			a.Related = append(a.Related, "nodeclaim/"+name)
			addFact(a, "bound by", ex.bindingParty(p, h))
			ex.explainComing(a, h.claim, h.node)
		}
	}
	if was, ok := ex.demand.mem.placements[p.UID]; ok {
		addFact(a, "expected on", "node/"+was.node)
		if i := slices.IndexFunc(ex.s.Nodes, func(n *model.Node) bool { return n.Name == was.node }); i >= 0 {
			ex.explainComing(a, ex.claimNamed(ex.s.Nodes[i].Claim), ex.s.Nodes[i])
		}
	}
	alt, reasons := ex.podOutcome(p)
	wrong := ex.disagreements.of(p)
	if given, over := ex.disagreements.refusal(p, wrong); over {
		f := plan.Finding{Of: plan.Demand, Reason: given, Until: wrong.since.Add(ex.pol.DisagreementRetry)}
		a.Findings = append(a.Findings, f)
		if alt != nil { // what is tried again then
			a.Ways = append(a.Ways, plan.Way{Of: plan.Demand, Changes: []plan.Change{}, After: f.Until, Then: *alt})
		}
		return
	}
	if m, ok := ex.shortfalls.podShortfallOf(p); ok && m.isFinal() {
		alt, reasons = nil, []plan.Reason{m.why}
	} else if len(reasons) > 0 {
		// What would be in its way though no other pod waited comes first: what others take is another story with every plan.
		only, q := onlyPod(ex.s, p.UID, "")
		if alt, own := (&explanation{newStep(only, Memory{}, ex.now, ex.pol)}).podOutcome(q); alt == nil {
			reasons = own
		}
	}
	if alt != nil {
		a.Alternatives = append(a.Alternatives, *alt)
	}
	const most = 8 // pools, nearest miss first, for which a way is looked for
	for i, r := range reasons {
		f := plan.Finding{Of: plan.Demand, Reason: r}
		if i < most {
			w, ch := ex.findPodWay(p, r)
			if f.Change = ch; w != nil {
				a.Ways = append(a.Ways, *w)
			}
		}
		a.Findings = append(a.Findings, f)
	}
}

// explainComing says what a machine that a pod waits for waits for itself.
func (ex *explanation) explainComing(a *plan.Answer, c *model.Claim, n *model.Node) {
	if c == nil || c.Is(lifecycle.Initialized) {
		return
	}
	for _, step := range []string{lifecycle.Launched, lifecycle.Registered, lifecycle.Initialized} {
		if cond := c.Conditions[step]; !cond.True() {
			addFact(a, "nodeclaim/"+c.Name, "not "+step+" yet"+withColon(cond.Message))
			break
		}
	}
	if n == nil {
		return
	}
	for _, t := range n.Taints {
		if isStartupTaint(c, t) {
			a.Findings = append(a.Findings, plan.Finding{Of: plan.Initializing,
				Reason: plan.Reason{Code: plan.StartupTaints, Pool: c.Pool, Subject: "node/" + n.Name, Key: t.Key, Want: "taken off by whoever it waits for", Have: t.Key + ":" + t.Effect},
				Change: &plan.Change{Object: "node/" + n.Name, Field: "spec.taints[" + t.Key + ":" + t.Effect + "]", Op: plan.Remove}})
		}
	}
}

func withColon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// podOutcome is where a pending pod would go now, or why nowhere.
func (ex *explanation) podOutcome(p *model.Pod) (*plan.Alternative, []plan.Reason) {
	out := WhatIf(ex.s, ex.now, ex.pol)
	for _, d := range out.Pods {
		if d.Pod.UID != p.UID {
			continue
		}
		if d.Outcome == plan.Refused || d.Outcome == plan.NotOurs {
			return nil, d.Reasons
		}
		alt := plan.Alternative{Kind: plan.Fit, Of: plan.Demand, On: d.Target, Pods: 1, Machines: []plan.Machine{}}
		if d.Outcome == plan.OnNew {
			alt.Kind, alt.On = plan.Buy, ""
		}
		for _, x := range out.Actions {
			if c, ok := x.(plan.CreateClaim); ok && d.Outcome == plan.OnNew && c.Name == d.Target {
				alt.Pool, alt.NewMicro, alt.Pods = c.Pool.Name, c.PriceMicro, len(c.Pods)
				alt.Machines = append(alt.Machines, plan.Machine{Pool: c.Pool.Name, Type: c.Type, Zone: c.Zone, CapacityType: c.CapacityType, PriceMicro: c.PriceMicro, Count: 1})
			}
		}
		return &alt, nil
	}
	return nil, nil
}

// onlyPod is the cluster with one pending pod and, where it is named, one pool.
func onlyPod(s *model.Snapshot, uid, pool string) (*model.Snapshot, *model.Pod) {
	out := *s
	i := slices.IndexFunc(s.Pending, func(p *model.Pod) bool { return p.UID == uid })
	out.Pending = s.Pending[i : i+1]
	if pool != "" {
		out.Pools = slices.DeleteFunc(slices.Clone(s.Pools), func(p *model.NodePool) bool { return p.Name != pool })
	}
	return &out, s.Pending[i]
}

// findPodWay looks for changes after which the pod has a place, beginning with what one pool has against it: one change a check, each of which
// makes its check pass. It also returns the first.
func (ex *explanation) findPodWay(p *model.Pod, r plan.Reason) (*plan.Way, *plan.Change) {
	w := plan.Way{Of: plan.Demand, Pool: r.Pool}
	cur := ex.s
	const deep = 6
	for range deep {
		found := false
		x := &explanation{newStep(cur, Memory{}, ex.now, ex.pol)}
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
			alt, against := (&explanation{newStep(only, Memory{}, ex.now, ex.pol)}).podOutcome(q)
			if alt == nil && (len(against) == 0 || sameCheck(against[0], r)) {
				continue
			}
			w.Changes, cur, found = append(w.Changes, ch), next, true
			if alt != nil {
				// Alone it has a place; with all the others too?
				_, against = (&explanation{newStep(cur, Memory{}, ex.now, ex.pol)}).podOutcome(q)
				if len(against) == 0 {
					w.Then = *alt
					return &w, &w.Changes[0]
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
	return nil, &w.Changes[0]
}

// sameCheck says whether a reason is still there.
func sameCheck(a, b plan.Reason) bool {
	return a.Code == b.Code && a.Key == b.Key && a.Pool == b.Pool && a.Want == b.Want && a.Have == b.Have
}

// bindingParty is who will bind a pod to the node of its slot, and when or why.
func (ex *explanation) bindingParty(p *model.Pod, h *reservation) string {
	why := ex.reservations.bindRefusal(p)
	switch {
	case p.Binding != "":
		return "Dovetail, which is binding it to node/" + p.Binding
	case !h.claim.Reserved:
		return "kube-scheduler, because the node is not reserved (" + h.claim.NoReserve + ")"
	case why.Code == plan.BindingRefused:
		return "kube-scheduler, because the API server refused to let Dovetail"
	case why.Code != "":
		return "kube-scheduler, because of " + why.Key + " (" + why.Have + ")"
	case h.isContested(ex.reservations.unreservedTolerantClasses(true)):
		return "kube-scheduler, because pods that tolerate every taint may come to the node"
	}
	return "Dovetail, as soon as the node is Ready"
}

func (ex *explanation) explainBound(a *plan.Answer, n *model.Node, p *model.Pod) {
	addFact(a, "state", "bound since "+p.Bound.UTC().Format(time.RFC3339))
	addFact(a, "node", n.Name)
	if p.ReservedFor != "" {
		addFact(a, "landed by the reservation of", "nodeclaim/"+p.ReservedFor)
	}
	if !p.Deleting.IsZero() {
		addFact(a, "being deleted since", p.Deleting.UTC().Format(time.RFC3339))
	}
	a.Related = append(a.Related, "node/"+n.Name)
	if c := ex.claimNamed(n.Claim); c != nil {
		if r, ok := ex.rollouts.rolloutFor(p, ex.poolByName[c.Pool]); ok {
			leaves := "after its successor has come, by a restart of deployment/" + p.Namespace + "/" + p.Deployment
			if r.Refused.Code != "" {
				leaves = "by eviction, though its successor should come first: " + r.Refused.Have + " (" + r.Refused.Key + ")"
			}
			addFact(a, "leaves", leaves)
			a.Related = append(a.Related, "deployment/"+p.Namespace+"/"+p.Deployment)
		}
	}
	for _, u := range ex.candidates.all {
		if u.Node != n {
			continue
		}
		fs, alt := ex.listObstacles(u, plan.Underutilized)
		for _, f := range fs {
			if f.Reason.Subject == "pod/"+p.Key() {
				a.Findings = append(a.Findings, f)
			}
		}
		if alt != nil {
			a.Alternatives = append(a.Alternatives, *alt)
		}
	}
}

func (ex *explanation) explainNode(a *plan.Answer, name string) bool {
	i := slices.IndexFunc(ex.s.Nodes, func(n *model.Node) bool { return n.Name == name })
	if i < 0 {
		return false
	}
	n := ex.s.Nodes[i]
	c := ex.claimNamed(n.Claim)
	if !n.Deleting.IsZero() && c == nil {
		addFact(a, "state", "being deleted since "+n.Deleting.UTC().Format(time.RFC3339))
		return true
	}
	if c == nil || ex.poolByName[c.Pool] == nil {
		addFact(a, "state", "not a machine of any NodePool: it is used, and never given back")
		return true
	}
	a.Related = append(a.Related, "nodeclaim/"+c.Name)
	addFact(a, "nodeclaim", c.Name)
	addFact(a, "nodepool", c.Pool)
	addFact(a, "machine", n.Labels[model.LabelInstanceType]+" "+n.Labels[model.LabelZone]+" "+n.Labels[model.LabelCapacityType])
	if !c.Deleting.IsZero() {
		ex.explainDraining(a, c, n)
		return true
	}
	u := ex.candidates.onNode(name)
	if u == nil {
		return true
	}
	if u.PriceMicro >= 0 {
		addFact(a, "price", formatDollars(u.PriceMicro)+" an hour")
	}
	addFact(a, "pods to move", strconv.Itoa(len(u.Pods)))
	if u.CommandID != "" {
		addFact(a, "move under way", u.CommandID)
	}
	if x := ex.interruptions.byClaim[c.Name]; x != nil {
		addFact(a, "its cloud takes it away", x.notice.Kind+", at "+x.deadline.UTC().Format(time.RFC3339))
	}
	if s, ok := ex.health.byClaim[c.Name]; ok && ex.now.Before(s.due) {
		addFact(a, "ill", s.cause.Key+" is "+s.cause.Have+"; it counts as broken from "+s.due.UTC().Format(time.RFC3339))
	}
	for _, cause := range ex.disruptionCauses(u) {
		fs, alt := ex.listObstacles(u, cause)
		a.Findings = append(a.Findings, fs...)
		if alt != nil {
			a.Alternatives = append(a.Alternatives, *alt)
		}
		a.Ways = append(a.Ways, ex.nodeWays(name, cause, fs)...)
	}
	return true
}

// explainDraining says what holds a drain up.
func (ex *explanation) explainDraining(a *plan.Answer, c *model.Claim, n *model.Node) {
	addFact(a, "state", "being given back since "+c.Deleting.UTC().Format(time.RFC3339))
	u := disrupt.NewCandidate(c, n, ex.poolByName[c.Pool])
	end, forced := lifecycle.Deadline(c)
	if forced {
		addFact(a, "pods are ended by force", end.UTC().Format(time.RFC3339))
	}
	for _, p := range n.Pods {
		for _, r := range ex.candidates.guard.PodBlockers(p, plan.Draining) {
			r.Pool = c.Pool
			f := plan.Finding{Of: plan.Draining, Reason: r, Change: ex.nodeRemedy(u, r), Until: end}
			if _, until := p.Held(ex.now); r.Code == plan.PodDoNotDisrupt && !until.IsZero() && (end.IsZero() || until.Before(end)) {
				f.Until = until
			}
			a.Findings = append(a.Findings, f)
		}
	}
}

func (ca *candidates) onNode(node string) *disrupt.Candidate {
	i := slices.IndexFunc(ca.all, func(u *disrupt.Candidate) bool { return u.Node.Name == node })
	if i < 0 {
		return nil
	}
	return ca.all[i]
}

// disruptionCauses are what a machine might go for now.
func (ex *explanation) disruptionCauses(u *disrupt.Candidate) []plan.Code {
	var out []plan.Code
	if _, bad := ex.health.brokenNode(u.Claim); bad {
		out = append(out, plan.Unhealthy)
	}
	if u.Claim.Is(conditionDrifted) {
		out = append(out, plan.Drifted)
	}
	if lifecycle.IsExpired(u.Claim, ex.now) {
		out = append(out, plan.Expired)
	}
	if !disrupt.HasWorkloadPods(u.Node) {
		return append(out, plan.Empty)
	}
	return append(out, plan.Underutilized)
}

// listObstacles are what keeps a machine from going for a cause now, and what its going would come to.
func (ex *explanation) listObstacles(u *disrupt.Candidate, cause plan.Code) ([]plan.Finding, *plan.Alternative) {
	var out []plan.Finding
	found := func(r plan.Reason, until time.Time) {
		out = append(out, plan.Finding{Of: cause, Reason: r, Change: ex.nodeRemedy(u, r), Until: until})
	}
	for _, r := range ex.candidates.guard.Blockers(u, cause, false) {
		if r.Code == plan.NotInitialized {
			r.Have = u.Claim.Conditions[lifecycle.Initialized].Message
		}
		found(r, ex.obstacleEnd(u, r))
	}
	if cause == plan.Unhealthy {
		if why, ok := ex.health.isRepairAllowed(u.Pool.Name); !ok {
			found(why, time.Time{})
		}
	}
	if left, why := ex.candidates.budgetLeftFor(u, cause); left <= 0 && ex.candidates.budgetCounts[u.Pool.Name].Total > 0 {
		found(why, disrupt.BudgetOpensAt(u.Pool, ex.candidates.budgetCounts[u.Pool.Name], cause, ex.now))
		if ch := out[len(out)-1].Change; ch != nil { // its own being down does not count against it
			plain, _ := ex.candidates.budgetLeft(u.Pool, cause)
			ch.Value = strconv.FormatInt(ex.candidates.budgetCounts[u.Pool.Name].Unavailable+1-(left-plain), 10)
		}
	}
	if s, ok := ex.commands.mem.backOffs[u.Claim.UID]; ok && ex.now.Before(s.until) {
		found(plan.Reason{Code: plan.Aborted, Pool: u.Pool.Name, Subject: "node/" + u.Node.Name, Want: "past " + s.until.UTC().Format(time.RFC3339),
			Have: strconv.Itoa(s.times) + " moves taken back"}, s.until)
	}
	if !u.Initialized || cause == plan.Underutilized && u.PriceMicro < 0 {
		return out, nil
	}
	alt, f := ex.examineCandidate(u, cause)
	if f != nil {
		out = append(out, *f)
	}
	return out, alt
}

// obstacleEnd is when time alone takes an obstacle away; zero: it does not.
func (ex *explanation) obstacleEnd(u *disrupt.Candidate, r plan.Reason) time.Time {
	switch r.Code {
	case plan.Quiet:
		if u.Pool.ConsolidateAfter >= 0 {
			return u.UnchangedSince.Add(u.Pool.ConsolidateAfter)
		}
	case plan.Payback, plan.PodDoNotDisrupt:
		if t, err := time.Parse(time.RFC3339, strings.TrimPrefix(r.Want, "past ")); err == nil {
			return t
		}
	}
	return time.Time{}
}

// examineCandidate is what a machine's going would come to, and what makes that not worth it.
func (ex *explanation) examineCandidate(u *disrupt.Candidate, cause plan.Code) (*plan.Alternative, *plan.Finding) {
	alt := &plan.Alternative{Kind: plan.Leave, Of: cause, Pods: len(u.Pods), NowMicro: max(u.PriceMicro, 0), Machines: []plan.Machine{}}
	if len(u.Pods) == 0 {
		return alt, nil
	}
	in := ex.search.input(true)
	for _, o := range ex.candidates.all {
		if o == u || len(o.Pods) > 0 && len(ex.candidates.guard.Blockers(o, plan.Underutilized, true)) == 0 {
			in.Candidates = append(in.Candidates, o)
		}
	}
	free := *u
	free.CommandID = ""
	e := disrupt.Evaluate(in, []*disrupt.Candidate{&free}, ex.pol.Disrupt, ex.pol.Solve)
	f := &plan.Finding{Of: cause, Reason: e.Why}
	f.Reason.Pool, f.Reason.Subject = u.Pool.Name, cmp.Or(f.Reason.Subject, "node/"+u.Node.Name)
	if e.Command == nil {
		ex.placementRemedy(u, e, f)
		alt.Kind, alt.Why = plan.Replace, f.Reason
		return alt, f
	}
	describeCommand(alt, e.Command)
	if cause != plan.Underutilized {
		return alt, nil // it must go, whatever that costs
	}
	alt.Why = f.Reason
	switch {
	case e.Why.Code == plan.NotBalanced:
		f.Change = ex.nodeRemedy(u, f.Reason)
	case e.Why.Code == plan.NotKept: // no price helps
	case e.Why.Code != "":
		f.Change = ex.priceRemedy(in, &free, e)
	default:
		alt.Why = plan.Reason{}
		return alt, nil
	}
	return alt, f
}

// describeCommand fills in what a move comes to.
func describeCommand(alt *plan.Alternative, m *disrupt.Command) {
	alt.Standing, alt.NowMicro, alt.NewMicro, alt.OnceMicro = m.PodsOnExisting, m.OldMicroPerHour, m.NewMicroPerHour, m.CostMicro
	for i := range m.Replacements {
		n := &m.Replacements[i]
		x := plan.Machine{Pool: n.Pool, Type: n.Type.Name, Zone: n.Offering.Zone, CapacityType: n.Offering.CapacityType, PriceMicro: n.PriceMicro}
		at := slices.IndexFunc(alt.Machines, func(y plan.Machine) bool { return y.Pool == x.Pool && y.Offering() == x.Offering() })
		if at < 0 {
			alt.Machines, at = append(alt.Machines, x), len(alt.Machines)
		}
		alt.Machines[at].Count++
		alt.Kind = plan.Replace
	}
	if len(alt.Machines) > 0 {
		alt.Pool = alt.Machines[0].Pool
	}
}

// placementRemedy is the edit after which a pool has not that against a pod any more for which it gets no home now; of the pools, the first by
// nearness for which there is one speaks.
func (ex *explanation) placementRemedy(u *disrupt.Candidate, e disrupt.Evaluation, f *plan.Finding) {
	if e.Refused.Pod == nil {
		return
	}
	speak := func(r plan.Reason) {
		f.Reason.Pool, f.Reason.Key, f.Reason.Want, f.Reason.Have = r.Pool, strings.TrimSpace(string(r.Code)+" "+r.Key), r.Want, r.Have
	}
	for i, r := range e.Refused.Reasons {
		if i == 0 {
			speak(r)
		}
		for _, ch := range ex.podRemedies(e.Refused.Pod, r) {
			next, err := Apply(ex.s, ch)
			if err != nil {
				continue
			}
			x := newExplanation(next, ex.mem, ex.now, ex.pol)
			v := x.candidates.onNode(u.Node.Name)
			if v == nil {
				continue
			}
			in := x.search.input(true)
			in.Candidates = []*disrupt.Candidate{v}
			again := disrupt.Evaluate(in, in.Candidates, ex.pol.Disrupt, ex.pol.Solve)
			if again.Command != nil || again.Refused.Pod.UID != e.Refused.Pod.UID || !slices.ContainsFunc(again.Refused.Reasons, func(o plan.Reason) bool { return sameCheck(o, r) }) {
				speak(r)
				f.Change = &ch
				return
			}
		}
	}
}

// priceRemedy is the price at which what would be bought is cheap enough. What the machine is itself can't be it: its own price would fall
// too.
func (ex *explanation) priceRemedy(in *disrupt.Input, u *disrupt.Candidate, e disrupt.Evaluation) *plan.Change {
	own := plan.Machine{Type: u.Node.Labels[model.LabelInstanceType], Zone: u.Node.Labels[model.LabelZone], CapacityType: u.Node.Labels[model.LabelCapacityType]}
	var alt plan.Alternative
	describeCommand(&alt, e.Command)
	if slices.ContainsFunc(alt.Machines, func(m plan.Machine) bool { return m.Offering() == own.Offering() }) {
		other := *in
		other.Pools = slices.Clone(in.Pools)
		for i := range other.Pools {
			p := *other.Pools[i].NodePool
			p.Types = slices.Clone(p.Types)
			for j, t := range p.Types {
				if t.Name == own.Type {
					x := *t
					x.Offerings = slices.DeleteFunc(slices.Clone(t.Offerings), func(o model.Offering) bool { return o.Zone == own.Zone && o.CapacityType == own.CapacityType })
					p.Types[j] = &x
				}
			}
			other.Pools[i].NodePool = &p
		}
		if e = disrupt.Evaluate(&other, []*disrupt.Candidate{u}, ex.pol.Disrupt, ex.pol.Solve); e.Command == nil {
			return nil
		}
		alt = plan.Alternative{}
		describeCommand(&alt, e.Command)
	}
	if e.MaxNewMicroPerHour < 0 || len(alt.Machines) == 0 {
		return nil
	}
	most := slices.MaxFunc(alt.Machines, func(a, b plan.Machine) int {
		return cmp.Compare(a.PriceMicro*int64(a.Count), b.PriceMicro*int64(b.Count))
	})
	n := int64(most.Count)
	price := most.PriceMicro - (e.Command.NewMicroPerHour-e.MaxNewMicroPerHour+n-1)/n
	if price < 0 {
		return nil
	}
	return &plan.Change{Object: most.Offering(), Field: "price", Op: plan.Set, Value: formatUSD(price)}
}

// nodeWays are the ways a machine could go: by waiting, where every obstacle ends by itself, and by changes now.
func (ex *explanation) nodeWays(name string, cause plan.Code, fs []plan.Finding) []plan.Way {
	var out []plan.Way
	if len(fs) > 0 && !slices.ContainsFunc(fs, func(f plan.Finding) bool { return f.Until.IsZero() }) {
		after := time.Time{}
		for _, f := range fs {
			after = laterOf(after, f.Until)
		}
		x := newExplanation(ex.s, ex.mem, after, ex.pol)
		if u := x.candidates.onNode(name); u != nil {
			if left, alt := x.listObstacles(u, cause); len(left) == 0 && alt != nil {
				out = append(out, plan.Way{Of: cause, Pool: u.Pool.Name, Changes: []plan.Change{}, After: after, Then: *alt})
			}
		}
	}
	w := plan.Way{Of: cause, Changes: []plan.Change{}}
	x := ex
	const deep = 8
	for range deep {
		u := x.candidates.onNode(name)
		if u == nil {
			return out
		}
		left, alt := x.listObstacles(u, cause)
		if len(left) == 0 {
			if alt != nil && (len(w.Changes) > 0 || len(out) == 0) {
				w.Pool, w.Then = u.Pool.Name, *alt
				out = append(out, w)
			}
			return out
		}
		next, helped := x.s, false
		for _, f := range left {
			helped = helped || f.Change != nil || !f.Until.IsZero()
			switch {
			case f.Change != nil:
				y, err := Apply(next, *f.Change)
				if err != nil {
					return out
				}
				if !slices.Contains(w.Changes, *f.Change) {
					w.Changes = append(w.Changes, *f.Change)
				}
				next = y
			case !f.Until.IsZero():
				w.After = laterOf(w.After, f.Until)
			case f.Reason.Code == plan.NotInitialized && len(w.Changes) > 0: // that comes by itself now
				return append(out, plan.Way{Of: cause, Pool: u.Pool.Name, Changes: w.Changes, Then: plan.Alternative{Kind: plan.Usable, Of: plan.Initializing, On: "node/" + name, Machines: []plan.Machine{}}})
			}
		}
		if !helped {
			return out // nothing known does
		}
		x = newExplanation(next, ex.mem, laterOf(ex.now, w.After), ex.pol)
	}
	return out
}

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (ex *explanation) explainPool(a *plan.Answer, name string) bool {
	p := ex.poolByName[name]
	if p == nil {
		return false
	}
	var own []*disrupt.Candidate
	price := int64(0)
	for _, u := range ex.candidates.all {
		if u.Pool == p {
			own = append(own, u)
			price += max(u.PriceMicro, 0)
		}
	}
	addFact(a, "machines", strconv.Itoa(len(own)))
	addFact(a, "price", formatDollars(price)+" an hour")
	addFact(a, "consolidation", p.ConsolidationPolicy)
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
		found(plan.Demand, plan.Reason{Code: plan.PoolNotReady, Pool: name, Subject: "nodepool/" + name, Have: p.NotReady.Reason + ": " + p.NotReady.Message}, time.Time{})
	}
	for _, b := range ex.purchases.pools() {
		if b.Name == name {
			ex.explainLimits(a, b.NodePool, b.Left, b.NodesLeft, func(r plan.Reason) { found(plan.Demand, r, time.Time{}) })
		}
	}
	for _, cause := range []plan.Code{plan.Empty, plan.Underutilized, plan.Drifted} {
		left, why := ex.candidates.budgetLeft(p, cause)
		addFact(a, "budget for "+string(cause), strconv.FormatInt(max(left, 0), 10)+" more of "+strconv.FormatInt(ex.candidates.budgetCounts[name].Total, 10))
		if left <= 0 && ex.candidates.budgetCounts[name].Total > 0 {
			found(cause, why, disrupt.BudgetOpensAt(p, ex.candidates.budgetCounts[name], cause, ex.now))
		}
	}
	if p.ConsolidationPolicy != "WhenEmptyOrUnderutilized" && p.ConsolidationPolicy != "Balanced" {
		found(plan.Underutilized, plan.Reason{Code: plan.ConsolidationOff, Pool: name, Subject: "nodepool/" + name, Key: "spec.disruption.consolidationPolicy",
			Want: "WhenEmptyOrUnderutilized", Have: p.ConsolidationPolicy}, time.Time{})
	}
	if len(own) > 0 {
		a.Alternatives = append(a.Alternatives, ex.costElsewhere(p, own))
	}
	return true
}

func (ex *explanation) explainLimits(a *plan.Answer, p *model.NodePool, left model.Resources, nodes int64, found func(plan.Reason)) {
	var least *model.InstanceType // of all that could be bought
	for _, t := range p.Types {
		if least == nil || t.Capacity.At(model.CPU) < least.Capacity.At(model.CPU) {
			least = t
		}
	}
	for d, has := range p.HasLimit {
		if !has {
			continue
		}
		dim := model.Dim(d)
		addFact(a, "limit "+ex.s.ResourceNames[d], "leaves "+model.FormatAmount(dim, left.At(dim))+" of "+model.FormatAmount(dim, p.Limits.At(dim)))
		if least != nil && left.At(dim) < least.Capacity.At(dim) {
			found(plan.Reason{Code: plan.Limit, Pool: p.Name, Subject: least.Name, Key: ex.s.ResourceNames[d], Have: model.FormatAmount(dim, max(0, left.At(dim))), Want: model.FormatAmount(dim, least.Capacity.At(dim))})
		}
	}
	if p.NodeLimit >= 0 {
		addFact(a, "limit nodes", "leaves "+strconv.FormatInt(nodes, 10)+" of "+strconv.FormatInt(p.NodeLimit, 10))
		if nodes == 0 {
			found(plan.Reason{Code: plan.Limit, Pool: p.Name, Key: "nodes", Have: "0", Want: "1"})
		}
	}
}

// costElsewhere is what the pods of a pool's machines would cost on machines of other pools.
func (ex *explanation) costElsewhere(p *model.NodePool, own []*disrupt.Candidate) plan.Alternative {
	alt := plan.Alternative{Kind: plan.Leave, Of: plan.Underutilized, Machines: []plan.Machine{}}
	in := ex.search.input(true)
	in.Candidates = own
	for i := range in.Pools {
		if in.Pools[i].Name == p.Name {
			in.Pools = slices.Delete(slices.Clone(in.Pools), i, i+1)
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
