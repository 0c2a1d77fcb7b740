// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1alpha1 is the wire form of karpenter.kwok.sh/v1alpha1: KWOKNodeClass, the settings of machines that are simulated.
//
// The types carry the same JSON as those of Karpenter's kwok provider; test/oracle holds them against it. The package holds types,
// defaults, validation markers and the names of labels, and decides nothing.
//
// Start reading at KWOKNodeClass.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.kwok.sh
package v1alpha1
