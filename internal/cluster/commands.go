// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cluster

import (
	"maps"
	"slices"
	"time"

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
// alone; until that has been read back, it is an UnwrittenCommand.

// Command is a running disruption command, as read from the Snapshot.
type Command struct {
	CommandRecord
	Since        time.Time
	Candidates   []*model.Claim // candidates that are not being deleted yet
	Deleting     int            // that are
	Replacements []*model.Claim
	HostedOn     []*model.Claim // nodes with AnnotationHost
}

// UnwrittenCommand is a command without replacements whose condition the watch has not shown yet.
type UnwrittenCommand struct {
	CommandRecord
	Since time.Time
}

// Commands are the running disruption commands.
type Commands struct {
	ByID map[plan.CommandID]*Command

	ofClaim  map[string]plan.CommandID // by name of a claim that a command deletes: the command's id
	involved map[string]bool           // by claim name: its objects speak of a command, or one deletes it

	Lost      map[plan.CommandID]CommandRecord // commands known only from replacements that are being deleted
	Unwritten map[string]UnwrittenCommand      // by claim uid: those given that no object of their claim speaks of yet
}

// ReadCommands returns the disruption commands under way, as claims and the commands that no object speaks of yet, by claim
// uid, tell them.
func (v *View) ReadCommands(unwritten map[string]UnwrittenCommand) *Commands {
	cs := &Commands{ByID: map[plan.CommandID]*Command{}, ofClaim: map[string]plan.CommandID{}, involved: map[string]bool{}}
	lost := map[plan.CommandID]CommandRecord{} // by replacements that are being deleted
	for _, c := range v.DirtyClaims {
		if r, ok := ReadCommandRecord(c); ok {
			cs.involved[c.Name] = true
			if !c.Deleting.IsZero() || v.Interruptions[c.Name] != nil {
				lost[r.ID] = r
				continue
			}
			m := cs.at(r, c.Created)
			m.Of, m.Hosts, m.Claims = r.Of, r.Hosts, r.Claims
			m.Replacements = append(m.Replacements, c)
		}
	}
	for _, c := range v.DirtyClaims {
		r, ok := ReadHostRecord(c)
		if !ok {
			continue
		}
		if cs.involved[c.Name] = true; c.Deleting.IsZero() && v.Interruptions[c.Name] == nil {
			m := cs.at(r.CommandRecord, r.Since)
			m.Of, m.Hosts = r.Of, r.Hosts
			m.HostedOn = append(m.HostedOn, c)
		}
	}
	for _, c := range v.DirtyClaims {
		id := DisruptedBy(c)
		if id == "" || v.Interruptions[c.Name] != nil { // interrupted: it goes by itself
			continue
		}
		cs.involved[c.Name] = true
		d := c.Conditions[lifecycle.Disrupted]
		m := cs.ByID[id]
		if c.Deleting.IsZero() {
			m = cs.at(CommandRecord{ID: id, Cause: plan.Code(d.Reason)}, d.Since)
		}
		if m != nil { // else nothing is left of its command but claims being deleted
			m.addClaim(c.UID)
		}
	}
	cs.readUnwritten(v, unwritten)
	for id, r := range lost {
		if m := cs.ByID[id]; m != nil {
			m.Of, m.Claims = r.Of, r.Claims
			delete(lost, id)
		}
	}
	cs.Lost = lost
	for _, id := range cs.IDs() {
		m := cs.ByID[id]
		for _, uid := range m.Claims {
			switch c := v.ClaimWithUID(uid); {
			case c == nil:
			case v.Interruptions[c.Name] != nil: // it goes by itself; what was bought for its pods is there for them
			case !c.Deleting.IsZero():
				m.Deleting++
			case cs.ofClaim[c.Name] == "":
				m.Candidates = append(m.Candidates, c)
				cs.ofClaim[c.Name], cs.involved[c.Name] = id, true
			}
		}
	}
	return cs
}

// at returns the command of a record, which is under way since the first of the instants that are given for it.
func (cs *Commands) at(r CommandRecord, since time.Time) *Command {
	m := cs.ByID[r.ID]
	if m == nil {
		m = &Command{CommandRecord: r, Since: since}
		cs.ByID[r.ID] = m
	}
	if since.Before(m.Since) {
		m.Since = since
	}
	return m
}

// readUnwritten takes up the commands that no object speaks of, until the condition of each of their claims has been read
// back.
func (cs *Commands) readUnwritten(v *View, unwritten map[string]UnwrittenCommand) {
	if len(unwritten) == 0 {
		return
	}
	cs.Unwritten = make(map[string]UnwrittenCommand, len(unwritten))
	for _, uid := range slices.Sorted(maps.Keys(unwritten)) {
		b, c := unwritten[uid], v.ClaimWithUID(uid)
		if c == nil || !c.Deleting.IsZero() || DisruptedBy(c) == b.ID {
			continue
		}
		cs.Unwritten[uid] = b
		cs.at(b.CommandRecord, b.Since).addClaim(uid)
	}
}

// addClaim adds a claim, by uid, that the command deletes.
func (m *Command) addClaim(uid string) {
	if !slices.Contains(m.Claims, uid) {
		m.Claims = append(m.Claims[:len(m.Claims):len(m.Claims)], uid)
	}
}

// ReplacementsReady reports whether all known replacements are ready for pods.
func (m *Command) ReplacementsReady() bool {
	return !slices.ContainsFunc(m.Replacements, func(c *model.Claim) bool { return !c.Is(lifecycle.Initialized) })
}

// IDs returns the IDs of the commands, sorted.
func (cs *Commands) IDs() []plan.CommandID { return slices.Sorted(maps.Keys(cs.ByID)) }

// Of returns the ID of the command that will delete a NodeClaim and has not started to; empty: none.
func (cs *Commands) Of(c *model.Claim) plan.CommandID { return cs.ofClaim[c.Name] }

// IsInvolved reports whether a NodeClaim or its node belongs to a command.
func (cs *Commands) IsInvolved(c *model.Claim) bool { return cs.involved[c.Name] }

// HaveHosts reports whether an existing node hosts a command.
func (cs *Commands) HaveHosts() bool {
	for _, m := range cs.ByID {
		if len(m.HostedOn) > 0 {
			return true
		}
	}
	return false
}

// ServedBy returns the command that a claim was made for, or that its node hosts; nil: none.
func (cs *Commands) ServedBy(c *model.Claim) *Command {
	for _, m := range cs.ByID {
		if slices.Contains(m.Replacements, c) || slices.Contains(m.HostedOn, c) {
			return m
		}
	}
	return nil
}

// PodsBeforeCandidates returns the pods that a reservation's slots are for and that come there whatever becomes of
// commands: all but those that are still on candidates. Of no reservation there are none.
func (cs *Commands) PodsBeforeCandidates(v *View, h *Reservation) (out []*model.Pod) {
	if h == nil {
		return nil
	}
	for _, p := range h.Pods {
		if !cs.isOnCandidate(v, p) {
			out = append(out, p)
		}
	}
	return out
}

// isOnCandidate reports whether a pod is on a node whose claim a command deletes and has not begun to.
func (cs *Commands) isOnCandidate(v *View, p *model.Pod) bool {
	if p.Node == "" {
		return false
	}
	n := v.FindNode(p.Node)
	if n < 0 {
		return false
	}
	c := v.ClaimOn(n)
	return c != nil && cs.Of(c) != ""
}
