// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodePool defines which nodes can be launched, how many, and when they can be disrupted.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.nodes
// +kubebuilder:resource:path=nodepools,scope=Cluster,categories=karpenter
// +kubebuilder:printcolumn:name="NodeClass",type="string",JSONPath=".spec.template.spec.nodeClassRef.name"
// +kubebuilder:printcolumn:name="Nodes",type="string",JSONPath=".status.nodes"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Weight",type="integer",JSONPath=".spec.weight",priority=1
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.resources.cpu",priority=1
// +kubebuilder:printcolumn:name="Memory",type="string",JSONPath=".status.resources.memory",priority=1
type NodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec   NodePoolSpec   `json:"spec"`
	Status NodePoolStatus `json:"status,omitempty"`
}

// NodePoolList is a list of NodePools.
//
// +kubebuilder:object:root=true
type NodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodePool `json:"items"`
}

// NodePoolSpec defines which nodes can be launched, how many, and when they can be disrupted.
//
// +kubebuilder:validation:XValidation:rule="has(self.replicas) == has(oldSelf.replicas)",message="replicas cannot be added to or removed from an existing NodePool"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits))",message="a static NodePool (one with replicas) may have no limit but 'nodes'"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.weight)",message="a static NodePool (one with replicas) may have no weight"
type NodePoolSpec struct {
	// Template defines the nodes of the pool. After a change, existing nodes drift.
	//
	// +required
	Template NodeClaimTemplate `json:"template"`

	// Disruption defines when nodes can be disrupted, and how many at once.
	//
	// +kubebuilder:default={consolidateAfter: "0s"}
	// +optional
	Disruption Disruption `json:"disruption"`

	// Limits are the maximum total capacity of the pool's nodes. Resource `nodes` limits their number.
	//
	// +optional
	Limits Limits `json:"limits,omitempty"`

	// Weight orders pools: pools of higher weight are used first. Default: 0.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Weight *int32 `json:"weight,omitempty"`

	// Replicas makes the pool static: it keeps this number of nodes, whatever the demand.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int64 `json:"replicas,omitempty"`
}

// Limits bound the sum of what a pool's machines have.
type Limits corev1.ResourceList

// Disruption defines when nodes can be disrupted, and how many at once.
type Disruption struct {
	// ConsolidateAfter is how long a node must be without a pod added or removed before it can be consolidated, or Never.
	//
	// +kubebuilder:default="0s"
	// +optional
	ConsolidateAfter NillableDuration `json:"consolidateAfter"`

	// ConsolidationPolicy defines which nodes can be consolidated.
	//
	// +kubebuilder:default="WhenEmptyOrUnderutilized"
	// +optional
	ConsolidationPolicy ConsolidationPolicy `json:"consolidationPolicy,omitempty"`

	// Budgets limit how many nodes can be disrupted at once. The most restrictive active budget applies.
	//
	// +kubebuilder:validation:XValidation:rule="self.all(x, has(x.schedule) == has(x.duration))",message="schedule and duration must be set together"
	// +kubebuilder:default={{nodes: "10%"}}
	// +kubebuilder:validation:MaxItems=50
	// +optional
	// +listType=atomic
	Budgets []Budget `json:"budgets,omitempty" hash:"ignore"`
}

// ConsolidationPolicy says which machines may be given back for the sake of cost.
//
// +kubebuilder:validation:Enum=WhenEmpty;WhenEmptyOrUnderutilized;Balanced
type ConsolidationPolicy string

// Consolidation policies.
const (
	ConsolidationPolicyWhenEmpty                ConsolidationPolicy = "WhenEmpty"
	ConsolidationPolicyWhenEmptyOrUnderutilized ConsolidationPolicy = "WhenEmptyOrUnderutilized"
	ConsolidationPolicyBalanced                 ConsolidationPolicy = "Balanced"
)

// Budget limits how many nodes can be disrupted at once, always or in a recurring window.
type Budget struct {
	// Reasons that the budget applies to. None means all.
	//
	// +kubebuilder:validation:MaxItems=50
	// +optional
	// +listType=set
	Reasons []DisruptionReason `json:"reasons,omitempty"`

	// Nodes is a number, or a percentage of the pool's nodes, rounded up. 0 allows no disruption.
	//
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]+)$`
	// +kubebuilder:default="10%"
	Nodes string `json:"nodes" hash:"ignore"`

	// Schedule is the start of the window in UTC: a cron expression with five fields, or @hourly and similar.
	//
	// +kubebuilder:validation:Pattern=`^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$`
	// +optional
	Schedule *string `json:"schedule,omitempty" hash:"ignore"`

	// Duration is how long the window stays open, in hours and minutes.
	//
	// +kubebuilder:validation:Pattern=`^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$`
	// +kubebuilder:validation:Type=string
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty" hash:"ignore"`
}

// DisruptionReason is a reason for voluntary disruption.
//
// +kubebuilder:validation:Enum=Underutilized;Empty;Drifted;Unhealthy
type DisruptionReason string

// Disruption reasons.
const (
	DisruptionReasonUnderutilized DisruptionReason = "Underutilized"
	DisruptionReasonEmpty         DisruptionReason = "Empty"
	DisruptionReasonDrifted       DisruptionReason = "Drifted"
	DisruptionReasonUnhealthy     DisruptionReason = "Unhealthy"
)

// NodeClaimTemplate is what each machine of a pool must be. The names of its fields, their order and those of the types below it
// are part of NodePool.Hash.
type NodeClaimTemplate struct {
	// +optional
	ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec NodeClaimTemplateSpec `json:"spec"`
}

// ObjectMeta is the metadata of the pool's NodeClaims and Nodes.
type ObjectMeta struct {
	// Labels of each Node.
	//
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, x in [\"karpenter.sh/capacity-type\", \"karpenter.sh/nodepool\"] || !x.find(\"^([^/]+)\").endsWith(\"karpenter.sh\"))",message="labels of the domain karpenter.sh are reserved, except karpenter.sh/capacity-type"
	// +kubebuilder:validation:XValidation:rule="self.all(x, x != \"karpenter.sh/nodepool\")",message="label karpenter.sh/nodepool is reserved: it is the pool's own name"
	// +kubebuilder:validation:XValidation:rule="self.all(x, x != \"kubernetes.io/hostname\")",message="label kubernetes.io/hostname is reserved: the node name is unknown before launch"
	// +optional
	// +mapType=atomic
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations of each NodeClaim and Node.
	//
	// +optional
	// +mapType=granular
	Annotations map[string]string `json:"annotations,omitempty"`
}

// NodeClaimTemplateSpec is the common spec of the pool's NodeClaims.
type NodeClaimTemplateSpec struct {
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
	// +kubebuilder:validation:XValidation:rule="self.all(x, x.key != \"karpenter.sh/nodepool\")",message="label karpenter.sh/nodepool is reserved: it is the pool's own name"
	// +required
	// +listType=atomic
	Requirements []Requirement `json:"requirements" hash:"ignore"`

	// NodeClassRef references the node class of the nodes.
	//
	// +kubebuilder:validation:XValidation:rule="self.group == oldSelf.group",message="nodeClassRef.group is immutable: create another NodePool"
	// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind",message="nodeClassRef.kind is immutable: create another NodePool"
	// +required
	NodeClassRef *NodeClassReference `json:"nodeClassRef"`

	// TerminationGracePeriod is the maximum time for draining a Node, from its deletion. After that, its pods are
	// deleted even if protected. If unset, there is no limit.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	TerminationGracePeriod *metav1.Duration `json:"terminationGracePeriod,omitempty"`

	// ExpireAfter is the age at which a node expires, or Never.
	//
	// +kubebuilder:default="720h"
	// +optional
	ExpireAfter NillableDuration `json:"expireAfter,omitempty"`
}

// NodePoolStatus is the observed state of a NodePool.
type NodePoolStatus struct {
	// Resources is the total capacity of the pool's nodes.
	//
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// Nodes is the number of the pool's nodes.
	//
	// +kubebuilder:default=0
	// +optional
	Nodes *int64 `json:"nodes,omitempty"`

	// NodeClassObservedGeneration is the node class generation that condition NodeRegistrationHealthy refers to.
	//
	// +optional
	NodeClassObservedGeneration int64 `json:"nodeClassObservedGeneration,omitempty"`

	// Conditions report whether the pool can launch nodes.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
