// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package solve packs pods onto nodes: it takes a Problem and returns a Result. docs/SOLVER.md defines the problem
// and the method.
//
// It uses no clock, I/O or mutable package variable; the returned Memory makes the next solve cheaper. Equal problems
// give equal results, in any order of the input slices: orders are defined where they are used, and no output depends
// on map order.
//
// It combines five packages, each of which may import those before it:
//
//   - problem: the input and output; pods become classes with counts, the catalog becomes offers.
//   - topology: counts pods per domain, and determines the domains that these counts allow.
//   - pack: places pods on existing nodes, then packs demand onto new nodes, with greedy algorithms by dual prices,
//     learned duals and column generation.
//   - bound: lower bounds on the cost of any plan for the same pods.
//   - explain: the reason for each refused pod.
//
// lp is a simplex solver for small dense programs. Floating point only guides the search (the values of resources and
// pods): duals are rounded to integers, plans are compared in integers, and the certificate is checked in integers,
// with every rounding against it.
//
// Invariants: each pod appears exactly once in the result; no limit is exceeded by any instance type that a node may
// get; bound ≤ cost, which verify checks. Start reading at Solve.
package solve
