// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// ActivityMemory is what is remembered of node groups from step to step: by group, when the deletion of the last NodeClaim began
// that went for its cost or for being empty.
type ActivityMemory map[string]time.Time

// ReadActivity returns when nodes of node groups were last launched, removed, and when a removal last failed, for the delays
// that node groups have after that: by node group, and under the empty name of any. None: no pool has a delay after it. A removal
// that was taken back because a pod came, or for anything else that is as it should be, has not failed. NodeClaims tell it, so
// that it outlives a restart; only the removal of a node whose NodeClaim is gone is remembered alone. Going are the node groups of
// claims that commands under way delete to consolidate: until its last node is being deleted a command has just begun, however
// long its replacements take.
func ReadActivity(v *cluster.View, before ActivityMemory, going []string) (map[string]disrupt.GroupActivity, ActivityMemory) {
	var longest time.Duration // after a removal
	asked := false
	for _, p := range v.Snapshot.Pools {
		if p.Scaling != nil && p.Scaling.Delays != (model.ScaleDownDelays{PerGroup: p.Scaling.Delays.PerGroup}) {
			asked, longest = true, max(longest, p.Scaling.Delays.AfterDelete)
		}
	}
	if !asked {
		return nil, nil
	}
	groups := map[string]*disrupt.GroupActivity{}
	of := func(group string) *disrupt.GroupActivity {
		if groups[group] == nil {
			groups[group] = &disrupt.GroupActivity{}
		}
		return groups[group]
	}
	gone := ActivityMemory{}
	for group, at := range before {
		if v.Now.Before(at.Add(longest)) {
			gone[group], of(group).Removed = at, at
		}
	}
	for _, c := range v.Snapshot.Claims {
		group := c.NodeGroup()
		if group == "" {
			continue
		}
		a := of(group)
		if c.Annotations[model.AnnotationAdopt] == "" { // members that were there before their claims were not launched
			a.Launched = model.LaterOf(a.Launched, c.Created)
		}
		switch d := c.Conditions[lifecycle.Disrupted]; {
		case d.True() && disrupt.IsConsolidation(plan.Code(d.Reason)):
			a.Removed = model.LaterOf(a.Removed, model.LaterOf(d.Since, c.Deleting))
			if !c.Deleting.IsZero() {
				gone[group] = model.LaterOf(gone[group], c.Deleting)
			}
		case d.Status == "False" && d.Reason == string(plan.CommandFailed):
			a.Failed = model.LaterOf(a.Failed, d.Since)
		}
	}
	for _, group := range going {
		of(group).Removed = v.Now
	}
	var last disrupt.GroupActivity
	out := make(map[string]disrupt.GroupActivity, len(groups)+1)
	for group, a := range groups {
		out[group] = *a
		last.Launched, last.Removed, last.Failed = model.LaterOf(last.Launched, a.Launched), model.LaterOf(last.Removed, a.Removed), model.LaterOf(last.Failed, a.Failed)
	}
	out[""] = last
	return out, gone
}
