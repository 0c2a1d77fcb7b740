// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package explain explains the state of an object: what blocks its next steps, what the alternatives would cost, and
// which changes would help.
//
// It makes no decisions and changes nothing. Every statement about a change is verified: the change is applied to a
// copy of the Snapshot (Apply), and decide runs on the copy (decide.Standing, decide.WhatIf). Start reading at Why.
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

// Why explains the state of an object: what blocks its next steps, what the alternatives would cost, and which changes
// would help. subject is KIND/NAMESPACE/NAME for a pod, deployment, statefulset or job, or KIND/NAME for a node,
// nodeclaim or nodepool. Why has no side effects: it verifies each suggested change on a copy of the Snapshot (Apply).
func Why(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy, subject string) (plan.Answer, error) {
	if kind, _, _ := strings.Cut(subject, "/"); slices.Contains(workloads, kind) {
		return explainWorkload(s, mem, now, pol, subject)
	}
	return newExplanation(s, mem, now, pol).explain(subject)
}

// explain is like Why, for a subject that is not a workload.
func (ex *explanation) explain(subject string) (plan.Answer, error) {
	a := newAnswer(subject, ex.now)
	kind, name, _ := strings.Cut(subject, "/")
	var ok bool
	switch kind {
	case "pod":
		ok = ex.explainPod(&a, name)
	case "node":
		ok = ex.explainNode(&a, name)
	case "nodeclaim":
		ok = ex.explainClaim(&a, name)
	case "nodepool":
		ok = ex.explainPool(&a, name)
	default:
		return a, fmt.Errorf("subject %q: use pod/NAMESPACE/NAME, deployment/NAMESPACE/NAME, statefulset/NAMESPACE/NAME, job/NAMESPACE/NAME, node/NAME, nodeclaim/NAME or nodepool/NAME", subject)
	}
	if !ok {
		return a, &plan.NoSuchObject{Kind: kind, Subject: subject, Near: nearestName(ex.s, subject)}
	}
	ex.tellDrift(&a)
	slices.SortStableFunc(a.Ways, func(x, y plan.Way) int {
		return cmp.Or(compareDrift(x, y), cmp.Compare(y.Starts, x.Starts), cmp.Compare(unlikeliness(x), unlikeliness(y)), cmp.Compare(ex.wayDistance(x), ex.wayDistance(y)),
			compareRequests(x, y), cmp.Compare(x.Then.NewMicro, y.Then.NewMicro))
	})
	ex.moveToSource(&a)
	dropLonger(&a)
	nearestFirst(&a)
	return a, nil
}
