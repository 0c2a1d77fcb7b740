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

// A disruption command deletes machines, the candidates, for a reason. Replacements come first where pods need them,
// each with slots for those pods' successors. When all replacements are initialized the candidates' nodes are tainted;
// when the taints are seen and every pod still has a place the candidates' claims are deleted, and lifecycle drains
// them. Until then the command can be taken back: taints and conditions are removed and the replacements become
// machines like any other.
//
// Its record is in the API server alone, so that it outlives the process that started it: AnnotationCommand on each
// replacement names the command, how many replacements it has and which claims it deletes; the condition
// DisruptionReason on each of those names the command too. A command whose replacements are not all there was not
// started whole, or has lost one: it is taken back. A command without replacements is written down by the condition
// alone; until that has been read back, the memory knows of it.

// commandTable holds the disruption commands under way.
type commandTable struct {
	*draft
	mem      *commandMemory
	backOffs *disruption.BackOffs
	memo     *unchangedMachines

	byID    map[plan.CommandID]*command
	ofClaim map[string]plan.CommandID // by name of a claim that a command deletes: the command's id

	involved map[string]bool // by claim name: its objects speak of a command, or one deletes it

	hostsTaken map[string]bool // by claim: hosts of commands that demand has given pods to in this step
}

// commandMemory is what is remembered of disruption commands from step to step.
type commandMemory struct {
	unwritten map[string]unwrittenCommand   // by claim uid: the command that it goes in, where no object says so yet
	hosts     map[plan.CommandID]podsByHost // by command: standing nodes that are to take its pods, until their reservation is written
	lost      map[plan.CommandID]bool       // commands that only replacements on their way out speak of
	taintedAt map[plan.CommandID]time.Time  // by command: when all its nodes were first seen tainted
}

// command is a disruption command as the Snapshot shows it.
type command struct {
	cluster.CommandRecord
	since        time.Time
	candidates   []*model.Claim // that are not being deleted yet
	deleting     int            // that are
	replacements []*model.Claim
	hosts        []*model.Claim // that have AnnotationHost
}

// hasHosts reports whether a standing node hosts a disruption command.
func (ct *commandTable) hasHosts() bool {
	for _, m := range ct.byID {
		if len(m.hosts) > 0 {
			return true
		}
	}
	return false
}

// read finds the disruption commands under way, and which claims they delete.
func (ct *commandTable) read() {
	if ct.req.Following != nil {
		ct.forget(ct.req.Following.Dropped)
	}
	ct.byID = map[plan.CommandID]*command{}
	ct.ofClaim, ct.involved = map[string]plan.CommandID{}, map[string]bool{}
	lost := map[plan.CommandID]cluster.CommandRecord{} // by replacements that are being deleted: a command that nothing else speaks of is over
	get := func(r cluster.CommandRecord, since time.Time) *command {
		m := ct.byID[r.ID]
		if m == nil {
			m = &command{CommandRecord: r, since: since}
			ct.byID[r.ID] = m
		}
		if since.Before(m.since) {
			m.since = since
		}
		return m
	}
	for _, c := range ct.DirtyClaims {
		if r, ok := cluster.ReadCommandRecord(c); ok {
			ct.involved[c.Name] = true
			if !c.Deleting.IsZero() || ct.Interruptions[c.Name] != nil {
				lost[r.ID] = r
				continue
			}
			m := get(r, c.Created)
			m.Of, m.Hosts, m.Claims = r.Of, r.Hosts, r.Claims
			m.replacements = append(m.replacements, c)
		}
	}
	for _, c := range ct.DirtyClaims {
		r, ok := cluster.ReadHostRecord(c)
		if !ok {
			continue
		}
		if ct.involved[c.Name] = true; c.Deleting.IsZero() && ct.Interruptions[c.Name] == nil {
			m := get(r.CommandRecord, r.Since)
			m.Of, m.Hosts = r.Of, r.Hosts
			m.hosts = append(m.hosts, c)
		}
	}
	for _, c := range ct.DirtyClaims {
		if ct.Interruptions[c.Name] != nil {
			continue // it goes by itself
		}
		id := cluster.DisruptedBy(c)
		if id == "" {
			continue
		}
		ct.involved[c.Name] = true
		d := c.Conditions[lifecycle.Disrupted]
		m := ct.byID[id]
		if c.Deleting.IsZero() {
			m = get(cluster.CommandRecord{ID: id, Cause: plan.Code(d.Reason)}, d.Since)
		}
		if m == nil {
			continue // nothing is left of its command but claims being deleted
		}
		if !slices.Contains(m.Claims, c.UID) {
			m.Claims = append(m.Claims[:len(m.Claims):len(m.Claims)], c.UID)
		}
	}
	ct.readUnwritten(get)
	ct.backOffLost(lost)
	for _, id := range slices.Sorted(maps.Keys(ct.byID)) {
		m := ct.byID[id]
		for _, uid := range m.Claims {
			switch c := ct.ClaimWithUID(uid); {
			case c == nil:
			case ct.Interruptions[c.Name] != nil: // it goes by itself; what was bought for its pods is there for them
			case !c.Deleting.IsZero():
				m.deleting++
			case ct.ofClaim[c.Name] == "":
				m.candidates = append(m.candidates, c)
				ct.ofClaim[c.Name], ct.involved[c.Name] = id, true
			}
		}
		ct.memo.markClaimsDirty(m.candidates)
	}
	ct.forgetFinishedHosts()
}

// forget forgets commands, by id, that only the memory knows of.
func (ct *commandTable) forget(ids []plan.CommandID) {
	if len(ids) == 0 {
		return
	}
	unwritten := maps.Clone(ct.mem.unwritten)
	maps.DeleteFunc(unwritten, func(_ string, b unwrittenCommand) bool { return slices.Contains(ids, b.ID) })
	ct.mem.unwritten = unwritten
	for _, id := range ids {
		ct.setHosts(id, nil)
	}
}

// backOffLost takes up the records of replacements that are being deleted themselves, by command. A command that
// nothing else speaks of has failed before anything was done to its candidates: they stay, and back off once.
func (ct *commandTable) backOffLost(records map[plan.CommandID]cluster.CommandRecord) {
	known := make(map[plan.CommandID]bool, len(records))
	for _, id := range slices.Sorted(maps.Keys(records)) {
		r := records[id]
		if m := ct.byID[id]; m != nil {
			m.Of, m.Claims = r.Of, r.Claims
			continue
		}
		known[id] = true
		if ct.mem.lost[id] {
			continue
		}
		for _, uid := range r.Claims {
			if c := ct.ClaimWithUID(uid); c != nil && c.Deleting.IsZero() {
				ct.backOffs.Hold(uid, ct.pol.BackOff)
			}
		}
	}
	ct.mem.lost = known
}

// unwrittenCommand is a command without replacements whose condition has not been read back yet.
type unwrittenCommand struct {
	cluster.CommandRecord
	since time.Time
}

// readUnwritten takes up the commands that only the memory knows of, until the condition of each of their claims has
// been read back.
func (ct *commandTable) readUnwritten(get func(cluster.CommandRecord, time.Time) *command) {
	if len(ct.mem.unwritten) == 0 {
		return
	}
	left := make(map[string]unwrittenCommand, len(ct.mem.unwritten))
	for _, uid := range slices.Sorted(maps.Keys(ct.mem.unwritten)) {
		b, c := ct.mem.unwritten[uid], ct.ClaimWithUID(uid)
		if c == nil || !c.Deleting.IsZero() || cluster.DisruptedBy(c) == b.ID {
			continue
		}
		left[uid] = b
		if m := get(b.CommandRecord, b.since); !slices.Contains(m.Claims, uid) {
			m.Claims = append(m.Claims[:len(m.Claims):len(m.Claims)], uid)
		}
	}
	ct.mem.unwritten = left
}

// servedBy returns the command under way that a claim was made for, or that its node hosts; nil: none.
func (ct *commandTable) servedBy(c *model.Claim) *command {
	for _, m := range ct.byID {
		if slices.Contains(m.replacements, c) || slices.Contains(m.hosts, c) {
			return m
		}
	}
	return nil
}

// replacementsReady reports whether the replacements that are known are ready for pods.
func (m *command) replacementsReady() bool {
	return !slices.ContainsFunc(m.replacements, func(c *model.Claim) bool { return !c.Is(lifecycle.Initialized) })
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
		if m := ct.byID[id]; m == nil || m.deleting > 0 {
			ct.setHosts(id, nil)
		}
	}
}

// isRevocable reports whether a claim holds slots for a command that can still be taken back: pods that are pending come
// before its pods.
func (ct *commandTable) isRevocable(c *model.Claim) bool {
	r, ok := cluster.ReadHostRecord(c)
	if !ok {
		return false
	}
	m := ct.byID[r.ID]
	return m != nil && m.deleting == 0 && len(m.candidates) > 0 && !slices.ContainsFunc(m.candidates, ct.isAboutToBeDeleted)
}

// isOnCandidate reports whether a pod is on a node whose claim a command deletes and has not begun to.
func (ct *commandTable) isOnCandidate(p *model.Pod) bool {
	if p.Node == "" {
		return false
	}
	n := ct.FindNode(p.Node)
	return n >= 0 && ct.ClaimOf(n) >= 0 && ct.ofClaim[ct.Snapshot.Claims[ct.ClaimOf(n)].Name] != ""
}

// podsBeforeCandidates returns the pods that a reservation's slots are for and that come there whatever becomes of
// commands: all but those that are still on candidates. Of no reservation there are none.
func (ct *commandTable) podsBeforeCandidates(h *cluster.Reservation) (out []*model.Pod) {
	if h == nil {
		return nil
	}
	for _, p := range h.Pods {
		if !ct.isOnCandidate(p) {
			out = append(out, p)
		}
	}
	return out
}

// taintCandidate keeps new pods off a node that is to go.
func (dr *draft) taintCandidate(n *model.Node, c *model.Claim, r cluster.CommandRecord) {
	dr.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, AddTaints: []model.Taint{disrupt.DisruptedTaint}, Why: plan.Reason{Code: r.Cause, Pool: c.Pool, Subject: plan.ObjectOf("node", n.Name), Command: r.ID}})
}

// isStaying reports whether nothing takes a claim away: it is not being deleted, neither in the API server nor by a request
// under way, no disruption command deletes it, and its cloud has not announced that it will.
func (ct *commandTable) isStaying(c *model.Claim) bool {
	return c.Deleting.IsZero() && ct.ofClaim[c.Name] == "" && ct.Interruptions[c.Name] == nil && !ct.IsDeleting(c)
}

// awaitedReplacements returns the replacements that commands wait for before they delete anything, by command.
func (ct *commandTable) awaitedReplacements() (out []disruption.Awaited) {
	for _, id := range slices.Sorted(maps.Keys(ct.byID)) {
		m := ct.byID[id]
		for _, c := range m.replacements {
			if len(m.candidates) > 0 && m.deleting == 0 && !c.Is(lifecycle.Initialized) && c.UID != "" {
				out = append(out, disruption.Awaited{Claim: c, Command: id, Cause: m.Cause})
			}
		}
	}
	return out
}
