// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// orphanedMachines sees to machines and nodes without a claim.
type orphanedMachines struct {
	*draft
}

// terminate ends machines whose claim is gone, and lets go of their nodes.
func (om *orphanedMachines) terminate() {
	for _, i := range om.Orphans() {
		if due := i.Launched.Add(om.pol.OrphanGrace); om.Now.Before(due) {
			om.wakeAt(due)
			continue
		}
		om.addAction(plan.Terminate{ProviderID: i.ProviderID, Of: i.ClaimName, OfUID: i.ClaimUID, Why: plan.Reason{Code: plan.Orphan, Subject: plan.ObjectOf("", i.ClaimName)}})
	}
	om.releaseNodes()
}

// nodegroups.AdoptMembers makes a claim for each member of a node group that is nobody's.
func (om *orphanedMachines) adoptGroupMembers() {
	for _, a := range nodegroups.AdoptMembers(om.View) {
		om.addAction(a)
	}
}

// releaseNodes lets go of nodes that are being deleted and wait for our finalizer, when neither a claim nor a machine
// is left that could see to it: somebody took the claim's finalizer off by hand.
func (om *orphanedMachines) releaseNodes() {
	var alive map[string]bool
	for _, p := range om.DirtyNodes {
		n := om.Snapshot.Nodes[p]
		if n.Deleting.IsZero() || !n.HasFinalizer || n.ProviderID == "" || n.Claim != "" {
			continue
		}
		if alive == nil {
			alive = make(map[string]bool, len(om.Snapshot.Instances))
			for _, i := range om.Snapshot.Instances {
				alive[i.ProviderID] = !i.Gone
			}
		}
		if alive[n.ProviderID] {
			continue
		}
		if due := n.Deleting.Add(om.pol.OrphanGrace); !om.Snapshot.InstancesAt.After(due) {
			continue // the next list tells
		}
		om.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveFinalizer: true, Why: plan.Reason{Code: plan.Orphan, Subject: plan.ObjectOf("", n.ProviderID)}})
	}
}
