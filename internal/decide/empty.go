// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/robfig/cron/v3"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

const doNotDisrupt = "karpenter.sh/do-not-disrupt"

// empty gives back the nodes that have had no pod of a workload for their pool's consolidateAfter, as far as the budgets allow.
func (st *step) empty() {
	allowed := map[string]int64{}
	for _, c := range st.s.Claims {
		pool := st.index.pools[c.Pool]
		if pool == nil || pool.ConsolidateAfter < 0 || pool.Replicas >= 0 || !c.Deleting.IsZero() || !c.Is(lifecycle.Initialized) {
			continue
		}
		n := st.node(c)
		if n == nil || !n.Deleting.IsZero() || st.busy[n.Name] || st.busy[c.Name] || st.held[c.Name] != nil {
			continue
		}
		if n.Annotations[doNotDisrupt] == "true" || occupied(n) {
			continue
		}
		due := lifecycle.Quiet(c, n).Add(pool.ConsolidateAfter)
		if st.now.Before(due) {
			st.at(due)
			continue
		}
		left, ok := allowed[pool.Name]
		if !ok {
			left = st.allowance(pool, "Empty")
		}
		allowed[pool.Name] = left - 1
		if left <= 0 {
			st.at(st.now.Add(10 * time.Second)) // a schedule may open, another node may be gone
			continue
		}
		st.act(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{
			Code: plan.Empty, Pool: pool.Name, Subject: "node/" + n.Name, Key: "consolidateAfter", Want: pool.ConsolidateAfter.String()}})
	}
}

// occupied says whether a pod that is not a daemon's stands on a node.
func occupied(n *model.Node) bool {
	for _, p := range n.Pods {
		if !p.Class.Daemon && !p.Mirror && !p.Terminal {
			return true
		}
	}
	return false
}

// allowance is how many more nodes of a pool may be disrupted for a reason: the least of the active budgets that name it or name
// none, percentages rounded up, less the nodes that are not ready or already going. A budget that can't be read allows none.
func (st *step) allowance(pool *model.NodePool, reason string) int64 {
	var total, down int64
	for _, c := range st.s.Claims {
		if c.Pool != pool.Name || !c.Is(lifecycle.Initialized) || c.Is(lifecycle.Terminating) {
			continue
		}
		total++
		if n := st.node(c); !c.Deleting.IsZero() || n == nil || !n.Ready || !n.Deleting.IsZero() {
			down++
		}
	}
	least := total
	for _, b := range pool.Budgets {
		if len(b.Reasons) > 0 && !contains(b.Reasons, reason) || !active(b, st.now) {
			continue
		}
		n := b.Nodes
		if b.Percent {
			n = (total*b.Nodes + 99) / 100
		}
		if unreadable(b) {
			n = 0
		}
		least = min(least, n)
	}
	return least - down
}

func unreadable(b model.Budget) bool {
	if b.Schedule == "" {
		return false
	}
	_, err := cron.ParseStandard(b.Schedule)
	return err != nil
}

// active says whether a budget's window is open: its schedule fired within its duration. Schedules are in UTC.
func active(b model.Budget, now time.Time) bool {
	if b.Schedule == "" {
		return true
	}
	s, err := cron.ParseStandard(b.Schedule)
	if err != nil {
		return true // and allows nothing
	}
	return !s.Next(now.UTC().Add(-b.Duration)).After(now.UTC())
}
