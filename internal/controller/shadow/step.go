// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package shadow implements shadow mode: it decides as if Dovetail were active, assumes that its decisions are
// carried out, and compares them with what the active autoscaler does.
//
// It cannot write: its interface to the loop (Loop) only reads and decides, and the assumed effects exist in State
// only. Start reading at Watcher.Step, then follow.go (decides after the other autoscaler has acted) and journal.go
// (compares).
package shadow

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Step makes one decision in shadow mode: its actions are assumed to be under way, and no call is made.
func (s *Watcher) Step(now time.Time, snap *model.Snapshot, req decide.Request) time.Time {
	next := s.loop.CheckDrift(now, snap)
	s.keepSnapshot(now, snap)
	s.observe(now, snap)
	if req.Following == nil {
		req.Following = &decide.Following{}
	}
	req.Following.Dropped = s.settleCommands(now)
	for _, t := range []time.Time{s.decide(now, snap, req), now.Add(lookAgain)} {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// decide decides and takes that to be under way. It returns when to look again though nothing happens; zero: no need.
func (s *Watcher) decide(now time.Time, snap *model.Snapshot, req decide.Request) time.Time {
	out, next := s.loop.Decide(now, snap, req)
	replaced := map[plan.CommandID][]string{} // by command
	for i := range out.Commands {
		m := &out.Commands[i]
		s.decideCommand(now, m)
		replaced[m.ID] = candidateUIDs(m)
	}
	for _, a := range out.Actions {
		s.begin(now, a, replaced)
		s.noteAction(a)
	}
	if next.IsZero() || !out.Next.IsZero() && out.Next.Before(next) {
		next = out.Next
	}
	return next
}

// begin takes an action to be under way that nobody here carries out, so that the next decisions are those of a
// loop that has begun it. replaced are the uids of the NodeClaims that commands of this step remove, by command.
func (s *Watcher) begin(now time.Time, action plan.Action, replaced map[plan.CommandID][]string) {
	key, st := action.Key(), s.state
	switch a := action.(type) {
	case plan.CreateClaim:
		st.Begin(a, now, now.Add(holdFor))
		s.decideLaunch(now, a, replaced[a.Why.Command])
	case plan.DeleteClaim:
		if cl := st.FindClaim(a.Claim); cl != nil && cl.Provisional { // of a command that was taken back
			s.dropClaim(a.Claim)
			return
		}
		st.InFlight.BeginAction(key, "", now.Add(holdFor))
		s.decideDeletion(now, a)
	case plan.Bind:
		st.Begin(a, now, now.Add(pauseFor))
		s.decideBinding(now, a)
	case plan.LaunchClaim, plan.UpdateClaim, plan.UpdateNode:
		pause := stepFor
		if s.isOfOwnCommand(action) {
			pause = holdFor
		} else if u, ok := a.(plan.UpdateClaim); ok && u.SetSlots {
			s.slots[u.Claim] = now
		}
		st.Begin(action, now, now.Add(pause))
		st.InFlight.AwaitChange(key, now.Add(pause))
	default:
		st.InFlight.BeginAction(key, "", now.Add(pauseFor))
	}
}
