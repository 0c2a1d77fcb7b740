// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package problem defines the solver's input and output, and compiles the input: pods become classes with counts,
// labels become small integers, and the catalog becomes offers (pool, instance type, zone and capacity type, with one
// set of labels each).
//
// It contains existing nodes, limits, preferences, and the topology rules of classes as data, which package topology
// evaluates. A mutual anti-affinity group becomes a resource of which each machine has one (compileExclusivities).
//
// The numbers of classes, offers, labels and nodes follow documented rules, never the order of the input. Start
// reading at Compile.
package problem
