// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package karpenter holds the solver's answers beside those of Karpenter's scheduler, the library of the release in go.mod.
//
// For each seed NodePools, a catalog and pods are drawn for an empty cluster. Both are asked: Karpenter's scheduler as its
// provisioner calls it, ours on the product's own way. Of every workload ours must place at least as many pods, every plan of ours
// must pass verify, and where both place the same it must not cost more. A NodeClaim of Karpenter's is counted at the
// cheapest offering that it still allows, which is what lowest-price launches.
//
// Preferences are not drawn: Karpenter takes them for requirements and gives them up one by one. Limits are not either: Karpenter counts
// its nodes against them as the largest types that they may become.
//
// The package holds tests only. Start reading at TestKarpenter.
package karpenter
