// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package groupstatus computes the status of node groups in Cluster Autoscaler's format: the number of nodes by
// state, and the content of ConfigMap cluster-autoscaler-status (the format of 1.30 and later).
//
// It does not influence decisions: dashboards, alerts and scripts for Cluster Autoscaler read it. Start reading at
// Observe, then Status.
package groupstatus
