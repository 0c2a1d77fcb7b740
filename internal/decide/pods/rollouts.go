// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pods

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// A workload of one pod that is evicted is down until its successor runs. Where it has been asked for
// (dovetail.sh/surge: "true" on the Deployment, its pods or the NodePool) the drain has the Deployment make its pod
// anew instead, as kubectl rollout restart does: its strategy brings the new pod up before the old one goes. That the
// roll was begun is written in the Deployment's template, and a pod that is older than it bears another value: nothing
// else is remembered.

// Rollouts determines the pods that are replaced before they are evicted.
type Rollouts struct {
	*cluster.View
	notice time.Duration // how long an interrupted machine stays after its cloud's notice

	successors map[string]bool // by key: Deployments with a pod of their last restart; nil before it is asked for
}

// NewRollouts returns the rollouts of a cluster. notice is the time from an interruption notice until the machine is terminated.
func NewRollouts(v *cluster.View, notice time.Duration) *Rollouts {
	return &Rollouts{View: v, notice: notice}
}

// For returns how a pod is replaced before it leaves a node of a pool; false if it is just evicted.
func (ro *Rollouts) For(p *model.Pod, pool *model.NodePool) (lifecycle.Rollout, bool) {
	if !p.IsWorkload() || p.Terminal {
		return lifecycle.Rollout{}, false
	}
	d := ro.DeploymentOf(p)
	asked := p.Surge
	if asked == "" && d != nil {
		asked = d.Surge
	}
	if asked == "" && pool != nil {
		asked = pool.Surge
	}
	if asked != "true" || d != nil && d.Replicas > 1 {
		return lifecycle.Rollout{}, false // several pods are for a PodDisruptionBudget to keep up
	}
	no := func(d plan.OfNoSurge) (lifecycle.Rollout, bool) {
		return lifecycle.Rollout{Refused: plan.Reason{Code: plan.NoSurge, Subject: plan.ObjectOf("pod", p.Key()), Detail: d}}, true
	}
	const owners = "metadata.ownerReferences"
	switch {
	case ro.Cutoff.IsExpendable(p):
		return no(plan.OfNoSurge{Field: "spec.priority", Expendable: true})
	case p.Owner.UID == "":
		return no(plan.OfNoSurge{Field: owners, NoController: true})
	case p.Deployment == "":
		return no(plan.OfNoSurge{Field: owners, Kind: p.Owner.Kind})
	case ro.Snapshot.Deployments == nil:
		return no(plan.OfNoSurge{Field: "rights", NoRights: true})
	case d == nil:
		return no(plan.OfNoSurge{Field: owners, Missing: p.Namespace + "/" + p.Deployment})
	case d.Recreate:
		return no(plan.OfNoSurge{Field: "spec.strategy.type", Recreate: true})
	case d.MaxSurge < 1:
		return no(plan.OfNoSurge{Field: "spec.strategy.rollingUpdate.maxSurge", ZeroSurge: true})
	case d.Paused:
		return no(plan.OfNoSurge{Field: "spec.paused", Paused: true})
	}
	for _, v := range p.Class.Volumes {
		if v.OneNode || v.Exclusive {
			return no(plan.OfNoSurge{Field: "persistentvolumeclaim/" + v.Claim, OneNode: true})
		}
	}
	return lifecycle.Rollout{Deployment: d, Begun: d.Rolling || p.RestartedAt != d.RestartedAt}, true
}

// SuccessorComesFirst reports whether a pod is replaced before it is evicted.
func (ro *Rollouts) SuccessorComesFirst(p *model.Pod) bool {
	if p.Deployment == "" || len(ro.Snapshot.Deployments) == 0 {
		return false
	}
	var pool *model.NodePool
	if i := ro.FindNode(p.Node); i >= 0 {
		if c := ro.ClaimOn(i); c != nil {
			pool = ro.Pool(c.Pool)
		}
	}
	r, ok := ro.For(p, pool)
	return ok && r.Refused.Code == ""
}

// OfClaim returns how the pods of a NodeClaim's nodes are replaced, by UID.
func (ro *Rollouts) OfClaim(c *model.Claim, nodes []*model.Node) map[string]lifecycle.Rollout {
	var out map[string]lifecycle.Rollout
	for _, n := range nodes {
		for _, p := range n.Pods {
			if r, ok := ro.For(p, ro.Pool(c.Pool)); ok {
				if x := ro.Interruptions[c.Name]; x != nil { // what is left is for an eviction that is refused for a while, and for the pod to end
					r.By = x.Deadline.Add(-ro.notice/8 - p.GracePeriod)
				}
				if out == nil {
					out = map[string]lifecycle.Rollout{}
				}
				out[p.UID] = r
			}
		}
	}
	return out
}

// hasSuccessor reports whether a pod's successor is there already, pending or bound, so that nobody need come for it any
// more.
func (ro *Rollouts) hasSuccessor(p *model.Pod) bool {
	d := ro.DeploymentOf(p)
	if d == nil || p.RestartedAt == d.RestartedAt || !ro.SuccessorComesFirst(p) {
		return false
	}
	if ro.successors == nil { // by Deployment: pods of its last restart
		ro.successors = map[string]bool{}
		look := func(q *model.Pod) {
			if e := ro.DeploymentOf(q); e != nil && q.RestartedAt == e.RestartedAt && q.Deleting.IsZero() && !q.Terminal {
				ro.successors[e.Key()] = true
			}
		}
		for _, q := range ro.Snapshot.Pending {
			look(q)
		}
		for _, n := range ro.Snapshot.Nodes {
			for _, q := range n.Pods {
				look(q)
			}
		}
	}
	return ro.successors[d.Key()]
}
