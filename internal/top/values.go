// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Amounts are CPU in milli-cores and memory in bytes.
type Amounts struct{ CPU, Memory int64 }

func (a *Amounts) add(b Amounts) { a.CPU += b.CPU; a.Memory += b.Memory }
func (a *Amounts) sub(b Amounts) { a.CPU -= b.CPU; a.Memory -= b.Memory }

// Node, Claim, Pool and Pod have the few fields that are shown, and are not those of model: with 20,000 pods a Board has to be small, and a
// cluster without Dovetail is watched without what decisions need (classes, volumes, requirements).

// Node is a Kubernetes node.
type Node struct {
	Name         string
	Pool         string // kind and name, such as nodepool/default or nodegroup/large; empty: the node belongs to none that is known
	Type         string // instance type; empty: the node has no such label
	Zone         string
	CapacityType string // on-demand, spot or reserved; empty: not said
	Created      time.Time
	Deleting     time.Time // zero: it is not being deleted
	Allocatable  Amounts
	Pods         int64             // allocatable pods
	Ready        string            // status of the condition Ready: True, False or Unknown; empty: none yet
	NotReady     string            // the condition's message where the status is not True
	Cordoned     bool              // spec.unschedulable
	Taints       []model.Taint     // without the one that Cordoned stands for
	Annotations  map[string]string // those that an autoscaler reads or writes
	ClusterAPI   string            // namespace and name of the Cluster object that it belongs to; empty: none
}

// Offer is what the object of Cluster API that has a node's Machine says of the node.
type Offer struct {
	Type, Zone string
	Micro      int64 // its price in micro-dollars an hour; 0: not known
}

// Claim is a NodeClaim.
type Claim struct {
	Name         string
	Pool         string // kind and name
	Node         string // name of its node; empty: not registered
	Type         string
	Zone         string
	CapacityType string
	Created      time.Time
	Deleting     time.Time // zero: it is not being deleted
	Allocatable  Amounts
	LaunchMicro  int64                      // what its node cost at launch, in micro-dollars an hour; 0: it does not say
	Conditions   map[string]model.Condition // by type
}

// Pool is a NodePool or a Provisioner.
type Pool struct {
	Key      string            // kind and name, as in Node.Pool
	NotReady string            // why it can't launch nodes; empty: it can
	Limits   map[string]string // by resource; empty: none
	Deleting bool
	Budgets  []model.Budget // disruption budgets

	Taken   bool   // taken over from another autoscaler
	Manager string // the other autoscaler that it was given back to; empty: none
	Release string // how far giving it back has come, as in model.NodePool; empty: it is not given back
}

// Pod is a pod that has not ended.
type Pod struct {
	Namespace, Name string
	Owner           string // kind and name of what made it, such as deployment/web; empty: nothing did
	Node            string // empty: it is bound to none
	Requests        Amounts
	Created         time.Time
	Deleting        bool
	Daemon          bool // a DaemonSet's or a mirror pod: it needs no place elsewhere when its node goes
	Starting        bool // bound and not running yet
	DoNotDisrupt    bool // its annotation keeps its node
	Waits           Waits
}

// ownerKey identifies the owner of a pod in the cluster.
func (p *Pod) ownerKey() string { return p.Namespace + "/" + p.Owner }

// Waits says why a pod that is bound to no node is not. It is empty for others.
type Waits struct {
	Reason    string // of the condition PodScheduled, such as Unschedulable or SchedulingGated; empty: its scheduler has not answered yet
	Message   string // of that condition
	Nominated string // the node on which pods of lower priority are being preempted for it
	Scheduler string // spec.schedulerName
}

// Decision is something that an autoscaler decided, refused or did.
type Decision struct {
	At      time.Time
	Last    time.Time // when it was decided again for the last time; zero: it was decided once
	Count   int       // how often; 0 and 1: once
	By      string    // the autoscaler
	Kind    string    // what it is: a ledger entry's kind, or an event's reason
	Subject string    // kind and name, such as node/a or pod/default/b
	Text    string    // why, as a sentence
	Warning bool
	Refusal bool     // it says why a pending pod gets no node
	Blocker string   // of a decision about a node: who refuses an eviction that its drain needs
	Keeps   bool     // it says why a node is kept; a View has it with the node
	Pods    []string // of a decision to launch a node: namespace/name of the pods that it is for, as far as they existed
	Micro   int64    // of a decision to remove a node: what the whole command saves, in micro-dollars an hour
	key     string   // of an event
}

// Autoscaler is one that acts in the cluster.
type Autoscaler struct {
	Name string `json:"name"` // Dovetail, Karpenter or Cluster Autoscaler
	Sign string `json:"sign"` // by what it is known to be there
}

// Price is what an offering costs.
type Price struct {
	Micro    int64 // micro-dollars an hour
	Modelled bool  // a modelled spot price, not a published one
	Other    bool  // the zone or capacity type is not in the catalog: the price is of another one
}

// Prices are where prices come from.
type Prices struct {
	Name string // of the catalog
	AsOf string
	// Find returns the price of an offering, ok false where the catalog does not have the type.
	Find func(instanceType, zone, capacityType string) (p Price, ok bool)
}

// Cluster names what is looked at.
type Cluster struct {
	Name    string `json:"name"`    // the kubeconfig's context
	Server  string `json:"server"`  // address of the API server
	Version string `json:"version"` // of Kubernetes, such as 1.36; empty: not known
}
