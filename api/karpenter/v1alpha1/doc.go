// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1alpha1 is the wire form of karpenter.sh/v1alpha1: NodeOverlay, by which people say what instance types really cost
// them and which extended resources their nodes will have.
//
// The types carry the same JSON as Karpenter's; test/oracle holds them against it. The package holds types, validation markers
// and names; what an overlay does is decided in internal/nodeoverlay.
//
// Start reading at NodeOverlay.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1alpha1
