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

// WithDrift returns a function that sets, on a change, the number of nodes that would drift and the number of pods that
// would be rescheduled.
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

// withDrift returns a change with the number of nodes that would drift. The number is 0 if the change cannot be applied
// to the Snapshot.
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

// neverReplaced reports whether the disruption budgets of a NodePool in a Snapshot never allow a drifted node to be
// replaced.
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

// tellDrift sets the number of drifting nodes on the changes of an answer.
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

// compareDrift compares ways: those that replace no node come first, followed by those that disrupt fewer pods and
// nodes.
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
