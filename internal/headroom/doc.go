// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package headroom computes the capacity that a Headroom holds ahead of demand: for how many pods of which workload,
// why, at what cost, and with which results.
//
// A Spec is the parsed spec of a Headroom. Compile compiles its calendar and returns each Problem with field, value
// and remedy. Decide takes a compiled Headroom, the startup time of nodes, its workloads with their demand and
// history, and a Memory. It returns the Holds, the figures of the status, events, the next Memory, and when to
// evaluate again.
//
// The package uses no clock and no client; equal inputs give equal outputs.
//
// Invariants:
//
//   - Limits are never exceeded. If the price of a pod is unknown, a limit in dollars allows nothing.
//   - Outside of windows, their lead times, and forecast demand, no capacity is held.
//   - A Headroom with a Problem holds nothing.
//
// Money is in micro-dollars per hour, demand in replicas; minutes are counted since 1970 in UTC. Start reading at
// Decide, then calendar.go.
package headroom
