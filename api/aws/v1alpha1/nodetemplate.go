// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
)

// Reasons of the condition Translated of an AWSNodeTemplate, beside those of a Provisioner.
const (
	// ReasonNotTranslated (False): no EC2NodeClass can mean what it says.
	ReasonNotTranslated = "NotTranslated"
	// ReasonEC2NodeClassConflict (False): an EC2NodeClass of that name exists and is not the AWSNodeTemplate's own.
	ReasonEC2NodeClassConflict = "EC2NodeClassConflict"
)

// AWSNodeTemplate says how nodes of Provisioners are launched on EC2, in the form of Karpenter before v0.33.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=awsnodetemplates,scope=Cluster,categories=karpenter
// +kubebuilder:printcolumn:name="EC2NodeClass",type="string",JSONPath=".status.translation.ec2NodeClass"
// +kubebuilder:printcolumn:name="Translated",type="string",JSONPath=".status.conditions[?(@.type==\"Translated\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type AWSNodeTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AWSNodeTemplateSpec   `json:"spec,omitempty"`
	Status AWSNodeTemplateStatus `json:"status,omitempty"`
}

// AWSNodeTemplateList is a list of AWSNodeTemplates.
//
// +kubebuilder:object:root=true
type AWSNodeTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AWSNodeTemplate `json:"items"`
}

// AWSNodeTemplateSpec says how nodes are launched on EC2.
type AWSNodeTemplateSpec struct {
	AWS `json:",inline"`

	// AMISelector finds images by tags, or by aws::ids, aws::name and aws::owners. Without it the family's own image is used.
	//
	// +optional
	AMISelector map[string]string `json:"amiSelector,omitempty"`

	// UserData is merged into what a node boots with, in the form of its family; for Custom it is all there is.
	//
	// +optional
	UserData *string `json:"userData,omitempty"`

	// DetailedMonitoring has EC2 send metrics each minute.
	//
	// +optional
	DetailedMonitoring *bool `json:"detailedMonitoring,omitempty"`
}

// AWS is what a Provisioner's spec.provider and an AWSNodeTemplate have in common.
type AWS struct {
	// APIVersion is read past. A Provisioner's spec.provider may have it.
	//
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Kind is read past. A Provisioner's spec.provider may have it.
	//
	// +optional
	Kind string `json:"kind,omitempty"`

	// AMIFamily is AL2 where nothing is said.
	//
	// +optional
	AMIFamily *string `json:"amiFamily,omitempty"`

	// Context is a reserved field of EC2's.
	//
	// +optional
	Context *string `json:"context,omitempty"`

	// InstanceProfile of the nodes.
	//
	// +optional
	InstanceProfile *string `json:"instanceProfile,omitempty"`

	// SubnetSelector finds subnets by tags, or by aws-ids.
	//
	// +optional
	SubnetSelector map[string]string `json:"subnetSelector,omitempty"`

	// SecurityGroupSelector finds security groups by tags, or by aws-ids.
	//
	// +optional
	SecurityGroupSelector map[string]string `json:"securityGroupSelector,omitempty"`

	// Tags of the instances, beside Karpenter's own.
	//
	// +optional
	Tags map[string]string `json:"tags,omitempty"`

	// LaunchTemplate names a launch template that somebody else made.
	//
	// +optional
	LaunchTemplate *string `json:"launchTemplate,omitempty"`

	// MetadataOptions say how instance metadata is served.
	//
	// +optional
	MetadataOptions *MetadataOptions `json:"metadataOptions,omitempty"`

	// BlockDeviceMappings are the volumes of a node.
	//
	// +kubebuilder:validation:MaxItems=50
	// +optional
	BlockDeviceMappings []*awsv1.BlockDeviceMapping `json:"blockDeviceMappings,omitempty"`
}

// MetadataOptions say how instance metadata is served. Where nothing is said it is served, without IPv6, over two hops, to
// those who have a token.
type MetadataOptions struct {
	// HTTPEndpoint turns the metadata on or off.
	//
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPEndpoint *string `json:"httpEndpoint,omitempty"`

	// HTTPProtocolIPv6 turns the IPv6 address of the metadata on or off.
	//
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPProtocolIPv6 *string `json:"httpProtocolIPv6,omitempty"`

	// HTTPPutResponseHopLimit is how far an answer may travel.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	HTTPPutResponseHopLimit *int64 `json:"httpPutResponseHopLimit,omitempty"`

	// HTTPTokens says whether a session token is needed.
	//
	// +kubebuilder:validation:Enum=required;optional
	// +optional
	HTTPTokens *string `json:"httpTokens,omitempty"`
}

// AWSNodeTemplateStatus is what became of an AWSNodeTemplate.
type AWSNodeTemplateStatus struct {
	// Conditions say whether the AWSNodeTemplate came over whole.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Translation says what the AWSNodeTemplate became. Dovetail's own.
	//
	// +optional
	Translation *Translation `json:"translation,omitempty"`
}

// Translation says what an AWSNodeTemplate became.
type Translation struct {
	// ObservedGeneration is the generation of the AWSNodeTemplate that this was said of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// EC2NodeClass is the name of the EC2NodeClass that the AWSNodeTemplate owns; empty where there is none.
	//
	// +optional
	EC2NodeClass string `json:"ec2NodeClass,omitempty"`

	// Translated lists what came over, in the order of the AWSNodeTemplate's fields.
	//
	// +optional
	// +listType=atomic
	Translated []TranslatedField `json:"translated,omitempty"`

	// Untranslated lists what has no effect, in the order of the AWSNodeTemplate's fields.
	//
	// +optional
	// +listType=atomic
	Untranslated []karpv1alpha5.UntranslatedField `json:"untranslated,omitempty"`
}

// TranslatedField is a field of the AWSNodeTemplate and where its meaning is now.
type TranslatedField struct {
	// Field of the AWSNodeTemplate, such as spec.subnetSelector, or what its absence stands for.
	Field string `json:"field"`

	// EC2NodeClassField that has it, with its value, such as spec.subnetSelectorTerms.
	EC2NodeClassField string `json:"ec2NodeClassField"`
}
