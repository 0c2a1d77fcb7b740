// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1 contains the API types of karpenter.sh/v1: NodePool, which defines nodes that may be launched, and
// NodeClaim, which represents one node.
//
// The types are Dovetail's own. Their JSON equals that of Karpenter, so an object written for one can be read by the
// other; test/oracle compares them, and the generated CustomResourceDefinitions, with Karpenter's. The package
// contains types, defaults, validation markers, and the names that are part of the API (labels, annotations, taints,
// conditions, reasons). internal/model and the packages above it interpret the fields.
//
// Invariants: a field is never renamed, and its type and default never change, without a new API version. The order
// and the Go names of the fields under NodePoolSpec.Template do not change either, because NodePool.Hash depends on
// them. Rules that markers cannot express are in api/gen. Run `make gen` after a change.
//
// Start reading at NodePool.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1
