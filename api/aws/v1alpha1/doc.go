// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1alpha1 is the wire form of karpenter.k8s.aws/v1alpha1: AWSNodeTemplate, the EC2NodeClass of Karpenter before v0.33,
// which Provisioners name in spec.providerRef, and the settings that a Provisioner may also have in place, in spec.provider.
//
// An AWSNodeTemplate is translated to an EC2NodeClass that it owns; its status says what came over and what could not. The package
// holds types, validation markers and names; the translation is done elsewhere.
//
// Start reading at AWSNodeTemplate.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.k8s.aws
package v1alpha1
