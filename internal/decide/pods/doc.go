// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package pods classifies pods: which are demand (Table), which NodeClaims hold slots for them (Reservations, Slots), which pods
// a ReplicaSet will create soon (Anticipate), which are evicted and have no successor yet (Evictions), which will be bound to
// existing nodes (Transit), for which kube-scheduler might preempt others (Preemption), and which are replaced by a rollout
// before they are evicted (Rollouts). It also limits the number of concurrent evictions (Evictions.Pace).
//
// It never launches or removes a node, and never chooses a node for a pod: it assigns the slots that NodeClaims were created
// with. Every function is pure: it reads a View and its arguments, and returns results and what to remember. Predicates have no
// side effects, and return the instant at which the answer may change.
//
// Invariants: a pod has at most one slot; a slot assigned to a pod stays with that pod as long as both exist.
//
// Start reading at Table: its comment lists the classes of pods, and the results that add to them in the order of the stages.
package pods
