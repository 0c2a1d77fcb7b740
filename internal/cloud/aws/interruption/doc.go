// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package interruption reads the SQS queue into which EventBridge puts what AWS says in advance about machines that
// it will take: spot interruptions, rebalance recommendations, scheduled maintenance, changes of state, ends of
// capacity reservations.
//
// It ends nothing and moves no pod: it hands each notice about a machine of the cluster's to its caller. A message is
// deleted when all that it tells was dealt with, and comes again otherwise.
//
// Begin at Queue.Watch; readEvent says which events mean what.
package interruption
