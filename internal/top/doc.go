// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package top computes the content of `dovetail top`: NodePools, nodes, pending pods and decisions of a cluster, with
// sums, costs, sort order and filter, and their layout as lines of text for a terminal of any size.
//
// It is pure: it reads no cluster, clock or terminal. The caller watches the cluster and passes each change to a
// Board, which updates its sums incrementally; a View is created from it for each screen. clean removes control
// characters from all text of the cluster. Start reading at Board, then View, then Frame.
package top
