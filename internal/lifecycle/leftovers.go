// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Taints by which Cluster Autoscaler marks nodes that it is removing, or may remove. The value is when it did, in
// seconds since 1970.
const (
	taintToBeDeleted       = "ToBeDeletedByClusterAutoscaler"
	taintDeletionCandidate = "DeletionCandidateOfClusterAutoscaler"
	taintUnschedulable     = "node.kubernetes.io/unschedulable"
)

// leftoverAfter is how old such a taint must be to be left behind: Cluster Autoscaler gives pods ten minutes to end, and
// takes the taint off again where they did not.
const leftoverAfter = 15 * time.Minute

// clearLeftovers adds to a node's patch what a Cluster Autoscaler that no longer runs has left on a node of a node
// group: its taints, and the cordon that it sets together with the first of them. The node itself stays.
func clearLeftovers(in *Input, n *model.Node, u *plan.UpdateNode, out *Output) {
	if in.Claim.Labels[model.LabelNodeGroup] == "" {
		return
	}
	for _, t := range n.Taints {
		if t.Key != taintToBeDeleted && t.Key != taintDeletionCandidate {
			continue
		}
		if seconds, err := strconv.ParseInt(t.Value, 10, 64); err == nil {
			if due := time.Unix(seconds, 0).Add(leftoverAfter); in.Now.Before(due) {
				out.lookAgainAt(due)
				continue
			}
		}
		u.RemoveTaints = append(u.RemoveTaints, t)
		if t.Key == taintToBeDeleted {
			u.Uncordon = hasTaint(n.Taints, model.Taint{Key: taintUnschedulable, Effect: model.NoSchedule})
		}
		if u.Why.Code == "" {
			u.Why = plan.Reason{Code: plan.Leftover, Pool: in.Claim.Pool, Subject: plan.ObjectOf("node", n.Name), Detail: plan.OfLeftover{Taint: t.Key}}
		}
	}
}
