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

// Cluster is a cluster and its cloud. Its maps are read-only: methods change them, and notify the controller.
type Cluster struct {
	Now time.Time

	Pods       map[string]*model.Pod // by namespace/name
	Nodes      map[string]*model.Node
	Claims     map[string]*model.Claim
	Machines   map[string]*Machine // by UID of the NodeClaim for which they were launched
	NodePools  []*model.NodePool
	Buffers    []*model.Buffer
	Requests   []*model.ProvisioningRequest
	Daemons    []*model.Daemon
	Drivers    []Driver             // CSI drivers, on every node
	Limit      *model.CapacityLimit // nil: none
	Workloads  []*Workload
	Types      []*model.InstanceType // instance types that the cloud offers to every NodePool
	Short      map[Offered]bool      // offerings without capacity, which only a launch reveals
	Reserved   map[Offered]int       // maximum number of machines of limited offerings; NodePools see the remaining number
	Controller *Controller           // nil: nodes are not managed
	// Controllers create and delete pods in addition to Workloads; nil: none.
	Controllers Controllers
	// TypesOf returns the instance types that the cloud offers to a NodePool; nil: Types.
	TypesOf func(pool string) []*model.InstanceType

	Faults  Faults
	Observe func(Event) // nil: events are dropped
	// Notices returns the annotations of a NodeClaim for whose machine the cloud announces an interruption; zero at: the time is
	// not announced. Nil: no notices.
	Notices func(kind string, seen, at time.Time) map[string]string
	// Boot is the time until the node of a machine registers, Readiness the time from then until it is Ready.
	Boot, Readiness time.Duration
	// Delays returns Boot and Readiness of the machine of a NodeClaim; nil: the same for all.
	Delays func(*model.Claim) (boot, readiness time.Duration)
	// Termination returns how long the containers of a deleted pod take to end, if that is less than its grace period; nil: all take that long.
	Termination func(*model.Pod) time.Duration
	// Identify returns the UID of a NodeClaim that is created, and the provider ID and node name of the machine launched for it;
	// empty: new values. Nil: all are new.
	Identify func(claim string) (uid, providerID, node string)
	// Prefers returns the node that kube-scheduler selects for a pod if the pod fits on it; empty: selected by score. Nil: always
	// by score.
	Prefers func(*model.Pod) (node string)
	// DaemonLag is the delay with which the DaemonSet controller creates a pod for a node.
	DaemonLag time.Duration
	// Packs makes kube-scheduler fill nodes one after the other instead of evenly.
	Packs bool
	// Patience is the time after which a NodeClaim that is not initialized counts as stuck.
	Patience time.Duration

	// Asked is the number of launch requests to the cloud.
	Asked int
	// Serial is the last number assigned to a pod or a machine.
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

// MicroPerHour returns the cost of all running machines, in micro-dollars per hour.
func (c *Cluster) MicroPerHour() (micro int64) {
	for _, m := range c.Machines {
		if !m.Gone {
			micro += m.MicroPerHour()
		}
	}
	return micro
}

// ClaimOf returns the NodeClaim of a machine, nil if it is gone.
func (c *Cluster) ClaimOf(m *Machine) *model.Claim {
	if x := c.Claims[m.ClaimName]; x != nil && x.UID == m.ClaimUID {
		return x
	}
	return nil
}

// Pool returns a NodePool by name, nil if there is none.
func (c *Cluster) Pool(name string) *model.NodePool {
	for _, p := range c.NodePools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// PodsOn returns the pods that are bound to a node, sorted by name.
func (c *Cluster) PodsOn(node string) []*model.Pod { return byKey(c.on[node]) }

// PodCount returns the number of pods that are bound to a node.
func (c *Cluster) PodCount(node string) int { return len(c.on[node]) }

func byKey(pods map[string]*model.Pod) []*model.Pod {
	return slices.SortedFunc(maps.Values(pods), model.ComparePodKeys)
}

// Machine is a cloud instance.
type Machine struct {
	ID, ClaimUID, ClaimName, Pool string

	Type     *model.InstanceType
	Offering *model.Offering // an offering of Type
	Launched time.Time
	Gone     bool
	Node     string    // empty: its node has not registered yet
	Doomed   time.Time // when the cloud terminates it; zero: never

	name  string        // of the node that it will be
	boot  time.Duration // until it joins; negative: never
	ready time.Duration // from there until Ready; negative: never

	started bool // its node's startup taints have been removed
}

// MicroPerHour returns the price of a machine, in micro-dollars per hour.
func (m *Machine) MicroPerHour() int64 { return m.Offering.PriceMicro }

// Offered identifies an offering of the cloud.
type Offered struct{ Type, Zone, CapacityType string }

// Driver is a CSI driver, whose agent runs on every node.
type Driver struct {
	Name  string
	Label string        // label that its agent adds to a node when the driver is registered there, with the node's zone as value
	After time.Duration // delay of the label after the node is Ready for the first time
}

// Workload creates a number of equal pods, as a ReplicaSet does.
type Workload struct {
	Name     string
	Class    *model.Class // used by this workload only
	Want     int
	Stateful bool   // its pods keep their names
	Bare     bool   // its pods have no visible controller
	Hold     string // value of karpenter.sh/do-not-disrupt of its pods
	Grace    time.Duration
	Resized  *model.Class   // class of its pods after an in-place resize, resizeAfter after they were bound; nil: no resize
	Gang     model.Gang     // gang of its pods
	Consumes model.Consumed // the ProvisioningRequest whose capacity its pods use

	Guarded    bool // by a PodDisruptionBudget
	MinHealthy int  // minAvailable of that budget

	// Order defines which pods are deleted first on a scale-down; nil: pods that are not running, then pods with the lowest
	// deletion cost.
	Order func(a, b *model.Pod) int

	told   int // what the ReplicaSet was last said to want
	budget *model.PDB
}

// UID returns the UID of a workload's ReplicaSet.
func (l *Workload) UID() string { return "uid-" + l.Name }

// Controllers create, replace and delete pods, as kube-controller-manager does. They can do more than Workloads describe: for
// example, the workloads of a recording.
type Controllers interface {
	// Act is called in each round. It handles the changes since its last call.
	Act()
	// UpdateBudgets updates the status of PodDisruptionBudgets. It is also called when pods are bound.
	UpdateBudgets()
	// Next returns when they act even without changes; zero: never.
	Next() time.Time
	// PodChanged is called before each change of a pod; old is nil if the pod is created, new is nil if it is gone.
	PodChanged(old, new *model.Pod)
	// MayEvict reports whether PodDisruptionBudgets allow the eviction of a pod now.
	MayEvict(*model.Pod) bool
	// List adds the ReplicaSets, PodDisruptionBudgets and namespaces to the state of a controller that restarts.
	List(*state.State)
}

// Controller is a process that watches the cluster, calls its Decider, and makes calls.
type Controller struct {
	State *state.State
	Next  time.Time // when to decide again without changes; zero: not needed
	// SlotsOf returns the remembered slots of a NodeClaim that the API server refused; nil: none are remembered.
	SlotsOf func(plan.CreateClaim) []model.Slot
	// Batch is the batch window that Play applies before a decision. The zero value: decide on each change at once.
	Batch Batch
	// DecidesAt returns when Play makes a decision that became necessary at from and is due at due: from or later. Nil: at due.
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

// Batch is a batch window: how long a controller waits for more changes before it decides.
type Batch struct {
	Idle time.Duration // time since the last change
	Most time.Duration // time since the first change without a decision
	// Calm is the interval between decisions while no change requires one (Controller.isCalm), for example if pods only start and
	// end on existing nodes. 0: as for other changes.
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

// Decider decides which actions to take on nodes.
type Decider interface {
	// Decide returns the actions at an instant, and when to decide again without changes; zero: not needed. If solve is false, it
	// ignores demand.
	Decide(now time.Time, s *model.Snapshot, solve bool) (actions []plan.Action, next time.Time)
	// Restart resets the Decider, except for state that is stored outside of a process. table contains the cluster's resources.
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

// At schedules a function call at an instant.
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
