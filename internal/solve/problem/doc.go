// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package problem states what the solver is asked and answers, and compiles it: pods become classes with counts,
// labels small integers, the catalog offers (pool, type, zone, capacity type: one concrete set of labels each).
// It knows existing nodes, limits and preferences, and what classes ask of topology as data; who may be where is
// package topology's to say.
//
// A mutual anti-affinity group is a resource here, of which a machine has one: see compileExclusivities.
//
// Numbers of classes, offers, labels and nodes follow from rules stated where they are given, never from the order
// of the input.
//
// Start reading at Compile.
package problem
