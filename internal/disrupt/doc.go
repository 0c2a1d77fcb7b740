// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package disrupt answers which machines may go, what keeps those that may not, and which set of them to replace by
// what.
//
// It never acts and never waits: a Move is a value, and carrying it out over many steps, or taking it back, is
// decide's. Whether pods fit new machines is for solve to say. On machines that stand they are placed here, each on
// the fullest that has room, and bound there (Input.Exact). Where they are not bound, a move counts on standing room
// only as far as there is plenty of it, however kube-scheduler chooses.
//
// A search is cheap where little has changed: Memory carries what was examined and found not worth moving. A wide
// search begins anew and answers as one without memory does; between two of them a narrow one looks at what changed,
// and may overlook what else that makes worth while until the next wide one.
//
// Invariants: a voluntary move lowers the hourly price of the cluster and saves more over Policy.Horizon than it
// costs, so with pods and prices frozen moves end (contract 8). A budget that can't be read allows nothing. Every
// machine kept has a reason that is true: remove it and that check passes.
//
// Start reading at Guard (what keeps a machine), Allowance (budgets), then Consolidate.
package disrupt
