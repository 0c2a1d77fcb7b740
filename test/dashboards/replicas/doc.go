// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package replicas is a test: what internal/prometheus reads of past replicas from Prometheus' own HTTP API, over a
// database with four weeks of kube-state-metrics' series.
package replicas
