// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// refusals are the pods that found no node, so that kube-scheduler looks at them again only after something has changed that may let them in.
type refusals struct {
	of     map[*model.Class]map[string]uint64 // by class and reservations: how much had happened then
	opened uint64                             // changes of nodes, and of pods on them
	bound  uint64                             // pods that were bound: the least pods of a domain may be more
}

// podChanged takes in that a pod changes.
func (r *refusals) podChanged(old, new *model.Pod) {
	switch {
	case old != nil && old.Node != "":
		r.opened++
	case new != nil && new.Node != "":
		r.bound++
	}
}

// happened returns how much has happened that may let a pod of a class in.
func (r *refusals) happened(c *model.Class) uint64 {
	if slices.ContainsFunc(c.Spread, func(s model.SpreadConstraint) bool { return s.Hard }) {
		return r.opened + r.bound
	}
	return r.opened
}

// note notes that a pod found no node.
func (r *refusals) note(p *model.Pod) {
	if r.of[p.Class] == nil {
		r.of[p.Class] = map[string]uint64{}
	}
	r.of[p.Class][strings.Join(p.Reservations, " ")] = r.happened(p.Class)
}

// maxSchedulerLag is the most by which kube-scheduler hears of a change later than the controller; see lifecycle.Policy.SchedulerLag.
const maxSchedulerLag = 900 * time.Millisecond

// schedulerView is what kube-scheduler has not heard of yet. It watches nodes and pods each on its own, so it may know of a change of one
// and not of an earlier one of the other; of the changes of one object it hears in order.
type schedulerView struct {
	nodes map[string]oldTaints // by name
	pods  map[string]time.Time // by uid of pods that the controller has bound: until when kube-scheduler does not know it

	assumed map[string]assumedPod // by uid of pods that kube-scheduler has chosen a node for and not bound yet
}

// assumedPod is a pod that kube-scheduler counts on a node before the API server does.
type assumedPod struct {
	node     string
	requests model.Resources
}

// oldTaints are the taints of a node as kube-scheduler knows them until an instant.
type oldTaints struct {
	taints []model.Taint
	until  time.Time
}

// changeNode notes that a node's taints change, of which kube-scheduler may hear late.
func (v *schedulerView) changeNode(c *Cluster, was, is *model.Node) {
	if was == nil || slices.Equal(taintsOf(was), taintsOf(is)) || !c.Faults.Happens(SchedulerLags) {
		return
	}
	if v.nodes == nil {
		v.nodes = map[string]oldTaints{}
	}
	known := v.taintsOf(c.Now, was)
	until := c.Now.Add(c.schedulerLag())
	if old := v.nodes[is.Name]; old.until.After(until) {
		until = old.until
	}
	v.nodes[is.Name] = oldTaints{known, until}
}

// bind notes that the controller has bound a pod, of which kube-scheduler may hear late.
func (v *schedulerView) bind(c *Cluster, p *model.Pod) {
	if !c.Faults.Happens(SchedulerLags) {
		return
	}
	if v.pods == nil {
		v.pods = map[string]time.Time{}
	}
	v.pods[p.UID] = c.Now.Add(c.schedulerLag())
}

// taintsOf returns the taints of a node as kube-scheduler knows them.
func (v *schedulerView) taintsOf(now time.Time, n *model.Node) []model.Taint {
	if old, ok := v.nodes[n.Name]; ok && now.Before(old.until) {
		return old.taints
	}
	return taintsOf(n)
}

// maxBindingDelay is the most by which kube-scheduler's bindings reach the API server after it has chosen the node: it sends so many a second at
// most. See lifecycle.Policy.BindingDelay.
const maxBindingDelay = 4 * time.Second

// bindLate notes that kube-scheduler has chosen a node for a pod, and binds the pod later if nobody else has. It reports false if the pod is bound at once.
func (c *Cluster) bindLate(p *model.Pod, node string) bool {
	if !c.Faults.Happens(BindingIsLate) {
		return false
	}
	if c.late.assumed == nil {
		c.late.assumed = map[string]assumedPod{}
	}
	c.late.assumed[p.UID] = assumedPod{node, p.Class.Requests}
	after := time.Duration(c.Faults.draw("binding delay", int(maxBindingDelay/time.Millisecond))) * time.Millisecond
	c.due.add(c.Now.Add(after), func() {
		delete(c.late.assumed, p.UID)
		if q, n := c.Pods[p.Key()], c.Nodes[node]; n != nil && q != nil && q.UID == p.UID && q.Node == "" && q.Deleting.IsZero() {
			c.schedulerBinds(q, n)
		}
	})
	return true
}

// unseenOn returns what pods take of a node that kube-scheduler does not know to be there, without what those take that it has chosen the node for.
func (v *schedulerView) unseenOn(c *Cluster, node string) (sum model.Resources) {
	for _, a := range v.assumed {
		if a.node == node {
			sum = sum.Sub(a.requests)
		}
	}
	if len(v.pods) == 0 {
		return sum
	}
	for _, p := range c.on[node] {
		if c.Now.Before(v.pods[p.UID]) {
			sum = sum.Add(p.Class.Requests)
		}
	}
	return sum
}

// schedulerLag draws how much later kube-scheduler hears of a change.
func (c *Cluster) schedulerLag() time.Duration {
	return time.Duration(c.Faults.draw("scheduler lag", int(maxSchedulerLag/time.Millisecond))) * time.Millisecond
}

// unschedulable is the taint of a node that is cordoned.
var unschedulable = model.Taint{Key: "node.kubernetes.io/unschedulable", Effect: model.NoSchedule}

// taintsOf returns the taints of a node as the API server has them: a reservation for the pods of DaemonSets is a cordon.
func taintsOf(n *model.Node) []model.Taint {
	if !n.DaemonsOnly {
		return n.Taints
	}
	out := slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool { return t.Key == model.TaintReserved })
	return append(out, unschedulable)
}
