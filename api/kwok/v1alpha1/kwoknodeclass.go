// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindKWOKNodeClass is the kind that a NodePool's nodeClassRef names.
const KindKWOKNodeClass = "KWOKNodeClass"

// Labels by which a pod or a pool can choose among simulated machines.
const (
	LabelInstanceSize   = Group + "/instance-size"
	LabelInstanceFamily = Group + "/instance-family"
	LabelInstanceCPU    = Group + "/instance-cpu"
	LabelInstanceMemory = Group + "/instance-memory"
)

// Labels of a simulated Node that nothing chooses by.
const (
	// LabelKWOKNode, with LabelKWOKNodeValue, tells kwok which Nodes to play the kubelet of. It is both a label and an
	// annotation of them.
	LabelKWOKNode      = "kwok.x-k8s.io/node"
	LabelKWOKNodeValue = "fake"
	// LabelPartition spreads simulated Nodes over kwok processes.
	LabelPartition = "kwok-partition"
	// LabelInstancePrice is the price per hour that eks-node-viewer shows.
	LabelInstancePrice = "eks-node-viewer/instance-price"
)

// ConditionReady of a KWOKNodeClass is True unless somebody says otherwise.
const ConditionReady = "Ready"

// KWOKNodeClass configures simulated nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=kwoknodeclasses,scope=Cluster,categories=karpenter,shortName={kwoknc,kwokncs}
type KWOKNodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec KWOKNodeClassSpec `json:"spec,omitempty"`

	// +kubebuilder:default={conditions: {{type: "Ready", status: "True", reason: "Ready", lastTransitionTime: "2024-01-01T01:01:01Z", message: ""}}}
	Status KWOKNodeClassStatus `json:"status,omitempty"`
}

// KWOKNodeClassList is a list of KWOKNodeClasses.
//
// +kubebuilder:object:root=true
type KWOKNodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []KWOKNodeClass `json:"items"`
}

// KWOKNodeClassSpec configures simulated nodes.
type KWOKNodeClassSpec struct {
	// NodeRegistrationDelay is the time from the launch of an instance until its Node registers, to simulate booting.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	NodeRegistrationDelay metav1.Duration `json:"nodeRegistrationDelay,omitempty"`
}

// KWOKNodeClassStatus is the observed state of a KWOKNodeClass.
type KWOKNodeClassStatus struct {
	// Conditions report whether the node class can be used.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
