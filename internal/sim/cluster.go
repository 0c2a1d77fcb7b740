// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package sim simulates one Kubernetes cluster in memory and in virtual time, to test autoscaling decisions: an API
// server with garbage collection, workload controllers, kube-scheduler, kubelets, a cloud, and a controller that sees
// all changes late, decides, and makes calls.
//
// The behaviour of a Cluster depends only on its inputs and on the numbers from its Luck. It reads no clock, starts
// no goroutine and generates no random numbers, so equal inputs give equal events. The caller sets Now and calls
// Tick, or uses Settle, Run or Play. Faults happen only as defined by Faults.
//
// It carries out plan.Actions, which a Decider returns, and reports each Event to Observe. Simplifications: a simple
// kube-scheduler (scheduler.go), one container per pod, and volumes that exist but are never attached.
//
// Start reading at Cluster.Tick, then Cluster.Do (the API server's handling of an action) and Controller (how a
// controller sees the cluster and acts on it).
package sim

import (
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
	busy      map[string]bool       // NodeClaims and nodes that come or go
	daemons   daemonController
	refusals  refusals
	late      schedulerView
}

// New returns an empty cluster.
func New(now time.Time) *Cluster {
	return &Cluster{Now: now, Pods: map[string]*model.Pod{}, Nodes: map[string]*model.Node{}, Claims: map[string]*model.Claim{},
		Machines: map[string]*Machine{}, Boot: 3 * time.Second, Readiness: time.Second, Patience: 16 * time.Minute, nodeOwner: map[string]string{}, on: map[string]map[string]*model.Pod{},
		used: map[string]model.Resources{}, ofClass: map[*model.Class]map[string]*model.Pod{}, aside: map[Offered]time.Time{}, joined: map[string]*Machine{}, busy: map[string]bool{},
		daemons: daemonController{due: map[string]daemonDue{}, changed: map[string]bool{}}, refusals: refusals{of: map[*model.Class]map[string]uint64{}}}
}

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

// Pool returns a NodePool, nil if there is none of that name.
func (c *Cluster) Pool(name string) *model.NodePool {
	for _, p := range c.NodePools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// PodsOn returns the pods that are bound to a node, by name.
func (c *Cluster) PodsOn(node string) []*model.Pod { return byKey(c.on[node]) }

// PodCount returns how many pods are bound to a node.
func (c *Cluster) PodCount(node string) int { return len(c.on[node]) }

func byKey(pods map[string]*model.Pod) []*model.Pod {
	return slices.SortedFunc(maps.Values(pods), model.ComparePodKeys)
}

// Machine is an instance of the cloud.
type Machine struct {
	ID, ClaimUID, ClaimName, Pool string

	Type     *model.InstanceType
	Offering *model.Offering // of Type
	Launched time.Time
	Gone     bool
	Node     string    // empty: it has not joined yet
	Doomed   time.Time // when the cloud takes it away; zero: it does not

	name  string        // of the node that it will be
	boot  time.Duration // until it joins; negative: never
	ready time.Duration // from there until Ready; negative: never

	started bool // its node's startup taints have been removed
}

// MicroPerHour returns what a machine costs.
func (m *Machine) MicroPerHour() int64 { return m.Offering.PriceMicro }

// Offered names an offering of the cloud.
type Offered struct{ Type, Zone, CapacityType string }

// Driver is a CSI driver, whose agent runs on every node.
type Driver struct {
	Name  string
	Label string        // what its agent gives a node when it is registered there, with the node's zone as value
	After time.Duration // how long that takes once the node is Ready for the first time
}

// Workload wants so many pods alike, as a ReplicaSet does.
type Workload struct {
	Name     string
	Class    *model.Class // its alone
	Want     int
	Stateful bool   // its pods' names come again
	Bare     bool   // its pods have no controller that anybody could see
	Hold     string // their karpenter.sh/do-not-disrupt
	Grace    time.Duration
	Resized  *model.Class   // what its pods become resizeAfter they were bound, by a resize in place; nil: they stay as they were created
	Gang     model.Gang     // of its pods
	Consumes model.Consumed // the ProvisioningRequest whose capacity its pods are for

	Guarded    bool // by a PodDisruptionBudget
	MinHealthy int  // of that

	// Order says which pods are deleted first when there are too many; nil: those that run nowhere, then those with the least deletion cost.
	Order func(a, b *model.Pod) int

	told   int // what the ReplicaSet was last said to want
	budget *model.PDB
}

// UID returns the uid of a workload's ReplicaSet.
func (l *Workload) UID() string { return "uid-" + l.Name }

// Controllers make, replace and delete pods, as kube-controller-manager does. They are more than Workloads can describe: for example, the
// workloads of a recording.
type Controllers interface {
	// Act is called in each round. It looks at what has changed since the last one.
	Act()
	// UpdateBudgets writes what has changed in the status of PodDisruptionBudgets, when pods are bound too.
	UpdateBudgets()
	// Next returns when they do something though nothing changes; zero: never.
	Next() time.Time
	// PodChanged is told of each change of a pod before it is made; old nil: it is created, new nil: it is gone.
	PodChanged(old, new *model.Pod)
	// MayEvict reports whether PodDisruptionBudgets let a pod be evicted now.
	MayEvict(*model.Pod) bool
	// List hands a controller that begins anew what it would list of ReplicaSets, PodDisruptionBudgets and namespaces.
	List(*state.State)
}

// Controller is a process that sees the cluster through watches, has its Decider decide, and makes calls.
type Controller struct {
	State *state.State
	Next  time.Time // when to decide again though nothing happens; zero: no need
	// SlotsOf returns what a NodeClaim is remembered to be for that the API server refused; nil: it is not remembered.
	SlotsOf func(plan.CreateClaim) []model.Slot
	// Batch is how long Play has it wait for more changes before it decides. The zero value: it decides on each at once.
	Batch Batch
	// DecidesAt returns when Play has it decide on what it first saw, or was to look at, at from, and would decide on at due: from or later.
	// Nil: at due.
	DecidesAt func(from, due time.Time) time.Time

	cluster *Cluster
	decider Decider
	watch   [streams][]state.Change // what was not shown yet
	calls   []*call
	listed  time.Time
	acted   bool
	noted   bool      // it has decided on nothing but notes: on status of NodePools and NodeClaims
	decided time.Time // when it decided last
	news    bool      // it has seen something since, or an answer has come
	told    uint64    // how often it was shown something
	urgent  uint64    // how often that was no pod, PodDisruptionBudget or ReplicaSet
	batch   batch
}

// Batch is how long a controller waits for more changes before it decides.
type Batch struct {
	Idle time.Duration // after the last change
	Most time.Duration // after the first one that was not decided on
	// Calm is how far apart decisions are while nothing asks for one (Controller.isCalm): pods come and go on nodes that stay. 0: they are as others.
	Calm time.Duration
}

// UsualBatch is the Batch of internal/controller.
var UsualBatch = Batch{Idle: 30 * time.Millisecond, Most: time.Second}

// batch are the changes that were not decided on.
type batch struct {
	heard uint64    // Controller.told when it was looked at last
	calm  uint64    // Controller.urgent when it decided last
	first time.Time // when the first came; zero: there are none
	due   time.Time // when to decide on them; zero: there are none
}

// Decider decides what is done about nodes.
type Decider interface {
	// Decide returns what to do at an instant and when to decide again though nothing happens; zero: no need. Without solve it
	// does not look at demand.
	Decide(now time.Time, s *model.Snapshot, solve bool) (actions []plan.Action, next time.Time)
	// Restart begins anew, with what is kept outside of a process that ends. table numbers the cluster's resources.
	Restart(table *state.ResourceTable)
}

// stream is what a watch shows, each in order, but not with each other.
type stream int

const (
	watchPods stream = iota
	watchNodes
	watchClaims
	watchBudgets
	watchReplicas
	streams
)

// call is a call to the API server or the cloud.
type call struct {
	action plan.Action
	begun  bool // the effect is there, the answer is not
	err    error
	ver    uint64
	due    int // ticks
	try    int
}

// At has something happen at an instant.
func (c *Cluster) At(at time.Time, do func()) { c.due.add(at, do) }

// daemonController is what the DaemonSet controller knows.
type daemonController struct {
	due     map[string]daemonDue // by pod
	seen    []*model.Daemon      // when it looked last
	changed map[string]bool      // nodes that have changed since, or pods on them
}

// daemonDue is when a pod of a DaemonSet is made for a node.
type daemonDue struct {
	at   time.Time
	node string
}
