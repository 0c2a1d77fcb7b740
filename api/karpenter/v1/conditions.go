// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

// ConditionReady sums up the other conditions of a kind: for a NodePool ConditionValidationSucceeded and ConditionNodeClassReady,
// for a NodeClaim ConditionLaunched, ConditionRegistered and ConditionInitialized.
const ConditionReady = "Ready"

// Reasons of a condition that is not decided yet, and of ConditionReady when a condition it sums up is not True.
const (
	ReasonAwaitingReconciliation = "AwaitingReconciliation"
	ReasonUnhealthyDependents    = "UnhealthyDependents"
)

// Conditions of a NodePool.
const (
	ConditionValidationSucceeded = "ValidationSucceeded"
	ConditionNodeClassReady      = "NodeClassReady"
	// ConditionNodeRegistrationHealthy says whether the pool's machines come up. It informs and stops nothing.
	ConditionNodeRegistrationHealthy = "NodeRegistrationHealthy"
)

// Reasons in a NodePool's conditions.
const (
	ReasonNodePoolValidationFailed  = "NodePoolValidationFailed"
	ReasonNodeClassNotFound         = "NodeClassNotFound"
	ReasonNodeClassTerminating      = "NodeClassTerminating"
	ReasonNodeClassReadinessUnknown = "NodeClassReadinessUnknown"
	ReasonNodeClassNotReady         = "NodeClassNotReady"
	ReasonRegistrationFailed        = "RegistrationFailed"
)

// Conditions of a NodeClaim.
const (
	ConditionLaunched             = "Launched"
	ConditionRegistered           = "Registered"
	ConditionInitialized          = "Initialized"
	ConditionConsolidatable       = "Consolidatable"
	ConditionDrifted              = "Drifted"
	ConditionDrained              = "Drained"
	ConditionVolumesDetached      = "VolumesDetached"
	ConditionInstanceTerminating  = "InstanceTerminating"
	ConditionConsistentStateFound = "ConsistentStateFound"
	ConditionDisruptionReason     = "DisruptionReason"
)

// Reasons in a NodeClaim's conditions. A condition that is True and needs no reason bears its own type as the reason.
const (
	ReasonLaunchFailed                  = "LaunchFailed"
	ReasonNodeNotFound                  = "NodeNotFound"
	ReasonMultipleNodesFound            = "MultipleNodesFound"
	ReasonRegistrationHookPending       = "RegistrationHookPending"
	ReasonNodeNotReady                  = "NodeNotReady"
	ReasonStartupTaintsExist            = "StartupTaintsExist"
	ReasonKnownEphemeralTaintsExist     = "KnownEphemeralTaintsExist"
	ReasonResourceNotRegistered         = "ResourceNotRegistered"
	ReasonDRADriverPoolsNotPublished    = "DRADriverPoolsNotPublished"
	ReasonDraining                      = "Draining"
	ReasonAwaitingVolumeDetachment      = "AwaitingVolumeDetachment"
	ReasonTerminationGracePeriodElapsed = "TerminationGracePeriodElapsed"
	ReasonConsistencyCheckFailed        = "ConsistencyCheckFailed"
)

// Reasons of ConditionDrifted that no provider has a part in.
const (
	ReasonNodePoolDrifted      = "NodePoolDrifted"
	ReasonRequirementsDrifted  = "RequirementsDrifted"
	ReasonInstanceTypeNotFound = "InstanceTypeNotFound"
)
