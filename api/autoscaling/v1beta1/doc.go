// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1beta1 is the wire form of autoscaling.x-k8s.io/v1beta1: CapacityBuffer, which asks for spare capacity.
//
// The types carry the same JSON as those of Karpenter and Cluster Autoscaler; test/oracle holds them against Karpenter's. The
// package holds types, defaults, validation markers and names. internal/decide acts on a
// CapacityBuffer, and internal/kube finds out what its pods look like.
//
// Start reading at CapacityBuffer.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.x-k8s.io
package v1beta1
