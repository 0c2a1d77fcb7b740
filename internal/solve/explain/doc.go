// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package explain says why a pod was refused: for each pool the first check that fails, the nearest miss first. A
// reason is true: were that one obstacle gone, the check would pass.
//
// Start reading at Explainer.Class.
package explain
