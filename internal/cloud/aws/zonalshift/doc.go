// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package zonalshift reads from Amazon Application Recovery Controller (ARC) which zones the EKS cluster is shifted
// away from. It neither launches nor terminates instances. While ARC is unavailable, the last known shifts stay in
// effect until they expire. Start reading at Watcher.
package zonalshift
