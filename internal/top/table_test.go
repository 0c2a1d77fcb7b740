// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"slices"
	"testing"
)

// Texts are measured as a terminal shows them: a wide character takes two columns, and what others wrote can't move the cursor.
func TestWidths(t *testing.T) {
	if got := cut("ノード-1", 5); got != "ノー…" {
		t.Errorf("cut to 5 columns: %q", got)
	}
	if got := cutMiddle("ip-10-0-0-1", 8); got != "ip-1…0-1" {
		t.Errorf("cut in the middle: %q", got)
	}
	if got := wrap("\x1b[2J\x1b[Hノード of pool a-b\x07 waits", 6); !slices.Equal(got, []string{"ノード", "of", "pool", "a-b", "waits"}) {
		t.Errorf("wrapped: %q", got)
	}
	if got := wrap("ノード", 1); !slices.Equal(got, []string{"ノ", "ー", "ド", ""}) {
		t.Errorf("wrapped to less than a character: %q", got)
	}
	got := row([]column[string]{{text: func(s *string) string { return *s }}}, []int{10}, new("\x1b[31mred\x1b]0;title\x07"))
	if got.String() != "red" {
		t.Errorf("a cell is %q", got)
	}
}
