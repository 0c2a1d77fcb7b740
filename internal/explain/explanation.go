// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// explanation explains objects of one Snapshot.
type explanation struct {
	*decide.Standing
	s   *model.Snapshot
	now time.Time
	pol decide.Policy

	planned *decide.Answers // see answers
	afresh  *decide.Output  // see withoutMemory

	drifts map[plan.Change]plan.Change // see withDrift
}

// newExplanation returns an explanation of the current state of a cluster.
func newExplanation(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy) *explanation {
	return &explanation{Standing: decide.Stand(s, mem, now, pol), s: s, now: now, pol: pol}
}

// with returns an explanation of the state of the cluster with another Snapshot, at another time.
func (ex *explanation) with(s *model.Snapshot, now time.Time) *explanation {
	return &explanation{Standing: ex.With(s, now), s: s, now: now, pol: ex.pol}
}

// answers returns the decisions about pending pods.
func (ex *explanation) answers() *decide.Answers {
	if ex.planned == nil {
		ex.planned = ex.WhatIf(ex.s)
	}
	return ex.planned
}

// withoutMemory returns the decisions about pending pods that would be made without the memory of earlier launches.
func (ex *explanation) withoutMemory() *decide.Output {
	if ex.afresh == nil {
		out := ex.WithoutMemory()
		ex.afresh = &out
	}
	return ex.afresh
}

// addFact adds a fact to an answer.
func addFact(a *plan.Answer, name, value string) {
	a.Facts = append(a.Facts, plan.Fact{Name: name, Value: value})
}

func formatDollars(micro int64) string { return "$" + model.Dollars(micro) }

// wayDistance returns a sort key for ways: fewer changes come first, and waiting counts only if it takes more than an
// hour.
func (ex *explanation) wayDistance(w plan.Way) int {
	n := 2 * len(w.Changes)
	if w.After.After(ex.now.Add(time.Hour)) {
		n += 7
	}
	return n
}

// sameCheck reports whether two reasons are alike.
func sameCheck(a, b plan.Reason) bool {
	return a.IsLike(b)
}

// newAnswer returns an empty answer.
func newAnswer(subject string, now time.Time) plan.Answer {
	return plan.Answer{Subject: subject, At: now, Facts: []plan.Fact{}, Findings: []plan.Finding{}, Alternatives: []plan.Alternative{}, Ways: []plan.Way{}}
}
