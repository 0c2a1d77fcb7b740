// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// runWorkloads keeps as many pods of each workload as are wanted, and those of DaemonSets.
func (c *Cluster) runWorkloads() {
	for _, l := range c.Workloads {
		if l.told != l.Want {
			c.version++
			want := l.Want
			l.told = want
			c.show(watchReplicas, func(s *state.State) { s.SetReplicas(l.UID(), want) })
		}
		var have []*model.Pod
		for _, p := range byKey(c.podsOf(l)) {
			if p.Deleting.IsZero() {
				have = append(have, p)
			}
		}
		more := l.Want - len(have)
		if more > 1 && c.Faults.Happens(PodsOneByOne) {
			more = 1
		}
		for range more {
			c.SetPod(c.newPod(l))
		}
		if more >= 0 {
			continue
		}
		order := l.Order
		if order == nil {
			order = deletionOrder
		}
		slices.SortStableFunc(have, order)
		for _, p := range have[:-more] {
			c.DeletePod(p, l.Grace)
		}
	}
	c.runDaemons()
}

// deletionOrder compares pods in the order in which a ReplicaSet deletes them, as kube-controller-manager does: those that run nowhere, then by deletion cost.
func deletionOrder(a, b *model.Pod) int {
	bound := func(p *model.Pod) int { return min(len(p.Node), 1) }
	return cmp.Or(cmp.Compare(bound(a), bound(b)), cmp.Compare(a.DeletionCostValue(), b.DeletionCostValue()))
}

func (c *Cluster) newPod(l *Workload) *model.Pod {
	c.Serial++
	p := &model.Pod{Namespace: l.Class.Namespace, Name: fmt.Sprintf("%s-%d", l.Name, c.Serial), UID: fmt.Sprintf("uid-%s-%d", l.Name, c.Serial), Seen: uint64(c.Serial),
		Class: l.Class, Created: c.Now, GracePeriod: l.Grace, DoNotDisrupt: l.Hold, Gang: l.Gang, Consumes: l.Consumes, Owner: model.Owner{Kind: "ReplicaSet", Name: l.Name, UID: l.UID()}}
	for n := 0; l.Stateful; n++ {
		if p.Name = fmt.Sprintf("%s-%d", l.Name, n); c.Pods[p.Key()] == nil {
			break
		}
	}
	if l.Bare {
		p.Owner = model.Owner{}
	}
	return p
}

// daemonTolerations are what the DaemonSet controller adds to its pods.
var daemonTolerations = []model.Toleration{{Key: "node.kubernetes.io/not-ready", Exists: true, For: -1}, {Key: "node.kubernetes.io/unschedulable", Exists: true, Effect: model.NoSchedule, For: -1}}

// runDaemons has a pod of each DaemonSet on each node that it tolerates and selects, DaemonLag after it may be there.
// kube-scheduler is left out: the pods are bound as they are made, unless the node has no room for them.
func (c *Cluster) runDaemons() {
	k := &c.daemons
	for _, x := range k.due {
		if !c.Now.Before(x.at) {
			k.changed[x.node] = true
		}
	}
	nodes := c.sorted
	if slices.Equal(k.seen, c.Daemons) {
		nodes = nil
		for _, name := range slices.Sorted(maps.Keys(k.changed)) {
			if n := c.Nodes[name]; n != nil {
				nodes = append(nodes, n)
			}
		}
	}
	k.seen = slices.Clone(c.Daemons)
	clear(k.changed)
	for _, d := range c.Daemons {
		for _, n := range nodes {
			c.runDaemon(d, n)
		}
	}
}

// runDaemon looks at a DaemonSet's pod on one node.
func (c *Cluster) runDaemon(d *model.Daemon, n *model.Node) {
	key := d.Namespace + "/" + d.Name + "-" + n.Name
	if c.Pods[key] != nil || !c.StandsOn(d, n) {
		delete(c.daemons.due, key)
		return
	}
	if _, ok := c.daemons.due[key]; !ok {
		c.daemons.due[key] = daemonDue{c.Now.Add(c.DaemonLag), n.Name}
		c.due.add(c.daemons.due[key].at, func() {}) // somebody looks then
	}
	if c.Now.Before(c.daemons.due[key].at) || !c.used[n.Name].Add(d.Class.Requests).Fits(n.Allocatable) {
		return
	}
	c.Serial++
	c.SetPod(&model.Pod{Namespace: d.Namespace, Name: d.Name + "-" + n.Name, UID: fmt.Sprintf("uid-%s-%d", d.Name, c.Serial), Seen: uint64(c.Serial), Class: d.Class,
		Created: c.Now, Node: n.Name, Bound: c.Now, Owner: model.Owner{Kind: "DaemonSet", Name: d.Name, UID: d.UID}})
}

// StandsOn reports whether the DaemonSet controller creates a pod of a DaemonSet for a node in its current state.
func (c *Cluster) StandsOn(d *model.Daemon, n *model.Node) bool {
	return n.Deleting.IsZero() && model.Untolerated(taintsOf(n), slices.Concat(d.Class.Tolerations, daemonTolerations)) == nil && d.Class.AllowsStanding(n.Labels, n.Name)
}

// podsOf returns the pods of a workload, by key.
func (c *Cluster) podsOf(l *Workload) map[string]*model.Pod {
	if len(c.ofClass[l.Resized]) == 0 {
		return c.ofClass[l.Class]
	}
	out := maps.Clone(c.ofClass[l.Resized])
	maps.Copy(out, c.ofClass[l.Class])
	return out
}

// healthy returns how many pods of a workload run.
func (c *Cluster) healthy(l *Workload) (n int) {
	for _, p := range c.podsOf(l) {
		if p.Node != "" && p.Deleting.IsZero() {
			n++
		}
	}
	return n
}

// budgetOf returns a workload's PodDisruptionBudget as its controller would write it now.
func (c *Cluster) budgetOf(l *Workload) *model.PDB {
	q, n := model.NewRequirements(model.OneOf("app", l.Name)), c.healthy(l)
	return &model.PDB{Namespace: l.Class.Namespace, Name: l.Name, Selector: &q, MinAvailable: strconv.Itoa(l.MinHealthy),
		DisruptionsAllowed: int32(max(0, n-l.MinHealthy)), Healthy: int32(n), Desired: int32(l.MinHealthy), Expected: int32(l.Want)}
}

// updateBudgets writes what has changed in the status of PodDisruptionBudgets.
func (c *Cluster) updateBudgets() {
	for _, l := range c.Workloads {
		if !l.Guarded {
			continue
		}
		b := c.budgetOf(l)
		if l.budget == nil || l.budget.Healthy != b.Healthy || l.budget.Desired != b.Desired || l.budget.Expected != b.Expected {
			l.budget = b
			c.show(watchBudgets, func(s *state.State) { s.SetPDB(b) })
		}
	}
}
