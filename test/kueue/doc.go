// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package kueue names the version of Kueue whose controller TestKueue (test/e2e) runs next to Dovetail; module jobset names that of JobSet.
package kueue
