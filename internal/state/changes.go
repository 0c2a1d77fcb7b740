// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

// ChangeCounts counts the changes of each kind since the start, so that a reader can tell whether anything it depends
// on is new.
type ChangeCounts struct {
	Supply  uint64 // nodes, claims, pools, offerings, DaemonSets changed
	Release uint64 // pods left a node or ended, so that capacity may have become free
}
