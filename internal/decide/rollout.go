// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// A workload of one pod that is evicted is down until its successor runs. Where it has been asked for (dovetail.sh/surge: "true" on the
// Deployment, its pods or the NodePool) the drain has the Deployment make its pod anew instead, as kubectl rollout restart does: its
// strategy brings the new pod up before the old one goes. That the roll was begun is written in the Deployment's template, and a pod that
// is older than it bears another value: nothing else is remembered.

// rolloutFor finds out how a pod leaves a machine of a pool. It is false where nothing but an eviction is asked for.
func (st *step) rolloutFor(p *model.Pod, pool *model.NodePool) (lifecycle.Roll, bool) {
	if !p.IsWorkload() || p.Terminal {
		return lifecycle.Roll{}, false
	}
	d := st.deploymentOf(p)
	asked := p.Surge
	if asked == "" && d != nil {
		asked = d.Surge
	}
	if asked == "" && pool != nil {
		asked = pool.Surge
	}
	if asked != "true" || d != nil && d.Replicas > 1 {
		return lifecycle.Roll{}, false // several pods are for a PodDisruptionBudget to keep up
	}
	no := func(key, have string) (lifecycle.Roll, bool) {
		return lifecycle.Roll{Refused: plan.Reason{Code: plan.NoSurge, Subject: "pod/" + p.Key(), Key: key, Have: have}}, true
	}
	switch {
	case p.Owner.UID == "":
		return no("metadata.ownerReferences", "it has no controller that would make another")
	case p.Deployment == "":
		return no("metadata.ownerReferences", "a "+p.Owner.Kind+" has no second pod beside the one it replaces")
	case st.s.Deployments == nil:
		return no("rights", "the controller may not restart Deployments")
	case d == nil:
		return no("metadata.ownerReferences", "there is no Deployment "+p.Namespace+"/"+p.Deployment)
	case d.Recreate:
		return no("spec.strategy.type", "Recreate ends the old pod first")
	case d.MaxSurge < 1:
		return no("spec.strategy.rollingUpdate.maxSurge", "0 ends the old pod first")
	case d.Paused:
		return no("spec.paused", "the Deployment is paused")
	}
	for _, v := range p.Class.Volumes {
		if v.OneNode || v.Exclusive {
			return no("persistentvolumeclaim/"+v.Claim, "the volume can be used on one node at a time")
		}
	}
	return lifecycle.Roll{Deployment: d, Begun: d.Rolling || p.RestartedAt != d.RestartedAt}, true
}

// successorComesFirst says whether a pod's successor will be there before it goes.
func (st *step) successorComesFirst(p *model.Pod) bool {
	if p.Deployment == "" || len(st.s.Deployments) == 0 {
		return false
	}
	var pool *model.NodePool
	if i := findNode(st.s, p.Node); i >= 0 && st.claims.claimOf[i] >= 0 {
		pool = st.poolByName[st.s.Claims[st.claims.claimOf[i]].Pool]
	}
	r, ok := st.rolloutFor(p, pool)
	return ok && r.Refused.Code == ""
}

// deploymentOf is the one that a pod belongs to; nil: none, or nobody may look.
func (st *step) deploymentOf(p *model.Pod) *model.Deployment {
	if p.Deployment == "" || len(st.s.Deployments) == 0 {
		return nil
	}
	if st.deployments == nil {
		st.deployments = make(map[string]*model.Deployment, len(st.s.Deployments))
		for _, d := range st.s.Deployments {
			st.deployments[d.Key()] = d
		}
	}
	return st.deployments[p.Namespace+"/"+p.Deployment]
}

// rolloutsOfClaim are how the pods of a claim's nodes leave.
func (st *step) rolloutsOfClaim(c *model.Claim, nodes []*model.Node) map[string]lifecycle.Roll {
	var out map[string]lifecycle.Roll
	for _, n := range nodes {
		for _, p := range n.Pods {
			if r, ok := st.rolloutFor(p, st.poolByName[c.Pool]); ok {
				if x := st.interrupted[c.Name]; x != nil { // what is left is for an eviction that is refused for a while, and for the pod to end
					r.By = x.deadline.Add(-st.pol.InterruptionNotice/8 - p.GracePeriod)
				}
				if out == nil {
					out = map[string]lifecycle.Roll{}
				}
				out[p.UID] = r
			}
		}
	}
	return out
}

// hasSuccessor says whether a pod's successor is there already, pending or bound, so that nobody need come for it any more.
func (st *step) hasSuccessor(p *model.Pod) bool {
	d := st.deploymentOf(p)
	if d == nil || p.RestartedAt == d.RestartedAt || !st.successorComesFirst(p) {
		return false
	}
	if st.successors == nil { // by Deployment: pods of its last restart
		st.successors = map[string]bool{}
		look := func(q *model.Pod) {
			if e := st.deploymentOf(q); e != nil && q.RestartedAt == e.RestartedAt && q.Deleting.IsZero() && !q.Terminal {
				st.successors[e.Key()] = true
			}
		}
		for _, q := range st.s.Pending {
			look(q)
		}
		for _, n := range st.s.Nodes {
			for _, q := range n.Pods {
				look(q)
			}
		}
	}
	return st.successors[d.Key()]
}

// newGuard is the guard of this step: a PodDisruptionBudget does not keep a pod whose successor comes first.
func (st *step) newGuard() *disrupt.Eligibility {
	g := disrupt.NewEligibility(st.s.PDBs, st.now)
	g.RollsOutFirst = st.successorComesFirst
	g.NodeGroups = st.nodeGroups()
	return g
}
