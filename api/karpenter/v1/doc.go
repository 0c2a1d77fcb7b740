// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1 is the wire form of karpenter.sh/v1: NodePool, what may be bought, and NodeClaim, one machine bought.
//
// The types are Dovetail's own and carry the same JSON as Karpenter's v1.14, so that an object written for one is read by the
// other; test/oracle holds them, and the CustomResourceDefinitions generated from them, against Karpenter's. The package holds
// types, defaults and validation markers, and the names (labels, annotations, taints, conditions, reasons) that are part of the
// interface. It never decides anything: what the fields mean is answered in internal/model and the packages above it.
//
// Invariants: a field is never renamed, retyped or given another default without a new version, and the order and Go names of the
// fields under NodePoolSpec.Template are fixed too, because NodePool.Hash depends on them. A rule that the markers cannot express
// stands in api/gen. After a change here run `make gen`.
//
// Start reading at NodePool.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1
