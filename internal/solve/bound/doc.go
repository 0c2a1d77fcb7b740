// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package bound proves how little any plan for the pods that a plan places could cost. Each way to prove it is a
// line of LowerBounds; the highest bound stands.
//
// A bound is checked in integers with every rounding against it. What a bound can't price it leaves out, which
// keeps it valid, and is said.
//
// Start reading at CompleteCost.
package bound
