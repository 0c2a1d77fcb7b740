// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestFrozen: NodePools are frozen while active budgets allow no node for every voluntary reason.
func TestFrozen(t *testing.T) {
	at := func(text string) time.Time {
		out, err := time.Parse("15:04", text)
		if err != nil {
			t.Fatal(err)
		}
		return time.Date(2026, 11, 30, out.Hour(), out.Minute(), 30, 0, time.UTC)
	}
	window := model.Budget{Schedule: "24 13 30 11 *", Duration: 2 * time.Hour}
	ten := model.Budget{Nodes: 10, Percent: true}
	for _, c := range []struct {
		name, at, until string // until empty: without an end; "-": not frozen
		budgets         []model.Budget
	}{
		{"no budget", "13:30", "-", nil},
		{"a percentage", "13:30", "-", []model.Budget{ten}},
		{"always", "13:30", "", []model.Budget{{}}},
		{"in a window", "13:30", "15:24", []model.Budget{window, ten}},
		{"after the window", "15:25", "-", []model.Budget{window, ten}},
		{"two windows in a row", "13:30", "16:00", []model.Budget{window, {Schedule: "0 15 * * *", Duration: time.Hour}, ten}},
		{"only empty nodes", "13:30", "-", []model.Budget{{Reasons: []string{"Empty"}}}},
		{"every reason by its own budget", "13:30", "", []model.Budget{{Reasons: []string{"Empty"}}, {Reasons: []string{"Drifted", "Underutilized"}}}},
		{"a schedule that can't be read", "13:30", "", []model.Budget{{Nodes: 5, Schedule: "soon"}}},
	} {
		until, frozen := Frozen(c.budgets, at(c.at))
		have := "-"
		if frozen {
			have = ""
			if !until.IsZero() {
				have = until.Format("15:04")
			}
		}
		if have != c.until {
			t.Errorf("%s: have %q, want %q", c.name, have, c.until)
		}
	}
}
