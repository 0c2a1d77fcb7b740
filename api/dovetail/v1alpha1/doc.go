// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1alpha1 is the wire form of dovetail.sh/v1alpha1: NodeGroupClass, node groups of a cloud that machines are had from by
// raising how many a group should have, and Headroom, what is to be ready ahead of demand.
//
// The package holds types, defaults, validation markers and the names of labels, annotations and tags, and decides nothing. After a
// change here run `make gen`.
//
// Start reading at NodeGroupClass and Headroom.
//
// +kubebuilder:object:generate=true
// +groupName=dovetail.sh
package v1alpha1
