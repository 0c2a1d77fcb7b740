// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package plan contains the output of a decision as typed data: actions, decisions about pods, and the reasons for
// both. report turns them into sentences.
//
// It neither acts nor decides. Every Action is idempotent: its Key names the effect, and carrying it out twice has no
// further effect (contract 4). Start reading at Plan.
package plan

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Plan is the output of one decision.
type Plan struct {
	Actions []Action      // in the order in which to start them; actions on different objects may run concurrently
	Pods    []PodDecision // one for each evaluated pending pod, by namespace and name
	Cost    Cost          // cost of the CreateClaim actions; zero if nothing was solved
	Solved  bool          // whether demand was evaluated
	Stats   Stats
	Next    time.Time // when to decide again without any change; zero: not necessary
}

// Cost is the cost of a plan and a lower bound on it.
type Cost struct {
	NewMicroPerHour     int64    // cost of the new nodes
	PremiumMicroPerHour int64    // part of it that is paid for resilience: for more offerings to choose from, and for pods on separate nodes
	BoundMicroPerHour   int64    // lower bound on the cost of any plan for the same pods
	ProvenBy            string   // the method of the bound: "lp", "columns", "enumeration", "none"
	Unpriced            []string // constraints that the bound does not price; it is valid without them
}

// Gap returns the relative distance of the cost from the bound in parts per million; 0 if they are equal, or if there is no
// cost.
func (c Cost) Gap() int64 {
	if c.NewMicroPerHour <= 0 || c.BoundMicroPerHour >= c.NewMicroPerHour {
		return 0
	}
	if c.BoundMicroPerHour <= 0 {
		return 1_000_000
	}
	return (c.NewMicroPerHour - c.BoundMicroPerHour) * 1_000_000 / c.BoundMicroPerHour
}

// Stats are the size and the effort of a solve, in units of work, not seconds.
type Stats struct {
	Pods, Classes, Offerings int
	Tier                     int
	Work                     int64
	Truncated                bool // the work limit was reached before the gap
}

// Outcome is the result of a decision for a pending pod.
type Outcome string

// The outcomes.
const (
	OnNode  Outcome = "node"    // fits an existing node; kube-scheduler places it there
	OnClaim Outcome = "claim"   // fits a node that is being launched
	OnNew   Outcome = "new"     // a node is launched for it in this plan
	Refused Outcome = "refused" // cannot be placed: see Reasons
	NotOurs Outcome = "ignored" // not demand: gated, nominated, or of another scheduler
)

// PodDecision is the result for one pod.
type PodDecision struct {
	Pod     *model.Pod
	Outcome Outcome
	Target  string   // node or claim name
	Reasons []Reason // for Refused: at least one per pool, nearest miss first
}

// Code identifies the failed check, or the cause of an action.
type Code string

// Codes for actions, and for objects that are kept.
const (
	Demand              Code = "Demand"              // pods need the node
	Scheduling          Code = "Scheduling"          // waiting for kube-scheduler to place the pod, which fits
	PodsEnding          Code = "PodsEnding"          // the pod fits when pods that are being deleted have terminated
	Launching           Code = "Launching"           // the NodeClaim has no instance yet
	Registering         Code = "Registering"         // the node has joined the cluster
	Initializing        Code = "Initializing"        // the node is Ready, without startup taints, and has its extended resources
	Landed              Code = "Landed"              // all slots have bound pods
	DaemonSets          Code = "DaemonSets"          // a reserved node waits for DaemonSet pods first, or no longer does; Have: the number of missing pods
	NoAnswer            Code = "NoAnswer"            // the previous write had no response
	LandingTimeout      Code = "LandingTimeout"      // the pods of its slots were not bound in time
	ReservationEnded    Code = "ReservationEnded"    // its capacity reservation has ended
	Empty               Code = "Empty"               // the node was empty for consolidateAfter
	Expired             Code = "Expired"             // the node is older than expireAfter
	ClaimRefused        Code = "NodeClaimRefused"    // the API server or an admission policy rejected the NodeClaim; Have: the message
	LaunchTimeout       Code = "LaunchTimeout"       // no instance within 5 minutes, or maxNodeProvisionTime of a node group; Want: that time
	RegistrationTimeout Code = "RegistrationTimeout" // no node within 15 minutes, or maxNodeProvisionTime of a node group; Want: that time
	InsufficientCap     Code = "InsufficientCapacity"
	NodeClassNotReady   Code = "NodeClassNotReady"
	InstanceGone        Code = "InstanceGone" // the NodeClaim's instance no longer exists
	Orphan              Code = "Orphan"       // an instance without a NodeClaim
	Draining            Code = "Draining"
	Terminating         Code = "Terminating"     // drained; its instance and objects are being removed
	Reclaimed           Code = "OwnerReference"  // its NodePool was deleted without it, and recreated
	Deleted             Code = "Deleted"         // the NodeClaim or the node was deleted by someone else
	CreatedByOthers     Code = "CreatedByOthers" // the NodeClaim was created by someone else
	TolerateAll         Code = "ToleratesEverything"
	PreemptsOthers      Code = "PreemptsOthers"
	StartupTaints       Code = "StartupTaints"
	ExtendedResource    Code = "ExtendedResource"
	SpreadTaints        Code = "SpreadHonorsTaints"
	PatchRefused        Code = "PatchRefused"
	BindingRefused      Code = "BindingRefused"  // the API server rejected the binding
	BindingUnfit        Code = "BindingUnfit"    // a kube-scheduler filter rejects the node; Key: the filter
	EvictionRefused     Code = "EvictionRefused" // the API server rejects the eviction of the pod, Subject; Have: the message
	NotBindable         Code = "NotBindable"     // only kube-scheduler can place the pod; Key: the field, Have: its value
	LandingOff          Code = "ExactLandingOff"
	HeldForBuffer       Code = "CapacityBuffer" // launched for the virtual pods of a CapacityBuffer, and usable by every pod; Subject: the buffer
)
