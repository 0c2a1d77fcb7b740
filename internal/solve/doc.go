// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package solve packs pods onto nodes: a Problem in, a Result out, nothing else. docs/SOLVER.md states the problem and the method.
//
// It never talks to anything, never reads a clock and never keeps a package variable that changes; what makes the next solve cheap is
// the Memory it hands back. Equal problems give equal results, whatever the order of the input slices: everything that is ordered is
// ordered by the rules stated where it happens, and no map is ranged over where order could show.
//
// It has five parts, told by the names of files. What a part calls lies in the part itself or in those before it; a test holds them
// to that.
//
//   - problem: pods become classes with counts, labels small integers, the catalogue offers (pool, type, zone, capacity type: one concrete
//     set of labels each); existing nodes, limits, preferences. A mutual anti-affinity group becomes a resource.
//   - topology: pods counted by domain, the rules that read these counts, the domains a class could go to. Pods that must share a host become
//     one pod.
//   - pack: pods go onto existing nodes (pack_place), zone spread becomes demand of a zone, demands of one level are packed onto machines
//     (pack_buy): greedily by dual prices, with duals learned, by column generation, by ruin and recreate. Patterns become bins to buy with
//     every type that would do (pack_choice), and bins are consolidated.
//   - bound: lower bounds on what any plan for the same pods costs, one list of them.
//   - explain: why each refused pod is refused.
//
// An attempt takes things for granted that nobody can tell beforehand: see assumptions. Where what was bought shows one of them to be
// wrong, the attempt is made again with that known; what may turn out wrong is two lists, purchaseRevisions and placementRevisions. All
// attempts share one allowance of steps.
//
// Floating point guides (what resources and pods are worth) and never decides: duals are rounded to integers, plans are compared in
// integers, and the certificate is checked in integers with every rounding against it.
//
// Invariants: a pod is answered exactly once; no limit is exceeded by any type a node may become; bound ≤ cost, which verify checks.
//
// Start reading at Solve.
package solve
