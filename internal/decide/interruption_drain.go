// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// interruptionDrain drains interrupted machines.
type interruptionDrain struct {
	*draft
	interruptions *interruptions
	placements    *placements
	reservations  *reservations
}

// advanceAll takes each interrupted machine one step on.
func (id *interruptionDrain) advanceAll() {
	if len(id.interruptions.byClaim) == 0 {
		return
	}
	homes := map[string]*model.Claim{} // by pod uid: the claim that has a slot for its successor
	for _, name := range slices.Sorted(maps.Keys(id.reservations.byClaim)) {
		h := id.reservations.byClaim[name]
		for _, p := range h.Pods {
			homes[p.UID] = h.Claim
		}
	}
	for _, name := range slices.Sorted(maps.Keys(id.interruptions.byClaim)) {
		x := id.interruptions.byClaim[name]
		c := x.claim
		if !c.Deleting.IsZero() {
			continue
		}
		why := plan.Reason{Code: plan.Interrupted, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name), Detail: plan.OfInterrupted{Kind: x.notice.Kind, Until: x.deadline}}
		gone := plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: why}
		if x.notice.Kind == cluster.StateChange || len(x.pods) == 0 || !id.Now.Before(x.drain) {
			id.addAction(gone)
			continue
		}
		if d := c.Conditions[lifecycle.Disrupted]; (!d.True() || d.Reason != string(plan.Interrupted)) && !id.IsUpdating(c) {
			id.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Why: why, Conditions: map[string]model.Condition{
				lifecycle.Disrupted: {Status: "True", Reason: string(plan.Interrupted), Message: x.notice.Kind + ": the instance ends at " + x.deadline.UTC().Format(time.RFC3339)}}})
		}
		if !slices.Contains(x.node.Taints, disrupt.DisruptedTaint) {
			id.taintCandidate(x.node, c, cluster.CommandRecord{Cause: plan.Interrupted})
			id.wakeAt(x.drain)
			continue
		}
		ready := true
		for _, p := range x.pods {
			if p.Owner.UID == "" {
				continue // it will have no successor, so no place to wait for
			}
			if home := homes[p.UID]; home != nil {
				ready = ready && home.Is(lifecycle.Initialized)
			} else if _, ok := id.placements.mem.byPod[p.UID]; !ok {
				ready = false
			}
		}
		if ready {
			id.addAction(gone)
			continue
		}
		id.wakeAt(x.drain)
	}
}
