// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// recordMoves tells which moves were begun and which were taken back.
func (rec *Recorder) recordMoves(now time.Time, out *decide.Output) {
	moved := map[string]bool{}
	for i := range out.Commands {
		m := &out.Commands[i]
		for _, u := range m.Candidates {
			moved[u.Node.Name] = true
		}
		rec.metrics.CountDisruptionCommand(m)
		names, pods := make([]string, len(m.Candidates)), 0
		for i, u := range m.Candidates {
			names[i] = u.Node.Name
			pods += len(u.Pods)
		}
		why := m.Why
		if why.Code == "" {
			why.Code = m.Cause
		}
		rec.log.Info("disruption command", "command", m.ID, "why", string(m.Cause), "nodes", len(m.Candidates), "replacements", len(m.Replacements), "pods", pods, "podsOnExistingNodes", m.PodsOnExisting,
			"usdPerHourBefore", model.Dollars(m.OldMicroPerHour), "usdPerHourAfter", model.Dollars(m.NewMicroPerHour), "usdOnce", model.Dollars(m.CostMicro), "candidates", m.Batch.Candidates, "together", m.Batch.Commands, "usdPerHourSaved", model.Dollars(m.Batch.SavingMicroPerHour), "usdPerHourSavedBound", model.Dollars(m.Batch.SavingBoundMicroPerHour),
			"names", names)
		command := &ledger.Command{Nodes: len(m.Candidates), Replacements: len(m.Replacements), Saved: m.SavingMicroPerHour(), Cost: m.CostMicro}
		rec.commands[m.ID] = command
		for _, u := range m.Candidates {
			own := why
			own.Pool, own.Command = u.Pool.Name, m.ID
			keys := make([]string, len(u.Pods))
			for i, p := range u.Pods {
				keys[i] = p.Key()
			}
			rec.ledger.Add(ledger.Entry{At: now, Kind: "move", Command: command, Subject: "node/" + u.Node.Name, Why: []plan.Reason{own}, Pods: keys, Related: append([]string{"nodeclaim/" + u.Claim.Name}, deploymentsOf(u.Pods)...),
				Type: u.Node.Labels["node.kubernetes.io/instance-type"], Micro: u.PriceMicro, Before: rec.claims.cost, After: rec.claims.cost})
			text := fmt.Sprintf("%s: removing %s, launching %d; $%s/h becomes $%s/h", m.Cause, model.Count(len(m.Candidates), "node"), len(m.Replacements), model.Dollars(m.OldMicroPerHour), model.Dollars(m.NewMicroPerHour))
			if m.TerminateFirst != "" {
				text = fmt.Sprintf("%s: removing 1 node; its replacement is launched afterwards, because there is no other capacity for it", m.Cause)
			}
			if all := m.Batch; all.SavingBoundMicroPerHour > 0 {
				text += fmt.Sprintf("; all disruptions started now save $%s/h (at most $%s/h possible by evicting %s)", model.Dollars(all.SavingMicroPerHour), model.Dollars(all.SavingBoundMicroPerHour), model.Count(all.Evictions, "pod"))
			}
			rec.events.Event("NodeClaim", "", u.Claim.Name, u.Claim.UID, false, "DisruptionLaunching", text)
			if m.Cause == plan.Underutilized && u.Pool.ConsolidationPolicy == "Balanced" {
				rec.events.Event("Node", "", u.Node.Name, u.Node.UID, false, "ConsolidationApproved", text)
			}
		}
	}
	for _, k := range out.Kept {
		if moved[k.Node] {
			continue // evaluated alone, and removed together with others
		}
		rec.tellKept(now, k)
		rec.ledger.Add(ledger.Entry{At: now, Kind: ledger.Keep, Subject: "node/" + k.Node, Why: []plan.Reason{k.Why}, Outcome: "looked at because: " + string(k.Cause)})
	}
	for _, a := range out.Actions {
		u, ok := a.(plan.UpdateClaim)
		if !ok || u.Why.Code != plan.Aborted || len(u.Conditions) == 0 {
			continue
		}
		why := plan.DetailOf[plan.OfAborted](u.Why)
		rec.metrics.CountAbortedCommand(why.Cause)
		rec.log.Info("disruption command cancelled", "command", u.Why.Command, "nodeclaim", u.Claim, "because", string(why.Said))
		rec.ledger.Add(ledger.Entry{At: now, Kind: "abort", Subject: "nodeclaim/" + u.Claim, Why: []plan.Reason{u.Why}})
		rec.events.Event("NodeClaim", "", u.Claim, u.UID, true, "DisruptionBlocked", "Disruption command cancelled: "+string(why.Said))
		rec.groups.tellScaleDownFailed(rec.objects.FindClaim(u.Claim), why.Cause, string(why.Said))
	}
}

// tellKept tells those who watch a node that was looked at and left alone.
func (rec *Recorder) tellKept(now time.Time, k decide.Kept) {
	if k.Cause != plan.Underutilized {
		return
	}
	if pool, score, ok := disrupt.BalancedScore(k.Why); ok {
		rec.metrics.CountBalancedScore("rejected", pool, score)
	}
	n := plan.Note{Event: "Unconsolidatable", Kind: "Node", Name: k.Node, Why: k.Why}
	if k.Why.Code == plan.NotBalanced {
		n.Event = "ConsolidationRejected"
	}
	notes := []plan.Note{n}
	if cl := rec.objects.FindClaimByNode(k.Node); cl != nil {
		n.Kind, n.Name, n.UID = "NodeClaim", cl.Name, cl.UID
		notes = append(notes, n)
	}
	rec.tellNotes(now, notes)
}

// refuseMove tells that a disruption command was refused by verify.
func (rec *Recorder) refuseMove(now time.Time, m approve.RefusedMove) {
	rec.metrics.CountRefusedCommand(&m.StartedCommand)
	var names []string
	for _, u := range m.Candidates {
		names = append(names, u.Node.Name)
		rec.ledger.Add(ledger.Entry{At: now, Kind: "verify", Subject: "node/" + u.Node.Name, Why: []plan.Reason{{Code: m.Cause, Pool: u.Pool.Name, Command: m.ID}},
			Outcome: "refused: " + m.Err.Error()})
	}
	rec.log.Error("disruption command failed verification and is not carried out; this is a bug in Dovetail", "command", m.ID, "why", string(m.Cause), "names", names, "violations", m.Err.Error())
}
