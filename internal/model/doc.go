// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package model holds the nouns of the house as plain values: resources, requirements, pods and their classes, nodes,
// instance types and offerings, pools, claims and the Snapshot of them all.
//
// It never talks to anything: no Kubernetes types, no clock, no I/O. Values are immutable once they are in a Snapshot;
// whoever changes one makes a new one. Slices are sorted by the rule stated at the field, so that equal clusters give equal
// Snapshots byte for byte (contract 1).
//
// Units: cpu in milli-cores, memory and storage in bytes, everything else in whole units, money in micro-dollars per hour.
//
// Start reading at Snapshot, then Class, then InstanceType.
package model
