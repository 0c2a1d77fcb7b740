// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package interruption reads interruption events from the SQS queue that EventBridge writes to: spot interruptions,
// rebalance recommendations, scheduled maintenance, state changes, and the end of capacity reservations. It also
// polls EC2 for instances with failed status checks or scheduled maintenance.
//
// It neither terminates instances nor evicts pods, but passes each notice about an instance of the cluster to its
// caller. A message is deleted when all of its notices have been handled; otherwise the queue delivers it again.
// Start reading at Queue.Watch and StatusChecks.Watch. readEvent interprets the events.
package interruption
