// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/casetest"
)

// TestCases plays the scripts of testdata, and compares what was decided. See script for the words.
func TestCases(t *testing.T) {
	casetest.Run(t, func(t *testing.T, input string) string { return run(t, input) })
}
