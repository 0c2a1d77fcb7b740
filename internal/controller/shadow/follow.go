// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shadow

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Two autoscalers that see the same changes look at them at other instants, and what a decision is made from is another
// a moment later. So in shadow mode the first write that shows a decision of the other's is held back until it was
// decided here too, from what was seen until then, and as though nothing were under way that was decided here alone:
// the other does not know of that. What it writes later of the same decision is no occasion to decide. Which instant it
// decided at can't be known, so several are tried (decideLike).

// FollowClaim processes a change of a NodeClaim before State is updated.
func (s *Watcher) FollowClaim(was, is *model.Claim) {
	replaces, removed := cluster.ReplacedBy(is)
	switch {
	case was == nil && replaces == "":
		s.decideBefore(time.Now(), decide.Request{Solve: true})
		return
	case was == nil || was.Provisional:
		if replaces != "" {
			s.followCommand(begunCommand{replaces, removed, true})
		}
		return
	}
	if id, _ := cluster.ReplacedBy(was); id != replaces {
		s.followTakingBack(id)
	}
	host, by := cluster.HostedCommand(is), cluster.DisruptedBy(is)
	switch was := cluster.HostedCommand(was); {
	case host != was && host != "":
		s.followCommand(begunCommand{id: host})
	case host != was:
		s.followTakingBack(was)
	}
	switch {
	case isDisruptedClaim(was) && !isDisruptedClaim(is):
		s.followTakingBack(cluster.DisruptedBy(was))
		delete(s.going, is.UID)
	case isDisruptedClaim(is) && (!isDisruptedClaim(was) || by != cluster.DisruptedBy(was)):
		s.followCommand(begunCommand{id: by, uids: []string{is.UID}})
	}
}

// FollowNode processes a change of a node before State is updated.
func (s *Watcher) FollowNode(was, is *model.Node) {
	have := s.byNode[is.Name]
	if was == nil || have == nil {
		return
	}
	cl := s.state.FindClaim(have.name)
	if cl == nil || !cl.Deleting.IsZero() {
		return
	}
	switch {
	case is.HasTaint(model.TaintDisrupted) && !was.HasTaint(model.TaintDisrupted):
		s.followCommand(begunCommand{uids: []string{have.uid}})
	case !is.HasTaint(model.TaintDisrupted) && was.HasTaint(model.TaintDisrupted):
		s.followTakingBack(cluster.DisruptedBy(cl))
	case is.HasTaint(model.TaintReserved) && !was.HasTaint(model.TaintReserved) && cl.Is(lifecycle.Initialized):
		if id := cluster.HostedCommand(cl); id != "" {
			s.followCommand(begunCommand{id: id})
		} else { // its NodeClaim names the command, and is about to be seen
			s.takeSnapshot(time.Now())
		}
	case !is.HasTaint(model.TaintReserved) && was.HasTaint(model.TaintReserved):
		s.followTakingBack(cluster.HostedCommand(cl))
	}
}

// isDisruptedClaim reports whether a NodeClaim shows that it is to go.
func isDisruptedClaim(c *model.Claim) bool { return c.Is(lifecycle.Disrupted) || !c.Deleting.IsZero() }

// begunCommand is what a write shows of a disruption command that the other has begun.
type begunCommand struct {
	id       plan.CommandID // empty: it is not known
	uids     []string       // of NodeClaims that it deletes; empty: it is not known yet which
	replaces bool           // it makes others for them
}

// isStartedBy reports whether a command with an id that removes candidates, by uid, is this one: that has the same id, or removes
// the same NodeClaims; where it has none, more may be removed than is known yet.
func (b begunCommand) isStartedBy(id plan.CommandID, candidates []string) bool {
	if id == b.id {
		return true
	}
	missing := func(uid string) bool { return !slices.Contains(candidates, uid) }
	return len(b.uids) > 0 && !slices.ContainsFunc(b.uids, missing) && (b.id == "" || len(b.uids) == len(candidates))
}

// followCommand takes in that the other has begun a command. Where that is not what was decided here already, all that the
// other has not begun is decided anew.
func (s *Watcher) followCommand(b begunCommand) {
	now := time.Now()
	if b.id == "" && len(b.uids) > 0 {
		b.id = s.going[b.uids[0]]
	}
	if s.isNews(now, b) && !s.hasDecided(b) {
		s.dropCommands()
		s.decideLike(now, b)
	}
	s.noteCommand(now, b)
}

// followTakingBack takes in that an object no longer speaks of a command of the other's: that is taken back, unless it has
// begun to delete.
func (s *Watcher) followTakingBack(id plan.CommandID) {
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
	s.decideBefore(time.Now(), decide.Request{Following: &decide.Following{TakenBack: []plan.CommandID{id}}})
	maps.DeleteFunc(s.going, func(_ string, by plan.CommandID) bool { return by == id })
	delete(s.begun, id)
}

// hasWatched reports whether the cluster is known and was looked at once, so that there is something to decide on.
func (s *Watcher) hasWatched() bool { return s.loop.IsWatching() && !s.since.IsZero() }

// decideBefore decides on what was seen until now, before a change is taken in that shows what the other has decided on.
// Otherwise whoever acts a millisecond sooner would leave nothing to be decided: a pod would have its node, and a node
// that goes is looked at no more.
func (s *Watcher) decideBefore(now time.Time, req decide.Request) {
	if !s.hasWatched() {
		return
	}
	s.state.SetNow(now)
	if req.Solve {
		req.Solve = s.loop.CloseBatches(now)        // no more are waited for
		req.SearchNow = req.SearchNow || !req.Solve // if it is for no pods
	}
	s.Step(now, s.state.Snapshot(now), req)
	s.loop.Rest(time.Now())
}

// decideLike decides anew as the other may have that has begun a command: on what was seen until now or until some
// milliseconds before, then or up to burst later, when more was due, and at last with a search for consolidation. The
// first of these decisions that starts the same command is taken, else that of now.
func (s *Watcher) decideLike(now time.Time, b begunCommand) {
	if !s.hasWatched() {
		return
	}
	latest := s.takeSnapshot(now)
	s.observe(now, latest)
	req := decide.Request{Following: &decide.Following{Dropped: s.settleCommands(now)}}
	chosen, began, found := seenSnapshot{now, latest}, time.Now(), false
tries:
	for _, search := range []bool{false, true} {
		for _, seen := range slices.Backward(s.recent) {
			for _, later := range []time.Duration{0, burst} {
				at, r := seen.at.Add(later), req
				r.SearchNow = search
				out := s.loop.Try(at, seen.snap, r)
				i := slices.IndexFunc(out.Commands, func(m decide.StartedCommand) bool { return b.isStartedBy(m.ID, candidateUIDs(&m)) })
				same := i >= 0 && (len(out.Commands[i].Replacements) > 0) == b.replaces
				if same || i >= 0 && !found {
					chosen, req, found = seenSnapshot{at, seen.snap}, r, true
				}
				if same || time.Since(began) > tryFor {
					break tries
				}
			}
		}
	}
	s.decide(chosen.at, chosen.snap, req)
	s.loop.Rest(time.Now())
}

// takeSnapshot returns what the cluster looks like now, and keeps that.
func (s *Watcher) takeSnapshot(now time.Time) *model.Snapshot {
	s.state.SetNow(now)
	snap := s.state.Snapshot(now)
	s.keepSnapshot(now, snap)
	return snap
}

// keepSnapshot keeps a Snapshot for as long as the other may have decided on it, of which what it writes is seen only later.
func (s *Watcher) keepSnapshot(now time.Time, snap *model.Snapshot) {
	s.recent = slices.DeleteFunc(s.recent, func(x seenSnapshot) bool { return now.Sub(x.at) > burst })
	s.recent = append(s.recent, seenSnapshot{now, snap})
}

// isNews reports whether nothing was known so far of a command of the other's. What has no name is taken to be of one that
// was begun a moment before.
func (s *Watcher) isNews(now time.Time, b begunCommand) bool {
	_, known := s.begun[b.id]
	if known && b.id != "" || b.id == "" && now.Sub(s.lastBegun) < burst {
		return false
	}
	return !slices.ContainsFunc(b.uids, func(uid string) bool { _, ok := s.going[uid]; return ok })
}

// hasDecided reports whether this command was decided here: by its id, or as one that the other has not begun yet.
func (s *Watcher) hasDecided(b begunCommand) bool {
	if s.commands[b.id] != nil {
		return true
	}
	for id, m := range s.commands {
		if m.begun.IsZero() && b.isStartedBy(id, m.candidates) {
			return true
		}
	}
	return false
}

// noteCommand notes what is known of a command of the other's. What was decided here for the same NodeClaims is under way
// no more beside it, unless it is that very command: then it is the other's.
func (s *Watcher) noteCommand(now time.Time, b begunCommand) {
	for _, uid := range b.uids {
		if s.going[uid] == "" {
			s.going[uid] = b.id
		}
	}
	if _, ok := s.begun[b.id]; !ok {
		s.lastBegun = now
	}
	if b.id == "" {
		return
	}
	s.begun[b.id] = now
	if m := s.commands[b.id]; m != nil && m.begun.IsZero() {
		m.begun = now
	}
	for _, own := range slices.Sorted(maps.Keys(s.commands)) {
		if own != b.id && slices.ContainsFunc(s.commands[own].candidates, func(uid string) bool { return slices.Contains(b.uids, uid) }) {
			s.dropCommand(own)
		}
	}
}

// noteAction notes an action that is taken to be under way for a command.
func (s *Watcher) noteAction(a plan.Action) {
	if m := s.commands[commandOf(a)]; m != nil {
		m.actions = append(m.actions, a)
	}
}

// isOfOwnCommand reports whether an action is for a command that the other has not begun.
func (s *Watcher) isOfOwnCommand(a plan.Action) bool { return s.commands[commandOf(a)] != nil }

// commandOf returns the id of the disruption command that an action is for, as its reason says it.
func commandOf(a plan.Action) plan.CommandID { return a.Because().Command }

// dropCommands drops all commands that the other has not begun, to be decided on anew.
func (s *Watcher) dropCommands() {
	for _, id := range slices.Sorted(maps.Keys(s.commands)) {
		if s.commands[id].begun.IsZero() {
			s.dropCommand(id)
		}
	}
}

// dropCommand no longer takes what was begun for a command to be under way. What was decided stays to be compared.
func (s *Watcher) dropCommand(id plan.CommandID) {
	s.endActions(id)
	s.dropped = append(s.dropped, id)
}

// endActions no longer takes the actions of a command to be under way that the other does, or that nobody does.
func (s *Watcher) endActions(id plan.CommandID) {
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
func (s *Watcher) settleCommands(now time.Time) []plan.CommandID {
	for _, id := range slices.Sorted(maps.Keys(s.commands)) {
		switch m := s.commands[id]; {
		case !m.begun.IsZero() && now.Sub(m.begun) >= stepFor:
			s.endActions(id)
		case m.begun.IsZero() && now.Sub(m.at) >= holdFor:
			s.dropCommand(id)
		}
	}
	for claim, at := range s.slots {
		if now.Sub(at) >= stepFor {
			s.state.Overlay.DropSlots(claim)
			delete(s.slots, claim)
		}
	}
	out := s.dropped
	s.dropped = nil
	return out
}
