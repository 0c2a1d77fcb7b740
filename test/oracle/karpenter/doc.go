// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package karpenter compares the solver with Karpenter's scheduler, in the release of go.mod.
//
// For each seed, random NodePools, a catalog and pods are generated for an empty cluster. Karpenter's scheduler is called as by its
// provisioner, and Dovetail's as by the controller. Dovetail must place at least as many pods of every workload, each of its plans must
// pass verify, and if both place the same pods, its plan must not cost more. A NodeClaim of Karpenter counts with its cheapest allowed
// offering, which strategy lowest-price launches.
//
// Preferences are not generated, because Karpenter treats them as requirements and drops them one by one. Limits are not generated,
// because Karpenter counts each node with the largest type that it allows.
//
// The package contains only tests. Start reading at TestKarpenter.
package karpenter
