// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package explain determines why a pod was refused: for each NodePool the first failed check, nearest miss first. A
// reason is true: without that obstacle, the check passes. Start reading at Explainer.Class.
package explain
