// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package claims decides about NodeClaims and their machines one by one: the next step of each claim's life, how an interrupted
// machine is drained, which nodes are repaired by force, and what becomes of machines and nodes without a claim.
//
// It never launches for a pod and never chooses which nodes are removed to save or to refresh: that is decided before, and a
// claim's next step follows. Every function is pure: it reads a View and what it is given, and returns what a step should
// do and remember.
//
// Invariants: a claim gets one write and one deletion in a step at most; what cannot be taken back is begun only after it was
// written down.
//
// Start reading at DrainInterrupted: the other stages have its form.
package claims
