// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1alpha1 contains the API types of karpenter.sh/v1alpha1: NodeOverlay, which changes the prices of instance
// types and adds extended resources to them. The JSON equals Karpenter's; test/oracle compares both.
//
// The package contains types, validation markers and names. internal/nodeoverlay applies NodeOverlays. Start reading
// at NodeOverlay.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1alpha1
