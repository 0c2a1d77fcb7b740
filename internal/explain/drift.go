// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"cmp"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// WithDrift returns a function that returns a change with how many nodes of a cluster it makes drift, and how many pods are rescheduled for that.
func WithDrift(s *model.Snapshot, now time.Time, pol decide.Policy) func(plan.Change) plan.Change {
	var ex *explanation
	return func(ch plan.Change) plan.Change {
		if changesPool(ch) && ex == nil {
			ex = newExplanation(s, decide.Memory{}, now, pol)
		}
		return ex.withDrift(ch)
	}
}

func changesPool(ch plan.Change) bool { return strings.HasPrefix(ch.Object, "nodepool/") }

// withDrift returns a change with the nodes that it makes drift. A change that can't be made in a Snapshot makes none drift.
func (ex *explanation) withDrift(ch plan.Change) plan.Change {
	if !changesPool(ch) {
		return ch
	}
	ch.Drifts, ch.Evicts, ch.DriftBlocked = 0, 0, false
	if known, ok := ex.drifts[ch]; ok {
		return known
	}
	asked := ch
	if after, err := Apply(ex.s, ch); err == nil {
		replaced := 0
		for _, u := range ex.DriftWith(after) {
			ch.Drifts++
			if !ex.neverReplaced(after, u.Pool.Name) {
				replaced++
				ch.Evicts += len(u.Pods)
			}
		}
		ch.DriftBlocked = ch.Drifts > 0 && replaced == 0
	}
	if ex.drifts == nil {
		ex.drifts = map[plan.Change]plan.Change{}
	}
	ex.drifts[asked] = ch
	return ch
}

// neverReplaced reports whether the disruption budgets of a NodePool of a Snapshot let no drifted node go, now and later.
func (ex *explanation) neverReplaced(s *model.Snapshot, pool string) bool {
	count := disrupt.NodeCount{Total: ex.NodeCount(pool).Total}
	for _, p := range s.Pools {
		if p.Name == pool && count.Total > 0 {
			left, _ := disrupt.AllowedDisruptions(p, count, plan.Drifted, ex.now)
			return left <= 0 && disrupt.BudgetOpensAt(p, count, plan.Drifted, ex.now).IsZero()
		}
	}
	return false
}

// tellDrift has the changes of an answer tell which nodes they make drift.
func (ex *explanation) tellDrift(a *plan.Answer) {
	for i := range a.Findings {
		if f := &a.Findings[i]; f.Change != nil {
			ch := ex.withDrift(*f.Change)
			f.Change = &ch
		}
	}
	for _, w := range a.Ways {
		for i := range w.Changes {
			w.Changes[i] = ex.withDrift(w.Changes[i])
		}
	}
}

// compareDrift orders ways: those that replace no node come first, then by how many pods and nodes they disrupt.
func compareDrift(x, y plan.Way) int {
	sum := func(w plan.Way) (nodes, pods int) {
		for _, ch := range w.Changes {
			if ch.DriftBlocked {
				continue
			}
			nodes, pods = max(nodes, ch.Drifts), max(pods, ch.Evicts)
		}
		return nodes, pods
	}
	xn, xp := sum(x)
	yn, yp := sum(y)
	return cmp.Or(cmp.Compare(xn, yn), cmp.Compare(xp, yp))
}
