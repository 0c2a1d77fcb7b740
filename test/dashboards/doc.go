// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package dashboards tests the queries of Karpenter's published Grafana dashboards and of the chart's dashboards with the
// Prometheus engine, on scrapes of Dovetail while the series of test/e2e/metricseries runs on a sandbox. It also tests that
// the chart's alerts fire when they should. Karpenter's dashboards are not part of the repository: they are read from
// ../shared/data/dashboards, next to the repository.
package dashboards
