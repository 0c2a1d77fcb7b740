// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package expander holds Dovetail's client of Cluster Autoscaler's gRPC expander against a server that is generated from the
// published protocol and runs on the official gRPC library: one that answers, one that is slow, one that answers nonsense,
// one that dies. It is a module of its own, so that the product does not hold the generator.
package expander

//go:generate go run ./generate
