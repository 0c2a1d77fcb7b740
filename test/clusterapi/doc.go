// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package clusterapi names the version of Cluster API whose CRDs, webhooks and core manager the end-to-end tests use (test/e2e, TestClusterAPI and
// TestClusterAPICore). The manager is compiled from the module as it is: go -C test/clusterapi build sigs.k8s.io/cluster-api/core.
package clusterapi
