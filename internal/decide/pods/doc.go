// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package pods says of each pod what becomes of it: whether it is demand (Table), which claims hold slots for it
// (Reservations, Slots), which pods their ReplicaSets are about to make (Anticipate), which have been evicted and have no
// successor yet (Evictions), which are on their way to standing nodes (Transit), and for which kube-scheduler might preempt
// others (Preemption). It also limits how many pods are evicted at a time.
//
// It never launches or removes a node, and never chooses a node for a pod: it hands out the slots that claims were made with.
// Every function is pure: it reads a View and what it is given, and returns what it found and what the next step should
// remember. A question changes nothing; if its answer changes with time alone, it also returns when.
//
// Invariants: a pod has one slot at most; a slot that was told to a pod stays that pod's while both are there.
//
// Start reading at Table: its comment names the classes of pods, and the results that add to them in the order of the stages.
package pods
