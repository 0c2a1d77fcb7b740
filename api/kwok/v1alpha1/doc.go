// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1alpha1 contains the API types of karpenter.kwok.sh/v1alpha1: KWOKNodeClass, the settings of simulated
// instances. The JSON equals that of Karpenter's KWOK provider; test/oracle compares both.
//
// The package contains types, defaults, validation markers and label names. Start reading at KWOKNodeClass.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.kwok.sh
package v1alpha1
