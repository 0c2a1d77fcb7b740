// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package claims

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// EndOrphans terminates orphaned instances, whose NodeClaim no longer exists, and removes the finalizer of their nodes. An
// instance is left alone for the grace period after its launch.
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

// releaseNodes removes our finalizer from nodes that are being deleted and have neither a NodeClaim nor an instance: somebody
// removed the NodeClaim's finalizer by hand.
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
