// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1beta1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QuotaNodes is the resource that counts nodes.
const QuotaNodes = "nodes"

// CapacityQuota limits the total capacity of the nodes that it selects. No launch exceeds it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=capacityquotas,scope=Cluster,categories=autoscaling,shortName=cq
// +kubebuilder:printcolumn:name="Valid",type="string",JSONPath=".status.conditions[?(@.type=='cluster-autoscaler.kubernetes.io/valid')].status",description="Whether the quota is valid."
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

// CapacityQuotaSpec defines the nodes and their maximum total capacity.
type CapacityQuotaSpec struct {
	// Selector selects nodes by label. Empty means all nodes.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// Limits of the nodes' total capacity.
	//
	// +required
	Limits CapacityQuotaLimits `json:"limits"`
}

// CapacityQuotaLimits are amounts by resource.
type CapacityQuotaLimits struct {
	// Resources by name: cpu, memory, nodes, or an extended resource. Quantities must be non-negative integers, such as
	// 10, 2k or 32Gi. Milli-units are rejected (1000m).
	//
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 63)",message="Resource names must be 63 characters or less."
	// +kubebuilder:validation:XValidation:rule="self.all(key, type(self[key]) == int ? self[key] >= 0 : (!self[key].startsWith('-') && quantity(self[key]).isInteger()))",message="All resource quantities must be non-negative integers."
	// +required
	Resources map[string]resource.Quantity `json:"resources"`
}

// CapacityQuotaStatus is the observed state of a CapacityQuota.
type CapacityQuotaStatus struct {
	// Used is the current total capacity of the nodes.
	//
	// +optional
	Used *CapacityQuotaUsed `json:"used,omitempty"`

	// ObservedGeneration is the generation that the status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions report whether the quota is valid.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CapacityQuotaUsed are amounts by resource.
type CapacityQuotaUsed struct {
	// Resources by name. Only limited resources are listed.
	//
	// +optional
	Resources map[string]resource.Quantity `json:"resources,omitempty"`
}
