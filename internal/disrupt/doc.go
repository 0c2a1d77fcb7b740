// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package disrupt determines which nodes may be removed, what blocks the removal of the others, and which nodes to
// replace, and their replacements. It never acts and never waits: a disruption command is a value, which package decide carries out
// over many steps, or cancels. It reads no clock and does not modify its inputs.
//
// # Stages of a search
//
//  1. Eligibility (eligibility.go) and AllowedDisruptions (budgets.go) determine the removable nodes. The caller
//     evaluates them, and passes the nodes as Input.Candidates.
//  2. observe (observe.go) determines what changed since the last search, and which verdicts are still valid.
//  3. selectCandidates and rankCandidates (singles.go) select and order the candidates, by dual prices
//     (dualprices.go), which value each pod.
//  4. searchSingles (singles.go) tries single candidates. In a wide search, searchSets (sets.go) then tries sets.
//  5. commandBuilder (commandbuilder.go) places each pod: on existing nodes by the free-capacity index
//     (freecapacity.go, capacitytree.go, placementrules.go), otherwise on new nodes by package solve.
//  6. judge (judge.go, replacements.go) decides whether a command is worthwhile. pricing.go computes its cost, and
//     horizon.go its saving under the forecast.
//  7. chooseCommand (command.go), then extendCommand (extend.go), select the best command, and add other
//     worthwhile candidates.
//  8. divide (divide.go) splits it into independent commands. boundSaving (savingbound.go) bounds what any command
//     could have saved in addition.
//
// Replace and Evaluate use stages 5 and 6 only.
//
// # Memory
//
// Memory keeps a verdict on each evaluated candidate, so a search is cheap while little changes. A wide search starts
// anew, and gives the same result as without Memory. Between two of them, a narrow search evaluates what changed, and
// may miss commands that become worthwhile because of these changes until the next wide search.
//
// # Invariants
//
//   - A voluntary command lowers the cost of the cluster, and saves more over Policy.Horizon than it costs. With
//     constant pods and prices, commands therefore end (contract 8).
//   - Free capacity counts for pods only if they are certain to get it: Dovetail binds them there (Input.Binds), or
//     the capacity suffices however kube-scheduler places the pods.
//   - An unreadable budget allows no disruption.
//   - Every kept node has a true reason: without that obstacle, the check passes.
//   - Equal inputs give equal commands in equal steps, in any order of nodes, pods and pools.
//
// Prices are in micro-dollars per hour and costs in micro-dollars, as their names state. Start reading at
// Consolidate.
package disrupt
