// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"
	"strconv"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// NodeCount is how many machines of a pool there are for its budgets: initialised and not yet terminating; and how many of them are
// down: not ready, being deleted, or going in a move under way.
type NodeCount struct{ Total, Unavailable int64 }

// AllowedDisruptions is how many more machines of a pool may be disrupted for a reason: the least of the active budgets that name it or name
// none, percentages rounded up, less those that are down. A budget that can't be read allows none. Where nothing is left the reason
// names the budget.
func AllowedDisruptions(pool *model.NodePool, n NodeCount, reason plan.Code, now time.Time) (int64, plan.Reason) {
	least := n.Total
	why := plan.Reason{Code: plan.Budget, Pool: pool.Name, Subject: "nodepool/" + pool.Name,
		Want: "at least 1 more", Have: strconv.FormatInt(n.Unavailable, 10) + " of " + strconv.FormatInt(n.Total, 10) + " down"}
	for i, b := range pool.Budgets {
		if len(b.Reasons) > 0 && !slices.Contains(b.Reasons, string(reason)) || !budgetIsActive(b, now) {
			continue
		}
		most := b.Nodes
		if b.Percent {
			most = (n.Total*b.Nodes + 99) / 100
		}
		if unreadable(b) {
			most = 0
		}
		if most < least || most == least && why.Key == "" {
			least = most
			why.Key = "spec.disruption.budgets[" + strconv.Itoa(i) + "]"
			why.Have = "allows " + strconv.FormatInt(most, 10) + ", " + strconv.FormatInt(n.Unavailable, 10) + " down"
			if b.Schedule != "" {
				why.Have += ", schedule " + strconv.Quote(b.Schedule)
			}
		}
	}
	return least - n.Unavailable, why
}

func unreadable(b model.Budget) bool {
	if b.Schedule == "" {
		return false
	}
	_, err := cron.ParseStandard(b.Schedule)
	return err != nil
}

// budgetIsActive says whether a budget's window is open: its schedule fired within its duration. Schedules are in UTC. One that can't be
// read is taken as open, and then allows nothing.
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
