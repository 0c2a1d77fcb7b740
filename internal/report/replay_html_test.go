// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// TestReplayHTML: the page has the figures of the text, a line for each column in each chart, and nothing of a name that is HTML.
func TestReplayHTML(t *testing.T) {
	from := time.Date(2026, 3, 1, 8, 20, 0, 0, time.UTC)
	r := &Replay{Recording: "<b>week.zst", From: from, To: from.Add(70 * time.Hour), Catalog: "built in", Problems: []string{"a & b"}}
	for i := range 3 {
		c := ReplayColumn{Name: fmt.Sprint("column", i), Until: r.To, Dollars: float64(10 + i), ByReason: map[string]int{"Drifted": i}, Days: []ReplayDay{{Day: "2026-03-01", Dollars: 3.25}}}
		for h := range 71 {
			c.Hours = append(c.Hours, ReplayHour{Hour: from.Truncate(time.Hour).Add(time.Duration(h) * time.Hour), Dollars: float64(h % 7), NodeHours: float64(i)})
		}
		r.Columns = append(r.Columns, c)
	}
	var b strings.Builder
	if err := ReplayHTML(&b, r); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for text, want := range map[string]int{"<svg ": 2, "<path ": 6, "$12.00": 1, "$3.25": 3, "<b>": 0, "&lt;b&gt;week.zst": 2, "a &amp; b": 1, ">03-02<": 2, "Drifted": 1, "NaN": 0, "%!": 0} {
		if n := strings.Count(page, text); n != want {
			t.Errorf("%q is %d times in the page, want %d", text, n, want)
		}
	}
	d := xml.NewDecoder(strings.NewReader(strings.ReplaceAll(page, "<!doctype html>", "")))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
	}
}
