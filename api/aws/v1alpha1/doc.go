// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1alpha1 contains the API types of karpenter.k8s.aws/v1alpha1: AWSNodeTemplate, the predecessor of
// EC2NodeClass before Karpenter v0.33. A Provisioner references it in spec.providerRef, or contains the same settings
// in spec.provider. Each AWSNodeTemplate is translated to an EC2NodeClass that it owns. Its status lists the fields
// that were translated, and those that were not.
//
// The package contains types, validation markers and names; it does not translate. Start reading at AWSNodeTemplate.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.k8s.aws
package v1alpha1
