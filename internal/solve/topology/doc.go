// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package topology says which pods may be where: it counts pods by domain, reads these counts by the rules that
// classes have, and lists the topology assignments that a class could go to. Pods that must share a host are found
// here and made one pod.
//
// It places nothing itself: whoever does tells it, and asks again.
//
// Start reading at Topology.
package topology
