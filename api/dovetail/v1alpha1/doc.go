// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1alpha1 contains the API types of dovetail.sh/v1alpha1: NodeGroupClass, which selects the node groups that
// Dovetail scales, and Headroom, which holds capacity ahead of demand.
//
// The package contains types, defaults, validation markers, and the names of labels, annotations and tags. Run `make
// gen` after a change. Start reading at NodeGroupClass and Headroom.
//
// +kubebuilder:object:generate=true
// +groupName=dovetail.sh
package v1alpha1
