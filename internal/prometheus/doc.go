// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package prometheus queries a Prometheus-compatible server for the past replica counts of workloads, from
// kube-state-metrics.
//
// It only reads, and nothing may depend on its answers: a slow, wrong or unavailable server leads to an error or to
// unknown minutes. The size of a response is limited; the caller's context limits its duration. Start reading at
// Server.Replicas.
package prometheus
