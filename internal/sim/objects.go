// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// The API server's objects: each write is a new version, which the controller is shown.

package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// show shows the controller a change by a watch, later.
func (c *Cluster) show(s stream, ch state.Change) {
	if c.Controller != nil {
		c.Controller.watch[s] = append(c.Controller.watch[s], ch)
		c.Controller.told++
		if s == watchNodes || s == watchClaims {
			c.Controller.urgent++
		}
	}
}

// showNow shows the controller a change at once.
func (c *Cluster) showNow(ch state.Change) {
	if x := c.Controller; x != nil {
		ch(x.State)
		x.news = true
		x.told++
		x.urgent++
	}
}

// replaceOrAdd replaces the object in a list that is another state of x, or adds x.
func replaceOrAdd[T any](list []T, x T, isSame func(T) bool) []T {
	if i := slices.IndexFunc(list, isSame); i >= 0 {
		list[i] = x
		return list
	}
	return append(list, x)
}

// setBusy notes whether a NodeClaim or a node comes or goes, so that what happens to pods may be of use for it.
func (c *Cluster) setBusy(object string, is bool) {
	if is {
		c.busy[object] = true
	} else {
		delete(c.busy, object)
	}
}

// SetPool creates or updates a NodePool. The controller sees it at once.
func (c *Cluster) SetPool(p *model.NodePool) {
	c.NodePools = replaceOrAdd(c.NodePools, p, func(o *model.NodePool) bool { return o.Name == p.Name })
	c.showNow(func(s *state.State) { s.Pools.SetPool(p) })
}

// DropPool deletes a NodePool. The controller sees it at once.
func (c *Cluster) DropPool(name string) {
	for i, p := range c.NodePools {
		if p.Name == name {
			c.NodePools = append(c.NodePools[:i:i], c.NodePools[i+1:]...)
			break
		}
	}
	c.showNow(func(s *state.State) { s.Pools.DeletePool(name) })
}

// SetBuffer creates or updates a CapacityBuffer. The controller sees it at once.
func (c *Cluster) SetBuffer(b *model.Buffer) {
	c.Buffers = replaceOrAdd(c.Buffers, b, func(o *model.Buffer) bool { return o.Key() == b.Key() })
	c.version++
	c.showNow(func(s *state.State) { s.SetBuffer(b, c.version) })
}

// SetRequest creates or updates a ProvisioningRequest. The controller sees it at once. After the request has ended, its pods are a
// gang without a minimum.
func (c *Cluster) SetRequest(r *model.ProvisioningRequest) {
	c.Requests = replaceOrAdd(c.Requests, r, func(o *model.ProvisioningRequest) bool { return o.Key() == r.Key() })
	c.version++
	c.showNow(func(s *state.State) { s.SetRequest(r, c.version) })
	if !r.IsOver() {
		return
	}
	for _, l := range c.Workloads {
		if l.Consumes.UID == r.UID {
			l.Gang = model.Gang{Name: l.Gang.Name}
		}
	}
	for _, p := range byKey(c.Pods) {
		if p.Consumes.UID == r.UID && p.Gang.Least > 0 {
			q := *p
			q.Gang = model.Gang{Name: p.Gang.Name}
			c.SetPod(&q)
		}
	}
}

// updateRequest writes the status of a ProvisioningRequest.
func (c *Cluster) updateRequest(a plan.UpdateRequest) error {
	i := slices.IndexFunc(c.Requests, func(r *model.ProvisioningRequest) bool { return r.UID == a.UID })
	if i < 0 {
		return plan.ErrGone
	}
	r := *c.Requests[i]
	r.Status = maps.Clone(r.Status)
	if r.Status == nil {
		r.Status = map[string]model.Condition{}
	}
	for name, x := range a.Conditions {
		if x.Since = r.Status[name].Since; r.Status[name].Status != x.Status {
			x.Since = c.Now
		}
		r.Status[name] = x
	}
	r.RetryAt, r.Attempts = a.RetryAt, a.Attempts
	c.SetRequest(&r)
	return nil
}

// SetLimit sets a limit across all NodePools. The controller sees it at once.
func (c *Cluster) SetLimit(l *model.CapacityLimit) {
	c.Limit = l
	c.showNow(func(s *state.State) { s.SetLimit(l) })
}

// SetNamespace adds a namespace with its labels. The controller sees it at once.
func (c *Cluster) SetNamespace(name string, labels model.Labels) {
	c.showNow(func(s *state.State) { s.SetNamespace(name, labels, time.Time{}) })
}

// ShowDaemon shows the controller a DaemonSet that was added to or changed in Daemons.
func (c *Cluster) ShowDaemon(d *model.Daemon) {
	c.showNow(func(s *state.State) { s.SetDaemon(d) })
}

// HideDaemon shows the controller that a DaemonSet, by namespace/name, is gone.
func (c *Cluster) HideDaemon(key string) {
	c.showNow(func(s *state.State) { s.DeleteDaemon(key) })
}

// SetReplicas sets the number of replicas of a ReplicaSet, by its UID.
func (c *Cluster) SetReplicas(uid string, want int) {
	c.version++
	c.show(watchReplicas, func(s *state.State) { s.SetReplicas(uid, want) })
}

// SetPDB creates a PodDisruptionBudget or updates its status.
func (c *Cluster) SetPDB(b *model.PDB) {
	c.version++
	c.show(watchBudgets, func(s *state.State) { s.SetPDB(b) })
}

// DropPDB deletes a PodDisruptionBudget.
func (c *Cluster) DropPDB(key string) {
	c.version++
	c.show(watchBudgets, func(s *state.State) { s.DeletePDB(key) })
}

// SetPod creates or updates a pod.
func (c *Cluster) SetPod(p *model.Pod) {
	c.version++
	c.index(c.Pods[p.Key()], p)
	c.Pods[p.Key()] = p
	c.show(watchPods, func(s *state.State) { s.SetPod(p) })
	if p.Node != "" && !p.Deleting.IsZero() {
		end := p.Deleting
		if c.Termination != nil {
			end = model.EarlierOf(end, c.Now.Add(c.Termination(p)))
		}
		if c.Faults.Happens(PodEndsLate) {
			end = end.Add(time.Duration(c.Faults.draw("late by", 90)) * time.Second)
		}
		c.due.add(end, func() { c.finishPod(p.Key(), p.UID, p.Deleting) })
	}
}

// finishPod has a kubelet end a pod whose containers have terminated, unless it was given longer than until a deadline meanwhile. Nobody does on
// a machine that ended.
func (c *Cluster) finishPod(key, uid string, deadline time.Time) {
	p := c.Pods[key]
	if p == nil || p.UID != uid || p.Deleting.IsZero() || p.Deleting.After(deadline) {
		return
	}
	if m := c.joined[p.Node]; m == nil || !m.Gone {
		c.dropPod(p)
	}
}

func (c *Cluster) dropPod(p *model.Pod) {
	c.version++
	c.index(c.Pods[p.Key()], nil)
	delete(c.Pods, p.Key())
	c.show(watchPods, func(s *state.State) { s.DeletePod(p.Key()) })
}

// index removes the old state of a pod from the indexes by node and class, and adds the new one. nil: there is none.
func (c *Cluster) index(old, new *model.Pod) {
	if c.Controllers != nil {
		c.Controllers.PodChanged(old, new)
	}
	c.refusals.podChanged(old, new)
	if old != nil {
		c.daemons.changed[old.Node] = true
		delete(c.on[old.Node], old.Key())
		if delete(c.ofClass[old.Class], old.Key()); len(c.ofClass[old.Class]) == 0 {
			delete(c.ofClass, old.Class)
			delete(c.refusals.of, old.Class)
		}
		if c.used[old.Node] = c.used[old.Node].Sub(old.Class.Requests); len(c.on[old.Node]) == 0 {
			delete(c.on, old.Node)
			delete(c.used, old.Node)
		}
	}
	if new != nil {
		put(c.on, new.Node, new)
		put(c.ofClass, new.Class, new)
		c.used[new.Node] = c.used[new.Node].Add(new.Class.Requests)
	}
}

func put[K comparable](m map[K]map[string]*model.Pod, k K, p *model.Pod) {
	if m[k] == nil {
		m[k] = map[string]*model.Pod{}
	}
	m[k][p.Key()] = p
}

// DeletePod deletes a pod: at once if no kubelet runs it, otherwise after its grace period.
func (c *Cluster) DeletePod(p *model.Pod, grace time.Duration) {
	if p.Node == "" {
		c.dropPod(p)
		return
	}
	q := *p
	q.Deleting = c.Now.Add(grace)
	c.SetPod(&q)
}

// indexNode puts a node in its place among the others, by name, and notes that it changes; nil: it is gone.
func (c *Cluster) indexNode(name string, n *model.Node) {
	c.refusals.opened++
	c.daemons.changed[name] = true
	switch i, found := slices.BinarySearchFunc(c.sorted, name, func(o *model.Node, name string) int { return cmp.Compare(o.Name, name) }); {
	case found && n == nil:
		c.sorted = slices.Delete(c.sorted, i, i+1)
	case found:
		c.sorted[i] = n
	case n != nil:
		c.sorted = slices.Insert(c.sorted, i, n)
	}
}

// SetNode creates or updates a node.
func (c *Cluster) SetNode(n *model.Node) {
	c.version++
	v := c.version
	c.late.changeNode(c, c.Nodes[n.Name], n)
	c.indexNode(n.Name, n)
	c.Nodes[n.Name] = n
	c.setBusy("node/"+n.Name, n.DaemonsOnly || !n.Deleting.IsZero() || n.HasTaint(model.TaintReserved) || n.HasTaint(model.TaintDisrupted))
	c.show(watchNodes, func(s *state.State) { s.SetNode(n, v) })
}

// removeStartupTaints has an agent remove a machine's startup taints, once, as CSI drivers do. Nobody removes those that are written after that.
func (c *Cluster) removeStartupTaints(m *Machine) {
	n, p := c.Nodes[m.Node], c.Pool(m.Pool)
	if n == nil || p == nil || m.Gone || m.started {
		return
	}
	m.started = true
	isStartup := func(t model.Taint) bool { return slices.Contains(p.StartupTaints, t) }
	if slices.ContainsFunc(n.Taints, isStartup) {
		k := *n
		k.Taints = slices.DeleteFunc(slices.Clone(n.Taints), isStartup)
		c.SetNode(&k)
	}
}

// DropNode removes a node regardless of its finalizers, and its pods.
func (c *Cluster) DropNode(name string) {
	c.version++
	c.indexNode(name, nil)
	delete(c.Nodes, name)
	c.setBusy("node/"+name, false)
	delete(c.nodeOwner, name)
	delete(c.joined, name)
	c.show(watchNodes, func(s *state.State) { s.DeleteNode(name) })
	for _, p := range c.PodsOn(name) { // the pod garbage collector
		c.dropPod(p)
	}
}

// DeleteNode deletes a node. It is removed once it has no finalizer.
func (c *Cluster) DeleteNode(n *model.Node) {
	if !n.HasFinalizer {
		c.DropNode(n.Name)
		return
	}
	if n.Deleting.IsZero() {
		m := *n
		m.Deleting = c.Now
		c.SetNode(&m)
	}
}

// SetClaim creates or updates a NodeClaim.
func (c *Cluster) SetClaim(x *model.Claim) {
	c.version++
	v := c.version
	c.Claims[x.Name] = x
	c.setBusy("nodeclaim/"+x.Name, !x.Deleting.IsZero() || !x.Is(lifecycle.Initialized) || x.Is(lifecycle.Disrupted))
	c.show(watchClaims, func(s *state.State) { s.SetClaim(x, v) })
}

func (c *Cluster) updateClaim(a plan.UpdateClaim) (uint64, error) {
	have := c.Claims[a.Claim]
	if have == nil || have.UID != a.UID {
		return 0, plan.ErrGone
	}
	for k, v := range a.Given {
		if is, ok := have.Annotations[k]; ok != (v != plan.Unset) || ok && is != v {
			return 0, plan.ErrConflict
		}
	}
	x := *have
	if a.NodeName != "" {
		x.NodeName = a.NodeName
	}
	if a.ProviderID != "" {
		x.ProviderID = a.ProviderID
	}
	if a.ImageID != "" {
		x.ImageID = a.ImageID
	}
	x.Orphan = x.Orphan && a.OwnerPool == ""
	if a.Capacity != nil {
		x.Capacity, x.Allocatable = a.Capacity, a.Allocatable
	}
	if !a.LastPodEvent.IsZero() {
		x.LastPodEvent = a.LastPodEvent
	}
	if a.SetSlots {
		x.Slots = a.Slots
	}
	if a.Annotations[model.AnnotationReserved] == "true" { // of a claim that is created it is in Reserved
		x.Reserved = true
	}
	x.HasFinalizer = x.HasFinalizer || a.AddFinalizer
	x.Labels, x.Annotations = Edited(x.Labels, a.Labels), Edited(x.Annotations, a.Annotations)
	x.Conditions = maps.Clone(x.Conditions)
	for k, v := range a.Conditions {
		old := x.Conditions[k]
		if v.Since = old.Since; old.Status != v.Status {
			v.Since = c.Now
		}
		x.Conditions[k] = v
	}
	if a.RemoveFinalizer {
		if m := c.Machines[x.UID]; m != nil && !m.Gone && (x.ProviderID != "" || c.Now.Sub(m.Launched) > time.Minute) {
			c.Tell(Event{Kind: Violated, Object: x.Name, Text: "the NodeClaim is let go while its machine " + m.ID + " runs"})
		}
		c.Tell(Event{Kind: Released, Object: x.Name})
		if x.HasFinalizer = false; !x.Deleting.IsZero() {
			c.dropClaim(&x)
			return c.version, nil
		}
	}
	c.SetClaim(&x)
	return c.version, nil
}

func (c *Cluster) dropClaim(x *model.Claim) {
	c.version++
	delete(c.Claims, x.Name)
	c.setBusy("nodeclaim/"+x.Name, false)
	c.show(watchClaims, func(s *state.State) { s.DeleteClaim(x.Name) })
	for _, k := range slices.Sorted(maps.Keys(c.nodeOwner)) { // the garbage collector: owned nodes go too
		if n := c.Nodes[k]; n != nil && c.nodeOwner[k] == x.UID {
			c.DeleteNode(n)
		}
	}
}

// DeleteClaim deletes a NodeClaim. It is removed once it has no finalizer.
func (c *Cluster) DeleteClaim(x *model.Claim) {
	if !x.HasFinalizer {
		c.dropClaim(x)
		return
	}
	if x.Deleting.IsZero() {
		d := *x
		d.Deleting = c.Now
		c.SetClaim(&d)
	}
}

// Edited returns a copy of labels or annotations with a change applied.
func Edited(have model.Labels, change map[string]string) model.Labels {
	out := model.Labels{}
	maps.Copy(out, have)
	for k, v := range change {
		if v == plan.Unset {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}
