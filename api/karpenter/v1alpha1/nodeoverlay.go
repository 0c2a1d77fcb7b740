// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions of a NodeOverlay. ConditionReady is True when ConditionValidationSucceeded is.
const (
	ConditionReady               = "Ready"
	ConditionValidationSucceeded = "ValidationSucceeded"
)

// Reasons of ConditionValidationSucceeded when it is False.
const (
	// ReasonRuntimeValidation: a field says what the schema can't refuse.
	ReasonRuntimeValidation = "RuntimeValidation"
	// ReasonConflict: another overlay of the same weight changes the same price or the same resource.
	ReasonConflict = "Conflict"
)

// Annotations of a NodeClaim.
const (
	// AnnotationPriceOverlayApplied is "true" where an overlay changes the price of an instance type that it may become.
	AnnotationPriceOverlayApplied = Group + "/price-overlay-applied"
	// AnnotationCapacityOverlayApplied is "true" where an overlay adds resources to an instance type that it may become.
	AnnotationCapacityOverlayApplied = Group + "/capacity-overlay-applied"
)

// NodeOverlay overrides the price of matching instance types in decisions, or adds extended resources to their nodes.
// It changes nothing in the cloud.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=nodeoverlays,scope=Cluster,categories=karpenter,shortName=overlays
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Weight",type="integer",JSONPath=".spec.weight",priority=1
// +kubebuilder:subresource:status
type NodeOverlay struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="!has(self.price) || !has(self.priceAdjustment)",message="price and priceAdjustment are mutually exclusive"
	Spec   NodeOverlaySpec   `json:"spec"`
	Status NodeOverlayStatus `json:"status,omitempty"`
}

// NodeOverlayList is a list of NodeOverlays.
//
// +kubebuilder:object:root=true
type NodeOverlayList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeOverlay `json:"items"`
}

// NodeOverlaySpec selects instance types, and defines their overrides.
type NodeOverlaySpec struct {
	// Requirements select instance types, offerings and NodePools by label: labels of the instance type, zone and
	// capacity type of the offering, karpenter.sh/nodepool, and labels of the NodePool's template. All must match.
	//
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",message="operator In needs at least one value"
	// +kubebuilder:validation:XValidation:rule="self.all(x, x.operator == 'NotIn' ? x.values.size() != 0 : true)",message="operator NotIn needs at least one value"
	// +kubebuilder:validation:XValidation:rule="self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",message="operators Gt, Lt, Gte and Lte need exactly one value, a whole number of at least 0"
	// +required
	// +listType=atomic
	Requirements []Requirement `json:"requirements,omitzero"`

	// PriceAdjustment changes the price by dollars per hour (+0.5, -0.5) or by a percentage (+10%, -15%). The price is
	// never below 0.
	//
	// +kubebuilder:validation:Pattern=`^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$`
	// +optional
	PriceAdjustment *string `json:"priceAdjustment,omitempty"`

	// Price in dollars per hour. Replaces the provider's price.
	//
	// +kubebuilder:validation:Pattern=`^\d+(\.\d+)?$`
	// +optional
	Price *string `json:"price,omitempty"`

	// Capacity contains extended resources of these nodes, in addition to those known to the provider.
	//
	// +kubebuilder:validation:XValidation:rule="self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",message="capacity adds extended resources only; cpu, memory, ephemeral-storage and pods are the instance type's own"
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// Weight decides if several overlays match: the highest wins, separately for the price and each resource. Default:
	// 0. Overlays of equal weight that change the same value conflict, and the one with the alphabetically first name
	// is not applied.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Weight *int32 `json:"weight,omitempty"`
}

// Requirement is a rule on one label.
type Requirement struct {
	// Key of the label.
	//
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self in [\"karpenter.sh/capacity-type\", \"karpenter.sh/nodepool\"] || !self.find(\"^([^/]+)\").endsWith(\"karpenter.sh\")",message="labels of the domain karpenter.sh are reserved, except karpenter.sh/capacity-type and karpenter.sh/nodepool"
	// +kubebuilder:validation:XValidation:rule="self != \"kubernetes.io/hostname\"",message="label kubernetes.io/hostname is reserved: the node name is unknown before launch"
	// +required
	Key string `json:"key"`

	// Operator relates the label's value to Values.
	//
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt;Gte;Lte
	// +required
	Operator corev1.NodeSelectorOperator `json:"operator"`

	// Values: at least one for In and NotIn, exactly one whole number for Gt, Lt, Gte and Lte, none for Exists and DoesNotExist.
	//
	// +optional
	// +listType=atomic
	Values []string `json:"values,omitempty"`
}

// NodeOverlayStatus is the observed state of a NodeOverlay.
type NodeOverlayStatus struct {
	// Conditions report whether the overlay is applied, and if not, why.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
