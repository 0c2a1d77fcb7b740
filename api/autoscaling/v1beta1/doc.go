// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1beta1 contains the API types of autoscaling.x-k8s.io/v1beta1: CapacityBuffer, which requests spare
// capacity, and CapacityQuota, which limits the total capacity of nodes. Their JSON equals that of Karpenter and
// Cluster Autoscaler; test/oracle compares it with Karpenter's.
//
// The package contains types, defaults, validation markers and names. internal/decide acts on a CapacityBuffer, and
// internal/kube determines its pods. Start reading at CapacityBuffer.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.x-k8s.io
package v1beta1
