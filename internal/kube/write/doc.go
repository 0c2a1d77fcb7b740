// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package write changes a cluster. Except for takeover and leases, it is the only package that does.
//
//   - Actor carries out the actions of a plan. It has one idempotent method per action, and classifies errors by what
//     the caller should do next. Its events inform users.
//   - Provisioners and NodeGroups maintain the NodePools and node classes for Provisioners and for discovered node
//     groups.
//   - Headrooms, Kept, Histories and GroupStatus write Dovetail's own data in the cluster.
//
// It makes no decisions: the action contains them. With a read-only client, all of it fails before a request is sent.
// Invariant: a method of Actor changes only the named object, and only while that object has the expected UID. Start
// reading at Actor. kind.go changes an object conditionally on the version that was last read.
package write
