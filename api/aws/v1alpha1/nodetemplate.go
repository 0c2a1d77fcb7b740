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

// AWSNodeTemplate configures nodes of Provisioners on EC2, in the API of Karpenter before v0.33.
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

// AWSNodeTemplateSpec configures nodes on EC2.
type AWSNodeTemplateSpec struct {
	AWS `json:",inline"`

	// AMISelector finds images by tags, or by aws::ids, aws::name and aws::owners. If unset, the default AMI of the AMI
	// family is used.
	//
	// +optional
	AMISelector map[string]string `json:"amiSelector,omitempty"`

	// UserData is merged into the generated user data, in the format of the AMI family. With Custom, it is used
	// unchanged.
	//
	// +optional
	UserData *string `json:"userData,omitempty"`

	// DetailedMonitoring enables one-minute EC2 metrics.
	//
	// +optional
	DetailedMonitoring *bool `json:"detailedMonitoring,omitempty"`
}

// AWS is what a Provisioner's spec.provider and an AWSNodeTemplate have in common.
type AWS struct {
	// APIVersion is ignored. spec.provider of a Provisioner may contain it.
	//
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Kind is ignored. spec.provider of a Provisioner may contain it.
	//
	// +optional
	Kind string `json:"kind,omitempty"`

	// AMIFamily of the nodes. Default: AL2; from Kubernetes 1.33, AL2023.
	//
	// +optional
	AMIFamily *string `json:"amiFamily,omitempty"`

	// Context is passed to CreateFleet unchanged.
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

	// Tags of the instances, in addition to Karpenter's.
	//
	// +optional
	Tags map[string]string `json:"tags,omitempty"`

	// LaunchTemplate has no effect. The status reports it as untranslated.
	//
	// +optional
	LaunchTemplate *string `json:"launchTemplate,omitempty"`

	// MetadataOptions configure the instance metadata service.
	//
	// +optional
	MetadataOptions *MetadataOptions `json:"metadataOptions,omitempty"`

	// BlockDeviceMappings are the volumes of a node.
	//
	// +kubebuilder:validation:MaxItems=50
	// +optional
	BlockDeviceMappings []*awsv1.BlockDeviceMapping `json:"blockDeviceMappings,omitempty"`
}

// MetadataOptions configure the instance metadata service. Where nothing is said it is served, without IPv6, over two hops, to
// those who have a token.
type MetadataOptions struct {
	// HTTPEndpoint enables or disables the metadata endpoint.
	//
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPEndpoint *string `json:"httpEndpoint,omitempty"`

	// HTTPProtocolIPv6 enables or disables the IPv6 metadata endpoint.
	//
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPProtocolIPv6 *string `json:"httpProtocolIPv6,omitempty"`

	// HTTPPutResponseHopLimit is the hop limit of responses.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	HTTPPutResponseHopLimit *int64 `json:"httpPutResponseHopLimit,omitempty"`

	// HTTPTokens sets whether a session token is required.
	//
	// +kubebuilder:validation:Enum=required;optional
	// +optional
	HTTPTokens *string `json:"httpTokens,omitempty"`
}

// AWSNodeTemplateStatus is the observed state of an AWSNodeTemplate.
type AWSNodeTemplateStatus struct {
	// Conditions report whether the AWSNodeTemplate was fully translated.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Translation describes the resulting EC2NodeClass. Specific to Dovetail.
	//
	// +optional
	Translation *Translation `json:"translation,omitempty"`
}

// Translation says what an AWSNodeTemplate became.
type Translation struct {
	// ObservedGeneration is the translated generation of the AWSNodeTemplate.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// EC2NodeClass is the name of the EC2NodeClass that the AWSNodeTemplate owns. Empty if there is none.
	//
	// +optional
	EC2NodeClass string `json:"ec2NodeClass,omitempty"`

	// Translated lists translated fields, in the order of the AWSNodeTemplate.
	//
	// +optional
	// +listType=atomic
	Translated []TranslatedField `json:"translated,omitempty"`

	// Untranslated lists fields without effect, in the order of the AWSNodeTemplate.
	//
	// +optional
	// +listType=atomic
	Untranslated []karpv1alpha5.UntranslatedField `json:"untranslated,omitempty"`
}

// TranslatedField is a field of the AWSNodeTemplate and its counterpart.
type TranslatedField struct {
	// Field of the AWSNodeTemplate, such as spec.subnetSelector, or its absence.
	Field string `json:"field"`

	// EC2NodeClassField is the corresponding field, with its value if any, such as spec.subnetSelectorTerms.
	EC2NodeClassField string `json:"ec2NodeClassField"`
}
