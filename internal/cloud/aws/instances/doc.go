// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package instances knows the cluster's EC2 instances: it lists them, remembers what this process has launched or
// ended before EC2 shows it, finds the one that bears a claim, and ends those that are in no Auto Scaling group.
//
// It buys nothing, and it does not judge whose a machine may become. Machines that another autoscaler bought for a
// NodeClaim are listed, too, without the uid of a claim. One caller lists for all.
//
// Begin at Index.List.
package instances
