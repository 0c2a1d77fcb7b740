// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package pack places the pods of a problem and decides what to launch. In this order: classes are placed on existing
// nodes and in topology domains (place.go); the demand of one level is packed onto machines (buy.go), greedily by
// dual prices (prices.go, greedy.go, fill.go), with learned duals (learn.go), by column generation (columns.go,
// dive.go), and by ruin and recreate (repair.go); patterns become bins with all instance types that fit (choice.go);
// and bins are consolidated.
//
// The assumptions of an attempt are a value, Assumptions. The facts that may refute them are in two lists,
// purchaseRevisions and placementRevisions. Stages lists the stages that a measurement can disable. Duals guide the
// search and never decide: they are rounded to integers, and plans are compared in integers. Start reading at
// Planner.Solve.
package pack
