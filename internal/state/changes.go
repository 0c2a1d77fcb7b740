// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

// ChangeCounts counts the changes of each kind since the start, so that a reader can detect changes of what it depends on.
type ChangeCounts struct {
	Supply  uint64 // nodes, claims, pools, offerings, DaemonSets changed
	Release uint64 // pods left a node or completed, so capacity may be free
}
