// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// groupActivity finds when nodes of node groups were last launched, removed, and when a removal last failed, for the delays
// that node groups have after that. A removal that was taken back because a pod came, or for anything else that is as it
// should be, has not failed. NodeClaims tell it, so that it outlives a restart; only the removal of a node whose
// NodeClaim is gone is remembered here alone.
type groupActivity struct {
	*draft
	mem      *groupActivityMemory
	commands *commandTable
}

// groupActivityMemory is what groupActivity remembers from step to step.
type groupActivityMemory struct {
	removed map[string]time.Time // by node group: when the deletion of the last NodeClaim began that went for its cost or for being empty
}

// read returns what happened last, by node group, and under the empty name to any. None: no pool has a delay after it.
func (ga *groupActivity) read() map[string]disrupt.GroupActivity {
	var longest time.Duration // after a removal
	asked := false
	for _, p := range ga.s.Pools {
		if p.Scaling != nil && p.Scaling.Delays != (model.ScaleDownDelays{PerGroup: p.Scaling.Delays.PerGroup}) {
			asked, longest = true, max(longest, p.Scaling.Delays.AfterDelete)
		}
	}
	if !asked {
		ga.mem.removed = nil
		return nil
	}
	groups := map[string]*disrupt.GroupActivity{}
	of := func(group string) *disrupt.GroupActivity {
		if groups[group] == nil {
			groups[group] = &disrupt.GroupActivity{}
		}
		return groups[group]
	}
	gone := map[string]time.Time{}
	for group, at := range ga.mem.removed {
		if ga.now.Before(at.Add(longest)) {
			gone[group], of(group).Removed = at, at
		}
	}
	for _, c := range ga.s.Claims {
		group := c.NodeGroup()
		if group == "" {
			continue
		}
		a := of(group)
		if c.Annotations[model.AnnotationAdopt] == "" { // members that were there before their claims were not launched
			a.Launched = model.LaterOf(a.Launched, c.Created)
		}
		switch d := c.Conditions[lifecycle.Disrupted]; {
		case d.True() && isConsolidation(plan.Code(d.Reason)):
			a.Removed = model.LaterOf(a.Removed, model.LaterOf(d.Since, c.Deleting))
			if !c.Deleting.IsZero() {
				gone[group] = model.LaterOf(gone[group], c.Deleting)
			}
		case d.Status == "False" && d.Reason == string(plan.CommandFailed):
			a.Failed = model.LaterOf(a.Failed, d.Since)
		}
	}
	for _, m := range ga.commands.byID { // until its last node is being deleted a command has just begun, however long its replacements take
		for _, c := range m.candidates {
			if group := c.NodeGroup(); group != "" && isConsolidation(m.Cause) {
				of(group).Removed = ga.now
			}
		}
	}
	ga.mem.removed = gone
	var last disrupt.GroupActivity
	out := make(map[string]disrupt.GroupActivity, len(groups)+1)
	for group, a := range groups {
		out[group] = *a
		last.Launched, last.Removed, last.Failed = model.LaterOf(last.Launched, a.Launched), model.LaterOf(last.Removed, a.Removed), model.LaterOf(last.Failed, a.Failed)
	}
	out[""] = last
	return out
}

// isConsolidation reports whether a node goes for its cost or for being empty alone.
func isConsolidation(cause plan.Code) bool { return cause == plan.Underutilized || cause == plan.Empty }
