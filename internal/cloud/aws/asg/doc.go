// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package asg launches and terminates instances through Auto Scaling groups, for node classes of kind NodeGroupClass.
//
// It never creates a group or changes its minimum or maximum size. It terminates members by ID, and does not lower a
// desired capacity while it could terminate a member instead. It computes the desired capacity of a group from AWS's
// state, as the members plus one for each NodeClaim without an instance, so repeated calls have no further effect. A
// tag on each instance names its NodeClaim. Only one goroutine at a time reads and changes a group.
//
// Start reading at Provider.Launch, then scaler.reconcile, which matches a group with its open NodeClaims. group.go
// reads groups, selection.go selects the groups of a class, offerings.go computes their offerings, and shrinking.go
// and protection.go scale them down.
package asg
