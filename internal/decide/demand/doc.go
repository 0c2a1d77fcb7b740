// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package demand decides which pods wait or are refused although they are demand, because of earlier decisions: pods whose plan
// verify rejected (Withholding), pods whose nodes had less capacity than promised (Shortfalls), and pods that kube-scheduler or
// verify refuses on nodes that fit by every other check (Disagreements). It also has rules for one step: gangs (GangChoice), pods
// that wait for terminating pods instead of a new node (Ending), small pods that wait to share a node (SmallNodes), pods that
// wait until new nodes report their storage (HoldBackStorage), and why the nodes that a pod names do not fit (NamedNodeReasons).
//
// It launches and solves nothing, and never decides which pods are demand (package pods). Each rule is independent: it gets its
// memory and what happened, and returns which pods are refused or wait, and why. A Memory is immutable. Launches that no pod used
// are in package unused.
//
// Invariants: a pod waits for others no longer than SmallNodes.Delay; reasons about named nodes have the nearest miss first.
//
// Start reading at Withholding, Shortfalls or Disagreements, which are independent of each other.
package demand
