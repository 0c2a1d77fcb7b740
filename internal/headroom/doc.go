// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package headroom works out what a Headroom holds ahead of demand: for how many pods of which workload room is wanted
// now, why, what it costs, and what came of it.
//
// A Spec is what a person wrote. Compile reads its calendar and says what is wrong with it, each Problem with field,
// value and remedy. Decide takes a compiled Headroom, the time that nodes take to become Ready, its workloads with
// their demand and history, and a Memory, and returns the Holds, figures for the status, events, the next Memory and
// when to look again.
//
// The package has no clock and no client; equal inputs give equal outputs. What holds:
//   - limits are never exceeded, and where the price of a pod is not known a limit in dollars allows nothing;
//   - outside of windows, of the lead time before them, and of what is learned, nothing is held;
//   - a Headroom with a Problem holds nothing.
//
// Money is in micro-dollars an hour, demand in replicas, and minutes for forecasts are counted since 1970 in UTC.
//
// Start reading at Decide, then calendar.go.
package headroom
