// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// cluster is one workload on nodes that the product's own decision (internal/decide) launches and removes, in virtual
// time and without faults: what is decided is done at once, and a node is Ready boot after its launch. What is held
// beyond demand is a CapacityBuffer as a Headroom writes it, so that demand takes its room at once.
type cluster struct {
	boot time.Duration
	now  time.Time
	wake time.Time // when to decide again though nothing has happened

	st     *state.State
	mem    decide.Memory
	policy decide.Policy
	pool   *model.NodePool
	class  *model.Class
	like   *model.Pod // of the buffer

	version uint64
	serial  int
	pods    map[string]*model.Pod // by key
	nodes   map[string]*model.Node
	claims  map[string]*model.Claim
	owner   map[string]string // claim uid by node name
	servers []*server

	decisions, moved       int
	pending, idle, demands float64 // pod-seconds; idle is room on nodes that are Ready and not needed for demand
}

// server is an instance of the cloud.
type server struct {
	claim, uid, id string
	instance       *model.InstanceType
	launched       time.Time
	node           string // empty: it has not come yet
	gone           bool
}

const (
	podCPU    = 1000
	podMemory = 2 << 30
)

func newCluster(boot, minute int) *cluster {
	c := &cluster{boot: time.Duration(boot) * time.Minute, now: time.Unix(int64(firstMonday+minute)*60, 0).UTC(), st: state.New(), policy: decide.DefaultPolicy(),
		pods: map[string]*model.Pod{}, nodes: map[string]*model.Node{}, claims: map[string]*model.Claim{}, owner: map[string]string{}}
	c.class = &model.Class{Key: "workload", Namespace: "default", Labels: model.Labels{"app": "workload"}, Scheduler: "default-scheduler",
		Requests: model.Resources{podCPU, podMemory, 0, 1}}
	virtual := *c.class
	virtual.Key, virtual.Priority = "virtual", model.VirtualPriority
	c.like = &model.Pod{Namespace: "default", Class: &virtual, Expected: true, Buffer: "default/held"}
	c.pool = &model.NodePool{Name: "p", UID: "uid-p", Ready: true, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1,
		ConsolidationPolicy: "WhenEmptyOrUnderutilized", Budgets: []model.Budget{{Nodes: 100, Percent: true}},
		Labels: model.Labels{}, Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "p"))}
	for _, cpus := range []int64{2, 4, 8, 16, 32} {
		capacity := model.Resources{cpus * podCPU, cpus * podMemory, 0, 110}
		c.pool.Types = append(c.pool.Types, &model.InstanceType{Name: fmt.Sprintf("c%02d", cpus), Labels: model.Labels{model.LabelInstanceType: fmt.Sprintf("c%02d", cpus)},
			Capacity: capacity, Allocatable: capacity,
			Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, PriceMicro: cpus * 48_000, Available: true, Remaining: -1}}})
	}
	c.st.SetNow(c.now)
	c.st.SetNamespace("default", nil)
	c.st.Pools.SetPool(c.pool)
	return c
}

// minute lets demand be so many pods for a minute, with room for the replicas wanted, which are more, and measures it if
// it counts.
func (c *cluster) minute(demand, wanted int, counts bool) error {
	end := c.now.Add(time.Minute)
	c.scale(demand)
	c.hold(wanted)
	for c.now.Before(end) {
		if err := c.settle(); err != nil {
			return err
		}
		next := end
		for _, s := range c.servers {
			if ready := s.launched.Add(c.boot); s.node == "" && ready.Before(next) {
				next = ready
			}
		}
		if !c.wake.IsZero() && c.wake.After(c.now) && c.wake.Before(next) {
			next = c.wake
		}
		if counts {
			c.measure(demand, next.Sub(c.now).Seconds())
		}
		c.now = next
	}
	return nil
}

// measure adds up what is so for some seconds.
func (c *cluster) measure(demand int, seconds float64) {
	runs, room := 0, 0
	for _, p := range c.pods {
		if p.Node != "" {
			runs++
		}
	}
	for _, n := range c.nodes {
		if n.Ready {
			room += int(n.Allocatable.At(model.CPU) / podCPU)
		}
	}
	c.pending += float64(max(0, demand-runs)) * seconds
	c.idle += float64(max(0, room-demand)) * seconds
	c.demands += float64(demand) * seconds
}

// hold has room for so many replicas of the workload, those that it has included.
func (c *cluster) hold(total int) {
	c.version++
	c.st.SetBuffer(&model.Buffer{Namespace: "default", Name: "held", UID: "uid-held", Created: c.now, MaxHourMicro: -1, Like: c.like, Replicas: total - len(c.pods),
		Total: total, Workload: model.Workload{Namespace: "default", Kind: "ReplicaSet", Name: "workload"}, Ready: model.Condition{Status: "True", Reason: "Resolved"}}, c.version)
}

// scale makes pods or deletes them: those not running first, then those of the node that has the fewest.
func (c *cluster) scale(wanted int) {
	c.st.SetNow(c.now)
	c.st.SetReplicas("uid-workload", wanted)
	for len(c.pods) < wanted {
		c.serial++
		p := &model.Pod{Namespace: "default", Name: fmt.Sprintf("workload-%07d", c.serial), Class: c.class, Created: c.now, Seen: uint64(c.serial),
			Unschedulable: c.now, Owner: model.Owner{Kind: "ReplicaSet", Name: "workload", UID: "uid-workload"}}
		p.UID = "uid-" + p.Name
		c.setPod(p)
	}
	if len(c.pods) == wanted {
		return
	}
	on := map[string]int{}
	for _, p := range c.pods {
		on[p.Node]++
	}
	on[""] = 0
	all := slices.SortedFunc(maps.Values(c.pods), func(a, b *model.Pod) int {
		if d := on[a.Node] - on[b.Node]; d != 0 {
			return d
		}
		if d := strings.Compare(a.Node, b.Node); d != 0 {
			return d
		}
		return strings.Compare(b.Name, a.Name)
	})
	for _, p := range all[:len(all)-wanted] {
		c.dropPod(p)
	}
}

// settle decides and does until there is nothing left to do at this instant.
func (c *cluster) settle() error {
	for range 100 {
		c.st.SetNow(c.now)
		c.kubelets()
		c.schedule()
		c.list()
		c.st.ExpireActions(c.now)
		out, mem := decide.Step(c.st.Snapshot(c.now), c.mem, c.now, c.policy, decide.Request{Solve: true})
		c.mem, c.wake = mem, out.Next
		c.decisions++
		idle := true
		for _, a := range out.Actions {
			if _, ok := a.(plan.UpdatePool); !ok {
				idle = false
			}
			if err := c.do(a); err != nil {
				return err
			}
		}
		if idle {
			return nil
		}
	}
	return fmt.Errorf("at %s a hundred decisions in a row want something done", c.now)
}

func (c *cluster) setPod(p *model.Pod) {
	c.pods[p.Key()] = p
	c.st.SetPod(p)
}

func (c *cluster) dropPod(p *model.Pod) {
	delete(c.pods, p.Key())
	c.st.DeletePod(p.Key())
}

func (c *cluster) setNode(n *model.Node) {
	c.version++
	c.nodes[n.Name] = n
	c.st.SetNode(n, c.version)
}

func (c *cluster) setClaim(x *model.Claim) {
	c.version++
	c.claims[x.Name] = x
	c.st.SetClaim(x, c.version)
}

// dropNode deletes a node, or marks it where it has a finalizer.
func (c *cluster) dropNode(n *model.Node) {
	if n.HasFinalizer {
		if n.Deleting.IsZero() {
			m := *n
			m.Deleting = c.now
			c.setNode(&m)
		}
		return
	}
	delete(c.nodes, n.Name)
	c.st.DeleteNode(n.Name)
	for _, k := range slices.Sorted(maps.Keys(c.pods)) {
		if p := c.pods[k]; p.Node == n.Name {
			c.replace(p)
		}
	}
}

// dropClaim deletes a claim, or marks it where it has a finalizer; its node goes with it.
func (c *cluster) dropClaim(x *model.Claim) {
	if x.HasFinalizer {
		if x.Deleting.IsZero() {
			y := *x
			y.Deleting = c.now
			c.setClaim(&y)
		}
		return
	}
	delete(c.claims, x.Name)
	c.st.DeleteClaim(x.Name)
	for _, name := range slices.Sorted(maps.Keys(c.owner)) {
		if n := c.nodes[name]; n != nil && c.owner[name] == x.UID {
			delete(c.owner, name)
			c.dropNode(n)
		}
	}
}

// replace ends a pod, and makes its successor.
func (c *cluster) replace(p *model.Pod) {
	c.moved++
	n := len(c.pods)
	c.dropPod(p)
	c.scale(n)
}

// kubelets make nodes of instances that have booted.
func (c *cluster) kubelets() {
	for _, s := range c.servers {
		if s.node != "" || s.gone || c.now.Before(s.launched.Add(c.boot)) {
			continue
		}
		s.node = "n-" + s.id
		c.setNode(&model.Node{Name: s.node, UID: "uid-" + s.node, ProviderID: s.id, Created: c.now, Capacity: s.instance.Capacity, Allocatable: s.instance.Allocatable,
			Labels:      model.Labels{model.LabelHostname: s.node, model.LabelInstanceType: s.instance.Name, model.LabelZone: "a", model.LabelCapacityType: model.OnDemand, model.LabelNodePool: "p"},
			Annotations: model.Labels{}, Taints: []model.Taint{{Key: model.TaintUnregistered, Effect: model.NoExecute}}, Ready: true, ReadySince: c.now,
			Conditions: map[string]model.Condition{"Ready": {Status: "True", Since: c.now}}})
	}
	c.servers = slices.DeleteFunc(c.servers, func(s *server) bool {
		if n := c.nodes[s.node]; s.gone && n != nil {
			c.dropNode(n)
		}
		return s.gone && c.claims[s.claim] == nil
	})
}

// schedule binds pods to nodes that take them, the fullest first, as kube-scheduler does when it is told to pack.
func (c *cluster) schedule() {
	var waiting []*model.Pod
	used := map[string]int64{}
	for _, k := range slices.Sorted(maps.Keys(c.pods)) {
		if p := c.pods[k]; p.Node == "" {
			waiting = append(waiting, p)
		} else {
			used[p.Node]++
		}
	}
	if len(waiting) == 0 {
		return
	}
	var open []*model.Node
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		if n := c.nodes[name]; model.Untolerated(n.Taints, nil) == nil && n.Deleting.IsZero() {
			open = append(open, n)
		}
	}
	slices.SortStableFunc(open, func(a, b *model.Node) int { return int(used[b.Name] - used[a.Name]) })
	for _, n := range open {
		for free := n.Allocatable.At(model.CPU)/podCPU - used[n.Name]; free > 0 && len(waiting) > 0; free-- {
			p := *waiting[0]
			p.Node, p.Bound = n.Name, c.now
			c.setPod(&p)
			waiting = waiting[1:]
		}
	}
}

// list shows the cloud's instances.
func (c *cluster) list() {
	var out []*model.Instance
	for _, s := range c.servers {
		out = append(out, &model.Instance{ProviderID: s.id, ClaimUID: s.uid, ClaimName: s.claim, Launched: s.launched, Gone: s.gone})
	}
	slices.SortFunc(out, func(a, b *model.Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	c.st.SetInstances(out, c.now)
}

// do carries an action out.
func (c *cluster) do(action plan.Action) error {
	switch a := action.(type) {
	case plan.CreateClaim:
		c.create(a)
	case plan.LaunchClaim:
		return c.launch(a)
	case plan.DeleteClaim:
		if x := c.claims[a.Claim]; x != nil && x.UID == a.UID {
			c.dropClaim(x)
		}
	case plan.UpdateClaim:
		c.updateClaim(a)
	case plan.UpdateNode:
		c.updateNode(a)
	case plan.DeleteNode:
		if n := c.nodes[a.Node]; n != nil && n.UID == a.UID {
			c.dropNode(n)
		}
	case plan.Bind:
		if p := c.pods[a.Namespace+"/"+a.Pod]; p != nil && p.UID == a.UID && p.Node == "" {
			q := *p
			q.Node, q.Bound = a.Node, c.now
			c.setPod(&q)
		}
	case plan.Evict:
		if p := c.pods[a.Namespace+"/"+a.Pod]; p != nil && p.UID == a.UID {
			c.replace(p)
		}
	case plan.Terminate:
		for _, s := range c.servers {
			s.gone = s.gone || s.id == a.ProviderID
		}
	case plan.UpdatePool:
		p := *c.pool
		p.StatusResources, p.StatusNodes, p.StatusHash, p.Conditions = a.Resources, a.Nodes, a.Hash, a.Conditions
		c.pool = &p
		c.st.Pools.SetPool(&p)
	default:
		return fmt.Errorf("at %s: nobody knows how to do %T", c.now, action)
	}
	return nil
}

func (c *cluster) create(a plan.CreateClaim) {
	if c.claims[a.Name] != nil {
		return
	}
	c.serial++
	c.setClaim(&model.Claim{Name: a.Name, UID: fmt.Sprintf("uid-%s-%d", a.Name, c.serial), Pool: a.Pool.Name, Requirements: a.Requirements,
		Labels: model.Labels{model.LabelNodePool: a.Pool.Name}, Annotations: changed(a.Annotations, map[string]string{"karpenter.sh/nodepool-hash": a.Pool.Hash, "karpenter.sh/nodepool-hash-version": "v3"}),
		Requests: a.Requests, ExpireAfter: -1, TerminationGracePeriod: -1, Created: c.now, HasFinalizer: true, Conditions: map[string]model.Condition{},
		Reserved: a.Reserved, Slots: a.Slots, NoReserve: string(a.NoReserve.Code)})
}

// launch starts the cheapest instance that a claim allows.
func (c *cluster) launch(a plan.LaunchClaim) error {
	x := c.claims[a.Claim]
	if x == nil || x.UID != a.UID || slices.ContainsFunc(c.servers, func(s *server) bool { return s.uid == a.UID }) {
		return nil
	}
	names := x.Requirements.Get(model.LabelInstanceType)
	for _, t := range c.pool.Types { // from the cheapest on
		if (names == nil || names.Matches(t.Name, true)) && x.Requests.Fits(t.Allocatable) {
			c.serial++
			s := &server{claim: x.Name, uid: x.UID, id: fmt.Sprintf("i-%07d", c.serial), instance: t, launched: c.now}
			c.servers = append(c.servers, s)
			c.updateClaim(plan.UpdateClaim{Claim: a.Claim, UID: a.UID, ProviderID: s.id, Capacity: t.Capacity, Allocatable: t.Allocatable,
				Labels:     map[string]string{model.LabelInstanceType: t.Name, model.LabelZone: "a", model.LabelCapacityType: model.OnDemand},
				Conditions: map[string]model.Condition{lifecycle.Launched: {Status: "True", Reason: lifecycle.Launched}}})
			return nil
		}
	}
	return fmt.Errorf("claim %s allows no instance type that holds %v", x.Name, x.Requests)
}

func (c *cluster) updateClaim(a plan.UpdateClaim) {
	have := c.claims[a.Claim]
	if have == nil || have.UID != a.UID {
		return
	}
	x := *have
	if a.NodeName != "" {
		x.NodeName = a.NodeName
	}
	if a.ProviderID != "" {
		x.ProviderID = a.ProviderID
	}
	if a.Capacity != nil {
		x.Capacity, x.Allocatable = a.Capacity, a.Allocatable
	}
	if !a.LastPodEvent.IsZero() {
		x.LastPodEvent = a.LastPodEvent
	}
	if a.SetSlots {
		x.Slots = a.Slots
	}
	x.Labels, x.Annotations = changed(x.Labels, a.Labels), changed(x.Annotations, a.Annotations)
	x.Conditions = maps.Clone(x.Conditions)
	for k, v := range a.Conditions {
		old := x.Conditions[k]
		if v.Since = old.Since; old.Status != v.Status {
			v.Since = c.now
		}
		x.Conditions[k] = v
	}
	if a.RemoveFinalizer {
		x.HasFinalizer = false
		if !x.Deleting.IsZero() {
			c.dropClaim(&x)
			return
		}
	}
	c.setClaim(&x)
}

func (c *cluster) updateNode(a plan.UpdateNode) {
	have := c.nodes[a.Node]
	if have == nil || have.UID != a.UID {
		return
	}
	n := *have
	n.Labels, n.Annotations = changed(n.Labels, a.Labels), changed(n.Annotations, a.Annotations)
	n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool {
		return slices.ContainsFunc(a.RemoveTaints, func(r model.Taint) bool { return r.Key == t.Key && r.Effect == t.Effect })
	})
	n.Taints = append(n.Taints, a.AddTaints...)
	if a.OwnerUID != "" {
		c.owner[n.Name] = a.OwnerUID
	}
	n.HasFinalizer = (n.HasFinalizer || a.AddFinalizer) && !a.RemoveFinalizer
	if !n.HasFinalizer && !n.Deleting.IsZero() {
		c.dropNode(&n)
		return
	}
	c.setNode(&n)
}

// changed returns labels with a change made to them.
func changed(have model.Labels, change map[string]string) model.Labels {
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
