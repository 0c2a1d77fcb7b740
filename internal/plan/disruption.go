// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

// Codes of why a machine goes, beside Empty, Expired and Deleted.
const (
	Underutilized Code = "Underutilized" // its pods can be had for less elsewhere; Have: the saving, Want: what the move costs
	Drifted       Code = "Drifted"       // Key: NodePoolDrifted, RequirementsDrifted, InstanceTypeNotFound or the provider's word
	Unhealthy     Code = "Unhealthy"     // Key: the node condition, Have: its status
	Rebooting     Code = "Rebooting"     // it is broken, and its instance is restarted; Subject: the node, Want: by when it must be back
	Interrupted   Code = "Interrupted"   // its cloud takes it away; Key: the kind of notice, Want: when it is gone
	ScaledDown    Code = "ScaledDown"    // its static pool has more machines than spec.replicas
	Replicas      Code = "Replicas"      // a static pool has fewer machines than spec.replicas
	Adopted       Code = "Adopted"       // a member of a node group was there before its claim; Subject: its provider id
	Leftover      Code = "Leftover"      // a node has a taint that another autoscaler has left on it; Subject: the node, Key: the taint
	Aborted       Code = "MoveAborted"   // a move could not be finished; everything is put back
	CommandFailed Code = "CommandFailed" // the same, since a replacement never came or it took too long
)

// Codes of what keeps a machine, in the order the checks are made.
const (
	NotInitialized      Code = "NotInitialized"
	Moving              Code = "Moving"              // a move of it is under way; Key: the move
	NoPrice             Code = "NoPrice"             // its type or offering is not in the catalog any more
	NodeDoNotDisrupt    Code = "NodeDoNotDisrupt"    // Key: the annotation
	DriftBackOff        Code = "DriftBackOff"        // nodes of its pool drift soon after they are launched; Subject: the pool, Key: how often, Want: unchanged for how long, Have: since when it is
	Nominated           Code = "Nominated"           // pods are expected on it
	ConsolidationOff    Code = "ConsolidationPolicy" // the pool's policy allows no move of nodes with pods
	Static              Code = "StaticPool"          // pools with spec.replicas are not consolidated
	ClusterMinimum      Code = "ClusterMinimum"      // the cluster may not have less of Key than Want; Have: it has
	GroupMinimum        Code = "NodeGroupMinimum"    // its node group may not become smaller; Subject: the group, Want: more machines than, Have: it has
	GroupNotChosen      Code = "NodeGroupNotChosen"  // its node class does not choose its node group any more; Subject: the group
	GroupUnread         Code = "NodeGroupUnread"     // its node class's status does not say anything of node groups yet; Subject: the group
	GroupRefresh        Code = "InstanceRefresh"     // the cloud replaces the machines of its node group; Subject: the group, Have: how that stands
	WellUsed            Code = "WellUsed"            // too much of it is asked for; Key: of what, Want: how much may be, Have: how much is
	Quiet               Code = "ConsolidateAfter"    // pods came or left too recently
	DelayAfterAdd       Code = "DelayAfterAdd"       // a node was launched too recently; Subject: the pool, Want: the delay, Have: how long ago
	DelayAfterDelete    Code = "DelayAfterDelete"    // the removal of another node began too recently; as DelayAfterAdd
	DelayAfterFailure   Code = "DelayAfterFailure"   // the removal of a node was taken back too recently; as DelayAfterAdd
	Payback             Code = "Payback"             // it is the replacement of a move that has not paid for itself yet; Want: until when
	PodDoNotDisrupt     Code = "PodDoNotDisrupt"     // Subject: the pod
	SafeToEvict         Code = "SafeToEvict"         // cluster-autoscaler.kubernetes.io/safe-to-evict; Subject: the pod
	NoController        Code = "NoController"        // nobody would make the pod again; Subject: the pod
	LocalStorage        Code = "LocalStorage"        // it would lose a volume of its own on the node; Subject: the pod, Key: the volume
	SystemPod           Code = "SystemPod"           // of kube-system without a PodDisruptionBudget; Subject: the pod, Want: its age, Have: how old it is
	CustomController    Code = "CustomController"    // its controller is of a kind that is not Kubernetes' own; Subject: the pod, Have: the kind
	FewReplicas         Code = "FewReplicas"         // its controller has fewer pods than wanted; Subject: the pod, Want: how many, Have: how many there are
	DisruptionBudgetPDB Code = "PodDisruptionBudget" // Subject: the pod, Key: the budget
	SeveralPDBs         Code = "SeveralPodDisruptionBudgets"
	GangApart           Code = "GangApart"          // the pod's gang has pods on other nodes too, or waits for nodes, and its pods are moved together or not at all; Key: the gang, Have: on how many nodes it is
	Budget              Code = "DisruptionBudget"   // the pool's; Key: its schedule, Want: what it allows, Have: what is disrupted
	NoHome              Code = "NoHome"             // a pod fits nowhere else, and no machine can be bought for it; Subject: the pod
	NotCheaper          Code = "NotCheaper"         // Want: less than what it costs; Have: the least that its pods cost elsewhere
	DoesNotPay          Code = "DoesNotPay"         // Want: the cost of the move, Have: the saving over the horizon
	NotKept             Code = "NotKept"            // what would come can't be kept to its pods, and without that they might find no room; Key: why not, Subject: the pod
	LaunchesPaused      Code = "LaunchesPaused"     // consolidation removed a node of the pool (Subject) a moment ago, and launches none there; Want: until when
	ShortLived          Code = "ShortLived"         // DoesNotPay only since the workload (Subject) is expected to grow or shrink again, after Key
	BadRestartCost      Code = "BadRestartCost"     // dovetail.sh/restart-cost of the Subject, a pod or a NodePool, is no number of dollars
	NoReplacementFound  Code = "NoReplacementFound" // it was looked for and not found, or would be bought again; Have: how often, Want: when it is looked for again
	NotBalanced         Code = "NotBalanced"        // policy Balanced: the share saved is too small for the share disrupted
	SpotToSpot          Code = "SpotToSpot"         // a spot node is replaced by no other; Key: the feature gate that would allow it
	RepairBlocked       Code = "RepairBlocked"      // too many nodes of the pool are unhealthy at once
	NoSurge             Code = "NoSurge"            // a pod was to go after its successor has come, and can't; Key: what is in the way
)

// Codes of what the next step of a NodeClaim waits for, beside what keeps its pods.
const (
	CallFailed      Code = "CallFailed"           // a call is refused or fails, and is repeated; Subject: on which object, Key: which call, Want: how often it failed since when, Have: the last answer
	ChangeUndone    Code = "ChangeUndone"         // a change is made and undone by somebody else again and again; Subject: of which object, Want: how often since when
	NodeMissing     Code = "NodeNotJoined"        // the instance is launched, and no node with its provider id has joined; Subject: the provider id
	SeveralNodes    Code = "MultipleNodes"        // several nodes have the claim's provider id; Subject: the provider id, Have: the nodes
	NodeNotReady    Code = "NodeNotReady"         // Subject: the node, Have: what its condition Ready says
	EphemeralTaint  Code = "EphemeralTaint"       // a taint that somebody takes off when a new node is up; Subject: the node, Key: the taint
	ResourceMissing Code = "ResourceNotInNode"    // an extended resource that was asked for is not in the node's allocatable; Subject: the node
	NodeGone        Code = "NodeObjectGone"       // its node was there and is not any more; Subject: the node
	AwaitsPods      Code = "AwaitsPods"           // the node is reserved for pods that are not bound yet; Have: how many
	AwaitsLaunch    Code = "AwaitsLaunch"         // another launch tells whether there is capacity; Subject: its NodeClaim, Have: whether this one's launch has failed
	AwaitsMachine   Code = "AwaitsReplacement"    // a replacement is not initialized; Subject: the NodeClaim, Have: how far it is
	InstancesUnread Code = "InstancesNotListed"   // whether an instance was launched is known with the next list of instances
	PodTerminating  Code = "PodTerminating"       // Subject: the pod, Key: finalizers that hold it, Have: by when it should have ended
	EvictedLater    Code = "EvictedLater"         // other pods are evicted before it; Subject: the pod, Have: how many
	EvictionPace    Code = "EvictionPace"         // as many pods as may be on their way are; Subject: the pod, Want: how many
	SuccessorFirst  Code = "SuccessorFirst"       // its Deployment makes its successor first; Subject: the pod, Have: the Deployment
	VolumeAttached  Code = "VolumeAttached"       // Subject: the node, Key: VolumeAttachments
	DeletionDelayed Code = "DeletionDelayed"      // an annotation of the node delays its deletion; Subject: the node, Key: the annotation
	MinimumDrain    Code = "LoadBalancersUnaware" // a node is drained for so long at least, so that load balancers hear of it; Want: how long
	Ended           Code = "Ended"                // the pod has ended
	ForeignHold     Code = "Finalizer"            // somebody else's finalizer holds the object; Subject: the object, Key: the finalizers
)
