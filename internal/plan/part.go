// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Part is what one stage of a decision adds to the Plan. The zero value adds nothing. Only the step that runs the stages
// merges parts.
type Part struct {
	Actions []Action  // in the order they should be begun
	Notes   []Note    // to tell people, in the order they were found
	Next    time.Time // when to decide again though nothing happens; zero: no need
}

// Add adds an action.
func (p *Part) Add(a Action) { p.Actions = append(p.Actions, a) }

// AddNote adds something to tell people.
func (p *Part) AddNote(n Note) { p.Notes = append(p.Notes, n) }

// WakeAt has the next decision come no later than an instant; zero: that changes nothing.
func (p *Part) WakeAt(t time.Time) { p.Next = model.EarlierOf(p.Next, t) }

// Heed returns an answer, and has the next decision come no later than until, when the answer may be another.
func (p *Part) Heed(answer bool, until time.Time) bool {
	p.WakeAt(until)
	return answer
}

// Begun tells which actions are in flight, or decided on in this step, though no object shows them yet.
type Begun struct {
	InFlight map[model.ActionKey]time.Time // see model.Snapshot
	Decided  map[model.ActionKey]bool
}

// IsUpdating reports whether a write to a claim has begun.
func (b Begun) IsUpdating(c *model.Claim) bool { return b.has(UpdateClaim{UID: c.UID}.Key()) }

// IsDeleting reports whether a claim's deletion has begun.
func (b Begun) IsDeleting(c *model.Claim) bool { return b.has(DeleteClaim{UID: c.UID}.Key()) }

func (b Begun) has(key model.ActionKey) bool {
	_, ok := b.InFlight[key]
	return ok || b.Decided[key]
}
