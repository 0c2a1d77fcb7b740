// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package groupstatus says of a cluster's node groups what Cluster Autoscaler says of them: how many nodes each has in which
// state, and the status that it writes into ConfigMap cluster-autoscaler-status (the form of releases 1.30 and later).
//
// It decides nothing, and nothing is decided by it: it is made of what the loop saw, for dashboards, alerts and scripts that
// read Cluster Autoscaler's. Start reading at Observe, then Status.
package groupstatus
