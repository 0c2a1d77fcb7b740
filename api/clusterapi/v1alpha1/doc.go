// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1alpha1 is the wire form of karpenter.cluster.x-k8s.io/v1alpha1: ClusterAPINodeClass, the objects of Cluster API that NodePools launch
// nodes with.
//
// The spec carries the same JSON as that of Karpenter's Cluster API provider; the status is that of a NodeGroupClass. The package holds types,
// validation markers and the names of labels, and decides nothing.
//
// Start reading at ClusterAPINodeClass.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.cluster.x-k8s.io
package v1alpha1
