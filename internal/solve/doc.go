// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package solve packs pods onto nodes: a Problem in, a Result out, nothing else. docs/SOLVER.md states the problem
// and the method.
//
// It never talks to anything, never reads a clock and never keeps a package variable that changes; what makes the
// next solve cheap is the Memory it hands back. Equal problems give equal results, whatever the order of the input
// slices: everything that is ordered is ordered by the rules stated where it happens, and no map is ranged over
// where order could show.
//
// This package is the composition of five, each of which may import those before it:
//
//   - problem: what is asked and answered; pods become classes with counts, the catalog offers.
//   - topology: pods counted by domain, and who may be where by these counts.
//   - pack: pods go onto existing nodes, and demands onto machines: greedily by dual prices, with duals
//     learned, by column generation.
//   - bound: lower bounds on what any plan for the same pods costs, one list of them.
//   - explain: why each refused pod is refused.
//
// lp is the simplex method for small dense programs.
//
// Floating point guides (what resources and pods are worth) and never decides: duals are rounded to integers, plans
// are compared in integers, and the certificate is checked in integers with every rounding against it.
//
// Invariants: a pod is answered exactly once; no limit is exceeded by any type a node may become; bound ≤ cost,
// which verify checks.
//
// Start reading at Solve.
package solve
