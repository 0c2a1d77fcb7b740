// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package expander asks a program outside which of several node groups to grow, by the protocol of Cluster Autoscaler's gRPC
// expander: method BestOptions of service grpcplugin.Expander, over TLS.
//
// It decides nothing, keeps nothing and tries nothing twice: a call ends with its context. The message is written by hand,
// and so is gRPC's framing on net/http's HTTP/2, since it is one call of three small messages; test/expander holds both
// against a server that is generated from the published protocol. Start reading at Client.BestOptions.
package expander
