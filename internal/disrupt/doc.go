// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package disrupt says which nodes may be taken away, what keeps the others, and which set of them to replace by what.
//
// It never acts and never waits: a disruption command is a value, and package decide carries it out over many steps or
// takes it back. It reads no clock and writes to none of its inputs.
//
// # Stages of a search
//
//  1. Eligibility (eligibility.go) and AllowedDisruptions (budgets.go): which nodes may go. The caller asks them, and
//     gives the nodes that pass as Input.Candidates.
//  2. observe (observe.go): what has changed since the last search; which verdicts still hold.
//  3. selectCandidates and rankCandidates (singles.go): which candidates to look at, and in which order. The order goes by
//     dual prices (dualprices.go), which say what a pod is worth.
//  4. searchSingles (singles.go), and in a wide search searchSets (sets.go): candidates one by one, then together.
//  5. commandBuilder (commandbuilder.go): a place for each pod, on existing nodes by the free-capacity index
//     (freecapacity.go, capacitytree.go, placementrules.go), else on new nodes by package solve.
//  6. judge (judge.go, replacements.go): whether a command is worth beginning. Its price is in pricing.go, and what its
//     saving comes to under the forecast in horizon.go.
//  7. chooseCommand (command.go), then extendCommand (extend.go): the best command, with what is worth taking along.
//  8. divide (divide.go): the independent commands that it is made of, and boundSaving (savingbound.go): how much more
//     any command could have saved.
//
// Replace and Evaluate use stages 5 and 6 alone.
//
// # Memory
//
// A search is cheap where little has changed: Memory keeps a verdict on each candidate that was looked at. A wide search
// begins anew and answers as one without memory does. Between two of them a narrow search looks at what has changed, and
// may overlook what else that makes worthwhile until the next wide one.
//
// # Invariants
//
//   - A voluntary command lowers the price of the cluster and saves more over Policy.Horizon than it costs. So with pods
//     and prices frozen the commands end (contract 8).
//   - Pods are counted on free capacity only where they are sure to get it: they are bound there (Input.Binds), or
//     there is enough however kube-scheduler places them.
//   - A budget that cannot be read allows nothing.
//   - Every node that is kept has a reason that is true: remove that obstacle, and the check passes.
//   - Equal inputs give equal commands in as many steps, whatever the order of nodes, pods and pools.
//
// Prices are in micro-dollars an hour and costs in micro-dollars, as the names say. Start reading at Consolidate.
package disrupt
