// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// startEmpty starts the removal of empty nodes, which have had no workload pod for consolidateAfter of their NodePool, within
// disruption budgets. Each is a command without replacements: the node is tainted and evaluated again before it is deleted,
// because kube-scheduler may be binding a pod to it. A node with capacity for a pod that was just evicted elsewhere, or is
// pending, is kept until that pod is bound, because the command that moved the pod may have counted on this node.
func (se *disruptionSearch) startEmpty() {
	if se.buffers.isUnsettled() {
		return // virtual pods may be given this very node
	}
	var moving []*model.Pod // and which node they come to is kube-scheduler's choice
	movingKnown := false
	for _, u := range se.candidates.dirty {
		if end := se.candidates.endOfWait(u, u.PodsEndBy); u.Occupied && len(u.Pods) == 0 && u.CommandID == "" && se.Now.Before(end) {
			se.wakeAt(end)
		}
		if !se.candidates.machines[u.Claim].found.idle || !u.IsEmpty() { // where virtual pods have a place elsewhere, consolidation sees to it
			continue
		}
		n, pool := u.Node, u.Pool
		if len(se.candidates.guard.Blockers(u, plan.Empty, true)) > 0 {
			if due := se.candidates.guard.EligibleAt(u); !due.IsZero() && u.Initialized && !u.Nominated && !disrupt.HasDoNotDisrupt(n.Annotations) {
				se.wakeAt(due)
			}
			continue
		}
		if left, _ := se.candidates.budgetLeftFor(u, plan.Empty); left <= 0 {
			se.wakeAt(se.Now.Add(10 * time.Second)) // a schedule may open, another node may be gone
			continue
		}
		if se.heed(se.backOffs.IsHeld(u)) {
			continue
		}
		if !movingKnown {
			moving, movingKnown = se.transit(se.placements).Unbound(), true
		}
		if node, _ := se.nodes.standingNode(n, u.Claim, nil); disrupt.HoldsOneOf(node, len(se.Snapshot.ResourceNames), moving) {
			se.wakeAt(se.Now.Add(se.pol.SearchInterval))
			continue
		}
		se.commandStage.start(&disrupt.Command{Cause: plan.Empty, Candidates: []*disrupt.Candidate{u}, OldMicroPerHour: max(u.PriceMicro, 0), Why: plan.Reason{
			Code: plan.Empty, Pool: pool.Name, Subject: plan.ObjectOf("node", n.Name), Detail: plan.OfEmpty{After: pool.ConsolidateAfter}}})
		se.candidates.guard.CountRemoval(u) // the next must leave the minimums too
	}
}
