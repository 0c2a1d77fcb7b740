// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

// Codes of why a machine goes, beside Empty, Expired and Deleted.
const (
	Underutilized Code = "Underutilized" // its pods can run elsewhere at lower cost; Have: the saving, Want: the cost of the disruption
	Drifted       Code = "Drifted"       // Key: NodePoolDrifted, RequirementsDrifted, InstanceTypeNotFound, or the provider's reason
	Unhealthy     Code = "Unhealthy"     // Key: the node condition, Have: its status
	Rebooting     Code = "Rebooting"     // it is unhealthy, and its instance is rebooted; Subject: the node, Want: when it must be Ready again
	Interrupted   Code = "Interrupted"   // the cloud is interrupting its instance; Key: the kind of notice, Want: when it is terminated
	ScaledDown    Code = "ScaledDown"    // its static NodePool has more nodes than spec.replicas
	Replicas      Code = "Replicas"      // a static NodePool has fewer nodes than spec.replicas
	Adopted       Code = "Adopted"       // a member of a node group had no NodeClaim; Subject: its provider ID
	Leftover      Code = "Leftover"      // a node has a taint that another autoscaler left; Subject: the node, Key: the taint
	Aborted       Code = "MoveAborted"   // a disruption command was cancelled and undone
	CommandFailed Code = "CommandFailed" // as MoveAborted, because a replacement did not start, or because of a timeout
)

// Codes of what keeps a machine, in the order the checks are made.
const (
	NotInitialized      Code = "NotInitialized"
	Moving              Code = "Moving"              // a disruption command for it is running; Key: the command
	NoPrice             Code = "NoPrice"             // its instance type or offering is no longer in the catalog
	NodeDoNotDisrupt    Code = "NodeDoNotDisrupt"    // Key: the annotation
	DriftBackOff        Code = "DriftBackOff"        // nodes of its pool drift soon after they are launched; Subject: the pool, Key: how often, Want: required time without changes, Have: time of the last change
	Nominated           Code = "Nominated"           // kube-scheduler is expected to place pods on it
	ConsolidationOff    Code = "ConsolidationPolicy" // the pool's policy does not consolidate nodes with pods
	Static              Code = "StaticPool"          // static NodePools (spec.replicas) are not consolidated
	ClusterMinimum      Code = "ClusterMinimum"      // minimum of a resource in the cluster; Key: the resource, Want: the minimum, Have: the current amount
	GroupMinimum        Code = "NodeGroupMinimum"    // its node group is at its minimum size; Subject: the group, Want: the minimum, Have: its size
	GroupNotChosen      Code = "NodeGroupNotChosen"  // its node class no longer selects its node group; Subject: the group
	GroupUnread         Code = "NodeGroupUnread"     // its node class has no status about node groups yet; Subject: the group
	GroupRefresh        Code = "InstanceRefresh"     // the cloud is replacing the instances of its node group; Subject: the group, Have: the status
	WellUsed            Code = "WellUsed"            // its utilization is above the threshold; Key: the resource, Want: the threshold, Have: the utilization
	Quiet               Code = "ConsolidateAfter"    // pods were added or removed too recently
	DelayAfterAdd       Code = "DelayAfterAdd"       // a node was launched too recently; Subject: the pool, Want: the delay, Have: how long ago
	DelayAfterDelete    Code = "DelayAfterDelete"    // the removal of another node started too recently; as DelayAfterAdd
	DelayAfterFailure   Code = "DelayAfterFailure"   // the removal of a node was cancelled too recently; as DelayAfterAdd
	Payback             Code = "Payback"             // it was launched by a disruption command that has not paid off yet; Want: when it has
	PodDoNotDisrupt     Code = "PodDoNotDisrupt"     // Subject: the pod
	SafeToEvict         Code = "SafeToEvict"         // cluster-autoscaler.kubernetes.io/safe-to-evict; Subject: the pod
	NoController        Code = "NoController"        // no controller would recreate the pod; Subject: the pod
	LocalStorage        Code = "LocalStorage"        // it would lose a local volume; Subject: the pod, Key: the volume
	SystemPod           Code = "SystemPod"           // of kube-system without a PodDisruptionBudget; Subject: the pod, Want: required age, Have: its age
	CustomController    Code = "CustomController"    // the kind of its controller is not built into Kubernetes; Subject: the pod, Have: the kind
	FewReplicas         Code = "FewReplicas"         // its controller has too few pods; Subject: the pod, Want: the minimum, Have: the number
	DisruptionBudgetPDB Code = "PodDisruptionBudget" // Subject: the pod, Key: the budget
	SeveralPDBs         Code = "SeveralPodDisruptionBudgets"
	GangApart           Code = "GangApart"          // the pod's gang also has pods on other nodes, or waits for nodes, and is moved together or not at all; Key: the gang, Have: number of its nodes
	Budget              Code = "DisruptionBudget"   // disruption budget of the pool; Key: its schedule, Want: allowed disruptions, Have: current ones
	NoHome              Code = "NoHome"             // a pod fits no other node, and none can be launched for it; Subject: the pod
	NotCheaper          Code = "NotCheaper"         // Want: less than its price; Have: the lowest cost of its pods elsewhere
	DoesNotPay          Code = "DoesNotPay"         // Want: the cost of the disruption, Have: the saving over the horizon
	NotKept             Code = "NotKept"            // the replacement cannot be reserved for the pods, and without that they might not fit; Key: why, Subject: the pod
	LaunchesPaused      Code = "LaunchesPaused"     // consolidation recently removed a node of the pool (Subject), and launches none in it; Want: until when
	ShortLived          Code = "ShortLived"         // not worthwhile only because the workload (Subject) is expected to scale again, after Key
	BadRestartCost      Code = "BadRestartCost"     // dovetail.sh/restart-cost of the Subject, a pod or a NodePool, is not a number of dollars
	NoReplacementFound  Code = "NoReplacementFound" // no replacement was found, or it would be launched again; Have: number of searches, Want: time of the next one
	NotBalanced         Code = "NotBalanced"        // policy Balanced: the saved share is too small for the disrupted share
	SpotToSpot          Code = "SpotToSpot"         // spot nodes are not replaced by spot nodes; Key: the feature gate that allows it
	RepairBlocked       Code = "RepairBlocked"      // too many nodes of the pool are unhealthy at once
	NoSurge             Code = "NoSurge"            // a pod cannot be replaced before its eviction as requested; Key: the cause
)

// Codes of what the next step of a NodeClaim waits for, beside what keeps its pods.
const (
	CallFailed      Code = "CallFailed"           // a call fails and is retried; Subject: the object, Key: the call, Want: number of failures and since when, Have: the last error
	ChangeUndone    Code = "ChangeUndone"         // a change is repeatedly reverted by another client; Subject: the object, Want: how often and since when
	NodeMissing     Code = "NodeNotJoined"        // no node with the instance's provider ID has registered; Subject: the provider ID
	SeveralNodes    Code = "MultipleNodes"        // several nodes have the NodeClaim's provider ID; Subject: the provider ID, Have: the nodes
	NodeNotReady    Code = "NodeNotReady"         // Subject: the node, Have: message of its condition Ready
	EphemeralTaint  Code = "EphemeralTaint"       // a taint that its owner removes when a new node is ready; Subject: the node, Key: the taint
	ResourceMissing Code = "ResourceNotInNode"    // a requested extended resource is missing in the node's allocatable; Subject: the node
	NodeGone        Code = "NodeObjectGone"       // its node no longer exists; Subject: the node
	AwaitsPods      Code = "AwaitsPods"           // the node is reserved for pods that are not bound yet; Have: their number
	AwaitsLaunch    Code = "AwaitsLaunch"         // waits for another launch, which shows whether there is capacity; Subject: its NodeClaim, Have: whether this launch has failed
	AwaitsMachine   Code = "AwaitsReplacement"    // a replacement is not initialized; Subject: the NodeClaim, Have: its stage
	InstancesUnread Code = "InstancesNotListed"   // the next list of instances shows whether an instance was launched
	PodTerminating  Code = "PodTerminating"       // Subject: the pod, Key: its finalizers, Have: end of its grace period
	EvictedLater    Code = "EvictedLater"         // other pods are evicted before it; Subject: the pod, Have: their number
	EvictionPace    Code = "EvictionPace"         // the maximum number of evicted pods without a new node is reached; Subject: the pod, Want: the maximum
	SuccessorFirst  Code = "SuccessorFirst"       // its Deployment creates a replacement first; Subject: the pod, Have: the Deployment
	VolumeAttached  Code = "VolumeAttached"       // Subject: the node, Key: VolumeAttachments
	DeletionDelayed Code = "DeletionDelayed"      // an annotation of the node delays its deletion; Subject: the node, Key: the annotation
	MinimumDrain    Code = "LoadBalancersUnaware" // minimum duration of a drain, so that load balancers are updated; Want: the duration
	Ended           Code = "Ended"                // the pod has terminated
	ForeignHold     Code = "Finalizer"            // a finalizer of another controller holds the object; Subject: the object, Key: the finalizers
)

// disruptions are the codes of this file with the type of their Detail.
var disruptions = map[Code]Detail{
	Underutilized: OfUnderutilized{}, Drifted: OfDrifted{}, Unhealthy: OfUnhealthy{}, Rebooting: OfRebooting{}, Interrupted: OfInterrupted{},
	ScaledDown: OfReplicas{}, Replicas: OfReplicas{}, Adopted: Nothing{}, Leftover: OfLeftover{}, Aborted: OfAborted{}, CommandFailed: OfAborted{},
	NotInitialized: OfNotInitialized{}, Moving: OfMoving{}, NoPrice: OfNoPrice{}, NodeDoNotDisrupt: OfNodeHeld{}, DriftBackOff: OfDriftBackOff{},
	Nominated: OfNominated{}, ConsolidationOff: OfConsolidationOff{}, Static: OfStatic{}, ClusterMinimum: OfClusterMinimum{},
	GroupMinimum: OfGroupMinimum{}, GroupNotChosen: OfGroupNotChosen{}, GroupUnread: OfGroupUnread{}, GroupRefresh: OfGroupRefresh{},
	WellUsed: OfWellUsed{}, Quiet: OfQuiet{}, DelayAfterAdd: OfDelay{}, DelayAfterDelete: OfDelay{}, DelayAfterFailure: OfDelay{}, Payback: OfPayback{},
	PodDoNotDisrupt: OfPodHeld{}, SafeToEvict: OfSafeToEvict{}, NoController: OfNoController{}, LocalStorage: OfLocalStorage{},
	SystemPod: OfSystemPod{}, CustomController: OfCustomController{}, FewReplicas: OfFewReplicas{}, DisruptionBudgetPDB: OfPDB{},
	SeveralPDBs: OfSeveralPDBs{}, GangApart: OfGangApart{}, Budget: OfBudget{}, NoHome: OfNoHome{}, NotCheaper: OfNotCheaper{},
	DoesNotPay: OfDoesNotPay{}, NotKept: OfNotKept{}, LaunchesPaused: OfLaunchesPaused{}, ShortLived: OfShortLived{},
	BadRestartCost: OfBadRestartCost{}, NoReplacementFound: OfNoReplacementFound{}, NotBalanced: OfNotBalanced{}, SpotToSpot: OfSpotToSpot{},
	RepairBlocked: OfRepairBlocked{}, NoSurge: OfNoSurge{}, CallFailed: OfCallFailed{}, ChangeUndone: OfChangeUndone{}, NodeMissing: OfNodeMissing{},
	SeveralNodes: OfSeveralNodes{}, NodeNotReady: OfNodeNotReady{}, EphemeralTaint: OfNodeTaint{}, ResourceMissing: OfResourceMissing{},
	NodeGone: Nothing{}, AwaitsPods: OfPods{}, AwaitsLaunch: OfAwaitsLaunch{}, AwaitsMachine: OfAwaitsMachine{}, InstancesUnread: Nothing{},
	PodTerminating: OfPodTerminating{}, EvictedLater: OfPods{}, EvictionPace: OfEvictionPace{}, SuccessorFirst: OfSuccessorFirst{},
	VolumeAttached: OfHolders{}, DeletionDelayed: OfDeletionDelayed{}, MinimumDrain: OfMinimumDrain{}, Ended: Nothing{}, ForeignHold: OfHolders{},
}
