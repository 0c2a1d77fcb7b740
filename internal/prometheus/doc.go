// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package prometheus asks a Prometheus server, or what answers as one, how many replicas workloads wanted in the past, as
// kube-state-metrics has counted them.
//
// It only reads, and nothing may depend on its answers: a server that is slow, wrong or gone is an error or an unknown
// minute. An answer is bounded in size; how long one may take is its caller's context. Start reading at
// Server.Replicas.
package prometheus
