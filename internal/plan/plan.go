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

// Codes for refused pods, in the order of the checks.
const (
	NoPools          Code = "NoPools"          // no NodePool is ready
	Taint            Code = "Taint"            // Key: the taint that the pod does not tolerate
	Requirement      Code = "Requirement"      // Key: the label; Want: the pod's requirement, Have: the pool's
	NoInstanceType   Code = "NoInstanceType"   // no instance type satisfies both pod and pool; Key: the label that excludes the last ones
	Resource         Code = "Resource"         // Key: the resource; Want: request plus DaemonSets, Have: the largest allocatable
	CameShort        Code = "CameShort"        // nodes of the type were smaller than specified, twice; Key: the resource; Have: the nodes' amount
	ShortAgain       Code = "CameShortTwice"   // two nodes launched for the pod were smaller than specified; Subject: the last instance type; Key, Have: the resource that is too small for the pod alone
	Offering         Code = "Offering"         // instance types fit, but none in the required zone and capacity type
	ZonalShift       Code = "ZonalShift"       // all offerings that fit are in a zone that the cluster is shifted away from; of a node: it is in such a zone; Key: the zone, Have: the shift, Want: its end, empty: unknown
	OutOfCapacity    Code = "OutOfCapacity"    // all offerings that fit are marked unavailable; Subject: an exhausted quota of the cheapest such offering, and the remedy
	GroupMaximum     Code = "NodeGroupMaximum" // all offerings that fit are of node groups at their maximum size; Subject: the cheapest group, Have: its size
	UnusedLaunches   Code = "UnusedLaunches"   // no pod ran on the nodes launched for it; Subject: the last launch, empty: its NodeClaim was rejected, Key: the code of the most likely cause, Have: its message, Want: the time of the next launch, empty: after the result of Subject
	Limit            Code = "Limit"            // Key: the resource of spec.limits
	SharedLimit      Code = "SharedLimit"      // a limit of the cluster or a CapacityQuota is reached; Subject: the limit; Key: its resource, "nodes" or "dollars-per-hour"; Want: requirement of the smallest node, Have: usage
	MinValues        Code = "MinValues"        // fewer distinct values left than minValues requires
	TopologySpread   Code = "TopologySpread"   // Key: the topology key
	PodAffinity      Code = "PodAffinity"      // Key: the topology key
	PodAntiAffinity  Code = "PodAntiAffinity"  // Key: the topology key; Subject: a conflicting pod, if known
	HostPortConflict Code = "HostPort"         // Key: the port
	VolumeTopology   Code = "VolumeTopology"   // Key: the claim
	VolumeLimit      Code = "VolumeLimit"      // Key: the CSI driver
	VolumeExclusive  Code = "VolumeExclusive"  // ReadWriteOncePod volume in use
	VolumeClaim      Code = "VolumeClaim"      // Key: the PVC, which no node can use; Subject: the missing or faulty object, empty: the PVC; Want: a model.VolumeProblemKind; Have: kube-scheduler's message
	VolumeStorage    Code = "VolumeStorage"    // Key: the PVC; Subject: the StorageClass, whose driver reports too little free storage
	Unsupported      Code = "Unsupported"      // Have: the unsupported constraint
	NodeName         Code = "NodeName"         // the pod selects nodes by name or hostname; the reason of each of them
	Mismatch         Code = "Mismatch"         // kube-scheduler rejected, twice, a node that passes all checks; Subject: the node
	PlanRefused      Code = "PlanRefused"      // the plan for the pod failed verification, or planning failed, because of a bug in Dovetail; this part is not carried out; Key: the violated rule, or "panic"; Have: the violation; Want: the time of the next attempt
	PoolNotReady     Code = "PoolNotReady"     // labels and taints match, but the pool is not Ready; Have: reason and message of its condition
	TooComplex       Code = "TooComplex"       // the pod exceeds a limit; Key: of what; Have: the number, Want: the limit
	WorkShare        Code = "WorkShare"        // not evaluated in this step: its namespace's share of work is used; Key: the most expensive property of the pod, Have: its work, Want: the share
	ResourceShare    Code = "ResourceShare"    // not evaluated in this step: the pods request too many different resources; Key: namespace, Have: number of the pod's resources, Want: the limit
	NotSchedulable   Code = "NotSchedulable"   // the pod is gated, nominated, or of another scheduler
	GangIncomplete   Code = "GangIncomplete"   // the gang has fewer pods than its minimum; Subject: the gang, Want: the minimum, Have: the existing pods
	GangTooLarge     Code = "GangTooLarge"     // fewer pods of the gang can be placed than its minimum; Subject: the gang, Want: the minimum, Have: the pods that fit. The reasons of the others follow
	PodsNotCreated   Code = "PodsNotCreated"   // the API server rejects pods of a ReplicaSet, Subject; Want: the number, Have: its message
	CapacityChecked  Code = "CapacityChecked"  // the pod's ProvisioningRequest only checks for free capacity; Subject: the request
)

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
