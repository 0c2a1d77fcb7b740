// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package jobset names the version of JobSet whose controller TestKueue (test/e2e) runs.
package jobset
