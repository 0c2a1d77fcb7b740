// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/casetest"
)

// TestCases solves testdata's problems, and checks each answer. See problemText for the words.
func TestCases(t *testing.T) {
	casetest.Run(t, func(t *testing.T, input string) string {
		p := parseProblem(t, input)
		res, _ := Solve(p, Memory{}, DefaultPolicy())
		check(t, p, res)
		return describe(p, res)
	})
}
