// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package pack places the pods of a problem and decides what to buy. In the order it happens: classes go onto
// existing nodes and into topology domains (place.go), demands of one level are packed onto machines (buy.go):
// greedily by dual prices (prices.go, greedy.go, fill.go), with duals learned (learn.go), by column generation
// (columns.go, dive.go), by ruin and recreate (repair.go). Patterns become bins to buy with every type that would
// do (choice.go), and bins are consolidated.
//
// What an attempt takes for granted is a value, Assumptions; what may turn out wrong is two lists,
// purchaseRevisions and placementRevisions. The stages that may be left out in a measurement are listed in Stages.
//
// Duals guide and never decide: they are rounded to integers, and plans are compared in integers.
//
// Start reading at Planner.Solve.
package pack
