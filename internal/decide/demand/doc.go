// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package demand keeps nodes from being launched for pods that earlier decisions about them have failed: parts of the demand
// whose plan verify refused (Withholding), pods whose nodes came with less than was promised (Shortfalls), and pods that
// kube-scheduler, or verify, does not let go to nodes that hold them by every check here (Disagreements). It also holds rules
// about pods of one step: which wait for others to share a node with (SmallNodes), which wait until other new nodes show
// whether their storage is reported (HoldBackStorage), and why the nodes that a pod names do not take it (NamedNodeReasons).
//
// It launches nothing and solves nothing, and never decides which pods are demand. Each rule stands alone: it is given its memory,
// is told what happened, and answers which pods are refused or wait, and why. A Memory is replaced and never changed in place.
// Launches that served no pod are package unused.
//
// Invariants: a pod waits for others no longer than SmallNodes.Delay; what is said of named nodes is the nearest miss first.
//
// Start reading at Withholding, Shortfalls or Disagreements; none of them asks another.
package demand
