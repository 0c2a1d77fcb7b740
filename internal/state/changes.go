// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

// ChangeCounts counts the changes of each kind since the start, so that a reader can tell whether anything it depends
// on is new.
type ChangeCounts struct {
	Demand     uint64 // pods that wait for a node came, or kube-scheduler refused the first of a class
	Unforeseen uint64 // of these, all but pods that their ReplicaSet was known to be making when others like them had been refused
	Supply     uint64 // nodes, claims, pools, offerings, DaemonSets changed
	Release    uint64 // pods left a node or ended, so that capacity may have become free
}
