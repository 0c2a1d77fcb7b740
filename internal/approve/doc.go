// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package approve decides, and has verify approve of what was decided: the controller, shadow mode and `dovetail plan`
// get their plans here.
//
// A part of a plan that verify refuses is left out by the smallest unit that explains it: a pod, the pods of a NodeClaim
// or of a node, a NodePool, a disruption command. The rest is decided again in the same step and must pass in turn, at
// most maxRounds times. What was left out is withheld by decide for a while, which its Memory keeps. If deciding panics, the
// NodePool or the pods that bring it about are found by leaving out parts, and are withheld too.
//
// It is pure, as decide and verify are. It never repairs a plan and never carries one out.
//
// Start reading at Step.
package approve
