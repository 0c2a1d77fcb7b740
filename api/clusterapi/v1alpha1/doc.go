// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1alpha1 contains the API types of karpenter.cluster.x-k8s.io/v1alpha1: ClusterAPINodeClass, which selects
// the Cluster API objects in which NodePools launch nodes. The JSON of its spec equals that of Karpenter's Cluster
// API provider; its status is that of a NodeGroupClass.
//
// The package contains types, validation markers and label names. Start reading at ClusterAPINodeClass.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.cluster.x-k8s.io
package v1alpha1
