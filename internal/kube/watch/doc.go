// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package watch reads a cluster and never writes.
//
//   - Watch feeds a State with every change; Read does so once. Neither keeps pods: a pod is translated when it arrives and its
//     API object is dropped.
//   - Overview and ReadOverview feed the Board of top; ReadSurvey lists what doctor examines.
//   - Headrooms are the Headrooms that Watch sees, with the workloads that they are for.
//
// Invariant: changes of one object are handed over in the order in which the API server made them.
//
// Start reading at Watch; feed.go is how a kind is followed.
package watch
