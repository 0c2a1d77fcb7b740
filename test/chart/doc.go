// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package chart holds the Helm chart to what it promises: Helm itself lints and renders it, what it renders is decoded strictly into
// Kubernetes' types and kept readable in testdata, the built binary accepts every flag and variable of it, and a real API server takes
// an installation, a change and its removal.
//
// It is a module of its own, so that nothing else depends on Helm, which it pins as a tool: `go -C test/chart tool helm`. Start reading
// at TestRendered.
package chart
