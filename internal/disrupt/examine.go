// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Evaluation is what moving a set of machines would come to, whatever keeps it from being done.
type Evaluation struct {
	Command            *Command      // what would come for them; nil: some pod has no home
	Why                plan.Reason   // why it is not worth it, or whose home is missing; an empty code: it is worth it
	Refused            solve.Refusal // the pod without a home and its reasons
	MaxNewMicroPerHour int64         // the most that what comes may cost an hour for the move to be worth it; negative: nothing is little enough
}

// Evaluate looks at a set of machines as Consolidate would, without shortcuts and without a memory.
func Evaluate(in *Input, units []*Candidate, pol Policy, sol solve.Policy) Evaluation {
	sol.Work = min(sol.Work, pol.SolveWork)
	mem := Memory{prices: pricesOf(in)}
	s := &search{in: in, pol: pol, sol: sol, mem: &mem, f: newFloor(in.Nodes, len(in.ResourceNames))}
	look := make([]rankedCandidate, len(units))
	for i, u := range units {
		look[i].Candidate = u
	}
	s.begin(look)
	m, why := s.homes(units)
	if m == nil {
		return Evaluation{Why: why, Refused: s.refused, MaxNewMicroPerHour: -1}
	}
	s.account(m)
	out := Evaluation{Command: m, MaxNewMicroPerHour: -1}
	out.Why = s.worth(m)
	out.Why.Pool = units[0].Pool.Name
	low, high := int64(0), m.OldMicroPerHour
	for low <= high { // the dearer what comes, the less it pays
		mid := low + (high-low)/2
		x := *m
		x.NewMicroPerHour = mid
		x.CostMicro += s.cost(units, mid) - s.cost(units, m.NewMicroPerHour)
		if s.pays(&x).Code == "" {
			out.MaxNewMicroPerHour, low = mid, mid+1
		} else {
			high = mid - 1
		}
	}
	return out
}

// BudgetOpensAt is when budgets of a pool that are in the way now let one more machine go, by their schedules alone; zero: not by time.
func BudgetOpensAt(pool *model.NodePool, n NodeCount, cause plan.Code, now time.Time) time.Time {
	const far = 100 // ends of windows looked at: enough for any day's
	at := now
	for range far {
		next := time.Time{}
		for _, b := range pool.Budgets {
			if b.Schedule == "" || len(b.Reasons) > 0 && !slices.Contains(b.Reasons, string(cause)) || !budgetIsActive(b, at) {
				continue
			}
			if end := closes(b, at); !end.IsZero() && (next.IsZero() || end.Before(next)) {
				next = end
			}
		}
		if next.IsZero() {
			return next
		}
		if left, _ := AllowedDisruptions(pool, n, cause, next); left > 0 {
			return next
		}
		at = next
	}
	return time.Time{}
}

// closes is the end of a budget's open window; zero: it can't be read.
func closes(b model.Budget, now time.Time) time.Time {
	s, err := cron.ParseStandard(b.Schedule)
	if err != nil {
		return time.Time{}
	}
	// The last time it fired counts: a schedule may fire again within its own window.
	last := s.Next(now.UTC().Add(-b.Duration))
	for next := s.Next(last); !next.After(now.UTC()); next = s.Next(last) {
		last = next
	}
	return last.Add(b.Duration)
}
