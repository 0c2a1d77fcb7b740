// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// explainClaim explains a NodeClaim by name. If it has a node, it explains the node. It returns false if the NodeClaim
// does not exist.
func (ex *explanation) explainClaim(a *plan.Answer, name string) bool {
	c := ex.Claim(name)
	if c == nil {
		return false
	}
	if n := ex.NodeOf(c); n != nil {
		a.Related = append(a.Related, "node/"+n.Name)
		return ex.explainNode(a, n.Name)
	}
	addFact(a, "nodepool", c.Pool)
	addFact(a, "created", c.Created.UTC().Format(time.RFC3339))
	if !c.Deleting.IsZero() {
		addFact(a, "state", "being deleted since "+c.Deleting.UTC().Format(time.RFC3339))
	}
	for _, condition := range []string{lifecycle.Launched, lifecycle.Registered} {
		cond := c.Conditions[condition]
		value := "not yet"
		if cond.True() {
			value = "since " + cond.Since.UTC().Format(time.RFC3339)
		} else if cond.Message != "" {
			value += ": " + cond.Message
		}
		addFact(a, strings.ToLower(condition), value)
	}
	ex.addStage(a, c)
	return true
}

// addStage adds the current lifecycle step of a NodeClaim to an answer, and what the step waits for. If the NodeClaim
// is initialized, it has no step.
func (ex *explanation) addStage(a *plan.Answer, c *model.Claim) {
	if of, since := lifecycle.Stage(c); of != plan.Initializing || !c.Is(lifecycle.Initialized) {
		a.Step = &plan.Step{Of: of, Since: since}
	}
	a.Findings = append(a.Findings, ex.holdsOf(c)...)
}

// holdsOf returns what the next step of a NodeClaim waits for, as determined by lifecycle, and its failing calls.
func (ex *explanation) holdsOf(c *model.Claim) (out []plan.Finding) {
	in, ours := ex.LifecycleInput(c)
	if !ours || c.Provisional {
		return nil
	}
	in.Explain = true
	next := lifecycle.Next(in)
	for _, h := range next.Holds {
		if h.Why.Code == plan.AwaitsPods && ex.AwaitedPods(c) == 0 {
			continue // reserved for the pods of a command that may still be canceled
		}
		out = append(out, plan.Finding{Of: h.Of, Reason: h.Why, Change: holdRemedy(h.Why), Until: h.Until})
	}
	left := ex.EvictionsAllowed()
	for _, action := range next.Actions {
		if r, failed := ex.callFailure(action); failed {
			if e, is := action.(plan.Evict); !is || !ex.isKeptByBudget(c, e.UID) { // it is reported separately
				out = append(out, plan.Finding{Of: stageOf(c, action), Reason: r})
			}
			continue
		}
		e, is := action.(plan.Evict)
		if is && !ex.IsEvicting(e.UID) {
			_, _, interrupted := ex.Interruption(c)
			if left--; left < 0 && !interrupted {
				out = append(out, plan.Finding{Of: plan.Draining, Reason: plan.Reason{Code: plan.EvictionPace, Pool: c.Pool, Subject: plan.ObjectOf("pod", model.PodKey(e.Namespace, e.Pod)), Detail: plan.OfEvictionPace{Most: ex.pol.EvictionConcurrency}}})
			}
		}
	}
	return out
}

// stageOf returns the lifecycle step of a NodeClaim to which an action belongs.
func stageOf(c *model.Claim, a plan.Action) plan.Code {
	switch a.(type) {
	case plan.Terminate, plan.DeleteNode:
		return plan.Terminating
	case plan.DeleteClaim:
		return plan.Draining
	}
	stage, _ := lifecycle.Stage(c)
	return stage
}

// holdRemedy returns the edit that ends a hold, or nil if a controller must act, or no edit is known.
func holdRemedy(r plan.Reason) *plan.Change {
	switch r.Code {
	case plan.StartupTaints:
		return &plan.Change{Object: string(r.Subject), Field: "spec.taints[" + plan.DetailOf[plan.OfNodeTaint](r).Taint + "]", Op: plan.Remove}
	case plan.DeletionDelayed:
		return &plan.Change{Object: string(r.Subject), Field: "metadata.annotations[" + plan.DetailOf[plan.OfDeletionDelayed](r).Annotation + "]", Op: plan.Remove}
	}
	return nil
}

// isKeptByBudget reports whether PodDisruptionBudgets prevent the eviction of the pod with the given UID from the node
// of a NodeClaim.
func (ex *explanation) isKeptByBudget(c *model.Claim, uid string) bool {
	n := ex.NodeOf(c)
	if n == nil {
		return false
	}
	i := slices.IndexFunc(n.Pods, func(p *model.Pod) bool { return p.UID == uid })
	return i >= 0 && slices.ContainsFunc(ex.Eligibility().PodBlockers(ex.Pool(c.Pool), n.Pods[i], plan.Draining), func(r plan.Reason) bool {
		return r.Code == plan.DisruptionBudgetPDB || r.Code == plan.SeveralPDBs
	})
}

// callFailure returns the reason why the call for an action will be repeated: it failed, or its effect was undone. It
// returns false if neither is true.
func (ex *explanation) callFailure(a plan.Action) (plan.Reason, bool) {
	f, failed := ex.s.Failed[a.Key()]
	u, undone := ex.s.Undone[a.Key()]
	if !failed && !undone {
		return plan.Reason{}, false
	}
	r, call := plan.Reason{Code: plan.CallFailed, Pool: a.Because().Pool}, ""
	switch a := a.(type) {
	case plan.Evict:
		r.Code, r.Subject = plan.EvictionRefused, plan.ObjectOf("pod", model.PodKey(a.Namespace, a.Pod))
	case plan.DeletePod:
		call, r.Subject = "delete", plan.ObjectOf("pod", model.PodKey(a.Namespace, a.Pod))
	case plan.Bind:
		call, r.Subject = "bind", plan.ObjectOf("pod", model.PodKey(a.Namespace, a.Pod))
	case plan.Tolerate:
		call, r.Subject = "patch", plan.ObjectOf("pod", model.PodKey(a.Namespace, a.Pod))
	case plan.Restart:
		call, r.Subject = "restart", plan.ObjectOf("deployment", a.Namespace+"/"+a.Deployment)
	case plan.Reboot:
		call, r.Subject = "reboot", plan.ObjectOf("node", a.Node)
	case plan.UpdateNode:
		call, r.Subject = "patch", plan.ObjectOf("node", a.Node)
	case plan.DeleteNode:
		call, r.Subject = "delete", plan.ObjectOf("node", a.Node)
	case plan.UpdateClaim:
		call, r.Subject = "patch", plan.ObjectOf("nodeclaim", a.Claim)
	case plan.LaunchClaim: // the instance was launched, but could not be recorded; a response of the cloud is not a failed call
		call, r.Subject = "patch", plan.ObjectOf("nodeclaim", a.Claim)
	case plan.DeleteClaim:
		call, r.Subject = "delete", plan.ObjectOf("nodeclaim", a.Claim)
	case plan.CreateClaim:
		call, r.Subject = "create", plan.ObjectOf("nodeclaim", a.Name)
	case plan.Terminate:
		call, r.Subject = "terminate", plan.ObjectOf("instance", a.ProviderID)
	default:
		r.Subject = plan.ObjectOf("", string(a.Key()))
	}
	if undone {
		r.Code, r.Detail = plan.ChangeUndone, plan.OfChangeUndone{Times: u.Times, Since: u.Since}
		return r, true
	}
	r.Detail = plan.OfCallFailed{Call: call, Times: f.Times, FirstTried: f.Since, Said: plan.Words(f.Message)}
	return r, true
}

// addCommand adds to an answer what the disruption command that removes a node waits for.
func (ex *explanation) addCommand(a *plan.Answer, u *disrupt.Candidate) {
	m, known := ex.Command(u.CommandID)
	if !known { // it is interrupted, or its deletion was requested
		a.Step = &plan.Step{Of: plan.Draining}
		if notice, _, announced := ex.Interruption(u.Claim); announced {
			a.Step = &plan.Step{Of: plan.Interrupted, Since: notice.Seen}
		}
		if r, failed := ex.callFailure(plan.DeleteClaim{Claim: u.Claim.Name, UID: u.Claim.UID, Why: plan.Reason{Pool: u.Pool.Name}}); failed {
			a.Findings = append(a.Findings, plan.Finding{Of: plan.Draining, Reason: r})
		}
		return
	}
	since := m.Since
	if since.IsZero() {
		since = u.Claim.Conditions[lifecycle.Disrupted].Since
	}
	a.Step = &plan.Step{Of: m.Cause, Since: since, Command: m.ID}
	found := func(r plan.Reason, until time.Time) {
		a.Findings = append(a.Findings, plan.Finding{Of: plan.Moving, Reason: r, Until: until})
	}
	if why := m.Aborting; why.Code != "" {
		found(plan.Reason{Code: why.Code, Pool: u.Pool.Name, Subject: plan.ObjectOf("node", u.Node.Name), Detail: why.Detail, Command: m.ID}, time.Time{})
		return
	}
	for _, c := range m.Replacements {
		if c.Is(lifecycle.Initialized) {
			continue
		}
		stage, _ := lifecycle.Stage(c)
		found(plan.Reason{Code: plan.AwaitsMachine, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name), Detail: plan.OfAwaitsMachine{Stage: stage}, Command: m.ID}, m.Since.Add(ex.pol.CommandTimeout))
		a.Findings = append(a.Findings, ex.holdsOf(c)...)
		a.Related = append(a.Related, "nodeclaim/"+c.Name)
	}
	for _, c := range m.Candidates {
		why := plan.Reason{Pool: c.Pool}
		for _, x := range []plan.Action{plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: why}, plan.UpdateClaim{Claim: c.Name, UID: c.UID, Why: why}} {
			if r, failed := ex.callFailure(x); failed {
				found(r, time.Time{})
			}
		}
		if n := ex.NodeOf(c); n != nil {
			if r, failed := ex.callFailure(plan.UpdateNode{Node: n.Name, UID: n.UID, Why: why}); failed {
				found(r, time.Time{})
			}
		}
	}
}

// WhyEnded explains a pod that no longer needs a node, because it has ended, or is being deleted before it was bound.
func WhyEnded(p *model.Pod, now time.Time) plan.Answer {
	a := newAnswer("pod/"+p.Key(), now)
	state := "pending"
	switch {
	case p.Failed:
		state = "failed: it no longer uses capacity of a node"
	case p.Terminal:
		state = "succeeded: it no longer uses capacity of a node"
	}
	addFact(&a, "state", state)
	if p.EndsWithNamespace {
		addFact(&a, "namespace", p.Namespace+" is being deleted, and its pods with it")
	}
	if p.Node != "" {
		addFact(&a, "ran on", p.Node)
		a.Related = append(a.Related, "node/"+p.Node)
	}
	a.Step = &plan.Step{Of: plan.Ended}
	if !p.Deleting.IsZero() {
		addTermination(&a, p)
	}
	return a
}

// addTermination adds to an answer that a pod is being deleted, and the finalizers that block the deletion.
func addTermination(a *plan.Answer, p *model.Pod) {
	if a.Step = (&plan.Step{Of: plan.PodTerminating}); !p.Terminal { // otherwise its grace period is irrelevant
		a.Step.Since = p.Deleting
	}
	if len(p.Finalizers) > 0 {
		a.Findings = append(a.Findings, plan.Finding{Of: plan.PodTerminating,
			Reason: plan.Reason{Code: plan.ForeignHold, Subject: plan.ObjectOf("pod", p.Key()), Detail: plan.OfHolders{Names: plan.ListOf(p.Finalizers)}}})
	}
}
