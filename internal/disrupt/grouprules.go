// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// systemNamespace is where the pods of Kubernetes itself run.
const systemNamespace = "kube-system"

// kubernetesControllers are the kinds of controllers whose pods are known to be made again.
var kubernetesControllers = []string{"ReplicaSet", "ReplicationController", "StatefulSet", "Job", "DaemonSet"}

// rulesConcern reports whether a rule of a pool's node groups may keep a pod where it is.
func rulesConcern(pool *model.NodePool, p *model.Pod) bool {
	if pool.Scaling == nil || !p.IsWorkload() {
		return false
	}
	r := &pool.Scaling.Eviction
	return r.LocalStorage && p.LocalVolume != "" || r.CustomControllers && hasCustomController(p) ||
		r.SystemPods > 0 && p.Namespace == systemNamespace || r.MinReplicas > 0
}

// hasCustomController reports whether a pod has a controller of a kind that is not Kubernetes' own.
func hasCustomController(p *model.Pod) bool {
	return p.Owner.UID != "" && !slices.Contains(kubernetesControllers, p.Owner.Kind)
}

// ruleBlockers returns the reason for which the eviction rules of a pool's node groups keep a pod on its node, at most one: kube-
// system pods, local storage, custom controllers, too few replicas. The rules are checked in the order of Cluster Autoscaler: a
// pod of kube-system without a PodDisruptionBudget that is old enough may be evicted despite local volumes.
func (e *Eligibility) ruleBlockers(pool *model.NodePool, p *model.Pod) []plan.Reason {
	if p.Terminal || !p.Deleting.IsZero() || !rulesConcern(pool, p) {
		return nil
	}
	r, subject := &pool.Scaling.Eviction, plan.ObjectOf("pod", p.Key())
	if r.MinReplicas > 0 && p.Owner.UID != "" && e.CountPods != nil {
		if n := e.CountPods(p.Owner.UID); n < r.MinReplicas {
			return []plan.Reason{{Code: plan.FewReplicas, Subject: subject, Detail: plan.OfFewReplicas{Least: int32(r.MinReplicas), Have: int32(n)}}}
		}
	}
	if p.SafeToEvict == trueValue {
		return nil
	}
	if r.CustomControllers && hasCustomController(p) {
		return []plan.Reason{{Code: plan.CustomController, Subject: subject, Detail: plan.OfCustomController{Kind: p.Owner.Kind}}}
	}
	if r.SystemPods > 0 && p.Namespace == systemNamespace && len(e.pdbsOf(p.Class)) == 0 {
		if age := e.Now.Sub(p.Created); age < r.SystemPods {
			return []plan.Reason{{Code: plan.SystemPod, Subject: subject, Detail: plan.OfSystemPod{After: r.SystemPods, Age: age.Round(time.Second)}}}
		}
		return nil
	}
	if r.LocalStorage && p.LocalVolume != "" {
		return []plan.Reason{{Code: plan.LocalStorage, Subject: subject, Detail: plan.OfLocalStorage{Volume: p.LocalVolume}}}
	}
	return nil
}

// scaleDownDelay is a delay that a pool's node groups have after something happened.
type scaleDownDelay struct {
	code   plan.Code
	field  string // of the NodeGroupClass
	length time.Duration
	since  time.Time
}

func (d *scaleDownDelay) end() time.Time { return d.since.Add(d.length) }

// scaleDownDelays are the delays that may keep a candidate from being consolidated, those that are over included.
func (e *Eligibility) scaleDownDelays(c *Candidate) (out []scaleDownDelay) {
	if c.Pool.Scaling == nil || len(e.Activity) == 0 {
		return nil
	}
	d, group := &c.Pool.Scaling.Delays, ""
	if d.PerGroup {
		group = c.NodeGroup()
	}
	a := e.Activity[group]
	for _, x := range [...]scaleDownDelay{
		{plan.DelayAfterAdd, "spec.options.delayAfterAdd", d.AfterAdd, a.Launched},
		{plan.DelayAfterDelete, "spec.options.delayAfterDelete", d.AfterDelete, a.Removed},
		{plan.DelayAfterFailure, "spec.options.delayAfterFailure", d.AfterFailure, a.Failed},
	} {
		if x.length > 0 && !x.since.IsZero() {
			out = append(out, x)
		}
	}
	return out
}

// DelayEnd is when the delay of a candidate's node groups is over that has a code; zero: none is running.
func (e *Eligibility) DelayEnd(c *Candidate, code plan.Code) time.Time {
	for _, d := range e.scaleDownDelays(c) {
		if d.code == code {
			return d.end()
		}
	}
	return time.Time{}
}

// systemPodsEnd is when the last pod of kube-system on a candidate is old enough to go; zero: none has to be.
func (e *Eligibility) systemPodsEnd(c *Candidate) (at time.Time) {
	if c.Pool.Scaling == nil || c.Pool.Scaling.Eviction.SystemPods <= 0 {
		return time.Time{}
	}
	for _, p := range c.Pods {
		if p.Namespace == systemNamespace && p.SafeToEvict != trueValue && len(e.pdbsOf(p.Class)) == 0 {
			at = model.LaterOf(at, p.Created.Add(c.Pool.Scaling.Eviction.SystemPods))
		}
	}
	return at
}
