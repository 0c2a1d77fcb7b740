// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package sim plays one Kubernetes cluster in memory and in virtual time, so that whoever decides on its nodes can be
// tried against it: an API server with its garbage collectors, controllers that keep pods running, kube-scheduler,
// kubelets, a cloud that sells machines, and a controller that sees all that late, decides, and makes calls.
//
// What a Cluster does follows from what it is given and from the numbers of its Luck alone. It reads no clock, starts no
// goroutine, and draws no random number of its own: equal inputs, equal events. Whoever plays it sets Now and calls Tick,
// or lets Settle, Run or Play do that. Nothing goes wrong unless Faults says so.
//
// It knows the plan that it carries out (plan.Action) and not who made it: a Decider decides. What happens is told to
// Observe, an Event at a time. What is less than the real thing: a plain kube-scheduler (scheduler.go), one container per
// pod, volumes that exist and are never attached.
//
// Start reading at Cluster.Tick, then Cluster.Do (what the API server does with an action) and Controller (how a
// controller sees the cluster and acts on it).
package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Cluster is a cluster and its cloud. Its maps are for reading: they are changed by its methods, which tell the
// controller what they change.
type Cluster struct {
	Now time.Time

	Pods       map[string]*model.Pod // by namespace/name
	Nodes      map[string]*model.Node
	Claims     map[string]*model.Claim
	Machines   map[string]*Machine // by the uid of the claim that they were bought for
	NodePools  []*model.NodePool
	Buffers    []*model.Buffer
	Requests   []*model.ProvisioningRequest
	Daemons    []*model.Daemon
	Drivers    []Driver             // CSI drivers, on every node
	Limit      *model.CapacityLimit // nil: none
	Workloads  []*Workload
	Types      []*model.InstanceType // that the cloud sells, to every NodePool
	Short      map[Offered]bool      // what of it can't be had, which a launch finds out
	Reserved   map[Offered]int       // how many machines of an offering there may be, of those that are limited; NodePools are told how many are left
	Controller *Controller           // nil: nobody sees to the nodes
	// Controllers make and delete pods in addition to Workloads; nil: there are none.
	Controllers Controllers
	// TypesOf returns what the cloud sells to a NodePool; nil: Types.
	TypesOf func(pool string) []*model.InstanceType

	Faults  Faults
	Observe func(Event) // nil: nobody looks
	// Notices returns the annotations of a NodeClaim whose machine the cloud says it will take away; zero at: it does not
	// say when. Nil: the cloud says nothing.
	Notices func(kind string, seen, at time.Time) map[string]string
	// Boot is how long a machine takes to join, Readiness how long its node then takes to be Ready.
	Boot, Readiness time.Duration
	// Delays returns Boot and Readiness of the machine of one NodeClaim; nil: they are all alike.
	Delays func(*model.Claim) (boot, readiness time.Duration)
	// Identify returns the uid of a NodeClaim that is created, and the provider ID and the node's name of the machine launched for it; empty: new
	// ones. Nil: all are new.
	Identify func(claim string) (uid, providerID, node string)
	// Prefers returns the node that kube-scheduler chooses for a pod if the pod fits on it; empty: its score decides. Nil: it always does.
	Prefers func(*model.Pod) (node string)
	// DaemonLag is how long the DaemonSet controller takes to make a pod for a node.
	DaemonLag time.Duration
	// Packs has kube-scheduler fill nodes one after the other, and not evenly.
	Packs bool
	// Patience is how long a NodeClaim that is not initialized is waited for before it counts as stuck.
	Patience time.Duration

	// Asked is how often the cloud was asked for a machine.
	Asked int
	// Serial is the last number that a pod or a machine was given.
	Serial int

	version   uint64
	created   int // NodeClaims
	due       queue
	nodeOwner map[string]string                // by node: the uid of its claim
	on        map[string]map[string]*model.Pod // pods by node and key; "" are those without one
	used      map[string]model.Resources       // by node
	ofClass   map[*model.Class]map[string]*model.Pod
	sorted    []*model.Node         // by name
	aside     map[Offered]time.Time // offerings that are not offered, until when
	joined    map[string]*Machine   // by node
	daemons   daemonController
	refusals  refusals
	late      schedulerView
}

// New returns an empty cluster.
func New(now time.Time) *Cluster {
	return &Cluster{Now: now, Pods: map[string]*model.Pod{}, Nodes: map[string]*model.Node{}, Claims: map[string]*model.Claim{},
		Machines: map[string]*Machine{}, Boot: 3 * time.Second, Readiness: time.Second, Patience: 16 * time.Minute, nodeOwner: map[string]string{}, on: map[string]map[string]*model.Pod{},
		used: map[string]model.Resources{}, ofClass: map[*model.Class]map[string]*model.Pod{}, aside: map[Offered]time.Time{}, joined: map[string]*Machine{},
		daemons: daemonController{due: map[string]daemonDue{}, changed: map[string]bool{}}, refusals: refusals{of: map[*model.Class]map[string]uint64{}}}
}

// Tick is one round of everybody at the instant Now: the rest of the cluster, then the controller takes in what it is
// shown, finishes calls, decides, and begins new ones.
func (c *Cluster) Tick() { c.tick(false) }

func (c *Cluster) tick(onlyNews bool) {
	c.Happen()
	if c.Controller != nil {
		c.Controller.tick(onlyNews)
	}
}

// Happen is one round of everybody but the controller: what goes wrong does, what is due happens, and workloads and
// kube-scheduler look at what there is.
func (c *Cluster) Happen() {
	c.mischief()
	if c.Faults.Adversary != nil {
		c.Faults.Adversary.Act(c)
	}
	c.runWorkloads()
	if c.Controllers != nil {
		c.Controllers.Act()
	}
	c.due.run(c.Now)
	if !c.Faults.Happens(SchedulerIsSlow) {
		c.schedulePods()
	}
	c.updateBudgets()
}

// NextEvent returns when the next thing is due that is certain already; zero: nothing is.
func (c *Cluster) NextEvent() time.Time { return c.due.next() }

// MicroPerHour returns what the machines that run cost.
func (c *Cluster) MicroPerHour() (micro int64) {
	for _, m := range c.Machines {
		if !m.Gone {
			micro += m.MicroPerHour()
		}
	}
	return micro
}

// ClaimOf returns the NodeClaim that a machine was bought for, nil if it is gone.
func (c *Cluster) ClaimOf(m *Machine) *model.Claim {
	if x := c.Claims[m.ClaimName]; x != nil && x.UID == m.ClaimUID {
		return x
	}
	return nil
}

// The API server: each write is a new version, and the controller is shown it.

func (c *Cluster) show(s stream, ch state.Change) {
	if c.Controller != nil {
		c.Controller.watch[s] = append(c.Controller.watch[s], ch)
	}
}

// showNow shows the controller a change at once.
func (c *Cluster) showNow(ch state.Change) {
	if x := c.Controller; x != nil {
		ch(x.State)
		x.news = true
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

// SetPool creates a NodePool or changes it. It is seen at once.
func (c *Cluster) SetPool(p *model.NodePool) {
	c.NodePools = replaceOrAdd(c.NodePools, p, func(o *model.NodePool) bool { return o.Name == p.Name })
	c.showNow(func(s *state.State) { s.Pools.SetPool(p) })
}

// SetBuffer creates a CapacityBuffer or changes it. It is seen at once.
func (c *Cluster) SetBuffer(b *model.Buffer) {
	c.Buffers = replaceOrAdd(c.Buffers, b, func(o *model.Buffer) bool { return o.Key() == b.Key() })
	c.version++
	c.showNow(func(s *state.State) { s.SetBuffer(b, c.version) })
}

// SetRequest creates a ProvisioningRequest or changes it. It is seen at once. Once it is over, its pods are no gang any more.
func (c *Cluster) SetRequest(r *model.ProvisioningRequest) {
	c.Requests = replaceOrAdd(c.Requests, r, func(o *model.ProvisioningRequest) bool { return o.Key() == r.Key() })
	c.version++
	c.showNow(func(s *state.State) { s.SetRequest(r, c.version) })
	if !r.IsOver() {
		return
	}
	for _, l := range c.Workloads {
		if l.Consumes.UID == r.UID {
			l.Gang = model.Gang{}
		}
	}
	for _, p := range byKey(c.Pods) {
		if p.Consumes.UID == r.UID && p.HasGang() {
			q := *p
			q.Gang = model.Gang{}
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

// SetLimit puts a limit over all NodePools. It is seen at once.
func (c *Cluster) SetLimit(l *model.CapacityLimit) {
	c.Limit = l
	c.showNow(func(s *state.State) { s.SetLimit(l) })
}

// Pool returns a NodePool, nil if there is none of that name.
func (c *Cluster) Pool(name string) *model.NodePool {
	for _, p := range c.NodePools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// SetPod creates a pod or changes it.
func (c *Cluster) SetPod(p *model.Pod) {
	c.version++
	c.index(c.Pods[p.Key()], p)
	c.Pods[p.Key()] = p
	c.show(watchPods, func(s *state.State) { s.SetPod(p) })
	if p.Node != "" && !p.Deleting.IsZero() {
		end := p.Deleting
		if c.Faults.Happens(PodEndsLate) {
			end = end.Add(time.Duration(c.Faults.draw("late by", 90)) * time.Second)
		}
		c.due.add(end, func() { c.finishPod(p.Key(), p.UID) })
	}
}

func (c *Cluster) dropPod(p *model.Pod) {
	c.version++
	c.index(c.Pods[p.Key()], nil)
	delete(c.Pods, p.Key())
	c.show(watchPods, func(s *state.State) { s.DeletePod(p.Key()) })
}

// index takes a pod out of what is known of nodes and workloads, and puts another in.
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

// PodsOn returns the pods that are bound to a node, by name.
func (c *Cluster) PodsOn(node string) []*model.Pod { return byKey(c.on[node]) }

// PodCount returns how many pods are bound to a node.
func (c *Cluster) PodCount(node string) int { return len(c.on[node]) }

func byKey(pods map[string]*model.Pod) []*model.Pod {
	return slices.SortedFunc(maps.Values(pods), model.ComparePodKeys)
}

// DeletePod deletes a pod: at once if no kubelet runs it, else after its grace period.
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

// SetNode creates a node or changes it.
func (c *Cluster) SetNode(n *model.Node) {
	c.version++
	v := c.version
	c.late.changeNode(c, c.Nodes[n.Name], n)
	c.indexNode(n.Name, n)
	c.Nodes[n.Name] = n
	c.show(watchNodes, func(s *state.State) { s.SetNode(n, v) })
	if n.Ready && len(n.Taints) > 0 {
		c.due.add(c.Now.Add(1), func() { c.removeStartupTaints(n.Name) })
	}
}

// DropNode takes a node away whatever its finalizers, and its pods with it.
func (c *Cluster) DropNode(name string) {
	c.version++
	c.indexNode(name, nil)
	delete(c.Nodes, name)
	delete(c.nodeOwner, name)
	delete(c.joined, name)
	c.show(watchNodes, func(s *state.State) { s.DeleteNode(name) })
	for _, p := range c.PodsOn(name) { // the pod garbage collector
		c.dropPod(p)
	}
}

// DeleteNode deletes a node, which goes when it has no finalizer.
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

// SetClaim creates a NodeClaim or changes it.
func (c *Cluster) SetClaim(x *model.Claim) {
	c.version++
	v := c.version
	c.Claims[x.Name] = x
	c.show(watchClaims, func(s *state.State) { s.SetClaim(x, v) })
}

func (c *Cluster) dropClaim(x *model.Claim) {
	c.version++
	delete(c.Claims, x.Name)
	c.show(watchClaims, func(s *state.State) { s.DeleteClaim(x.Name) })
	for _, k := range slices.Sorted(maps.Keys(c.nodeOwner)) { // the garbage collector: owned nodes go too
		if n := c.Nodes[k]; n != nil && c.nodeOwner[k] == x.UID {
			c.DeleteNode(n)
		}
	}
}

// DeleteClaim deletes a NodeClaim, which goes when it has no finalizer.
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
