// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package expander calls an external expander, which selects a node group among several: method BestOptions of
// service grpcplugin.Expander in Cluster Autoscaler's gRPC protocol, over TLS.
//
// It makes no decisions, keeps no state and never retries: a call ends with its context. Messages and gRPC framing
// are written by hand on net/http's HTTP/2, because the protocol has one call with three small messages.
// test/expander compares both with a server generated from the published protocol. Start reading at
// Client.BestOptions.
package expander
