// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package karpenteraws runs Karpenter's AWS controller on the simulated AWS of the sandbox, and Dovetail through the same scenario: launches,
// consolidation, drift, expiry, interruptions, capacity errors, a kill, and the deletion of all objects. It fails if Karpenter's log contains an
// error that real AWS would not cause. The AWS calls, nodes and cost of both are logged as tables.
//
// The controller is compiled unchanged from its Go module; module controller names its version. `make karpenter-aws` compiles and runs it. A test that
// is interrupted or terminated fails, and removes its processes, sandboxes and directories. Start reading at live.
package karpenteraws
