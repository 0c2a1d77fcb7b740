// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package model contains Dovetail's plain data types: resources, requirements, pods and their classes, nodes,
// instance types and offerings, NodePools, NodeClaims, and the Snapshot of all of them.
//
// It uses no Kubernetes types, clock or I/O. Values in a Snapshot are immutable: a change creates a new value. Slices
// are sorted as documented at each field, so that equal clusters give equal Snapshots, byte for byte (contract 1).
//
// Units: CPU in millicores, memory and storage in bytes, other resources in whole units, money in micro-dollars per
// hour. Start reading at Snapshot, then Class, then InstanceType.
package model
