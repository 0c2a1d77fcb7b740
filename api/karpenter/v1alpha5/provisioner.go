// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1alpha5

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// LabelProvisionerName names the Provisioner on the Nodes of the NodePool that it became.
	LabelProvisionerName = Group + "/provisioner-name"
	// AnnotationDoNotEvict on a Pod is what do-not-disrupt is in v1.
	AnnotationDoNotEvict = Group + "/do-not-evict"
	// AnnotationDoNotConsolidate on a Node is what do-not-disrupt is in v1.
	AnnotationDoNotConsolidate = Group + "/do-not-consolidate"
)

// Conditions of a Provisioner.
const (
	// ConditionReady is that of the NodePool that the Provisioner became.
	ConditionReady = "Ready"
	// ConditionTranslated says whether the NodePool means all that the Provisioner says.
	ConditionTranslated = "Translated"
)

// Reasons of ConditionTranslated.
const (
	// ReasonTranslated (True): all of it.
	ReasonTranslated = "Translated"
	// ReasonPartlyTranslated (False): the fields in status.translation.untranslated have no effect.
	ReasonPartlyTranslated = "PartlyTranslated"
	// ReasonNodePoolConflict (False): a NodePool of that name exists and is not the Provisioner's own.
	ReasonNodePoolConflict = "NodePoolConflict"
	// ReasonNodePoolRejected (False): the API server refused the NodePool.
	ReasonNodePoolRejected = "NodePoolRejected"
)

// Provisioner defines which nodes can be launched, how many, and when they can be disrupted, in the API of Karpenter
// before v0.33.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=provisioners,scope=Cluster,categories=karpenter
// +kubebuilder:printcolumn:name="Template",type="string",JSONPath=".spec.providerRef.name"
// +kubebuilder:printcolumn:name="NodePool",type="string",JSONPath=".status.translation.nodePool"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Translated",type="string",JSONPath=".status.conditions[?(@.type==\"Translated\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Weight",type="integer",JSONPath=".spec.weight",priority=1
type Provisioner struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProvisionerSpec   `json:"spec,omitempty"`
	Status ProvisionerStatus `json:"status,omitempty"`
}

// ProvisionerList is a list of Provisioners.
//
// +kubebuilder:object:root=true
type ProvisionerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Provisioner `json:"items"`
}

// ProvisionerSpec defines which nodes can be launched, how many, and when they can be disrupted.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.ttlSecondsAfterEmpty) && has(self.consolidation) && has(self.consolidation.enabled) && self.consolidation.enabled)",message="ttlSecondsAfterEmpty and consolidation.enabled are mutually exclusive"
// +kubebuilder:validation:XValidation:rule="!(has(self.provider) && has(self.providerRef))",message="provider and providerRef are mutually exclusive"
type ProvisionerSpec struct {
	// Annotations of each Node.
	//
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// Labels of each Node.
	//
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, x in [\"karpenter.sh/capacity-type\", \"karpenter.sh/provisioner-name\"] || !x.find(\"^([^/]+)\").endsWith(\"karpenter.sh\"))",message="labels of the domain karpenter.sh are reserved, except karpenter.sh/capacity-type"
	// +kubebuilder:validation:XValidation:rule="self.all(x, x != \"karpenter.sh/provisioner-name\")",message="label karpenter.sh/provisioner-name is reserved: it is the Provisioner's own name"
	// +kubebuilder:validation:XValidation:rule="self.all(x, x != \"kubernetes.io/hostname\")",message="label kubernetes.io/hostname is reserved: the node name is unknown before launch"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Taints stay on the Node for its life. Pods must tolerate them.
	//
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`

	// StartupTaints are on the Node when it registers, and removed by an agent that prepares it.
	//
	// +optional
	StartupTaints []corev1.Taint `json:"startupTaints,omitempty"`

	// Requirements on the Node's labels. An offering must meet all of them.
	//
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, x.operator == 'In' ? has(x.values) && x.values.size() != 0 : true)",message="a requirement with operator In needs at least one value"
	// +kubebuilder:validation:XValidation:rule="self.all(x, (x.operator == 'Gt' || x.operator == 'Lt') ? (has(x.values) && x.values.size() == 1 && int(x.values[0]) >= 0) : true)",message="a requirement with operator Gt or Lt needs exactly one value, a whole number not below zero"
	// +optional
	Requirements []Requirement `json:"requirements,omitempty"`

	// KubeletConfiguration is stored unchanged. In v1, it is a field of the node class.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +optional
	KubeletConfiguration *runtime.RawExtension `json:"kubeletConfiguration,omitempty"`

	// Provider is the inline configuration of the cloud provider. It is stored unchanged.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +optional
	Provider *runtime.RawExtension `json:"provider,omitempty"`

	// ProviderRef references the object with the cloud provider's configuration.
	//
	// +optional
	ProviderRef *ProviderRef `json:"providerRef,omitempty"`

	// TTLSecondsAfterEmpty is how long a node stays empty before it is terminated. Without it and without
	// consolidation, empty nodes are kept.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterEmpty *int64 `json:"ttlSecondsAfterEmpty,omitempty"`

	// TTLSecondsUntilExpired is the age at which a node expires. If unset, nodes do not expire.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsUntilExpired *int64 `json:"ttlSecondsUntilExpired,omitempty"`

	// Limits are the maximum total capacity of the nodes.
	//
	// +optional
	Limits *Limits `json:"limits,omitempty"`

	// Weight orders Provisioners: those of higher weight are used first. Default: 0.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Weight *int32 `json:"weight,omitempty"`

	// Consolidation configures consolidation of nodes.
	//
	// +optional
	Consolidation *Consolidation `json:"consolidation,omitempty"`
}

// Requirement is a rule on one label of a Node.
type Requirement struct {
	// Key of the label.
	//
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self == \"karpenter.sh/capacity-type\" || !self.find(\"^([^/]+)\").endsWith(\"karpenter.sh\")",message="labels of the domain karpenter.sh are reserved, except karpenter.sh/capacity-type"
	// +kubebuilder:validation:XValidation:rule="self != \"kubernetes.io/hostname\"",message="label kubernetes.io/hostname is reserved: the node name is unknown before launch"
	// +required
	Key string `json:"key"`

	// Operator relates the label's value to Values.
	//
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	// +required
	Operator corev1.NodeSelectorOperator `json:"operator"`

	// Values: at least one for In, exactly one whole number for Gt and Lt, none for Exists and DoesNotExist.
	//
	// +optional
	Values []string `json:"values,omitempty"`
}

// ProviderRef references the object with the cloud provider's configuration.
type ProviderRef struct {
	// Kind of the object.
	//
	// +optional
	Kind string `json:"kind,omitempty"`

	// Name of the object.
	//
	// +optional
	Name string `json:"name,omitempty"`

	// APIVersion of the object: group and version.
	//
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
}

// Limits are the maximum total capacity of the nodes.
type Limits struct {
	// Resources is the limit by resource.
	//
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

// Consolidation configures consolidation of nodes.
type Consolidation struct {
	// Enabled enables consolidation.
	//
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// ProvisionerStatus is the observed state of a Provisioner.
type ProvisionerStatus struct {
	// LastScaleTime is when a node was last launched or terminated.
	//
	// +optional
	LastScaleTime *metav1.Time `json:"lastScaleTime,omitempty"`

	// Conditions report whether the Provisioner was fully translated, and can launch nodes.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Resources is the total capacity of the nodes.
	//
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// Translation describes the resulting NodePool. Specific to Dovetail.
	//
	// +optional
	Translation *Translation `json:"translation,omitempty"`
}

// Translation says what a Provisioner became.
type Translation struct {
	// ObservedGeneration is the translated generation of the Provisioner.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// NodePool is the name of the NodePool that the Provisioner owns.
	//
	// +optional
	NodePool string `json:"nodePool,omitempty"`

	// Translated lists translated fields, in the order of the Provisioner.
	//
	// +optional
	// +listType=atomic
	Translated []TranslatedField `json:"translated,omitempty"`

	// Untranslated lists fields without effect, in the order of the Provisioner.
	//
	// +optional
	// +listType=atomic
	Untranslated []UntranslatedField `json:"untranslated,omitempty"`
}

// TranslatedField is a field and its counterpart.
type TranslatedField struct {
	// Field, such as spec.ttlSecondsAfterEmpty, or its absence.
	Field string `json:"field"`

	// NodePoolField is the corresponding field and value, such as spec.disruption.consolidateAfter=30s.
	NodePoolField string `json:"nodePoolField"`
}

// UntranslatedField is a field that has no effect.
type UntranslatedField struct {
	// Field, such as spec.kubeletConfiguration.
	Field string `json:"field"`

	// Message is the cause and the remedy.
	Message string `json:"message"`
}
