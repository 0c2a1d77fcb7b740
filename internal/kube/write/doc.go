// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package write changes a cluster, and is the only package that does, but for takeover and for leases.
//
//   - Actor does what a plan says, one method an action, each idempotent, with errors sorted by what the caller should do next.
//     Its events inform people.
//   - Provisioners and NodeGroups keep the NodePools and node classes of Provisioners and of discovered node groups.
//   - Headrooms, Kept, Histories and GroupStatus write what Dovetail itself keeps in a cluster.
//
// It never decides anything: which claim, which pod, whether at all, is in the action. A client that only reads makes all of it
// fail, before a request is sent.
//
// Invariant: a method of Actor changes only the object named, and only while it still is the object with that uid.
//
// Start reading at Actor; kind.go is how an object is changed as it was seen last.
package write
