// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package interruption reads the SQS queue into which EventBridge puts what AWS says in advance about machines that
// it will take: spot interruptions, rebalance recommendations, scheduled maintenance, changes of state, ends of
// capacity reservations. Beside that it asks EC2 which machines fail its status checks or await maintenance.
//
// It ends nothing and moves no pod: it hands each notice about a machine of the cluster's to its caller. A message is
// deleted when all that it tells was dealt with, and comes again otherwise.
//
// Begin at Queue.Watch and StatusChecks.Watch; readEvent says which events mean what.
package interruption
