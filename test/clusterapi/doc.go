// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package clusterapi names the version of Cluster API whose CRDs the end-to-end tests install (test/e2e, TestClusterAPI). Nothing of it is
// compiled into anything.
package clusterapi

import _ "sigs.k8s.io/cluster-api/version" // keeps the module in go.mod
