// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package claims

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// EndOrphans ends machines whose claim is gone, and lets go of their nodes. A machine is left alone for the grace after its launch.
func EndOrphans(v *cluster.View, grace time.Duration) (out plan.Part) {
	for _, i := range v.Orphans() {
		if due := i.Launched.Add(grace); v.Now.Before(due) {
			out.WakeAt(due)
			continue
		}
		out.Add(plan.Terminate{ProviderID: i.ProviderID, Of: i.ClaimName, OfUID: i.ClaimUID, Why: plan.Reason{Code: plan.Orphan, Subject: plan.ObjectOf("", i.ClaimName)}})
	}
	releaseNodes(v, grace, &out)
	return out
}

// releaseNodes lets go of nodes that are being deleted and wait for our finalizer, when neither a claim nor a machine
// is left that could see to it: somebody took the claim's finalizer off by hand.
func releaseNodes(v *cluster.View, grace time.Duration, out *plan.Part) {
	var alive map[string]bool
	for _, p := range v.DirtyNodes {
		n := v.Snapshot.Nodes[p]
		if n.Deleting.IsZero() || !n.HasFinalizer || n.ProviderID == "" || n.Claim != "" {
			continue
		}
		if alive == nil {
			alive = make(map[string]bool, len(v.Snapshot.Instances))
			for _, i := range v.Snapshot.Instances {
				alive[i.ProviderID] = !i.Gone
			}
		}
		if alive[n.ProviderID] {
			continue
		}
		if due := n.Deleting.Add(grace); !v.Snapshot.InstancesAt.After(due) {
			continue // the next list tells
		}
		out.Add(plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveFinalizer: true, Why: plan.Reason{Code: plan.Orphan, Subject: plan.ObjectOf("", n.ProviderID)}})
	}
}
