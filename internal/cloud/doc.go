// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package cloud is the contract between the house and whoever sells machines: a small Provider interface, the kinds of error
// a caller can act on, and decorators that any provider can be wrapped in (Retry, SetAside).
//
// It never knows a particular cloud, Kubernetes, or a wire format, and it keeps no intent: a launch that must survive a crash
// is a NodeClaim in the API server before it is a call here (contract 4).
//
// Invariants. Every call takes a context and returns soon after it ends. Calls that change something take a batch and answer
// item by item, in order; one item's failure is never another's. Launching is idempotent by claim UID, for ever; terminating
// is idempotent in effect, and says NotFound for what is already gone. Every error has a Kind, which says what to do next.
//
// Start reading at Provider, then Kind; cloudtest is this text as a test suite.
package cloud
