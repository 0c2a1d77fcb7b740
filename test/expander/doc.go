// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package expander tests Dovetail's client of Cluster Autoscaler's gRPC expander with servers generated from the published
// protocol on the official gRPC library: one that responds, one that is slow, one with invalid responses, and one that
// crashes. It is a separate module, so that the product does not depend on the generator.
package expander

//go:generate go run ./generate
