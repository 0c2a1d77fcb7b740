// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EC2NodeClassStatus is what the settings stand for in the account.
type EC2NodeClassStatus struct {
	// Subnets that the terms choose.
	//
	// +optional
	Subnets []Subnet `json:"subnets,omitempty"`

	// SecurityGroups that the terms choose.
	//
	// +optional
	SecurityGroups []SecurityGroup `json:"securityGroups,omitempty"`

	// CapacityReservations that the terms choose.
	//
	// +optional
	CapacityReservations []CapacityReservation `json:"capacityReservations,omitempty"`

	// AMIs that the terms choose.
	//
	// +optional
	AMIs []AMI `json:"amis,omitempty"`

	// InstanceProfile that machines get.
	//
	// +optional
	InstanceProfile string `json:"instanceProfile,omitempty"`

	// Conditions say whether the settings can be used.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Subnet is one that machines may stand in.
type Subnet struct {
	// ID of the subnet.
	ID string `json:"id"`

	// Zone of the subnet.
	Zone string `json:"zone"`

	// ZoneID is the zone's name that is the same in every account.
	//
	// +optional
	ZoneID string `json:"zoneID,omitempty"`
}

// SecurityGroup is one that each machine gets.
type SecurityGroup struct {
	// ID of the group.
	ID string `json:"id"`

	// Name of the group.
	//
	// +optional
	Name string `json:"name,omitempty"`
}

// AMI is an image and the machines it is for.
type AMI struct {
	// ID of the image.
	ID string `json:"id"`

	// Deprecated says that its maker has taken it back.
	//
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`

	// Name of the image.
	//
	// +optional
	Name string `json:"name,omitempty"`

	// Requirements of a machine that the image is for.
	Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
}

// CapacityReservation is one that may be used.
type CapacityReservation struct {
	// AvailabilityZone that it is in.
	//
	// +required
	AvailabilityZone string `json:"availabilityZone"`

	// EndTime at which it ends by itself.
	//
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`

	// ID of the reservation.
	//
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +required
	ID string `json:"id"`

	// InstanceMatchCriteria that it has.
	//
	// +kubebuilder:validation:Enum=open;targeted
	// +required
	InstanceMatchCriteria string `json:"instanceMatchCriteria"`

	// InstanceType that is reserved.
	//
	// +required
	InstanceType string `json:"instanceType"`

	// Interruptible says that its owner may take it back.
	//
	// +optional
	Interruptible bool `json:"interruptible,omitempty"`

	// OwnerID is the account that it belongs to.
	//
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +required
	OwnerID string `json:"ownerID"`

	// ReservationType is default or capacity-block.
	//
	// +kubebuilder:validation:Enum=default;capacity-block
	// +kubebuilder:default=default
	// +optional
	ReservationType string `json:"reservationType,omitempty"`

	// State is active, or expiring shortly before a capacity block ends.
	//
	// +kubebuilder:validation:Enum=active;expiring
	// +kubebuilder:default=active
	// +optional
	State string `json:"state,omitempty"`
}

// Conditions of an EC2NodeClass. Ready sums up the others.
const (
	ConditionReady                     = "Ready"
	ConditionSubnetsReady              = "SubnetsReady"
	ConditionSecurityGroupsReady       = "SecurityGroupsReady"
	ConditionAMIsReady                 = "AMIsReady"
	ConditionInstanceProfileReady      = "InstanceProfileReady"
	ConditionCapacityReservationsReady = "CapacityReservationsReady"
	ConditionPlacementGroupReady       = "PlacementGroupReady"
	ConditionValidationSucceeded       = "ValidationSucceeded"
)

// Reasons in those conditions.
const (
	ReasonSubnetsNotFound                     = "SubnetsNotFound"
	ReasonSecurityGroupsNotFound              = "SecurityGroupsNotFound"
	ReasonAMINotFound                         = "AMINotFound"
	ReasonPlacementGroupNotFound              = "PlacementGroupNotFound"
	ReasonInstanceProfileNotFound             = "InstanceProfileNotFound"
	ReasonDependenciesNotReady                = "DependenciesNotReady"
	ReasonTagValidationFailed                 = "TagValidationFailed"
	ReasonInvalidKubeletConfiguration         = "InvalidKubeletConfiguration"
	ReasonKubeletExpressionsDisabled          = "KubeletExpressionsDisabled"
	ReasonKubeletExpressionInvalid            = "KubeletExpressionInvalid"
	ReasonKubeletExpressionEvaluationFailed   = "KubeletExpressionEvaluationFailed"
	ReasonUnsupportedKubeletConfiguration     = "UnsupportedKubeletConfiguration"
	ReasonUserDataSizeLimitExceeded           = "UserDataSizeLimitExceeded"
	ReasonInvalidUserData                     = "InvalidUserData"
	ReasonCreateFleetAuthCheckFailed          = "CreateFleetAuthCheckFailed"
	ReasonCreateLaunchTemplateAuthCheckFailed = "CreateLaunchTemplateAuthCheckFailed"
	ReasonRunInstancesAuthCheckFailed         = "RunInstancesAuthCheckFailed"
	ReasonUnhealthyDependents                 = "UnhealthyDependents"
	ReasonAccessDenied                        = "AccessDenied"
	ReasonUnresolved                          = "Unresolved"
)
