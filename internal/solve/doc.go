// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package solve packs pods onto machines: a Problem in, a Result out, nothing else.
//
// It never talks to anything, never reads a clock and never keeps a package variable; what makes the next solve cheap is the
// Memory it hands back. Equal problems give equal results, whatever the order of the input slices (contract 1): everything that is
// ordered is ordered by the rules stated where it happens, and no map is ranged over where order could show.
//
// How it works, in the order it happens. compile turns pods into classes with counts, labels into small integers and
// the catalogue into offers (pool, type, zone, capacity type: one concrete set of labels each); mutual anti-affinity groups makes resources of who may not share a host,
// co-located groups one pod of those who must. nodes fills what stands or comes
// already. place splits what is left by topology domain, so that zone spread and zone affinity become demand of a zone; colocate
// opens machines for groups that share a host with others. The demands of one pool weight are packed, in groups of equivalent demands of one size, by greedy (price-directed, fills made by
// fill; again where it learns what pods cost), refined by columns (a program over fills, priced by knapsack, made whole by dive) and repair. bins turns fills into machines to buy, with every
// type that would do; tidy empties those whose pods find room left on others. cost, bound, proof and, for few pods, enumerate show how far that is from the least possible; reasons says why each refused pod is
// refused. Where limits leave pods without a machine, or a rule turns out to be broken by what was bought, the attempt is made again
// with that known; all attempts share one allowance of work.
//
// Floating point guides (what resources and pods are worth) and never decides: dual prices are rounded to integers, plans are compared in
// integers, and the certificate is checked in integers with every rounding against it.
//
// Invariants: a pod is answered exactly once; no limit is overshot by any type a machine may become; bound ≤ cost, which verify checks.
//
// Start reading at Solve.
package solve
