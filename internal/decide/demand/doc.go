// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package demand keeps nodes from being launched for pods that earlier decisions about them have failed: parts of the demand
// whose plan verify refused (Withholding), pods whose nodes came with less than was promised (Shortfalls), and pods that
// kube-scheduler, or verify, does not let go to nodes that hold them by every check here (Disagreements).
//
// It launches nothing and solves nothing. Each rule stands alone: it is given its memory, is told what happened, and answers
// which pods are refused and why. A Memory is replaced and never changed in place. Launches that served no pod are package
// unused.
//
// Start reading at Withholding, Shortfalls or Disagreements; none of them asks another.
package demand
