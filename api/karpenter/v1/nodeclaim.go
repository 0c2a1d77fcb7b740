// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NodeClaim is one machine: what was decided to buy, and what became of it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodeclaims,scope=Cluster,categories=karpenter
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".metadata.labels.node\\.kubernetes\\.io/instance-type"
// +kubebuilder:printcolumn:name="Capacity",type="string",JSONPath=".metadata.labels.karpenter\\.sh/capacity-type"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".metadata.labels.topology\\.kubernetes\\.io/zone"
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".status.nodeName"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="ImageID",type="string",JSONPath=".status.imageID",priority=1
// +kubebuilder:printcolumn:name="ID",type="string",JSONPath=".status.providerID",priority=1
// +kubebuilder:printcolumn:name="NodePool",type="string",JSONPath=".metadata.labels.karpenter\\.sh/nodepool",priority=1
// +kubebuilder:printcolumn:name="NodeClass",type="string",JSONPath=".spec.nodeClassRef.name",priority=1
// +kubebuilder:printcolumn:name="Drifted",type="string",JSONPath=".status.conditions[?(@.type==\"Drifted\")].status",priority=1
type NodeClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what was decided to buy. A machine is not changed but replaced, so the spec is fixed once made.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: a machine that should differ is another NodeClaim"
	// +required
	Spec NodeClaimSpec `json:"spec"`

	Status NodeClaimStatus `json:"status,omitempty"`
}

// NodeClaimList is a list of NodeClaims.
//
// +kubebuilder:object:root=true
type NodeClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeClaim `json:"items"`
}

// NodeClaimSpec is what a machine must be.
type NodeClaimSpec struct {
	// Taints stay on the Node for its life. Pods must tolerate them.
	//
	// +optional
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`

	// StartupTaints are on the Node when it comes and are taken off by something that prepares it, such as a network agent.
	// Pods need not tolerate them for the machine to be bought.
	//
	// +optional
	// +listType=atomic
	StartupTaints []corev1.Taint `json:"startupTaints,omitempty"`

	// Requirements on the Node's labels. Any offering that meets them all will do.
	//
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",message="a requirement with operator In needs at least one value"
	// +kubebuilder:validation:XValidation:rule="self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",message="a requirement with operator Gt, Lt, Gte or Lte needs exactly one value, a whole number not below zero"
	// +kubebuilder:validation:XValidation:rule="self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",message="a requirement with operator In needs at least minValues values"
	// +required
	// +listType=atomic
	Requirements []Requirement `json:"requirements" hash:"ignore"`

	// Resources that the machine must offer to pods.
	//
	// +optional
	Resources ResourceRequirements `json:"resources,omitempty" hash:"ignore"`

	// NodeClassRef names the provider's own settings for the machine.
	//
	// +required
	NodeClassRef *NodeClassReference `json:"nodeClassRef"`

	// TerminationGracePeriod is how long the pods of a Node that is going are waited for, from the moment it was asked to go.
	// When it ends they are deleted whatever protects them. Without it they are waited for without end.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	TerminationGracePeriod *metav1.Duration `json:"terminationGracePeriod,omitempty"`

	// ExpireAfter is the age at which the machine is given back.
	//
	// +kubebuilder:default="720h"
	// +optional
	ExpireAfter NillableDuration `json:"expireAfter,omitempty"`
}

// Operators that Kubernetes' own node selectors lack.
const (
	NodeSelectorOpGte corev1.NodeSelectorOperator = "Gte"
	NodeSelectorOpLte corev1.NodeSelectorOperator = "Lte"
)

// Requirement is a rule on one label of a Node.
type Requirement struct {
	// Key of the label.
	//
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self in [\"karpenter.sh/capacity-type\", \"karpenter.sh/nodepool\"] || !self.find(\"^([^/]+)\").endsWith(\"karpenter.sh\")",message="labels of the domain karpenter.sh are reserved, except karpenter.sh/capacity-type"
	// +kubebuilder:validation:XValidation:rule="self != \"kubernetes.io/hostname\"",message="label kubernetes.io/hostname is reserved: a machine that is not bought yet has no name"
	// +required
	Key string `json:"key"`

	// Operator relates the label's value to Values.
	//
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt;Gte;Lte
	// +required
	Operator corev1.NodeSelectorOperator `json:"operator"`

	// Values: at least one for In, exactly one whole number for Gt, Lt, Gte and Lte, none for Exists and DoesNotExist.
	//
	// +optional
	// +listType=atomic
	Values []string `json:"values,omitempty"`

	// MinValues is how many different values of the label must remain to choose from. Alpha: it may change or go.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	// +optional
	MinValues *int `json:"minValues,omitempty"`
}

// ResourceRequirements is what a machine must offer to pods.
type ResourceRequirements struct {
	// Requests is the sum of what the pods planned for the machine ask for, DaemonSet pods included.
	//
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// NodeClassReference names a node class. The order of its fields is part of NodePool.Hash.
type NodeClassReference struct {
	// Kind of the node class.
	//
	// +kubebuilder:validation:XValidation:rule="self != ''",message="kind may not be empty"
	// +required
	Kind string `json:"kind"`

	// Name of the node class.
	//
	// +kubebuilder:validation:XValidation:rule="self != ''",message="name may not be empty"
	// +required
	Name string `json:"name"`

	// Group of the node class's API, without a version.
	//
	// +kubebuilder:validation:Pattern=`^[^/]*$`
	// +kubebuilder:validation:XValidation:rule="self != ''",message="group may not be empty"
	// +required
	Group string `json:"group"`
}

// GroupKind is the kind that the reference names.
func (r *NodeClassReference) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.Group, Kind: r.Kind}
}

// NodeClaimStatus is what became of a NodeClaim.
type NodeClaimStatus struct {
	// NodeName is the Node that the machine registered as.
	//
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// ProviderID is the provider's name for the machine.
	//
	// +optional
	ProviderID string `json:"providerID,omitempty"`

	// ImageID is the provider's name for the image that the machine runs.
	//
	// +optional
	ImageID string `json:"imageID,omitempty"`

	// Capacity is what the machine is expected to have, until its Node says.
	//
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// Allocatable is what of Capacity is expected to be left for pods.
	//
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`

	// Conditions say how far the machine is, and whether it should go.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// LastPodEventTime is when a pod last came to or left the machine; consolidateAfter counts from it.
	//
	// +optional
	LastPodEventTime *metav1.Time `json:"lastPodEventTime,omitempty"`
}
