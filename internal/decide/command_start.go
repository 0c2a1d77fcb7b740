// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/decide/pools"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// disruptionCommands starts disruption commands and takes those under way on.
type disruptionCommands struct {
	*commandTable
	candidates *candidates
	health     *claims.Health
	hosts      *commandHosts
	nodes      *solverView
	purchases  *purchases
	placements *placements
	endsFirst  *terminateFirst

	taintedAt map[plan.CommandID]time.Time // the next memory's
}

// markDisrupted sets the condition that names a claim's command.
func (dc *disruptionCommands) markDisrupted(c *model.Claim, r cluster.CommandRecord) {
	dc.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: r.Cause, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name), Command: r.ID},
		Conditions: map[string]model.Condition{lifecycle.Disrupted: {Status: "True", Reason: string(r.Cause), Message: r.ID.Message()}}})
}

// start starts a disruption command: the replacements first, which makes it durable, then the condition on the claims
// to delete.
func (dc *disruptionCommands) start(m *disrupt.Command) {
	hosts := dc.hosts.hostsFor(m.Candidates, m.OnExisting)
	r := cluster.CommandRecord{Cause: m.Cause, Of: len(m.Replacements), Hosts: len(hosts)}
	if m.OneForOne {
		r.Of = len(m.Candidates)
	}
	parts := []string{string(m.Cause), strconv.FormatInt(dc.Now.Unix(), 10)}
	for _, u := range m.Candidates {
		r.Claims = append(r.Claims, u.Claim.UID)
		parts = append(parts, u.Claim.UID)
		dc.candidates.countDown(u.Pool, 1)
		if x := dc.candidates.guard.NodeGroups[u.NodeGroup()]; x != nil {
			x.Staying--
		}
	}
	m.Candidates = dc.candidates.markStarting(m.Candidates)
	for _, a := range m.OnExisting {
		for _, p := range a.Pods {
			if p.IsVirtual() { // nobody but buffers knows of its place
				dc.out.Pods = append(dc.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnNode, Target: a.Node})
			}
		}
	}
	r.ID = plan.CommandID(cluster.HashName(10, parts...))
	dc.setHosts(r.ID, hosts)
	dc.out.Commands = append(dc.out.Commands, StartedCommand{ID: r.ID, Command: m})
	if r.Of > 0 {
		text, err := json.Marshal(r)
		if err != nil {
			return // a struct of strings can be written
		}
		notes := map[string]string{cluster.AnnotationCommand: string(text)}
		if s := m.SavingMicroPerHour(); s > 0 && m.Cause == plan.Underutilized {
			hours := float64(m.CostMicro) / float64(s)
			notes[disrupt.KeepUntil] = dc.Now.Add(min(time.Duration(hours*float64(time.Hour)), dc.pol.Disrupt.Horizon)).UTC().Format(time.RFC3339)
		}
		at := len(dc.out.Actions)
		dc.purchases.createClaims(m.Replacements, r.Claims...)
		if m.OneForOne {
			for _, u := range m.Candidates {
				if a, ok := pools.StaticClaim(dc.View, u.Pool, dc.pol.Solve.MaxTypes, dc.Decided, m.Why); ok {
					if pods := slices.DeleteFunc(slices.Clone(model.RealPods(u.Pods)), func(p *model.Pod) bool { return !p.IsReschedulable() }); dc.pol.Landing.Mode == landing.Bind && len(pods) > 0 && len(u.Pool.StartupTaints) == 0 {
						a.Slots, a.Reserved, a.NoReserve = cluster.SlotsForPods(pods), true, plan.Reason{} // those of the one that goes
					}
					dc.addAction(a)
				}
			}
		}
		for i := at; i < len(dc.out.Actions); i++ {
			if a, ok := dc.out.Actions[i].(plan.CreateClaim); ok {
				a.Annotations = notes
				if keep := dc.Now.Add(dc.pol.Disrupt.Horizon).UTC().Format(time.RFC3339); !a.Reserved && notes[disrupt.KeepUntil] != "" {
					// Other pods may take its capacity, and then the command has not saved what it promised: not again
					// soon.
					a.Annotations = map[string]string{cluster.AnnotationCommand: notes[cluster.AnnotationCommand], disrupt.KeepUntil: keep}
				}
				a.Why = plan.Reason{Code: m.Cause, Pool: a.Pool.Name, Detail: m.Why.Detail, Command: r.ID}
				dc.out.Actions[i] = a
			}
		}
	}
	if r.Of > 0 {
		return // the replacements say which claims go; those are marked once the replacements are there, or a lost one would go unnoticed
	}
	next := make(map[string]cluster.UnwrittenCommand, len(dc.mem.unwritten)+len(m.Candidates))
	maps.Copy(next, dc.mem.unwritten)
	for _, u := range m.Candidates {
		next[u.Claim.UID] = cluster.UnwrittenCommand{CommandRecord: r, Since: dc.Now}
		dc.markDisrupted(u.Claim, r)
		dc.taintCandidate(u.Node, u.Claim, r)
	}
	dc.mem.unwritten = next
	dc.hosts.reserveHosts(&cluster.Command{CommandRecord: r})
}
