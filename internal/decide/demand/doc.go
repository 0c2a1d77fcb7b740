// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package demand decides which pending pods do not get a node in this step, because of earlier decisions:
//
//   - Withholding: pods whose plan verify rejected.
//   - Shortfalls: pods whose nodes had less capacity than promised.
//   - Disagreements: pods that kube-scheduler or verify refuses on nodes that fit by every other check.
//
// It also has rules for one step:
//
//   - GangChoice: gangs.
//   - Ending: pods that wait for terminating pods instead of a new node.
//   - SmallNodes: small pods that wait to share a node.
//   - HoldBackStorage: pods that wait until new nodes report their storage.
//   - NamedNodeReasons: why the nodes that a pod names do not fit.
//
// It launches and solves nothing, and never decides which pods are demand (package pods). Each rule is independent: it
// gets its memory and the latest events, and returns which pods are refused or wait, and why. A Memory is immutable.
// Package unused handles launches that no pod used.
//
// Invariants: a pod waits for others no longer than SmallNodes.Delay; reasons about named nodes have the nearest miss
// first.
//
// Start reading at Withholding, Shortfalls or Disagreements, which are independent of each other.
package demand
