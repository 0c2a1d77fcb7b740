// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package pods classifies pods:
//
//   - Table: pods that need a node (demand)
//   - Reservations, Slots: NodeClaims that hold slots for pods
//   - Anticipate: pods that a ReplicaSet will create soon
//   - Evictions: evicted pods that have no successor yet
//   - Transit: pods that will be bound to existing nodes
//   - Preemption: pods for which kube-scheduler might preempt others
//   - Rollouts: pods that a rollout replaces before they are evicted
//
// It also limits the number of concurrent evictions (Evictions.Pace).
//
// It never launches or removes a node, and never chooses a node for a pod: it assigns the slots that NodeClaims were
// created with. Every function is pure: it reads a View and its arguments, and returns results and the state to keep.
// Predicates have no side effects, and return the instant at which the answer may change.
//
// Invariants: a pod has at most one slot; a slot assigned to a pod stays with that pod as long as both exist.
//
// Start reading at Table: its comment lists the classes of pods, and the results that add to them in the order of the
// stages.
package pods
