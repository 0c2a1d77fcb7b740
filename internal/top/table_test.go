// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"slices"
	"testing"
)

// Texts are measured as a terminal shows them: a wide character takes two columns.
func TestWidths(t *testing.T) {
	if got := cut("ノード-1", 5); got != "ノー…" {
		t.Errorf("cut to 5 columns: %q", got)
	}
	if got := cutMiddle("ip-10-0-0-1", 8); got != "ip-1…0-1" {
		t.Errorf("cut in the middle: %q", got)
	}
	if got := wrap("ノード of pool a-b waits", 6); !slices.Equal(got, []string{"ノード", "of", "pool", "a-b", "waits"}) {
		t.Errorf("wrapped: %q", got)
	}
	if got := wrap("ノード", 1); !slices.Equal(got, []string{"ノ", "ー", "ド", ""}) {
		t.Errorf("wrapped to less than a character: %q", got)
	}
}
