// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package asg has Auto Scaling groups launch and end machines, for node classes of kind NodeGroupClass.
//
// It makes no group, changes no group's bounds, and never lowers the desired capacity of a group while a member could
// go for it: a member is given back by its id. What a group should have is counted anew from what AWS says, its
// members and one more for each open claim, so doing it twice is doing it once. Whose a member is, is written on the
// member, as a tag. Only one caller at a time reads a group and changes it.
//
// Begin at Provider.Launch, then scaler.reconcile, which brings a group and its open claims together. group.go says
// what is read of a group, selection.go which groups a class has, offerings.go what they offer, shrinking.go and
// protection.go how they become smaller.
package asg
