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

// Trace is a recorded cluster. Times are within From and To; a zero time means that something did not happen while it was recorded.
type Trace struct {
	From, To time.Time

	Owners  []*Owner // by their first pod
	Static  []*Pod   // pods that no controller makes and kubelets run: there from the beginning, with their node
	Nodes   []*Node
	Claims  []*Claim
	Changes []Change // of what people and other controllers write, in order of time

	// Own reports whether Dovetail ran the cluster, so that its decisions can be compared.
	Own bool
	// Marked is when nodes were marked for disruption, in order of time.
	Marked []time.Time
}

// Change is one change of an object that is not of a pod, a NodeClaim or a node with a NodeClaim. One of its fields is set.
type Change struct {
	At time.Time

	Daemon     *model.Daemon
	PDB        *model.PDB
	PDBGone    string // namespace/name
	Namespace  string // with its Labels
	Labels     model.Labels
	Node       *model.Node // without a NodeClaim
	NodeGone   string
	Interrupt  *Claim // the cloud said that it takes the claim's machine away
	DaemonGone string // namespace/name
}

// Owner is what makes pods: a ReplicaSet, StatefulSet, Job, or another controller. Pods without one have an Owner each.
type Owner struct {
	Key   string // kind/namespace/name, of a pod without controller its own
	Owner model.Owner
	Bare  bool // it stands for a pod without controller: nobody makes it again

	// Wants are the changes of spec.replicas. If it has none, how many pods it wants follows from Slots.
	Wants []Want
	Pods  []*Pod  // in order of birth
	Slots []*Slot // of an owner without Wants
}

// Want is how many pods an Owner wants from an instant on.
type Want struct {
	At    time.Time
	Count int
}

// Slot is the place of one pod in its workload: its pod, and those that were made after it was evicted.
type Slot struct {
	Owner *Owner
	Pods  []*Pod // in order of birth, at least one
}

// End returns when a slot ends: never (zero), at an instant, or when a pod of it has run for a time (ran > 0).
func (s *Slot) End() (at time.Time, ran time.Duration) {
	last := s.Pods[len(s.Pods)-1]
	if last.Completed {
		return time.Time{}, max(last.Ended.Sub(last.Bound), 1)
	}
	return last.Ended, 0
}

// Pod is the life of a recorded pod.
type Pod struct {
	Pod   *model.Pod // as it was created, without a node
	Owner *Owner

	Born  time.Time // when it could first be scheduled
	Bound time.Time
	Ended time.Time // when it was deleted, or when its containers had ended by themselves (Completed)
	Gone  time.Time // when it did not occupy its node any more

	Node      string // bound to
	First     bool   // it was there at From
	Completed bool
	Disrupted string // why it was evicted or lost with its node; empty: it was not
	Restart   bool   // it was deleted though its owner wanted as many pods as before
}

// Node is the life of a recorded node.
type Node struct {
	Node  *model.Node // as it was when it was first seen
	Claim *Claim      // nil: it is not of a NodeClaim
	Type  string
	Zone  string
	// CapacityType is on-demand unless its label says otherwise.
	CapacityType string
	Pool         string // by its label; empty: of none

	Seen, Ready, Gone time.Time
	First             bool // it was there at From
}

// Claim is the life of a recorded NodeClaim.
type Claim struct {
	Claim *model.Claim // as it was when it was first seen; of those that were there at From: as it was then
	Last  *model.Claim // as it was seen last
	Node  *Node        // nil: it had none

	Seen, Launched, Deleted, Gone time.Time
	First                         bool // it was there at From

	Interrupted time.Time // when its cloud's notice was seen
	PriceMicro  int64     // for which it was launched, as it says itself; 0: it does not say
	Reason      string    // why it was disrupted
}
