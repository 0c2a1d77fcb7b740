// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package cloud defines the interface between Dovetail and a cloud: Provider, the kinds of errors that a caller can
// act on, and decorators for any provider (Retry, SetAside).
//
// It does not know a particular cloud, Kubernetes, or a wire format, and stores no intent: a launch that must survive
// a crash is a NodeClaim in the API server before the provider is called (contract 4).
//
// Invariants:
//
//   - Every call takes a context, and returns soon after it is cancelled.
//   - Calls that change something take a batch and return one result per item, in order. An item that fails does not
//     affect the others.
//   - Launches are idempotent by NodeClaim UID, without a time limit. Terminations are idempotent; a repeated one
//     returns NotFound.
//   - Every error has a Kind, which determines what to do next.
//
// Start reading at Provider, then Kind. cloudtest tests this contract.
package cloud
