// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/disruption"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// commandTable is what is remembered of the disruption commands under way: see cluster.Command.
type commandTable struct {
	*draft
	mem      *commandMemory
	backOffs *disruption.BackOffs
	memo     *unchangedMachines

	hostsTaken map[string]bool // by claim: hosts of commands that demand has given pods to in this step
}

// commandMemory is what is remembered of disruption commands from step to step.
type commandMemory struct {
	unwritten map[string]cluster.UnwrittenCommand // by claim uid: the command that it goes in, where no object says so yet
	hosts     map[plan.CommandID]podsByHost       // by command: standing nodes that are to take its pods, until their reservation is written
	lost      map[plan.CommandID]bool             // commands that only replacements on their way out speak of
	taintedAt map[plan.CommandID]time.Time        // by command: when all its nodes were first seen tainted
	pauses    disruption.Pauses
}

// read finds the disruption commands under way, and which claims they delete. The candidates of one that has failed before
// anything was done to them stay, and back off once.
func (ct *commandTable) read() {
	if ct.req.Following != nil {
		ct.forget(ct.req.Following.Dropped)
	}
	ct.commands = ct.ReadCommands(ct.mem.unwritten)
	ct.mem.unwritten = ct.commands.Unwritten
	lost := make(map[plan.CommandID]bool, len(ct.commands.Lost))
	for _, id := range slices.Sorted(maps.Keys(ct.commands.Lost)) {
		if lost[id] = true; ct.mem.lost[id] {
			continue
		}
		for _, uid := range ct.commands.Lost[id].Claims {
			if c := ct.ClaimWithUID(uid); c != nil && c.Deleting.IsZero() {
				ct.backOffs.Hold(uid, ct.pol.BackOff)
			}
		}
	}
	ct.mem.lost = lost
	for _, id := range ct.commands.IDs() {
		ct.memo.markClaimsDirty(ct.commands.ByID[id].Candidates)
	}
	ct.forgetFinishedHosts()
	ct.readPauses()
}

// forget forgets commands, by id, that only the memory knows of.
func (ct *commandTable) forget(ids []plan.CommandID) {
	if len(ids) == 0 {
		return
	}
	unwritten := maps.Clone(ct.mem.unwritten)
	maps.DeleteFunc(unwritten, func(_ string, b cluster.UnwrittenCommand) bool { return slices.Contains(ids, b.ID) })
	ct.mem.unwritten = unwritten
	for _, id := range ids {
		ct.setHosts(id, nil)
	}
}

// isBecomingHost reports whether a claim's node is to take pods of a command, and its reservation for them is not written yet.
func (m *commandMemory) isBecomingHost(claim string) bool {
	for _, hosts := range m.hosts {
		if _, ok := hosts[claim]; ok {
			return true
		}
	}
	return false
}

// podsByHost are the pods that a command gives to each node that hosts it, by the claim's name.
type podsByHost map[string][]*model.Pod

// setHosts sets the hosts of a command in the memory, or forgets them where there are none.
func (ct *commandTable) setHosts(id plan.CommandID, g podsByHost) {
	next := maps.Clone(ct.mem.hosts)
	if delete(next, id); len(g) > 0 {
		if next == nil {
			next = map[plan.CommandID]podsByHost{}
		}
		next[id] = g
	}
	ct.mem.hosts = next
}

// forgetFinishedHosts forgets the hosts of commands that are over, or that have begun to delete: those are in the API
// server.
func (ct *commandTable) forgetFinishedHosts() {
	for _, id := range slices.Sorted(maps.Keys(ct.mem.hosts)) {
		if m := ct.commands.ByID[id]; m == nil || m.Deleting > 0 {
			ct.setHosts(id, nil)
		}
	}
}

// readPauses notes the NodePools whose nodes with pods consolidation is removing, so that it launches no replacement there for a while. Empty
// nodes are removed first after a scale-down, and what is left is not to wait for that.
func (ct *commandTable) readPauses() {
	for _, c := range ct.DirtyClaims {
		if plan.Code(c.Conditions[lifecycle.Disrupted].Reason) != plan.Underutilized || cluster.DisruptedBy(c) == "" {
			continue
		}
		switch {
		case !c.Deleting.IsZero():
			ct.pauseLaunches(c.Pool, c.Deleting)
		case ct.IsDeleting(c):
			ct.pauseLaunches(c.Pool, ct.Now)
		}
	}
}

func (ct *commandTable) pauseLaunches(pool string, at time.Time) {
	ct.mem.pauses = ct.mem.pauses.With(pool, at, ct.pol.LaunchPause)
}

// taintCandidate keeps new pods off a node that is to go.
func (dr *draft) taintCandidate(n *model.Node, c *model.Claim, r cluster.CommandRecord) {
	dr.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, AddTaints: []model.Taint{disrupt.DisruptedTaint}, Why: plan.Reason{Code: r.Cause, Pool: c.Pool, Subject: plan.ObjectOf("node", n.Name), Command: r.ID}})
}

// awaitedReplacements returns the replacements that commands wait for before they delete anything, by command.
func (ct *commandTable) awaitedReplacements() (out []disruption.Awaited) {
	for _, id := range ct.commands.IDs() {
		m := ct.commands.ByID[id]
		for _, c := range m.Replacements {
			if len(m.Candidates) > 0 && m.Deleting == 0 && !c.Is(lifecycle.Initialized) && c.UID != "" {
				out = append(out, disruption.Awaited{Claim: c, Command: id, Cause: m.Cause})
			}
		}
	}
	return out
}
