// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1beta1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QuotaNodes is the resource that counts nodes.
const QuotaNodes = "nodes"

// CapacityQuota bounds what the nodes that it selects have in sum: no node is launched that would be more.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=capacityquotas,scope=Cluster,categories=autoscaling,shortName=cq
// +kubebuilder:printcolumn:name="Valid",type="string",JSONPath=".status.conditions[?(@.type=='cluster-autoscaler.kubernetes.io/valid')].status",description="Whether the quota holds."
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="The age of the CapacityQuota."
// +kubebuilder:subresource:status
type CapacityQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CapacityQuotaSpec   `json:"spec"`
	Status CapacityQuotaStatus `json:"status,omitempty"`
}

// CapacityQuotaList is a list of CapacityQuotas.
//
// +kubebuilder:object:root=true
type CapacityQuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CapacityQuota `json:"items"`
}

// CapacityQuotaSpec is which nodes count, and how much they may have.
type CapacityQuotaSpec struct {
	// Selector of nodes by their labels; empty: all nodes.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// Limits of what the nodes may have in sum.
	//
	// +required
	Limits CapacityQuotaLimits `json:"limits"`
}

// CapacityQuotaLimits are amounts by resource.
type CapacityQuotaLimits struct {
	// Resources by name: cpu, memory, nodes, or an extended resource. Amounts are whole numbers of 0 or more, with a unit
	// or without, such as 10, 2k or 32Gi; thousandths are refused even where they make a whole number (1000m).
	//
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 63)",message="Resource names must be 63 characters or less."
	// +kubebuilder:validation:XValidation:rule="self.all(key, type(self[key]) == int ? self[key] >= 0 : (!self[key].startsWith('-') && quantity(self[key]).isInteger()))",message="All resource quantities must be non-negative integers."
	// +required
	Resources map[string]resource.Quantity `json:"resources"`
}

// CapacityQuotaStatus is what counts against a quota.
type CapacityQuotaStatus struct {
	// Used is what the nodes have now.
	//
	// +optional
	Used *CapacityQuotaUsed `json:"used,omitempty"`

	// ObservedGeneration is the generation that the status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions say whether the quota holds.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CapacityQuotaUsed are amounts by resource.
type CapacityQuotaUsed struct {
	// Resources by name, those that are limited.
	//
	// +optional
	Resources map[string]resource.Quantity `json:"resources,omitempty"`
}
