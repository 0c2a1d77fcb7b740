// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EC2NodeClassStatus is the observed state of an EC2NodeClass.
type EC2NodeClassStatus struct {
	// Subnets that the terms select.
	//
	// +optional
	Subnets []Subnet `json:"subnets,omitempty"`

	// SecurityGroups that the terms select.
	//
	// +optional
	SecurityGroups []SecurityGroup `json:"securityGroups,omitempty"`

	// CapacityReservations that the terms select.
	//
	// +optional
	CapacityReservations []CapacityReservation `json:"capacityReservations,omitempty"`

	// AMIs that the terms select.
	//
	// +optional
	AMIs []AMI `json:"amis,omitempty"`

	// InstanceProfile of the instances.
	//
	// +optional
	InstanceProfile string `json:"instanceProfile,omitempty"`

	// Conditions report whether the node class can be used.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Subnet is a subnet for instances.
type Subnet struct {
	// ID of the subnet.
	ID string `json:"id"`

	// Zone of the subnet.
	Zone string `json:"zone"`

	// ZoneID is the zone ID, the same in every account.
	//
	// +optional
	ZoneID string `json:"zoneID,omitempty"`
}

// SecurityGroup is a security group of each instance.
type SecurityGroup struct {
	// ID of the group.
	ID string `json:"id"`

	// Name of the group.
	//
	// +optional
	Name string `json:"name,omitempty"`
}

// AMI is an AMI and the instance types that it supports.
type AMI struct {
	// ID of the image.
	ID string `json:"id"`

	// Deprecated reports whether the AMI is deprecated.
	//
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`

	// Name of the image.
	//
	// +optional
	Name string `json:"name,omitempty"`

	// Requirements of the instances that the AMI supports.
	Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
}

// CapacityReservation is a usable reservation.
type CapacityReservation struct {
	// AvailabilityZone of the reservation.
	//
	// +required
	AvailabilityZone string `json:"availabilityZone"`

	// EndTime of the reservation.
	//
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`

	// ID of the reservation.
	//
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +required
	ID string `json:"id"`

	// InstanceMatchCriteria of the reservation.
	//
	// +kubebuilder:validation:Enum=open;targeted
	// +required
	InstanceMatchCriteria string `json:"instanceMatchCriteria"`

	// InstanceType that is reserved.
	//
	// +required
	InstanceType string `json:"instanceType"`

	// Interruptible reports whether its owner can reclaim it.
	//
	// +optional
	Interruptible bool `json:"interruptible,omitempty"`

	// OwnerID is the account that owns it.
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
