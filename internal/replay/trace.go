// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package replay replays a recorded cluster in virtual time with other NodePools, and measures cost and waiting times
// of pods.
//
// A Trace contains the recording as values of model: lifetimes of pods, nodes and NodeClaims, and the requested
// replicas of workloads. Play builds a cluster of internal/sim from it, sets the workloads' demand, and runs the
// controller's own decision (approve.Step: decide and verify) to launch and remove nodes. Measure computes the same
// Figures from the recording itself.
//
// Equal inputs give equal Figures. The package reads no file and no clock; package replay/recording creates a Trace
// from a recording. Start reading at Play, then workloads (simulates the cluster's controllers) and meter (measures).
package replay

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Trace is a recorded cluster. Times are between From and To; a zero time means that the event was not recorded.
type Trace struct {
	From, To time.Time

	Owners  []*Owner // in the order of their first pod
	Static  []*Pod   // static pods: present from the beginning, with their node
	Nodes   []*Node
	Claims  []*Claim
	Changes []Change // changes by users and other controllers, in order of time

	// Own reports whether Dovetail managed the cluster, so that its decisions can be compared.
	Own bool
	// Marked are the times at which nodes were marked for disruption, in order.
	Marked []time.Time
}

// Change is one change of an object other than a pod, a NodeClaim or a node with a NodeClaim. Exactly one field is set.
type Change struct {
	At time.Time

	Daemon     *model.Daemon
	PDB        *model.PDB
	PDBGone    string // namespace/name
	Namespace  string // name; its labels are in Labels
	Labels     model.Labels
	Node       *model.Node // a node without a NodeClaim
	NodeGone   string
	Interrupt  *Claim // the cloud announced an interruption of the claim's machine
	DaemonGone string // namespace/name
}

// Owner creates pods: a ReplicaSet, StatefulSet, Job, or another controller. A pod without a controller has its own Owner.
type Owner struct {
	Key   string // kind/namespace/name; unique for a pod without a controller
	Owner model.Owner
	Bare  bool // it represents a pod without a controller, which is not recreated

	// Wants are the changes of spec.replicas. Without Wants, the desired number of pods follows from Slots.
	Wants []Want
	Pods  []*Pod  // in order of creation
	Slots []*Slot // for an owner without Wants
}

// Want is the number of desired pods of an Owner from an instant on.
type Want struct {
	At    time.Time
	Count int
}

// Slot is one replica of a workload: its pod, and the pods that replaced it after evictions.
type Slot struct {
	Owner *Owner
	Pods  []*Pod // in order of creation, at least one
}

// End returns when a slot ends: never (zero), at a time, or after one of its pods has run for a duration (ran > 0).
func (s *Slot) End() (at time.Time, ran time.Duration) {
	last := s.Pods[len(s.Pods)-1]
	if last.Completed {
		return time.Time{}, max(last.Ended.Sub(last.Bound), 1)
	}
	return last.Ended, 0
}

// Pod is the lifetime of a recorded pod.
type Pod struct {
	Pod   *model.Pod // as created, without a node
	Owner *Owner

	Born  time.Time // when it became schedulable
	Bound time.Time
	Ended time.Time // when it was deleted, or when its containers completed (Completed)
	Gone  time.Time // when it stopped using its node

	Node      string // node to which it was bound
	First     bool   // it existed at From
	Completed bool
	Disrupted string // reason for its eviction or loss with its node; empty: neither
	Restart   bool   // it was deleted although its owner wanted as many pods as before
}

// Node is the lifetime of a recorded node.
type Node struct {
	Node  *model.Node // as first observed
	Claim *Claim      // nil: no NodeClaim
	Type  string
	Zone  string
	// CapacityType is on-demand unless a label sets another one.
	CapacityType string
	Pool         string // from its label; empty: none

	Seen, Ready, Gone time.Time
	First             bool // it existed at From
}

// Claim is the lifetime of a recorded NodeClaim.
type Claim struct {
	Claim *model.Claim // as first observed; if it existed at From: as of From
	Last  *model.Claim // as last observed
	Node  *Node        // nil: no node

	Seen, Launched, Deleted, Gone time.Time
	First                         bool // it existed at From

	Interrupted time.Time // when the cloud's interruption notice was observed
	PriceMicro  int64     // price at launch, from its annotation; 0: unknown
	Reason      string    // reason for its disruption
}
