// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Do carries out an action as the API server and the cloud do. It returns the version of the object that shows the effect (0 if
// none does), or an error as defined by package plan. Launches are carried out by the Controller, which calls the cloud.
func (c *Cluster) Do(action plan.Action) (uint64, error) {
	c.Tell(Event{Kind: Begun, Action: action})
	switch a := action.(type) {
	case plan.CreateClaim:
		return c.createClaim(a)
	case plan.DeleteClaim:
		x := c.Claims[a.Claim]
		if x == nil || x.UID != a.UID {
			return 0, plan.ErrGone
		}
		c.DeleteClaim(x)
		return 0, nil
	case plan.UpdateClaim:
		return c.updateClaim(a)
	case plan.UpdateNode:
		return c.updateNode(a)
	case plan.DeleteNode:
		n := c.Nodes[a.Node]
		if n == nil || n.UID != a.UID {
			return 0, plan.ErrGone
		}
		c.DeleteNode(n)
		return c.version, nil
	case plan.Bind:
		return c.bind(a)
	case plan.Tolerate:
		return c.tolerate(a)
	case plan.Evict:
		p := c.Pods[model.PodKey(a.Namespace, a.Pod)]
		switch {
		case c.Faults.Happens(EvictionBlocked) || !c.MayEvict(p):
			return 0, plan.ErrBlocked
		case p == nil:
			return 0, plan.ErrGone
		}
		return c.removePod(p, a.UID, p.GracePeriod)
	case plan.DeletePod:
		return c.removePod(c.Pods[model.PodKey(a.Namespace, a.Pod)], a.UID, a.Grace)
	case plan.Terminate:
		for _, m := range c.Machines {
			if m.ID == a.ProviderID {
				c.End(m)
			}
		}
		return 0, nil
	case plan.Reboot:
		return c.reboot(a)
	case plan.UpdatePool:
		p := *c.Pool(a.Pool)
		p.StatusResources, p.StatusNodes, p.StatusHash, p.Conditions = a.Resources, a.Nodes, a.Hash, a.Conditions
		c.SetPool(&p)
		return 0, nil
	case plan.UpdateRequest:
		return 0, c.updateRequest(a)
	case plan.UpdateBuffer, plan.UpdateQuota, plan.UpdateNodeOverlay, plan.UpdateNodeClass:
		return 0, nil // a status that nobody here reads
	}
	return 0, fmt.Errorf("carry out a %T: %w", action, plan.ErrInvalid)
}

// createClaim makes a NodeClaim of a NodePool's template, as kube does.
func (c *Cluster) createClaim(a plan.CreateClaim) (uint64, error) {
	if c.Claims[a.Name] != nil {
		return c.version, nil // AlreadyExists
	}
	if c.Faults.Adversary != nil && c.Faults.Adversary.RefusesClaim(a) {
		c.Tell(Event{Kind: Refused, Object: a.Name})
		return 0, plan.ErrInvalid
	}
	c.created++
	c.Tell(Event{Kind: Created, Object: a.Name, Action: a})
	uid := fmt.Sprintf("uid-%s-%d", a.Name, c.created)
	if c.Identify != nil {
		known, _, _ := c.Identify(a.Name)
		uid = cmp.Or(known, uid)
	}
	labels := Edited(a.Pool.Labels, nil)
	for _, q := range a.Pool.Requirements {
		if r := a.Requirements.Get(q.Key); r != nil && !r.Complement && len(r.Values) == 1 {
			labels[q.Key] = r.Values[0]
		}
	}
	c.SetClaim(&model.Claim{
		Name: a.Name, UID: uid, Pool: a.Pool.Name, Requirements: a.Requirements, Labels: labels,
		Annotations: Edited(a.Annotations, map[string]string{model.AnnotationPoolHash: a.Pool.Hash, model.AnnotationPoolHashVersion: model.PoolHashVersion}),
		ClassGroup:  a.Pool.ClassGroup, ClassKind: a.Pool.ClassKind, ClassName: a.Pool.ClassName,
		Taints: a.Pool.Taints, StartupTaints: a.Pool.StartupTaints, Requests: a.Requests, ExpireAfter: a.Pool.ExpireAfter, TerminationGracePeriod: a.Pool.TerminationGracePeriod,
		Created: c.Now, HasFinalizer: true, Conditions: map[string]model.Condition{}, Reserved: a.Reserved, Slots: a.Slots, NoReserve: string(a.NoReserve.Code),
	})
	if c.Faults.Adversary != nil {
		c.Faults.Adversary.ClaimMade(c, a)
	}
	return c.version, nil
}

func (c *Cluster) updateNode(a plan.UpdateNode) (uint64, error) {
	have := c.Nodes[a.Node]
	if have == nil || have.UID != a.UID {
		return 0, plan.ErrGone
	}
	n := *have
	n.Labels, n.Annotations = Edited(n.Labels, a.Labels), Edited(n.Annotations, a.Annotations)
	n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool {
		return slices.ContainsFunc(slices.Concat(a.RemoveTaints, a.AddTaints), func(r model.Taint) bool { return r.Key == t.Key && r.Effect == t.Effect })
	})
	if a.Uncordon {
		n.Taints = slices.DeleteFunc(n.Taints, func(t model.Taint) bool { return t.Key == unschedulable.Key })
	}
	if m := c.joined[n.Name]; m != nil && m.started {
		if p := c.Pool(m.Pool); p != nil && slices.ContainsFunc(a.AddTaints, func(t model.Taint) bool { return slices.Contains(p.StartupTaints, t) }) {
			c.Tell(Event{Kind: Violated, Object: n.Name, Text: "a startup taint that its agent has removed is written again"})
		}
	}
	n.Taints = append(n.Taints, a.AddTaints...)
	n.DaemonsOnly = n.HasTaint(model.TaintReserved) && (a.DaemonsOnly || n.DaemonsOnly && len(a.AddTaints) == 0)
	if a.OwnerUID != "" {
		c.nodeOwner[n.Name] = a.OwnerUID
	}
	n.HasFinalizer = (n.HasFinalizer || a.AddFinalizer) && !a.RemoveFinalizer
	if a.RemoveFinalizer && !n.Deleting.IsZero() {
		c.DropNode(n.Name)
		return c.version, nil
	}
	c.Tell(Event{Kind: Changed, Action: a, Object: n.Name})
	c.SetNode(&n)
	return c.version, nil
}

// bind is what the API server does with a binding: it looks at the pod alone.
func (c *Cluster) bind(a plan.Bind) (uint64, error) {
	p := c.Pods[model.PodKey(a.Namespace, a.Pod)]
	switch {
	case p == nil || p.UID != a.UID:
		return 0, plan.ErrGone
	case p.Node != "" || !p.Deleting.IsZero():
		return 0, plan.ErrConflict
	case c.Faults.Happens(BindingRefused) || c.Faults.refusesPod(p):
		return 0, plan.ErrInvalid
	}
	q := *p
	q.Node, q.Bound = a.Node, c.Now
	c.startPod(&q)
	n := c.Nodes[a.Node]
	if n != nil {
		c.late.bind(c, &q)
		c.tellOverfilled(n, &q)
	}
	c.SetPod(&q)
	if n == nil { // the pod garbage collector
		c.due.add(c.Now, func() {
			if now := c.Pods[q.Key()]; now != nil && now.UID == q.UID && c.Nodes[q.Node] == nil {
				c.dropPod(now)
			}
		})
	}
	return c.version, nil
}

func (c *Cluster) tolerate(a plan.Tolerate) (uint64, error) {
	p := c.Pods[model.PodKey(a.Namespace, a.Pod)]
	if p == nil || p.UID != a.UID {
		return 0, plan.ErrGone
	}
	if c.Faults.Happens(TolerationRefused) {
		return 0, plan.ErrInvalid
	}
	if !slices.Contains(p.Reservations, a.Claim) {
		q := *p
		q.Reservations = append(slices.Clip(q.Reservations), a.Claim)
		c.SetPod(&q)
	}
	return c.version, nil
}

func (c *Cluster) removePod(p *model.Pod, uid string, grace time.Duration) (uint64, error) {
	if p == nil || p.UID != uid {
		return 0, plan.ErrGone
	}
	if p.Deleting.IsZero() || p.Deleting.After(c.Now.Add(grace)) {
		c.DeletePod(p, grace)
	}
	return 0, nil
}

// MayEvict reports whether PodDisruptionBudgets allow the eviction of a pod.
func (c *Cluster) MayEvict(p *model.Pod) bool {
	if p != nil && c.Controllers != nil && !c.Controllers.MayEvict(p) {
		return false
	}
	for _, l := range c.Workloads {
		if l.Guarded && p != nil && p.Class == l.Class && p.Node != "" && p.Deleting.IsZero() {
			return c.healthy(l) > l.MinHealthy
		}
	}
	return true
}
