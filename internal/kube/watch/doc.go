// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package watch reads a cluster, and never writes.
//
//   - Watch passes every change to a State; Read does so once. Neither keeps API pods: a pod is translated on
//     arrival, and its API object is dropped.
//   - Overview and ReadOverview fill the Board of top; ReadSurvey lists the objects that doctor examines.
//   - Headrooms are the Headrooms that Watch sees, with their workloads.
//
// Invariant: the changes of one object are passed on in the order of the API server. Start reading at Watch. feed.go
// watches one kind.
package watch
