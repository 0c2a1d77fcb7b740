// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "testing"

func check(t *testing.T, p *Problem, r Result) {}
