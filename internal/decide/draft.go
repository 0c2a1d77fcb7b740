// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/pods"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// draft is the plan under construction: what is asked for, what the stages have decided so far, and when to look again.
// Only stages add to it. A question changes nothing: what may be answered otherwise with time alone is returned with the
// instant (zero: never), and the stage that asks heeds both.
type draft struct {
	*index
	plan.Begun // its Decided are the actions in out
	req        Request
	out        Output
	found      // what the readings have found

	changedClaims, changedNodes map[string]bool // by name: those that actions in out change or delete
}

// found is what the readings have found: each field is set once, by one of them, before anything is decided.
type found struct {
	commands     *cluster.Commands
	pods         *pods.Table
	rollouts     *pods.Rollouts
	evictions    *pods.Evictions
	reservations *pods.Reservations
	anticipated  []*model.Pod // that ReplicaSets are about to make
	slots        *pods.Slots
	preemption   *pods.Preemption
}

// nothingFound is what is found of nothing.
func nothingFound(v *cluster.View) found {
	none, commands, rollouts := &pods.Reservations{}, &cluster.Commands{}, pods.NewRollouts(v, 0)
	table := pods.Classify(v, pods.In{Commands: commands, Rollouts: rollouts, LaunchDue: func(*model.Pod) time.Time { return time.Time{} }})
	slots := &pods.Slots{View: v, SlotIn: pods.SlotIn{Table: table, Reservations: none}}
	return found{commands: commands, pods: table, rollouts: rollouts, evictions: &pods.Evictions{View: v}, reservations: none, slots: slots, preemption: pods.NewPreemption(slots)}
}

// isAboutToBeDeleted reports whether a claim is about to be deleted, though that does not show yet.
func (dr *draft) isAboutToBeDeleted(c *model.Claim) bool {
	return c.Deleting.IsZero() && dr.IsDeleting(c)
}

// isStaying reports whether nothing takes a claim away: it is not being deleted, neither in the API server nor by a request
// under way, no disruption command deletes it, and its cloud has not announced that it will.
func (dr *draft) isStaying(c *model.Claim) bool {
	return c.Deleting.IsZero() && dr.commands.Of(c) == "" && dr.Interruptions[c.Name] == nil && !dr.IsDeleting(c)
}

// isRevocable reports whether a claim holds slots for a command that can still be taken back: pods that are pending come
// before its pods.
func (dr *draft) isRevocable(c *model.Claim) bool {
	r, ok := cluster.ReadHostRecord(c)
	if !ok {
		return false
	}
	m := dr.commands.ByID[r.ID]
	return m != nil && m.Deleting == 0 && len(m.Candidates) > 0 && !slices.ContainsFunc(m.Candidates, dr.isAboutToBeDeleted)
}

// addAction adds an action to the plan.
func (dr *draft) addAction(a plan.Action) {
	dr.out.Actions = append(dr.out.Actions, a)
	dr.Decided[a.Key()] = true
	switch a := a.(type) {
	case plan.UpdateClaim:
		dr.changedClaims[a.Claim] = true
	case plan.DeleteClaim:
		dr.changedClaims[a.Claim] = true
	case plan.UpdateNode:
		dr.changedNodes[a.Node] = true
	}
}

// merge adds what a stage returned.
func (dr *draft) merge(p plan.Part) {
	for _, a := range p.Actions {
		dr.addAction(a)
	}
	dr.out.Notes = append(dr.out.Notes, p.Notes...)
	dr.wakeAt(p.Next)
}

// wakeAt has the next step come no later than an instant; zero: that changes nothing.
func (dr *draft) wakeAt(t time.Time) {
	dr.out.Next = model.EarlierOf(dr.out.Next, t)
}

// heed returns an answer, and has the next step come no later than the answer may be another.
func (dr *draft) heed(answer bool, until time.Time) bool {
	dr.wakeAt(until)
	return answer
}

// dropInFlight leaves out actions that are in flight already and second writes to one object, and wakes the loop when a
// failed action may be repeated.
func (dr *draft) dropInFlight() {
	kept := dr.out.Actions[:0]
	said := make(map[model.ActionKey]bool, len(dr.out.Actions))
	for _, a := range dr.out.Actions {
		if said[a.Key()] {
			continue // two writes to one thing would race: the second is for the next step, which sees the first
		}
		said[a.Key()] = true
		if until, inFlight := dr.Snapshot.InFlight[a.Key()]; inFlight {
			dr.wakeAt(until)
			continue
		}
		kept = append(kept, a)
	}
	dr.out.Actions = kept
}
