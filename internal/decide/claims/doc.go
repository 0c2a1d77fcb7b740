// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package claims decides about NodeClaims, instances and nodes one by one: the next lifecycle step of each NodeClaim,
// the drain of interrupted nodes, health and forced repair of nodes, and the removal of instances and nodes without a
// NodeClaim (orphans).
//
// It never launches for a pod, and never chooses nodes for consolidation or drift: those stages run before, and a
// NodeClaim's next step follows from them. Every function is pure: it reads a View and its arguments, and returns
// actions and the state to keep.
//
// Invariants: a NodeClaim gets at most one write and one deletion in a step; an irreversible action begins only after
// it is recorded.
//
// Start reading at DrainInterrupted: the other stages follow the same pattern.
package claims
