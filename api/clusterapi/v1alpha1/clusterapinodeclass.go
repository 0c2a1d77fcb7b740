// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
)

// KindClusterAPINodeClass is the kind that a NodePool's nodeClassRef names.
const KindClusterAPINodeClass = "ClusterAPINodeClass"

// LabelMember is the label of the MachineDeployments, MachineSets and MachinePools that a ClusterAPINodeClass can select, with any value.
const LabelMember = "node.cluster.x-k8s.io/karpenter-member"

// ClusterAPINodeClass selects MachineDeployments, MachineSets and MachinePools of Cluster API as node groups.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterapinodeclasses,scope=Cluster,categories=karpenter,shortName={capinc,capincs}
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Groups",type="string",JSONPath=".status.groups[*].name"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type ClusterAPINodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterAPINodeClassSpec               `json:"spec,omitempty"`
	Status dovetailv1alpha1.NodeGroupClassStatus `json:"status,omitempty"`
}

// ClusterAPINodeClassList is a list of ClusterAPINodeClasses.
//
// +kubebuilder:object:root=true
type ClusterAPINodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterAPINodeClass `json:"items"`
}

// ClusterAPINodeClassSpec defines which objects of Cluster API are node groups.
type ClusterAPINodeClassSpec struct {
	// ScalableResourceSelector selects, by their labels, among the MachineDeployments, MachineSets and MachinePools that have the label
	// node.cluster.x-k8s.io/karpenter-member. Default: all of them.
	//
	// +optional
	ScalableResourceSelector *metav1.LabelSelector `json:"scalableResourceSelector,omitempty"`
}
