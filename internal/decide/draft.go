// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

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

	changedClaims, changedNodes map[string]bool // by name: those that actions in out change or delete
}

// isAboutToBeDeleted reports whether a claim is about to be deleted, though that does not show yet.
func (dr *draft) isAboutToBeDeleted(c *model.Claim) bool {
	return c.Deleting.IsZero() && dr.IsDeleting(c)
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
	said := make(map[string]bool, len(dr.out.Actions))
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
