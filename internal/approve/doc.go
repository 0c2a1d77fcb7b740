// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package approve makes decisions that pass verification. The controller, shadow mode and `dovetail plan` use it.
//
// If verify rejects a part of a plan, the package drops the smallest unit that explains the violation: a pod, the
// pods of a NodeClaim or of a node, a NodePool, or a disruption command. It then repeats the decision without that
// unit in the same step, at most maxRounds times, and verifies it again. decide withholds the dropped units for a
// while, which its Memory records. If a decision panics, the package finds the NodePool or the pods that cause the
// panic by leaving out parts, and withholds those too.
//
// It is pure, like decide and verify, and never repairs or carries out a plan. Start reading at Step.
package approve
