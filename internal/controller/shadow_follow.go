// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Two autoscalers that see the same changes look at them at other instants, and what a decision is made from is another
// a moment later. So in shadow mode the first write that shows a decision of the other's is held back until it was
// decided here too, from what was seen until then, and as though nothing were under way that was decided here alone:
// the other does not know of that. What it writes later of the same decision is no occasion to decide.

// shadowCommand is a disruption command decided on in shadow mode that the other has not begun.
type shadowCommand struct {
	at         time.Time
	begun      time.Time     // when the other was seen to have begun it; zero: it has not
	candidates []string      // uids of NodeClaims
	actions    []plan.Action // that are taken to be under way
}

// followClaim is told of a NodeClaim as it is read now, before that is taken in.
func (c *Controller) followClaim(was, is *model.Claim) {
	replaces, removed := decide.ReplacedBy(is)
	switch {
	case was == nil && replaces == "":
		c.decideBefore(time.Now(), decide.Request{Solve: true})
		return
	case was == nil || was.Provisional:
		if replaces != "" {
			c.followCommand(replaces, removed...)
		}
		return
	}
	if id, _ := decide.ReplacedBy(was); id != replaces {
		c.followTakingBack(id)
	}
	host, by := decide.HostedCommand(is), decide.DisruptedBy(is)
	switch was := decide.HostedCommand(was); {
	case host != was && host != "":
		c.followCommand(host)
	case host != was:
		c.followTakingBack(was)
	}
	switch {
	case isDisruptedClaim(was) && !isDisruptedClaim(is):
		c.followTakingBack(decide.DisruptedBy(was))
		delete(c.shadow.going, is.UID)
	case isDisruptedClaim(is) && (!isDisruptedClaim(was) || by != decide.DisruptedBy(was)):
		c.followCommand(by, is.UID)
	}
}

// followNode is told of a node as it is read now, before that is taken in.
func (c *Controller) followNode(was, is *model.Node) {
	have := c.shadow.byNode[is.Name]
	if was == nil || have == nil {
		return
	}
	cl := c.State.FindClaim(have.name)
	if cl == nil || !cl.Deleting.IsZero() {
		return
	}
	switch {
	case is.HasTaint(model.TaintDisrupted) && !was.HasTaint(model.TaintDisrupted):
		c.followCommand("", have.uid)
	case !is.HasTaint(model.TaintDisrupted) && was.HasTaint(model.TaintDisrupted):
		c.followTakingBack(decide.DisruptedBy(cl))
	case is.HasTaint(model.TaintReserved) && !was.HasTaint(model.TaintReserved) && cl.Is(lifecycle.Initialized):
		c.followCommand(decide.HostedCommand(cl))
	case !is.HasTaint(model.TaintReserved) && was.HasTaint(model.TaintReserved):
		c.followTakingBack(decide.HostedCommand(cl))
	}
}

// isDisruptedClaim says whether a NodeClaim shows that it is to go.
func isDisruptedClaim(c *model.Claim) bool { return c.Is(lifecycle.Disrupted) || !c.Deleting.IsZero() }

// followCommand takes in that the other disrupts NodeClaims, by uid. id names its command where it is known; no NodeClaims:
// it is not known yet which. Where that is not what was decided here already, all that the other has not begun is decided
// anew: first as in any step, and then with a search for consolidation.
func (c *Controller) followCommand(id string, uids ...string) {
	now, s := time.Now(), c.shadow
	if s.isNews(now, id, uids) && !s.hasDecided(id, uids) && now.Sub(s.anew) >= shadowBurst {
		s.anew = now
		s.dropCommands()
		c.decideBefore(now.Add(shadowBurst), decide.Request{})
		if !s.hasDecided(id, uids) {
			c.decideBefore(now.Add(shadowBurst), decide.Request{SearchNow: true})
		}
	}
	s.noteCommand(now, id, uids)
}

// followTakingBack takes in that an object no longer speaks of a command of the other's: that is taken back, unless it has
// begun to delete.
func (c *Controller) followTakingBack(id string) {
	s := c.shadow
	of := false
	for uid, by := range s.going {
		if by != id {
			continue
		}
		if have := s.claims[uid]; have == nil || have.deleting {
			return
		}
		of = true
	}
	if id == "" || !of {
		return
	}
	c.decideBefore(time.Now(), decide.Request{Following: &decide.Following{TakenBack: []string{id}}})
	maps.DeleteFunc(s.going, func(_, by string) bool { return by == id })
	delete(s.begun, id)
}

// decideBefore decides on what was seen until now, before a change is taken in that shows what the other has decided on.
// Otherwise whoever acts a millisecond sooner would leave nothing to be decided: a pod would have its node, and a node
// that goes is looked at no more.
func (c *Controller) decideBefore(now time.Time, req decide.Request) {
	if !c.synced.Load() || !c.leading.Load() || c.shadow.since.IsZero() {
		return
	}
	c.State.SetNow(now)
	if req.Solve {
		due := c.batches.check(now).solve
		open := c.batches.closeAll(now) // no more are waited for
		if req.Solve = due || open; !req.Solve {
			req.SearchNow = true // it is for no pods
		}
	}
	c.runShadowStep(c.base, now, c.State.Snapshot(now), req)
	c.rest(time.Now())
}

// isNews says whether nothing was known so far of a command of the other's. What has no name is taken to be of one that
// was begun a moment before.
func (s *shadow) isNews(now time.Time, id string, uids []string) bool {
	if _, ok := s.begun[id]; ok && id != "" {
		return false
	}
	if (id == "" || s.unnamed) && now.Sub(s.lastBegun) < shadowBurst {
		return false
	}
	return !slices.ContainsFunc(uids, func(uid string) bool { _, ok := s.going[uid]; return ok })
}

// hasDecided says whether a command that the other has not begun is the one with this id, or else deletes all of these
// NodeClaims.
func (s *shadow) hasDecided(id string, uids []string) bool {
	if s.commands[id] != nil {
		return true
	}
	for _, m := range s.commands {
		missing := func(uid string) bool { return !slices.Contains(m.candidates, uid) }
		if m.begun.IsZero() && len(uids) > 0 && !slices.ContainsFunc(uids, missing) && (id == "" || len(uids) == len(m.candidates)) {
			return true
		}
	}
	return false
}

// noteCommand notes what is known of a command of the other's. What was decided here for the same NodeClaims is under way
// no more beside it, unless it is that very command: then it is the other's.
func (s *shadow) noteCommand(now time.Time, id string, uids []string) {
	for _, uid := range uids {
		if s.going[uid] == "" {
			s.going[uid] = id
		}
	}
	if _, ok := s.begun[id]; !ok {
		s.lastBegun = now
	}
	s.unnamed = id == ""
	if id == "" {
		return
	}
	s.begun[id] = now
	if m := s.commands[id]; m != nil && m.begun.IsZero() {
		m.begun = now
	}
	for _, own := range slices.Sorted(maps.Keys(s.commands)) {
		if own != id && slices.ContainsFunc(s.commands[own].candidates, func(uid string) bool { return slices.Contains(uids, uid) }) {
			s.dropCommand(own)
		}
	}
}

// noteAction notes an action that is taken to be under way for a command.
func (s *shadow) noteAction(a plan.Action) {
	if m := s.commands[commandOf(a)]; m != nil {
		m.actions = append(m.actions, a)
	}
}

// isOfOwnCommand says whether an action is for a command that the other has not begun.
func (s *shadow) isOfOwnCommand(a plan.Action) bool { return s.commands[commandOf(a)] != nil }

// commandOf returns the id of the disruption command that an action is for, as its reason says it.
func commandOf(a plan.Action) string {
	key := a.Because().Key
	if id, ok := plan.CommandID(key); ok {
		return id
	}
	return key
}

// dropCommands drops all commands that the other has not begun, to be decided on anew.
func (s *shadow) dropCommands() {
	for _, id := range slices.Sorted(maps.Keys(s.commands)) {
		if s.commands[id].begun.IsZero() {
			s.dropCommand(id)
		}
	}
}

// dropCommand no longer takes what was begun for a command to be under way. What was decided stays to be compared.
func (s *shadow) dropCommand(id string) {
	s.endActions(id)
	s.dropped = append(s.dropped, id)
}

// endActions no longer takes the actions of a command to be under way that the other does, or that nobody does.
func (s *shadow) endActions(id string) {
	for _, a := range s.commands[id].actions {
		if create, ok := a.(plan.CreateClaim); ok {
			s.dropClaim(create.Name)
			continue
		}
		s.state.InFlight.EndAction(a.Key())
		if u, ok := a.(plan.UpdateClaim); ok && u.SetSlots {
			s.state.Overlay.DropSlots(u.Claim)
		}
	}
	delete(s.commands, id)
}

// settleCommands ends what is no longer to be waited for: the other has had the time to show all of a command that it has
// begun, or has not begun it for long. It returns the commands that were dropped since it was asked last.
func (s *shadow) settleCommands(now time.Time) []string {
	for _, id := range slices.Sorted(maps.Keys(s.commands)) {
		switch m := s.commands[id]; {
		case !m.begun.IsZero() && now.Sub(m.begun) >= shadowStep:
			s.endActions(id)
		case m.begun.IsZero() && now.Sub(m.at) >= shadowHold:
			s.dropCommand(id)
		}
	}
	out := s.dropped
	s.dropped = nil
	return out
}
