// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package explain says how an object of a cluster stands now, what blocks what might become of it, what the alternatives
// would cost, and what would have to change.
//
// It decides nothing and changes nothing. Everything that it says of a change it knows from making the change in a copy of
// the Snapshot (Apply) and asking decide again (decide.Standing, decide.WhatIf).
//
// Start reading at Why.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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

// Why says how an object stands now, what is in the way of what might become of it, what the alternatives would cost,
// and what would have to change. The subject is pod/NAMESPACE/NAME, node/NAME, nodeclaim/NAME or nodepool/NAME. It decides nothing and
// changes nothing: what it says of a change it knows from making it in thought (Apply) and looking again.
func Why(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy, subject string) (plan.Answer, error) {
	st := newExplanation(s, mem, now, pol)
	a := plan.Answer{Subject: subject, At: now, Facts: []plan.Fact{}, Findings: []plan.Finding{}, Alternatives: []plan.Alternative{}, Ways: []plan.Way{}}
	kind, name, _ := strings.Cut(subject, "/")
	var ok bool
	switch kind {
	case "pod":
		ok = st.explainPod(&a, name)
	case "node":
		ok = st.explainNode(&a, name)
	case "nodeclaim":
		ok = st.explainClaim(&a, name)
	case "nodepool":
		ok = st.explainPool(&a, name)
	default:
		return a, fmt.Errorf("subject %q: use pod/NAMESPACE/NAME, node/NAME, nodeclaim/NAME or nodepool/NAME", subject)
	}
	if !ok {
		return a, &plan.NoSuchObject{Kind: kind, Subject: subject, Near: NearestName(s, subject)}
	}
	slices.SortStableFunc(a.Ways, func(x, y plan.Way) int {
		return cmp.Or(cmp.Compare(st.wayDistance(x), st.wayDistance(y)), cmp.Compare(x.Then.NewMicro, y.Then.NewMicro))
	})
	st.moveToSource(&a)
	return a, nil
}

// wayDistance orders ways: fewer changes are nearer, and waiting is near for an hour.
func (ex *explanation) wayDistance(w plan.Way) int {
	n := 2 * len(w.Changes)
	if w.After.After(ex.now.Add(time.Hour)) {
		n += 7
	}
	return n
}
