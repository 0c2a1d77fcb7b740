// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disruption

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// NotesIn is the input of BlockerNotes in addition to the Snapshot.
type NotesIn struct {
	Candidates  []*disrupt.Candidate    // every machine with a node, sorted by node name
	IsBroken    func(*model.Claim) bool // reports whether a NodeClaim's node is to be repaired
	Eligibility *disrupt.Eligibility
	BudgetLeft  func(pool *model.NodePool, cause plan.Code) (int64, plan.Reason) // how many more machines of a pool may be disrupted, and what blocks the others
	Awaited     []Awaited                                                        // sorted by command
}

// Awaited is a NodeClaim whose node a disruption command waits for.
type Awaited struct {
	Claim   *model.Claim
	Command plan.CommandID
	Cause   plan.Code // cause of the command
}

// blockers are the reasons for keeping a machine that somebody has asked for. Others (it came too recently, a
// disruption command is under way) pass by themselves, and noting them would be noise.
var blockers = map[plan.Code]bool{
	plan.NodeDoNotDisrupt: true, plan.PodDoNotDisrupt: true, plan.SafeToEvict: true, plan.NoController: true, plan.DisruptionBudgetPDB: true, plan.SeveralPDBs: true,
	plan.GroupRefresh: true, plan.GroupNotChosen: true, plan.LocalStorage: true, plan.SystemPod: true, plan.CustomController: true, plan.FewReplicas: true, plan.GangApart: true,
}

// BlockerNotes returns notes, in this order: for every machine, what blocks its disruption; for every NodePool, which budgets do;
// for every disruption command, what it waits for; and for NodePools, pods, nodes and NodeClaims, their invalid annotations.
func BlockerNotes(v *cluster.View, in NotesIn) []plan.Note {
	bn := notes{View: v}
	type key struct {
		pool  string
		cause plan.Code
	}
	wanted := map[key]bool{}
	held := map[string]bool{} // by pool: its nodes drift too often
	for _, u := range in.Candidates {
		if u.CommandID != "" {
			continue
		}
		cause := in.disruptionCause(u, v.Now)
		r := in.Eligibility.Blockers(u, cause, true)
		switch {
		case len(r) > 0 && r[0].Code == plan.DriftBackOff && !held[u.Pool.Name]:
			held[u.Pool.Name] = true
			bn.add(plan.Note{Event: "DisruptionBlocked", Kind: "NodePool", Name: u.Pool.Name, UID: u.Pool.UID, Why: r[0]})
		case len(r) == 0:
			wanted[key{u.Pool.Name, cause}] = true
		case blockers[r[0].Code]:
			bn.add(plan.Note{Event: "DisruptionBlocked", Kind: "Node", Name: u.Node.Name, UID: u.Node.UID, Why: r[0]})
			bn.add(plan.Note{Event: "DisruptionBlocked", Kind: "NodeClaim", Name: u.Claim.Name, UID: u.Claim.UID, Why: r[0]})
		}
	}
	for _, p := range bn.Snapshot.Pools {
		for _, cause := range disrupt.Budgeted {
			if !wanted[key{p.Name, cause}] {
				continue
			}
			if left, why := in.BudgetLeft(p, cause); left <= 0 {
				bn.add(plan.Note{Event: "DisruptionBlocked", Kind: "NodePool", Name: p.Name, UID: p.UID, Why: why})
			}
		}
	}
	for _, a := range in.Awaited {
		c := a.Claim
		bn.add(plan.Note{Event: "DisruptionWaitingReadiness", Kind: "NodeClaim", Name: c.Name, UID: c.UID, Why: plan.Reason{Code: a.Cause, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name), Command: a.Command}})
	}
	for _, p := range bn.Snapshot.Pools {
		bn.noteRestartCost(plan.Note{Kind: "NodePool", Name: p.Name, UID: p.UID, Why: plan.Reason{Pool: p.Name, Subject: plan.ObjectOf("nodepool", p.Name)}}, p.RestartCost)
	}
	for _, n := range bn.Snapshot.Nodes {
		for _, p := range n.Pods {
			bn.noteRestartCost(plan.Note{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID, Why: plan.Reason{Subject: plan.ObjectOf("pod", p.Key())}}, p.RestartCost)
			if p.DoNotDisrupt != "" && p.DoNotDisrupt != "true" {
				bn.notePodHold(n, p)
			}
		}
	}
	for _, u := range in.Candidates {
		bn.noteNodeHolds(plan.Note{Kind: "Node", Name: u.Node.Name, UID: u.Node.UID, Why: plan.Reason{Subject: plan.ObjectOf("node", u.Node.Name)}}, u.Node.Annotations)
		bn.noteNodeHolds(plan.Note{Kind: "NodeClaim", Name: u.Claim.Name, UID: u.Claim.UID, Why: plan.Reason{Subject: plan.ObjectOf("nodeclaim", u.Claim.Name)}}, u.Claim.Annotations)
	}
	return bn.list
}

// notes are notes that are being made.
type notes struct {
	*cluster.View
	list []plan.Note
}

// add adds a note.
func (bn *notes) add(n plan.Note) { bn.list = append(bn.list, n) }

// notePodHold says until when a pod keeps its node, and when what it says about that can't be read.
func (bn *notes) notePodHold(n *model.Node, p *model.Pod) {
	note := plan.Note{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID, Why: plan.Reason{Code: plan.PodDoNotDisrupt, Subject: plan.ObjectOf("pod", p.Key())}}
	why := plan.OfPodHeld{Annotation: p.HoldAnnotation(), Value: p.DoNotDisrupt}
	d, err := time.ParseDuration(p.DoNotDisrupt)
	switch held, until := p.Held(bn.Now); {
	case err != nil || d <= 0:
		note.Event, note.Warn, why.Unreadable = "InvalidDoNotDisruptAnnotation", true, true
	case held:
		note.Event, why.Until = "DoNotDisruptUntil", until
	case !n.Deleting.IsZero():
		note.Event, why.Until = "DoNotDisruptGracePeriodElapsed", until
	default:
		return
	}
	note.Why.Detail = why
	bn.add(note)
}

// noteNodeHolds notes which annotations that would keep a node have a value that is ignored. The note says which object they are of.
func (bn *notes) noteNodeHolds(note plan.Note, annotations model.Labels) {
	for _, key := range []string{disrupt.DoNotDisrupt, disrupt.ScaleDownDisabled, disrupt.DoNotRepair, disrupt.DoNotConsolidate} {
		value := annotations[key]
		if value == "" || value == "true" || value == "false" {
			continue
		}
		note.Event, note.Warn = "InvalidDoNotDisruptAnnotation", true
		note.Why.Code, note.Why.Detail = plan.NodeDoNotDisrupt, plan.OfNodeHeld{Annotation: key, Unreadable: true, Value: value}
		bn.add(note)
	}
}

// noteRestartCost notes that an object's restart cost is given and can't be read. The note says which object it is
// about.
func (bn *notes) noteRestartCost(note plan.Note, value string) {
	if _, ok := model.ParseRestartCost(value); ok || value == "" {
		return
	}
	note.Event, note.Warn = "InvalidRestartCost", true
	note.Why.Code, note.Why.Detail = plan.BadRestartCost, plan.OfBadRestartCost{Value: value}
	bn.add(note)
}

// disruptionCause returns what a machine would go for, what must be before what may.
func (in *NotesIn) disruptionCause(u *disrupt.Candidate, now time.Time) plan.Code {
	switch {
	case in.IsBroken(u.Claim):
		return plan.Unhealthy
	case lifecycle.IsExpired(u.Claim, now):
		return plan.Expired
	case u.Claim.Is(lifecycle.Drifted):
		return plan.Drifted
	case u.IsEmpty():
		return plan.Empty
	}
	return plan.Underutilized
}
