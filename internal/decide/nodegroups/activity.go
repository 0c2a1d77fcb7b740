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

// ActivityMemory is the state kept between steps: by node group, when the deletion of the last NodeClaim that was removed for cost
// or because it was empty began.
type ActivityMemory map[string]time.Time

// ReadActivity returns when nodes of node groups were last launched and removed, and when a removal last failed, for the delays of
// node groups: by node group, and under the empty name for any group. None: no pool has such a delay. A removal that was cancelled
// for a regular reason, such as a new pod, has not failed. The times follow from NodeClaims, so they survive restarts; only the
// removal of a node whose NodeClaim is gone is kept in memory. going are the node groups of NodeClaims that running consolidation
// commands delete: until its last node is being deleted, a command counts as just begun, regardless of the startup time of its
// replacements.
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
