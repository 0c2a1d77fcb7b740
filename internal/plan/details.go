// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

// details are the types of Detail by code, one for each: Nothing where the code says all.
var details = map[Code]Detail{
	NoPools: OfNoPools{}, Taint: OfTaint{}, Requirement: OfRequirement{}, NoInstanceType: OfNoInstanceType{}, Resource: OfSize{}, CameShort: OfSize{},
	ShortAgain: OfSize{}, Offering: OfOffering{}, ZonalShift: OfZonalShift{}, OutOfCapacity: OfOutOfCapacity{}, GroupMaximum: OfGroupMaximum{}, UnusedLaunches: OfUnusedLaunches{}, Limit: OfLimit{},
	SharedLimit: OfSharedLimit{}, MinValues: OfMinValues{}, TopologySpread: OfTopologySpread{}, PodAffinity: OfPodAffinity{},
	PodAntiAffinity: OfPodAntiAffinity{}, HostPortConflict: OfHostPort{}, VolumeTopology: OfVolumeTopology{}, VolumeLimit: OfVolumeLimit{},
	VolumeExclusive: OfVolumeExclusive{}, VolumeClaim: OfVolumeClaim{}, VolumeStorage: OfVolumeStorage{}, Unsupported: OfUnsupported{},
	NodeName: OfNodeName{}, Mismatch: OfMismatch{}, PlanRefused: OfPlanRefused{}, PoolNotReady: OfPoolNotReady{}, TooComplex: OfTooComplex{},
	WorkShare: OfWorkShare{}, ResourceShare: OfResourceShare{}, NotSchedulable: OfNotSchedulable{}, NotBindable: OfNotBindable{},
	BindingUnfit: OfBindingUnfit{}, BindingRefused: OfSaid{}, GangIncomplete: OfGangIncomplete{}, GangTooLarge: OfGangTooLarge{}, PodsNotCreated: OfPodsNotCreated{}, CapacityChecked: Nothing{},

	Moving: OfMoving{}, NotInitialized: OfNotInitialized{}, DriftBackOff: OfDriftBackOff{}, NoPrice: OfNoPrice{}, NodeDoNotDisrupt: OfNodeHeld{}, PodDoNotDisrupt: OfPodHeld{},
	SafeToEvict: OfSafeToEvict{}, Nominated: OfNominated{}, ConsolidationOff: OfConsolidationOff{}, Static: OfStatic{}, Replicas: OfReplicas{},
	ScaledDown: OfReplicas{}, ClusterMinimum: OfClusterMinimum{}, GroupMinimum: OfGroupMinimum{}, GroupNotChosen: OfGroupNotChosen{},
	GroupUnread: OfGroupUnread{}, GroupRefresh: OfGroupRefresh{}, WellUsed: OfWellUsed{}, Quiet: OfQuiet{}, DelayAfterAdd: OfDelay{},
	DelayAfterDelete: OfDelay{}, DelayAfterFailure: OfDelay{}, Payback: OfPayback{}, NoController: OfNoController{}, LocalStorage: OfLocalStorage{},
	SystemPod: OfSystemPod{}, CustomController: OfCustomController{}, FewReplicas: OfFewReplicas{}, DisruptionBudgetPDB: OfPDB{},
	SeveralPDBs: OfSeveralPDBs{}, GangApart: OfGangApart{}, Budget: OfBudget{}, NoHome: OfNoHome{}, NotCheaper: OfNotCheaper{}, DoesNotPay: OfDoesNotPay{},
	ShortLived: OfShortLived{}, NotKept: OfNotKept{}, LaunchesPaused: OfLaunchesPaused{}, BadRestartCost: OfBadRestartCost{}, NoReplacementFound: OfNoReplacementFound{},
	NotBalanced: OfNotBalanced{}, SpotToSpot: OfSpotToSpot{}, RepairBlocked: OfRepairBlocked{}, Underutilized: OfUnderutilized{}, Empty: OfEmpty{},
	Expired: OfExpired{}, Drifted: OfDrifted{}, Unhealthy: OfUnhealthy{}, Interrupted: OfInterrupted{}, Rebooting: OfRebooting{}, Aborted: OfAborted{}, CommandFailed: OfAborted{},
	NoSurge: OfNoSurge{},

	Demand: Nothing{}, Scheduling: Nothing{}, PodsEnding: Nothing{}, Launching: OfSaid{}, Registering: OfRegistering{}, Initializing: OfInitializing{}, Landed: Nothing{},
	NoAnswer: Nothing{}, LandingTimeout: OfTimeout{}, LaunchTimeout: OfTimeout{}, RegistrationTimeout: OfTimeout{}, ReservationEnded: OfReservationEnded{},
	ClaimRefused: OfSaid{}, InsufficientCap: OfSaid{}, NodeClassNotReady: OfSaid{}, InstanceGone: OfSaid{}, Orphan: Nothing{}, Draining: OfGracePeriod{},
	Terminating: Nothing{}, Deleted: OfGracePeriod{}, CreatedByOthers: Nothing{}, Reclaimed: Nothing{}, Adopted: Nothing{}, Leftover: OfLeftover{}, HeldForBuffer: OfHeldForBuffer{},

	LandingOff: Nothing{}, TolerateAll: Nothing{}, PreemptsOthers: Nothing{}, PatchRefused: Nothing{}, StartupTaints: OfNodeTaint{},
	ExtendedResource: OfExtendedResource{}, SpreadTaints: OfSpreadTaints{},

	CallFailed: OfCallFailed{}, ChangeUndone: OfChangeUndone{}, EvictionRefused: OfCallFailed{}, NodeMissing: OfNodeMissing{}, SeveralNodes: OfSeveralNodes{}, NodeNotReady: OfNodeNotReady{},
	EphemeralTaint: OfNodeTaint{}, ResourceMissing: OfResourceMissing{}, NodeGone: Nothing{}, AwaitsPods: OfPods{}, DaemonSets: OfPods{}, EvictedLater: OfPods{},
	AwaitsLaunch: OfAwaitsLaunch{}, AwaitsMachine: OfAwaitsMachine{}, InstancesUnread: Nothing{}, PodTerminating: OfPodTerminating{}, EvictionPace: OfEvictionPace{},
	SuccessorFirst: OfSuccessorFirst{}, VolumeAttached: OfHolders{}, ForeignHold: OfHolders{}, DeletionDelayed: OfDeletionDelayed{},
	MinimumDrain: OfMinimumDrain{}, Ended: Nothing{},
}

// DetailFor returns an empty Detail of the type for a code; nil if the code does not exist.
func DetailFor(code Code) Detail { return details[code] }

// Nothing is the Detail of codes without facts.
type Nothing struct{ detail }
