// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"encoding/json"
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
// alone; until that has been read back, the memory knows of it.

// disruptionCommands are the disruption commands under way, and starts new ones.
type disruptionCommands struct {
	*draft
	mem           *commandMemory
	candidates    *candidates
	interruptions *interruptions
	memo          *unchangedMachines
	nodes         *solverView
	pods          *podTable
	purchases     *purchases
	reservations  *reservations

	byID          map[string]*command
	ofClaim       map[string]string    // by name of a claim that a command deletes: the command's id
	taintedAt     map[string]time.Time // the next memory's
	passiveReason string               // why commands are taken back and none is begun; empty: they go on
}

// commandMemory is what disruptionCommands remembers from step to step.
type commandMemory struct {
	unwritten map[string]unwrittenCommand // by claim uid: the command that it goes in, where no object says so yet
	hosts     map[string]podsByHost       // by command: standing nodes that are to take its pods, until their reservation is written
	lost      map[string]bool             // commands that only replacements on their way out speak of
	taintedAt map[string]time.Time        // by command: when all its nodes were first seen tainted
	backOffs  map[string]backOff          // by claim uid
}

// AnnotationCommand on a NodeClaim says which disruption command it was made for.
const AnnotationCommand = "dovetail.sh/move"

// commandRecord is the value of AnnotationCommand.
type commandRecord struct {
	ID     string    `json:"id"`
	Cause  plan.Code `json:"cause"`
	Of     int       `json:"of"`               // replacements in all
	Hosts  int       `json:"hosts,omitempty"`  // standing nodes that are to take its pods
	Claims []string  `json:"claims,omitempty"` // that go, by uid: a name may come back
}

// command is a disruption command as the Snapshot shows it.
type command struct {
	commandRecord
	since        time.Time
	candidates   []*model.Claim // that are not being deleted yet
	deleting     int            // that are
	replacements []*model.Claim
	hosts        []*model.Claim // that have AnnotationHost
}

var disruptedTaint = model.Taint{Key: model.TaintDisrupted, Effect: model.NoSchedule}

// read finds the disruption commands under way, and which claims they delete.
func (dc *disruptionCommands) read() {
	dc.byID = map[string]*command{}
	dc.ofClaim = map[string]string{}
	lost := map[string]commandRecord{} // by replacements that are being deleted: a command that nothing else speaks of is over
	get := func(r commandRecord, since time.Time) *command {
		m := dc.byID[r.ID]
		if m == nil {
			m = &command{commandRecord: r, since: since}
			dc.byID[r.ID] = m
		}
		if since.Before(m.since) {
			m.since = since
		}
		return m
	}
	for _, c := range dc.dirtyClaims {
		if text := c.Annotations[AnnotationCommand]; text != "" {
			var r commandRecord
			if json.Unmarshal([]byte(text), &r) != nil || r.ID == "" {
				continue // not written by us
			}
			if !c.Deleting.IsZero() || dc.interruptions.byClaim[c.Name] != nil {
				lost[r.ID] = r
				continue
			}
			m := get(r, c.Created)
			m.Of, m.Hosts, m.Claims = r.Of, r.Hosts, r.Claims
			m.replacements = append(m.replacements, c)
		}
	}
	for _, c := range dc.dirtyClaims {
		if r, ok := readHostRecord(c); ok && c.Deleting.IsZero() && dc.interruptions.byClaim[c.Name] == nil {
			m := get(r.commandRecord, r.Since)
			m.Of, m.Hosts = r.Of, r.Hosts
			m.hosts = append(m.hosts, c)
		}
	}
	for _, c := range dc.dirtyClaims {
		if dc.interruptions.byClaim[c.Name] != nil {
			continue // it goes by itself
		}
		id := commandIDOf(c)
		if id == "" {
			continue
		}
		d := c.Conditions[lifecycle.Disrupted]
		m := dc.byID[id]
		if c.Deleting.IsZero() {
			m = get(commandRecord{ID: id, Cause: plan.Code(d.Reason)}, d.Since)
		}
		if m == nil {
			continue // nothing is left of its command but claims being deleted
		}
		if !slices.Contains(m.Claims, c.UID) {
			m.Claims = append(m.Claims[:len(m.Claims):len(m.Claims)], c.UID)
		}
	}
	dc.readUnwritten(get)
	dc.backOffLost(lost)
	for _, id := range sortedKeys(dc.byID) {
		m := dc.byID[id]
		for _, uid := range m.Claims {
			switch c := dc.claimWithUID(uid); {
			case c == nil:
			case dc.interruptions.byClaim[c.Name] != nil: // it goes by itself; what was bought for its pods is there for them
			case !c.Deleting.IsZero():
				m.deleting++
			case dc.ofClaim[c.Name] == "":
				m.candidates = append(m.candidates, c)
				dc.ofClaim[c.Name] = id
			}
		}
		dc.memo.markClaimsDirty(m.candidates)
	}
	dc.forgetFinishedHosts()
}

// backOffLost takes up the records of replacements that are being deleted themselves, by command. A command that
// nothing else speaks of has failed before anything was done to its candidates: they stay, and back off once.
func (dc *disruptionCommands) backOffLost(records map[string]commandRecord) {
	known := make(map[string]bool, len(records))
	for _, id := range sortedKeys(records) {
		r := records[id]
		if m := dc.byID[id]; m != nil {
			m.Of, m.Claims = r.Of, r.Claims
			continue
		}
		known[id] = true
		if dc.mem.lost[id] {
			continue
		}
		for _, uid := range r.Claims {
			if c := dc.claimWithUID(uid); c != nil && c.Deleting.IsZero() {
				dc.backOffClaim(uid, dc.pol.BackOff)
			}
		}
	}
	dc.mem.lost = known
}

// unwrittenCommand is a command without replacements whose condition has not been read back yet.
type unwrittenCommand struct {
	commandRecord
	since time.Time
}

// readUnwritten takes up the commands that only the memory knows of, until the condition of each of their claims has
// been read back.
func (dc *disruptionCommands) readUnwritten(get func(commandRecord, time.Time) *command) {
	if len(dc.mem.unwritten) == 0 {
		return
	}
	left := make(map[string]unwrittenCommand, len(dc.mem.unwritten))
	for _, uid := range sortedKeys(dc.mem.unwritten) {
		b, c := dc.mem.unwritten[uid], dc.claimWithUID(uid)
		if c == nil || !c.Deleting.IsZero() || commandIDOf(c) == b.ID {
			continue
		}
		left[uid] = b
		if m := get(b.commandRecord, b.since); !slices.Contains(m.Claims, uid) {
			m.Claims = append(m.Claims[:len(m.Claims):len(m.Claims)], uid)
		}
	}
	dc.mem.unwritten = left
}

// commandIDOf returns the id of the disruption command that a claim's condition DisruptionReason names; empty: it names
// none.
func commandIDOf(c *model.Claim) string {
	d := c.Conditions[lifecycle.Disrupted]
	if !d.True() {
		return ""
	}
	id, _ := plan.CommandID(d.Message)
	return id
}

// servedBy returns the command under way that a claim was made for, or that its node hosts; nil: none.
func (dc *disruptionCommands) servedBy(c *model.Claim) *command {
	for _, m := range dc.byID {
		if slices.Contains(m.replacements, c) || slices.Contains(m.hosts, c) {
			return m
		}
	}
	return nil
}

// replacementsReady says whether the replacements that are known are ready for pods.
func (m *command) replacementsReady() bool {
	return !slices.ContainsFunc(m.replacements, func(c *model.Claim) bool { return !c.Is(lifecycle.Initialized) })
}
