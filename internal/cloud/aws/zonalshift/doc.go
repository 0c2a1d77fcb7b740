// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package zonalshift reads from Amazon Application Recovery Controller (ARC) which zones the EKS cluster is shifted away from.
//
// It launches and ends nothing. What it has read stays in force while ARC cannot be asked, until it expires.
//
// Begin at Watcher.
package zonalshift
