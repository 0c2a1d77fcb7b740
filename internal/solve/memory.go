// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

// columnPool is fills worth trying again: see columns.
type columnPool struct{}
