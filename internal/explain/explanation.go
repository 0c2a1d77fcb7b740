// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// explanation answers for one Snapshot.
type explanation struct {
	*decide.Standing
	s   *model.Snapshot
	now time.Time
	pol decide.Policy
}

// newExplanation returns an explanation of how a cluster stands.
func newExplanation(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy) *explanation {
	return &explanation{decide.Stand(s, mem, now, pol), s, now, pol}
}

// with returns an explanation of how the cluster would stand with another Snapshot, at another instant.
func (ex *explanation) with(s *model.Snapshot, now time.Time) *explanation {
	return &explanation{ex.With(s, now), s, now, ex.pol}
}

// addFact adds a fact to an answer.
func addFact(a *plan.Answer, name, value string) {
	a.Facts = append(a.Facts, plan.Fact{Name: name, Value: value})
}

func formatDollars(micro int64) string { return "$" + model.Dollars(micro) }

// wayDistance orders ways: fewer changes are nearer, and waiting is near for an hour.
func (ex *explanation) wayDistance(w plan.Way) int {
	n := 2 * len(w.Changes)
	if w.After.After(ex.now.Add(time.Hour)) {
		n += 7
	}
	return n
}

// sameCheck reports whether a reason is still there.
func sameCheck(a, b plan.Reason) bool {
	return a.IsLike(b)
}
