// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"cmp"
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

// explainNode explains a node by name. It returns false if the node does not exist.
func (ex *explanation) explainNode(a *plan.Answer, name string) bool {
	i := slices.IndexFunc(ex.s.Nodes, func(n *model.Node) bool { return n.Name == name })
	if i < 0 {
		return false
	}
	n := ex.s.Nodes[i]
	c := ex.Claim(n.Claim)
	if !n.Deleting.IsZero() && c == nil {
		addFact(a, "state", "being deleted since "+n.Deleting.UTC().Format(time.RFC3339))
		a.Step = &plan.Step{Of: plan.Terminating, Since: n.Deleting}
		if len(n.OtherFinalizers) > 0 {
			a.Findings = append(a.Findings, plan.Finding{Of: plan.Terminating, Reason: plan.Reason{Code: plan.ForeignHold, Subject: plan.ObjectOf("node", n.Name), Detail: plan.OfHolders{Names: plan.ListOf(n.OtherFinalizers)}}})
		}
		return true
	}
	if c == nil {
		if c := ex.launchedFor(n); c != nil {
			a.Related = append(a.Related, "nodeclaim/"+c.Name)
			addFact(a, "nodeclaim", c.Name+", whose status does not have its provider ID yet")
			ex.addStage(a, c)
			return true
		}
	}
	if c == nil || ex.Pool(c.Pool) == nil {
		if group := groupLabel(n); group != "" {
			addFact(a, "node group", group+", which no node class selects")
		}
		if pool := n.Labels[model.LabelNodePool]; c != nil && pool != "" {
			a.Related = append(a.Related, "nodeclaim/"+c.Name)
			addFact(a, "nodeclaim", c.Name)
			addFact(a, "state", "of NodePool "+pool+", which Dovetail does not manage: pods may run on it, and Dovetail never removes it")
			return true
		}
		addFact(a, "state", "not owned by a NodePool: pods may run on it, and Dovetail never removes it")
		return true
	}
	a.Related = append(a.Related, "nodeclaim/"+c.Name)
	addFact(a, "nodeclaim", c.Name)
	addFact(a, "nodepool", c.Pool)
	labels := disrupt.MachineLabels(c, n)
	addFact(a, "instance", labels[model.LabelInstanceType]+" "+labels[model.LabelZone]+" "+labels[model.LabelCapacityType])
	ex.addPrice(a, ex.Pool(c.Pool), labels)
	if !c.Deleting.IsZero() {
		ex.explainDraining(a, c, n)
		return true
	}
	if !n.Deleting.IsZero() { // its NodeClaim will be deleted for it
		addFact(a, "state", "being deleted since "+n.Deleting.UTC().Format(time.RFC3339))
		a.Step = &plan.Step{Of: plan.Draining, Since: n.Deleting}
		a.Findings = append(a.Findings, ex.holdsOf(c)...)
		return true
	}
	u := ex.CandidateOn(name)
	if u == nil {
		return true
	}
	addFact(a, "pods to move", strconv.Itoa(len(model.RealPods(u.Pods))))
	if n := u.Expendable; n > 0 {
		addFact(a, "expendable pods", strconv.Itoa(n)+" with priority below "+strconv.Itoa(int(ex.Cutoff().Below))+"; they don't prevent removal")
	}
	if held := plan.HoldingsOf(u.Pods); held != "" {
		addFact(a, "capacity is held for", string(held))
	}
	if u.CommandID != "" && u.CommandID != plan.ByReboot {
		addFact(a, "disruption command", string(u.CommandID))
	}
	switch {
	case !u.Initialized || u.CommandID == plan.ByReboot:
		ex.addStage(a, c)
	case u.CommandID != "":
		ex.addCommand(a, u)
	default:
		a.Findings = append(a.Findings, ex.holdsOf(c)...)
	}
	ex.addInterruption(a, c, n)
	if cause, due := ex.Health(c); cause.Code != "" && ex.now.Before(due) {
		ill := plan.DetailOf[plan.OfUnhealthy](cause)
		addFact(a, "unhealthy condition", ill.Condition+" is "+ill.State()+"; the node is eligible for repair from "+due.UTC().Format(time.RFC3339))
	}
	for _, cause := range ex.disruptionCauses(u) {
		if u.CommandID != "" && u.CommandID != plan.ByInterruption {
			break // what its removal waits for has been reported
		}
		fs, alt := ex.listObstacles(u, cause)
		if len(fs) == 0 && a.Step == nil {
			a.Step = &plan.Step{Of: cause, Since: ex.dueSince(u, cause)}
		}
		a.Findings = append(a.Findings, fs...)
		if alt != nil {
			a.Alternatives = append(a.Alternatives, *alt)
		}
		a.Ways = append(a.Ways, ex.nodeWays(name, cause, fs)...)
	}
	return true
}

// launchedFor returns the NodeClaim for which the instance of a node was launched, according to the cloud, or nil if
// there is none.
func (ex *explanation) launchedFor(n *model.Node) *model.Claim {
	for _, i := range ex.s.Instances {
		if i.ProviderID == n.ProviderID && n.ProviderID != "" {
			if c := ex.Claim(i.ClaimName); c != nil && c.UID == i.ClaimUID {
				return c
			}
		}
	}
	return nil
}

// addPrice adds the price of a node to an answer, if it is known.
func (ex *explanation) addPrice(a *plan.Answer, p *model.NodePool, labels model.Labels) {
	o := disrupt.NodeOffering(p, labels)
	if o == nil {
		return
	}
	price := formatDollars(o.PriceMicro) + "/h"
	if o.PriceOverlay != "" {
		price += ", set by NodeOverlay " + o.PriceOverlay + "; the list price is " + formatDollars(o.ListPriceMicro)
	}
	addFact(a, "price", price)
}

// groupLabel returns the name of the node group in a node's labels (set by Dovetail, EKS or eksctl), or an empty string
// if there is none.
func groupLabel(n *model.Node) string {
	return cmp.Or(n.Labels[model.LabelNodeGroup], n.Labels["eks.amazonaws.com/nodegroup"], n.Labels["alpha.eksctl.io/nodegroup-name"])
}

// explainDraining explains what delays a drain.
func (ex *explanation) explainDraining(a *plan.Answer, c *model.Claim, n *model.Node) {
	addFact(a, "state", "draining since "+c.Deleting.UTC().Format(time.RFC3339))
	if end, forced := lifecycle.Deadline(c); forced {
		addFact(a, "pods are force-deleted at", end.UTC().Format(time.RFC3339))
	}
	if ex.addInterruption(a, c, n) { // its pods end with it, even if they cannot be evicted
		ex.addStage(a, c)
		a.Findings = slices.DeleteFunc(a.Findings, func(f plan.Finding) bool { return f.Of == plan.Draining })
		if a.Step.Of == plan.Draining {
			a.Step.Of = plan.Terminating
		}
		return
	}
	u := disrupt.NewCandidate(c, n, ex.Pool(c.Pool), ex.Cutoff())
	for _, p := range n.Pods {
		a.Findings = append(a.Findings, ex.podObstacles(u, p)...)
	}
	ex.addStage(a, c)
}

// addInterruption adds when the cloud terminates the instance of a node, and what happens to its pods, if the cloud has
// announced that. It reports whether the instance no longer exists.
func (ex *explanation) addInterruption(a *plan.Answer, c *model.Claim, n *model.Node) (gone bool) {
	if in, ours := ex.LifecycleInput(c); ours && !c.Deleting.IsZero() && lifecycle.InstanceIsGone(&in) {
		gone = true
		addFact(a, "instance", "the cloud no longer has it; the node and its pods are removed when the node is not Ready")
	}
	notice, deadline, announced := ex.Interruption(c)
	if !announced {
		return gone
	}
	at := deadline.UTC().Format(time.RFC3339)
	if gone || !ex.now.Before(deadline) {
		addFact(a, "interruption", notice.Kind+": the cloud was to end the instance at "+at)
		return gone
	}
	addFact(a, "interruption", notice.Kind+": the cloud ends the instance at "+at+"; pods that are still on the node then are killed with it")
	var on []string
	for _, p := range n.Pods {
		for _, slot := range ex.SlotsOf(p) {
			on = append(on, "nodeclaim/"+slot.Claim.Name)
		}
		if e := ex.ExpectedOn(p); e.Node != "" {
			on = append(on, "node/"+e.Node)
		}
	}
	if slices.Sort(on); len(on) > 0 {
		addFact(a, "capacity for its pods is on", strings.Join(slices.Compact(on), ", "))
	}
	return gone
}

// dueSince returns the time from which a node may be removed for a cause, as far as it is known.
func (ex *explanation) dueSince(u *disrupt.Candidate, cause plan.Code) time.Time {
	switch cause {
	case plan.Unhealthy:
		_, due := ex.Health(u.Claim)
		return due
	case plan.Drifted:
		return u.Claim.Conditions[lifecycle.Drifted].Since
	case plan.Expired:
		return u.Claim.Created.Add(u.Claim.ExpireAfter)
	}
	return u.UnchangedSince.Add(max(u.Pool.ConsolidateAfter, 0))
}

// podObstacles returns what prevents the eviction of a pod from a node that is being deleted, or from a candidate for
// consolidation.
func (ex *explanation) podObstacles(u *disrupt.Candidate, p *model.Pod) (out []plan.Finding) {
	cause, end := plan.Underutilized, time.Time{}
	if !u.Claim.Deleting.IsZero() {
		cause = plan.Draining
		end, _ = lifecycle.Deadline(u.Claim)
		if _, deadline, announced := ex.Interruption(u.Claim); announced && (end.IsZero() || deadline.Before(end)) {
			end = deadline.UTC().Truncate(time.Second) // the instance is terminated then
		}
	}
	for _, r := range ex.Eligibility().PodBlockers(u.Pool, p, cause) {
		r.Pool = u.Pool.Name
		f := plan.Finding{Of: cause, Reason: r, Change: ex.nodeRemedy(u, r), Until: end}
		if _, until := p.Held(ex.now); r.Code == plan.PodDoNotDisrupt && !until.IsZero() && (end.IsZero() || until.Before(end)) {
			f.Until = until
		}
		out = append(out, f)
	}
	return out
}

// disruptionCauses returns the causes for which a machine may be disrupted now.
func (ex *explanation) disruptionCauses(u *disrupt.Candidate) []plan.Code {
	var out []plan.Code
	if cause, due := ex.Health(u.Claim); cause.Code != "" && !ex.now.Before(due) {
		out = append(out, plan.Unhealthy)
	}
	if u.Claim.Is(lifecycle.Drifted) {
		out = append(out, plan.Drifted)
	}
	if lifecycle.IsExpired(u.Claim, ex.now) {
		out = append(out, plan.Expired)
	}
	if len(u.Pods) == 0 {
		return append(out, plan.Empty)
	}
	return append(out, plan.Underutilized)
}

// listObstacles returns what prevents the disruption of a machine for a cause now, and the result of the disruption. If
// the machine has expired, each obstacle ends at the latest when it is deleted without a replacement. An expired
// machine that is not initialized is deleted immediately.
func (ex *explanation) listObstacles(u *disrupt.Candidate, cause plan.Code) ([]plan.Finding, *plan.Alternative) {
	if cause == plan.Expired && !u.Initialized {
		return nil, nil
	}
	out, alt := ex.findObstacles(u, cause)
	if cause == plan.Expired {
		last := ex.ForcedExpiry(u.Claim).UTC().Truncate(time.Second)
		for i := range out {
			if f := &out[i]; f.Until.IsZero() || f.Until.After(last) {
				f.Until = last
			}
		}
	}
	return out, alt
}

func (ex *explanation) findObstacles(u *disrupt.Candidate, cause plan.Code) ([]plan.Finding, *plan.Alternative) {
	var out []plan.Finding
	found := func(r plan.Reason, until time.Time) {
		out = append(out, plan.Finding{Of: cause, Reason: r, Change: ex.nodeRemedy(u, r), Until: until})
	}
	for _, r := range ex.Eligibility().Blockers(u, cause, false) {
		if r.Code == plan.NotInitialized {
			r.Detail = plan.OfNotInitialized{Said: plan.Words(u.Claim.Conditions[lifecycle.Initialized].Message)}
		}
		found(r, ex.obstacleEnd(u, r))
	}
	if cause == plan.Empty && u.Occupied {
		for _, p := range u.Ending {
			if until, waits := ex.WaitsFor(u, p); waits {
				found(plan.Reason{Code: plan.PodTerminating, Subject: plan.ObjectOf("pod", p.Key()), Detail: plan.OfPodTerminating{Finalizers: plan.ListOf(p.Finalizers), End: p.Deleting}}, until)
			}
		}
	}
	if cause == plan.Unhealthy {
		if why, refused := ex.RepairRefusal(u.Pool.Name); refused {
			found(why, time.Time{})
		}
	}
	if left, why := ex.BudgetLeftFor(u, cause); left <= 0 && ex.NodeCount(u.Pool.Name).Total > 0 {
		found(why, disrupt.BudgetOpensAt(u.Pool, ex.NodeCount(u.Pool.Name), cause, ex.now))
	}
	if s, held := ex.BackOff(u); held {
		r := plan.Reason{Code: plan.NoReplacementFound, Pool: u.Pool.Name, Subject: plan.ObjectOf("node", u.Node.Name),
			Detail: plan.OfNoReplacementFound{Until: s.Until, Times: s.Times}}
		if s.Begun > 0 {
			again := plan.OfAborted{Until: s.Until, Times: s.Begun}
			if last := u.Claim.Conditions[lifecycle.Disrupted]; last.Status == "False" {
				again.Last = plan.Words(last.Message)
			}
			r.Code, r.Detail = plan.Aborted, again
		}
		found(r, s.Until)
	}
	if u.Pool.Replicas >= 0 && cause != plan.Underutilized && cause != plan.Empty {
		if why := ex.StaticRefusal(u.Pool); why.Code != "" {
			if alt := ex.terminateFirst(u, cause, &out); alt != nil {
				return out, alt
			}
			found(why, time.Time{})
			return out, nil
		}
		return out, ex.staticReplacement(u, cause)
	}
	if !u.Initialized || cause == plan.Underutilized && u.PriceMicro < 0 {
		return out, nil
	}
	alt, f := ex.examineCandidate(u, cause)
	if f != nil {
		if first := ex.terminateFirst(u, cause, &out); first != nil {
			return out, first
		}
	}
	if f != nil {
		out = append(out, *f)
	}
	return out, alt
}

// terminateFirst returns the result of terminating a machine before its replacement is launched, or nil if the machine
// is not terminated first. It adds the disruption budget that the termination waits for to obstacles, unless it is
// already there.
func (ex *explanation) terminateFirst(u *disrupt.Candidate, cause plan.Code, obstacles *[]plan.Finding) *plan.Alternative {
	is, wait := ex.TerminateFirst(u, cause)
	if !is {
		return nil
	}
	if wait.Code != "" && !slices.ContainsFunc(*obstacles, func(f plan.Finding) bool { return f.Reason.Code == wait.Code }) {
		*obstacles = append(*obstacles, plan.Finding{Of: cause, Reason: wait, Change: ex.nodeRemedy(u, wait)})
	}
	return &plan.Alternative{Kind: plan.TerminateFirst, Of: cause, Pool: u.Pool.Name, Pods: len(u.Pods), NowMicro: max(u.PriceMicro, 0), NewMicro: max(u.PriceMicro, 0), Machines: []plan.Machine{}}
}

// staticReplacement returns the result of replacing a machine of a static pool.
func (ex *explanation) staticReplacement(u *disrupt.Candidate, cause plan.Code) *plan.Alternative {
	a, ok := ex.StaticClaim(u.Pool)
	if !ok {
		return nil
	}
	return &plan.Alternative{Kind: plan.Replace, Of: cause, Pool: u.Pool.Name, Pods: len(u.Pods), NowMicro: max(u.PriceMicro, 0), NewMicro: a.PriceMicro,
		Machines: []plan.Machine{{Pool: u.Pool.Name, Type: a.Type, Zone: a.Zone, CapacityType: a.CapacityType, PriceMicro: a.PriceMicro, Count: 1}}}
}

// obstacleEnd returns the time at which an obstacle ends by itself, or the zero time if it does not.
func (ex *explanation) obstacleEnd(u *disrupt.Candidate, r plan.Reason) time.Time {
	switch r.Code {
	case plan.Quiet:
		if u.Pool.ConsolidateAfter >= 0 {
			return u.UnchangedSince.Add(u.Pool.ConsolidateAfter)
		}
	case plan.DelayAfterAdd, plan.DelayAfterDelete, plan.DelayAfterFailure:
		return ex.Eligibility().DelayEnd(u, r.Code)
	case plan.DriftBackOff:
		d := plan.DetailOf[plan.OfDriftBackOff](r)
		return d.Changed.Add(d.Rest).UTC().Truncate(time.Second)
	case plan.Payback:
		return plan.DetailOf[plan.OfPayback](r).Until.UTC().Truncate(time.Second)
	case plan.ZonalShift:
		return plan.DetailOf[plan.OfZonalShift](r).Until
	case plan.PodDoNotDisrupt:
		return plan.DetailOf[plan.OfPodHeld](r).Until.UTC().Truncate(time.Second)
	}
	return time.Time{}
}

// examineCandidate returns the result of disrupting a machine, and the reason why that is not worthwhile.
func (ex *explanation) examineCandidate(u *disrupt.Candidate, cause plan.Code) (*plan.Alternative, *plan.Finding) {
	alt := &plan.Alternative{Kind: plan.Leave, Of: cause, Pods: len(u.Pods), NowMicro: max(u.PriceMicro, 0), Machines: []plan.Machine{}}
	if len(u.Pods) == 0 {
		return alt, nil
	}
	in := ex.SearchInput()
	for _, o := range ex.Candidates() {
		if o == u || len(o.Pods) > 0 && len(ex.Eligibility().Blockers(o, plan.Underutilized, true)) == 0 {
			in.Candidates = append(in.Candidates, o)
		}
	}
	free := *u
	free.CommandID = ""
	e := disrupt.Evaluate(in, []*disrupt.Candidate{&free}, ex.pol.Disrupt, ex.pol.Solve)
	if cause == plan.Underutilized && e.Why.Code != "" && ex.isKeptForBuffers(in, &free) {
		f := &plan.Finding{Of: cause, Reason: plan.Reason{Code: plan.HeldForBuffer, Pool: u.Pool.Name, Subject: plan.ObjectOf("capacitybuffer", model.VirtualPods(u.Pods)[0].Buffer), Detail: plan.OfHeldForBuffer{Held: plan.HoldingsOf(u.Pods)}}}
		alt.Kind, alt.Why = plan.Replace, f.Reason
		return alt, f
	}
	f := &plan.Finding{Of: cause, Reason: e.Why}
	f.Reason.Pool, f.Reason.Subject = u.Pool.Name, cmp.Or(f.Reason.Subject, plan.ObjectOf("node", u.Node.Name))
	if e.Command == nil {
		ex.placementRemedy(u, e, f)
		alt.Kind, alt.Why = plan.Replace, f.Reason
		return alt, f
	}
	describeCommand(alt, e.Command)
	if cause != plan.Underutilized {
		return alt, nil // it must be removed at any cost
	}
	alt.Why = f.Reason
	switch {
	case e.Why.Code == plan.NotBalanced:
		f.Change = ex.nodeRemedy(u, f.Reason)
	case e.Why.Code == plan.NotKept: // no price makes it worthwhile
	case e.Why.Code == plan.LaunchesPaused:
		f.Until = plan.DetailOf[plan.OfLaunchesPaused](f.Reason).Until.UTC().Truncate(time.Second)
	case e.Why.Code != "":
		f.Change = ex.priceRemedy(in, &free, e)
	default:
		alt.Why = plan.Reason{}
		return alt, nil
	}
	return alt, f
}

// isKeptForBuffers reports whether a machine that is kept would be removed if it held no capacity for buffers.
func (ex *explanation) isKeptForBuffers(in *disrupt.Input, u *disrupt.Candidate) bool {
	real := model.RealPods(u.Pods)
	switch len(real) {
	case len(u.Pods):
		return false
	case 0:
		return true
	}
	v, without := *u, *in
	v.Pods = real
	without.Candidates = slices.Clone(in.Candidates)
	for i, o := range without.Candidates {
		if o.Node.Name == u.Node.Name {
			without.Candidates[i] = &v
		}
	}
	return disrupt.Evaluate(&without, []*disrupt.Candidate{&v}, ex.pol.Disrupt, ex.pol.Solve).Why.Code == ""
}

// describeCommand sets the cost, the savings and the launched machines of a disruption command.
func describeCommand(alt *plan.Alternative, m *disrupt.Command) {
	alt.Standing, alt.NowMicro, alt.NewMicro, alt.OnceMicro = m.PodsOnExisting, m.OldMicroPerHour, m.NewMicroPerHour, m.CostMicro
	for i := range m.Replacements {
		n := &m.Replacements[i]
		x := plan.Machine{Pool: n.Pool, Type: n.Type.Name, Zone: n.Offering.Zone, CapacityType: n.Offering.CapacityType, PriceMicro: n.PriceMicro, PriceOverlay: n.Offering.PriceOverlay}
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

// placementRemedy adds to a finding the reason why a pod cannot be placed, and an edit that helps. The reason is that
// of the node's own NodePool, if that refuses the pod, or else that of the first pool, by nearness, for which an edit
// makes the check pass.
func (ex *explanation) placementRemedy(u *disrupt.Candidate, e disrupt.Evaluation, f *plan.Finding) {
	if e.Refused.Pod == nil {
		return
	}
	speak := func(r plan.Reason) {
		f.Reason.Pool, f.Reason.Detail = r.Pool, plan.NoHomeFor(r)
	}
	reasons := slices.Clone(e.Refused.Reasons)
	distance := func(r plan.Reason) int {
		if r.Pool == u.Pool.Name {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(reasons, func(a, b plan.Reason) int { return cmp.Compare(distance(a), distance(b)) })
	isOwn := len(reasons) > 0 && distance(reasons[0]) == 0
	for i, r := range reasons {
		if i == 0 {
			speak(r)
		}
		for _, ch := range ex.podRemedies(e.Refused.Pod, r) {
			next, err := Apply(ex.s, ch)
			if err != nil {
				continue
			}
			x := ex.with(next, ex.now)
			v := x.CandidateOn(u.Node.Name)
			if v == nil {
				continue
			}
			in := x.SearchInput()
			in.Candidates = []*disrupt.Candidate{v}
			again := disrupt.Evaluate(in, in.Candidates, ex.pol.Disrupt, ex.pol.Solve)
			placed := again.Command != nil || again.Refused.Pod.UID != e.Refused.Pod.UID
			passes := !slices.ContainsFunc(again.Refused.Reasons, func(o plan.Reason) bool { return sameCheck(o, r) })
			if placed || passes && (i == 0 || !isOwn) {
				if !isOwn {
					speak(r)
				}
				f.Change = &ch
				return
			}
		}
	}
}

// priceRemedy returns the change of a price with which the replacement is cheap enough. It excludes the offering of the
// machine itself, because its own price would fall too.
func (ex *explanation) priceRemedy(in *disrupt.Input, u *disrupt.Candidate, e disrupt.Evaluation) *plan.Change {
	own := plan.Machine{Type: u.Labels[model.LabelInstanceType], Zone: u.Labels[model.LabelZone], CapacityType: u.Labels[model.LabelCapacityType]}
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
	if e.MaxNewMicroPerHour < 0 || len(alt.Machines) == 0 || slices.ContainsFunc(e.Command.Replacements, func(n solve.NewNode) bool { return n.Offering.Labels[model.LabelNodeGroup] != "" }) {
		return nil // for a node group, the highest price among the machines that it may launch counts, not one offering
	}
	most := slices.MaxFunc(alt.Machines, func(a, b plan.Machine) int {
		return cmp.Compare(a.PriceMicro*int64(a.Count), b.PriceMicro*int64(b.Count))
	})
	n := int64(most.Count)
	price := most.PriceMicro - (e.Command.NewMicroPerHour-e.MaxNewMicroPerHour+n-1)/n
	if price < 0 {
		return nil
	}
	return &plan.Change{Object: most.Offering(), Field: "price", Op: plan.Set, Value: model.FormatMicro(price)}
}

// nodeWays returns the ways in which a machine can be removed: by waiting, if every obstacle ends by itself, and by
// changes now.
func (ex *explanation) nodeWays(name string, cause plan.Code, fs []plan.Finding) []plan.Way {
	var out []plan.Way
	if len(fs) > 0 && !slices.ContainsFunc(fs, func(f plan.Finding) bool { return f.Until.IsZero() }) {
		after := time.Time{}
		for _, f := range fs {
			after = model.LaterOf(after, f.Until)
		}
		x := ex.with(ex.s, after)
		if u := x.CandidateOn(name); u != nil {
			if left, alt := x.listObstacles(u, cause); len(left) == 0 && alt != nil {
				out = append(out, plan.Way{Of: cause, Pool: u.Pool.Name, Changes: []plan.Change{}, After: after, Then: *alt})
			}
		}
	}
	w := plan.Way{Of: cause, Changes: []plan.Change{}}
	x := ex
	const deep = 8
	for range deep {
		u := x.CandidateOn(name)
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
				w.After = model.LaterOf(w.After, f.Until)
			case f.Reason.Code == plan.NotInitialized && len(w.Changes) > 0: // the node is initialized without further changes
				return append(out, plan.Way{Of: cause, Pool: u.Pool.Name, Changes: w.Changes, Then: plan.Alternative{Kind: plan.Usable, Of: plan.Initializing, On: "node/" + name, Machines: []plan.Machine{}}})
			}
		}
		if !helped {
			return out // no known change helps
		}
		x = ex.with(next, model.LaterOf(ex.now, w.After))
	}
	return out
}
