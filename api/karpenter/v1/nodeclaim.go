// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NodeClaim is a request for one node, and its status.
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

	// Spec defines the requested node. It is immutable: nodes are replaced, not changed.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: create another NodeClaim"
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

	// StartupTaints are on the Node when it registers, and removed by an agent that prepares it, such as a CNI. Pods do
	// not have to tolerate them for a node to be launched.
	//
	// +optional
	// +listType=atomic
	StartupTaints []corev1.Taint `json:"startupTaints,omitempty"`

	// Requirements on the Node's labels. An offering must meet all of them.
	//
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",message="a requirement with operator In needs at least one value"
	// +kubebuilder:validation:XValidation:rule="self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",message="a requirement with operator Gt, Lt, Gte or Lte needs exactly one value, a whole number not below zero"
	// +kubebuilder:validation:XValidation:rule="self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",message="a requirement with operator In needs at least minValues values"
	// +required
	// +listType=atomic
	Requirements []Requirement `json:"requirements" hash:"ignore"`

	// Resources that the node must provide to pods.
	//
	// +optional
	Resources ResourceRequirements `json:"resources,omitempty" hash:"ignore"`

	// NodeClassRef references the node class of the node.
	//
	// +required
	NodeClassRef *NodeClassReference `json:"nodeClassRef"`

	// TerminationGracePeriod is the maximum time for draining a Node, from its deletion. After that, its pods are
	// deleted even if protected. If unset, there is no limit.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	TerminationGracePeriod *metav1.Duration `json:"terminationGracePeriod,omitempty"`

	// ExpireAfter is the age at which the node expires.
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
	// +kubebuilder:validation:XValidation:rule="self != \"kubernetes.io/hostname\"",message="label kubernetes.io/hostname is reserved: the node name is unknown before launch"
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

	// MinValues is the minimum number of distinct label values among usable offerings. Alpha: may change or be removed.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	// +optional
	MinValues *int `json:"minValues,omitempty"`
}

// ResourceRequirements is what a machine must offer to pods.
type ResourceRequirements struct {
	// Requests is the total requests of the pods planned for the node, including DaemonSet pods.
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

// NodeClaimStatus is the observed state of a NodeClaim.
type NodeClaimStatus struct {
	// NodeName is the Node that the machine registered as.
	//
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// ProviderID is the provider's ID of the instance.
	//
	// +optional
	ProviderID string `json:"providerID,omitempty"`

	// ImageID is the provider's ID of the instance's image.
	//
	// +optional
	ImageID string `json:"imageID,omitempty"`

	// Capacity is the capacity of the node; estimated until it registers.
	//
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// Allocatable is the capacity available to pods; estimated until the node registers.
	//
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`

	// Conditions report the node's progress, and whether to remove it.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// LastPodEventTime is when a pod was last added to or removed from the node. consolidateAfter starts then.
	//
	// +optional
	LastPodEventTime *metav1.Time `json:"lastPodEventTime,omitempty"`
}
