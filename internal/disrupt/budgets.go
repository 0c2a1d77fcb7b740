// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Budgeted are the causes that the reasons of disruption budgets name: nodes are removed for them only within budgets.
var Budgeted = []plan.Code{plan.Empty, plan.Drifted, plan.Underutilized}

// NodeCount is the basis of a pool's budgets. Total: initialized nodes that are not terminating. Unavailable: those that are
// not Ready, being deleted, or part of a running disruption command. Going: Unavailable without those that are only not
// Ready.
type NodeCount struct{ Total, Unavailable, Going int64 }

// AllowedDisruptions returns how many more nodes of a pool may be disrupted now for a reason: the minimum of the active
// budgets for the reason or without reasons, percentages rounded up, minus the unavailable nodes; it may be negative. For
// repair, only nodes that are being removed count as unavailable, so that the nodes to repair do not use the budget
// themselves.
func AllowedDisruptions(pool *model.NodePool, n NodeCount, reason plan.Code, now time.Time) (int64, plan.Reason) {
	least := n.Total
	why := plan.OfBudget{Unavailable: n.Unavailable, Total: n.Total}
	if reason == plan.Unhealthy {
		why.Unavailable = n.Going
	}
	for i, b := range pool.Budgets {
		if !budgetConcerns(b, reason) || !budgetIsActive(b, now) {
			continue
		}
		most := b.Nodes
		if b.Percent {
			most = (n.Total*b.Nodes + 99) / 100
		}
		unreadable := budgetIsUnreadable(b)
		if unreadable {
			most = 0
		}
		if most < least || most == least && why.Budget == 0 {
			least = most
			why.Budget, why.Allows, why.Schedule, why.Unreadable = i+1, most, b.Schedule, unreadable
		}
	}
	return least - why.Unavailable, plan.Reason{Code: plan.Budget, Pool: pool.Name, Subject: plan.ObjectOf("nodepool", pool.Name), Detail: why}
}

// BudgetOpensAt returns when the schedules of a pool's budgets, which allow no disruption now, next allow one; zero if they
// never do.
func BudgetOpensAt(pool *model.NodePool, n NodeCount, cause plan.Code, now time.Time) time.Time {
	const maxWindows = 100 // ends of windows looked at: enough for any week's
	at := now
	for range maxWindows {
		next := time.Time{}
		for _, b := range pool.Budgets {
			if b.Schedule == "" || !budgetConcerns(b, cause) || !budgetIsActive(b, at) {
				continue
			}
			if end := budgetWindowEnd(b, at); !end.IsZero() && (next.IsZero() || end.Before(next)) {
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

// Frozen reports whether budgets allow no voluntary disruption at an instant, whatever the number of nodes, and until when; zero: until
// they are changed.
func Frozen(budgets []model.Budget, now time.Time) (until time.Time, frozen bool) {
	const maxWindows = 100
	closed := func(at time.Time) bool {
		for _, cause := range Budgeted {
			if !slices.ContainsFunc(budgets, func(b model.Budget) bool {
				return (b.Nodes == 0 || budgetIsUnreadable(b)) && budgetConcerns(b, cause) && budgetIsActive(b, at)
			}) {
				return false
			}
		}
		return true
	}
	if !closed(now) {
		return time.Time{}, false
	}
	at := now
	for range maxWindows {
		next := time.Time{}
		for _, b := range budgets {
			if b.Schedule == "" || !budgetIsActive(b, at) {
				continue
			}
			if end := budgetWindowEnd(b, at); end.After(at) && (next.IsZero() || end.Before(next)) {
				next = end
			}
		}
		switch {
		case next.IsZero():
			return next, true
		case !closed(next.Add(time.Second)): // a window includes its last instant
			return next, true
		}
		at = next.Add(time.Second)
	}
	return time.Time{}, true
}

// budgetConcerns reports whether a budget limits disruptions for a reason: it names the reason, or none.
func budgetConcerns(b model.Budget, reason plan.Code) bool {
	return len(b.Reasons) == 0 || slices.Contains(b.Reasons, string(reason))
}

// budgetIsUnreadable reports whether a budget has a schedule that is no cron expression.
func budgetIsUnreadable(b model.Budget) bool {
	if b.Schedule == "" {
		return false
	}
	_, err := cron.ParseStandard(b.Schedule)
	return err != nil
}

// budgetIsActive reports whether a budget applies now: it has no schedule, or its schedule fired within its duration.
// Schedules are in UTC. A budget that cannot be read is active, and allows nothing.
func budgetIsActive(b model.Budget, now time.Time) bool {
	if b.Schedule == "" {
		return true
	}
	s, err := cron.ParseStandard(b.Schedule)
	if err != nil {
		return true
	}
	return !s.Next(now.UTC().Add(-b.Duration)).After(now.UTC())
}

// budgetWindowEnd is when a budget with a schedule, which is active at an instant, is next not active; zero when its schedule
// cannot be read, never fires, or fires again within each window.
func budgetWindowEnd(b model.Budget, now time.Time) time.Time {
	const maxFires = 11_000 // of windows that follow each other without a gap: a week's with one each minute
	s, err := cron.ParseStandard(b.Schedule)
	if err != nil {
		return time.Time{}
	}
	last := s.Next(now.UTC().Add(-b.Duration))
	if last.IsZero() {
		return last
	}
	for range maxFires {
		next := s.Next(last)
		if next.IsZero() || next.Sub(last) > b.Duration {
			return last.Add(b.Duration)
		}
		last = next
	}
	return time.Time{}
}
