// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package dashboards is a test: every query of the Grafana dashboards that Karpenter publishes, and of those of the
// chart, answers with Prometheus' own engine, over scrapes of Dovetail while the series of test/e2e/metricseries runs on a
// sandbox; and the chart's alerts fire when they should. Karpenter's dashboards are no part of the repository: they are
// read from ../shared/data/dashboards beside it.
package dashboards
