// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// blockerNotes tells people what blocks disruption.
type blockerNotes struct {
	*draft
	candidates *candidates
	commands   *commandTable
}

// blockers are the reasons for keeping a machine that somebody has asked for. Others (it came too recently, a
// disruption command is under way) pass by themselves, and noting them would be noise.
var blockers = map[plan.Code]bool{
	plan.NodeDoNotDisrupt: true, plan.PodDoNotDisrupt: true, plan.SafeToEvict: true, plan.NoController: true, plan.DisruptionBudgetPDB: true, plan.SeveralPDBs: true,
	plan.GroupRefresh: true, plan.GroupNotChosen: true, plan.LocalStorage: true, plan.SystemPod: true, plan.CustomController: true, plan.FewReplicas: true,
}

// add notes for every machine what blocks its disruption, for every pool which budgets do, for every disruption command
// what it waits for, and for pods which of their annotations can't be read. It looks at everything, so it is asked for
// only now and then.
func (bn *blockerNotes) add() {
	type key struct {
		pool  string
		cause plan.Code
	}
	wanted := map[key]bool{}
	held := map[string]bool{} // by pool: its nodes drift too often
	for _, u := range bn.candidates.all {
		if u.CommandID != "" {
			continue
		}
		cause := bn.candidates.disruptionCause(u)
		r := bn.candidates.guard.Blockers(u, cause, true)
		switch {
		case len(r) > 0 && r[0].Code == plan.DriftBackOff && !held[u.Pool.Name]:
			held[u.Pool.Name] = true
			bn.addNote(plan.Note{Event: "DisruptionBlocked", Kind: "NodePool", Name: u.Pool.Name, UID: u.Pool.UID, Why: r[0]})
		case len(r) == 0:
			wanted[key{u.Pool.Name, cause}] = true
		case blockers[r[0].Code]:
			bn.addNote(plan.Note{Event: "DisruptionBlocked", Kind: "Node", Name: u.Node.Name, UID: u.Node.UID, Why: r[0]})
			bn.addNote(plan.Note{Event: "DisruptionBlocked", Kind: "NodeClaim", Name: u.Claim.Name, UID: u.Claim.UID, Why: r[0]})
		}
	}
	for _, p := range bn.Snapshot.Pools {
		for _, cause := range disrupt.Voluntary {
			if !wanted[key{p.Name, cause}] {
				continue
			}
			if left, why := bn.candidates.budgetLeft(p, cause); left <= 0 {
				bn.addNote(plan.Note{Event: "DisruptionBlocked", Kind: "NodePool", Name: p.Name, UID: p.UID, Why: why})
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(bn.commands.byID)) {
		m := bn.commands.byID[id]
		for _, c := range m.replacements {
			if len(m.candidates) > 0 && m.deleting == 0 && !c.Is(lifecycle.Initialized) && c.UID != "" {
				bn.addNote(plan.Note{Event: "DisruptionWaitingReadiness", Kind: "NodeClaim", Name: c.Name, UID: c.UID, Why: plan.Reason{Code: m.Cause, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name), Command: id}})
			}
		}
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
}

// notePodHold says until when a pod keeps its node, and when what it says about that can't be read.
func (bn *blockerNotes) notePodHold(n *model.Node, p *model.Pod) {
	note := plan.Note{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID, Why: plan.Reason{Code: plan.PodDoNotDisrupt, Subject: plan.ObjectOf("pod", p.Key())}}
	why := plan.OfPodHeld{Annotation: disrupt.DoNotDisrupt, Value: p.DoNotDisrupt}
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
	bn.addNote(note)
}

// noteRestartCost notes that an object's restart cost is given and can't be read. The note says which object it is
// about.
func (bn *blockerNotes) noteRestartCost(note plan.Note, value string) {
	if _, ok := model.ParseRestartCost(value); ok || value == "" {
		return
	}
	note.Event, note.Warn = "InvalidRestartCost", true
	note.Why.Code, note.Why.Detail = plan.BadRestartCost, plan.OfBadRestartCost{Value: value}
	bn.addNote(note)
}
