// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package bound computes a proven lower bound on the cost of any plan for the pods that a plan places. LowerBounds
// lists the methods; the highest bound counts.
//
// A bound is checked in integers, with every rounding against it. Constraints that a bound cannot price are left out,
// which keeps it valid, and are listed. Start reading at CompleteCost.
package bound
