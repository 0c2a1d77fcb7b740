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
	Actions []Action      // in the order they should be begun; those of different objects may run at once
	Pods    []PodDecision // one for each pending pod that was looked at, by namespace and name
	Cost    Cost          // what CreateClaim actions add; zero where nothing was solved
	Solved  bool          // whether demand was looked at
	Stats   Stats
	Next    time.Time // when to decide again though nothing happens; zero: no need
}

// Cost is a plan's price and how far it is from the least possible.
type Cost struct {
	NewMicroPerHour     int64    // what the new machines cost
	PremiumMicroPerHour int64    // how much of that is paid so that less is lost at once: for more offerings to choose from, for pods kept apart
	BoundMicroPerHour   int64    // no plan for the same pods costs less
	ProvenBy            string   // which bound: "lp", "columns", "enumeration", "none"
	Unpriced            []string // constraints that the bound leaves out, which keeps it valid
}

// Gap is the relative distance of cost from bound in parts per million, 0 when the bound is met or there is no cost.
func (c Cost) Gap() int64 {
	if c.NewMicroPerHour <= 0 || c.BoundMicroPerHour >= c.NewMicroPerHour {
		return 0
	}
	if c.BoundMicroPerHour <= 0 {
		return 1_000_000
	}
	return (c.NewMicroPerHour - c.BoundMicroPerHour) * 1_000_000 / c.BoundMicroPerHour
}

// Stats are a solve's size and effort, in work, not seconds.
type Stats struct {
	Pods, Classes, Offerings int
	Tier                     int
	Work                     int64
	Truncated                bool // the work budget ran out before the gap was met
}

// Outcome is what becomes of a pending pod.
type Outcome string

// The outcomes.
const (
	OnNode  Outcome = "node"    // fits an existing node; kube-scheduler will put it there
	OnClaim Outcome = "claim"   // fits a machine that is coming
	OnNew   Outcome = "new"     // a machine is bought for it in this plan
	Refused Outcome = "refused" // can't be placed: see Reasons
	NotOurs Outcome = "ignored" // not for the autoscaler: gated, another scheduler, nominated
)

// PodDecision is the answer for one pod.
type PodDecision struct {
	Pod     *model.Pod
	Outcome Outcome
	Target  string   // node or claim name
	Reasons []Reason // for Refused: one a pool at least, nearest miss first
}

// Code names the check that failed, or the cause of an action.
type Code string

// Codes of a pod refused, in the order the checks are made.
const (
	NoPools          Code = "NoPools"          // there is no ready NodePool at all
	Taint            Code = "Taint"            // Key: the taint not tolerated
	Requirement      Code = "Requirement"      // Key: the label; Want: the pod's requirement, Have: the pool's
	NoInstanceType   Code = "NoInstanceType"   // no type of the pool satisfies pod and pool together; Key: the label that empties the set
	Resource         Code = "Resource"         // Key: the resource; Want: request plus DaemonSets, Have: the largest allocatable
	CameShort        Code = "CameShort"        // a type was said to be large enough, and its nodes came smaller, twice; Key: the resource; Have: what they had
	ShortAgain       Code = "CameShortTwice"   // two machines that were bought for the pod came smaller than they were said to be; Subject: the last one's type; Key, Have: where the pod alone does not fit
	Offering         Code = "Offering"         // types fit, but none is offered in zone and capacity type wanted
	ZonalShift       Code = "ZonalShift"       // every offering that fits is in a zone that the cluster is shifted away from; of a node: it stands in such a zone; Key: the zone, Have: the shift, Want: until when, empty: until the cloud ends it
	OutOfCapacity    Code = "OutOfCapacity"    // every offering that fits is set aside; Subject: a reached quota of the account that keeps the cheapest of those it keeps, and what to do
	GroupMaximum     Code = "NodeGroupMaximum" // every offering that fits is of node groups at their maximum; Subject: the cheapest one, Have: its machines
	UnusedLaunches   Code = "UnusedLaunches"   // no pod came to the nodes launched for it; Subject: the last launch, empty: its NodeClaim was refused, Key: the code of its likeliest cause, Have: that in the cluster's own words, Want: when the next node may be launched, empty: when it is known what comes of Subject
	Limit            Code = "Limit"            // Key: the resource of spec.limits
	SharedLimit      Code = "SharedLimit"      // a limit over the cluster, or a CapacityQuota, allows no more; Subject: which; Key: its resource, "nodes" or "dollars-per-hour"; Want: what the smallest node needs, Have: used of the limit
	MinValues        Code = "MinValues"        // fewer distinct values left than minValues asks
	TopologySpread   Code = "TopologySpread"   // Key: the topology key
	PodAffinity      Code = "PodAffinity"      // Key: the topology key
	PodAntiAffinity  Code = "PodAntiAffinity"  // Key: the topology key; Subject: a pod it conflicts with, where known
	HostPortConflict Code = "HostPort"         // Key: the port
	VolumeTopology   Code = "VolumeTopology"   // Key: the claim
	VolumeLimit      Code = "VolumeLimit"      // Key: the CSI driver
	VolumeExclusive  Code = "VolumeExclusive"  // ReadWriteOncePod volume in use
	VolumeClaim      Code = "VolumeClaim"      // Key: the claim, which no node can use; Subject: what is missing or at fault, empty: the claim; Want: a model.VolumeProblemKind; Have: kube-scheduler's words
	VolumeStorage    Code = "VolumeStorage"    // Key: the claim; Subject: the StorageClass, whose driver reports too little free storage
	Unsupported      Code = "Unsupported"      // Have: what can't be honoured
	NodeName         Code = "NodeName"         // the pod may run on certain nodes only, by name or hostname: why each of them does not take it
	Mismatch         Code = "Mismatch"         // kube-scheduler refused, twice, a node that every check here accepts; Subject: the node
	PlanRefused      Code = "PlanRefused"      // the plan made for the pod failed verification, or making it failed: a bug in Dovetail, and nothing of it is done; Key: the rule that it broke, or "panic"; Have: how; Want: when it is tried again
	PoolNotReady     Code = "PoolNotReady"     // labels and taints match, but: Have is the condition's reason and message
	TooComplex       Code = "TooComplex"       // the pod asks for more of something than is looked at; Key: of what; Have: how many, Want: how many are
	WorkShare        Code = "WorkShare"        // not looked at in this step: pods of its namespace took its share; Key: what costs most of the pod, Have: its work, Want: the share
	ResourceShare    Code = "ResourceShare"    // not looked at in this step: all pods ask for more resources than one has room for; Key: namespace, Have: how many the pod asks for, Want: for how many there is room
	NotSchedulable   Code = "NotSchedulable"   // the pod is gated, nominated or another scheduler's
	GangIncomplete   Code = "GangIncomplete"   // fewer pods of the pod's gang exist than must run together; Subject: the gang, Want: how many must, Have: how many exist
	GangTooLarge     Code = "GangTooLarge"     // fewer pods of the pod's gang can be placed than must run together; Subject: the gang, Want: how many must, Have: how many can be. What keeps the others follows
	PodsNotCreated   Code = "PodsNotCreated"   // the API server refuses to create pods of a ReplicaSet, Subject; Want: how many, Have: what it says
	CapacityChecked  Code = "CapacityChecked"  // only free capacity is looked for, as the pod's ProvisioningRequest asks; Subject: the request
)

// Codes of actions and of things kept.
const (
	Demand              Code = "Demand"              // pods need it
	Scheduling          Code = "Scheduling"          // kube-scheduler has yet to place the pod, which has a place
	PodsEnding          Code = "PodsEnding"          // the pod has a place when pods that are being deleted have ended
	Launching           Code = "Launching"           // claim has no machine yet
	Registering         Code = "Registering"         // node has come
	Initializing        Code = "Initializing"        // node is ready, startup taints gone, extended resources there
	Landed              Code = "Landed"              // every reserved slot is bound
	DaemonSets          Code = "DaemonSets"          // a reserved node is kept for pods of DaemonSets first, or no longer is; Have: how many are still to come
	NoAnswer            Code = "NoAnswer"            // no answer came of the call that was to write this
	LandingTimeout      Code = "LandingTimeout"      // reserved pods did not come in time
	ReservationEnded    Code = "ReservationEnded"    // the machine was bought from one and runs in none any more
	Empty               Code = "Empty"               // consolidateAfter passed without pods
	Expired             Code = "Expired"             // expireAfter passed
	ClaimRefused        Code = "NodeClaimRefused"    // the API server, or an admission policy, refused the NodeClaim; Have: what it says
	LaunchTimeout       Code = "LaunchTimeout"       // no machine within 5 minutes, or within maxNodeProvisionTime of a node group; Want: that time
	RegistrationTimeout Code = "RegistrationTimeout" // no node within 15 minutes, or within maxNodeProvisionTime of a node group; Want: that time
	InsufficientCap     Code = "InsufficientCapacity"
	NodeClassNotReady   Code = "NodeClassNotReady"
	InstanceGone        Code = "InstanceGone" // claim without instance
	Orphan              Code = "Orphan"       // instance without claim
	Draining            Code = "Draining"
	Terminating         Code = "Terminating"     // drained, and its machine and objects are being removed
	Reclaimed           Code = "OwnerReference"  // its NodePool was deleted and left it, and is there again
	Deleted             Code = "Deleted"         // somebody deleted the claim or the node
	CreatedByOthers     Code = "CreatedByOthers" // somebody else created the claim
	TolerateAll         Code = "ToleratesEverything"
	PreemptsOthers      Code = "PreemptsOthers"
	StartupTaints       Code = "StartupTaints"
	ExtendedResource    Code = "ExtendedResource"
	SpreadTaints        Code = "SpreadHonorsTaints"
	PatchRefused        Code = "PatchRefused"
	BindingRefused      Code = "BindingRefused"  // the API server refused to bind the pod
	BindingUnfit        Code = "BindingUnfit"    // a filter of kube-scheduler is against a node now; Key: the filter
	EvictionRefused     Code = "EvictionRefused" // the API server refuses to evict the pod, Subject; Have: what it says
	NotBindable         Code = "NotBindable"     // only kube-scheduler can place the pod; Key: because of what, Have: what that asks about
	LandingOff          Code = "ExactLandingOff"
	HeldForBuffer       Code = "CapacityBuffer" // bought for the virtual pods of a CapacityBuffer, and free for every pod; Subject: the buffer
)
