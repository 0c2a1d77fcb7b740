// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package instances lists the cluster's EC2 instances, adds those that this process has launched or terminated but
// EC2 does not show yet, finds the instance of a NodeClaim, and terminates instances outside of Auto Scaling groups.
//
// It launches nothing, and does not decide which NodeClaim an instance belongs to. Instances that another autoscaler
// launched for a NodeClaim are listed without its UID. Concurrent callers share one request. Start reading at
// Index.List.
package instances
