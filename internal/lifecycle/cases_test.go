// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/casetest"
)

// TestCases asks for the next step of testdata's claims. See inputText for the words.
func TestCases(t *testing.T) {
	casetest.Run(t, func(t *testing.T, input string) string { return describe(Next(parseInput(t, input))) })
}
