// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package top is the content of `dovetail top`: pools, nodes, pending pods and decisions of a cluster, with sums, dollars, sort order and
// filter, and how they are laid out as lines of text for a terminal of any size.
//
// It is pure: it reads no cluster, no clock and no terminal. Whoever watches the cluster hands each change to a Board, whose sums follow
// the change alone; a View is made from it as often as somebody looks. Nothing that a cluster wrote reaches a line without clean, which
// takes control characters out.
//
// Start reading at Board, then View, then Frame.
package top
