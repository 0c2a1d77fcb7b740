// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package topology determines where pods may run: it counts pods per domain, applies the rules of classes to these
// counts, and lists the topology assignments that are possible for a class. Pods that must share a host are merged
// into one pod.
//
// It places no pods: callers report each placement, and query again. Start reading at Topology.
package topology
