// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"

	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// TestNarrowTerminal shows answers on a terminal of 40 columns: all that is said elsewhere is said, and no line of
// several words is wider. JSON is left as it is.
func TestNarrowTerminal(t *testing.T) {
	at := time.Date(2026, 3, 1, 3, 10, 0, 0, time.UTC)
	history := report.History{Since: at.Add(-time.Hour), Until: at, Entries: []ledger.Entry{
		{At: at, Kind: "create", Subject: "nodeclaim/default-6k7xyms455", Why: []plan.Reason{{Code: plan.Demand, Pool: "default"}}, Type: "c6a.large", Micro: 27_100, After: 54_200},
		{At: at, Kind: ledger.Refuse, Subject: "pod/default/lost-d996445b-2nvcd", Why: []plan.Reason{{Code: plan.Resource, Pool: "default", Detail: plan.OfSize{Resource: "cpu", Need: 96_000, Have: 64_000}}}}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := report.HistoryJSON(w, &history); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	for _, args := range [][]string{
		{"doctor", "-f", "testdata/narrow.yaml"},
		{"plan", "-f", "testdata/narrow.yaml"},
		{"history", "--server", server.URL},
	} {
		t.Run(args[0], func(t *testing.T) {
			wide, narrow := runInto(t, 0, args...), runInto(t, 40, args...)
			words := func(text string) string {
				text = duration.ReplaceAllString(strings.NewReplacer(`\`, " ", "#", " ").Replace(text), "")
				return strings.Join(strings.Fields(text), " ")
			}
			if words(wide) != words(narrow) || wide == "" {
				t.Errorf("said is\n%s\nand with room\n%s", narrow, wide)
			}
			for line := range strings.Lines(narrow) {
				line = strings.TrimRight(line, "\r\n")
				if utf8.RuneCountInString(line) > 40 && strings.Contains(strings.TrimLeft(strings.TrimSuffix(line, ` \`), " #"), " ") && !strings.Contains(line, "'") {
					t.Errorf("wider than the terminal: %q", line)
				}
			}
			args = append(args, "-o", "json")
			if wide, narrow := runInto(t, 0, args...), runInto(t, 40, args...); settleTime(wide) != settleTime(narrow) || wide == "" {
				t.Errorf("JSON on a terminal is\n%s", narrow)
			}
		})
	}
}

// duration is how long the solver took, as text says.
var duration = regexp.MustCompile(`[\d.]+ [mµ]?s\b`)

// settleTime leaves out how long the solver took.
func settleTime(text string) string { return proof.ReplaceAllString(text, `$1": 0`) }

// runInto runs dovetail and returns what it writes to a terminal with so many columns, or, with none, to a pipe.
func runInto(t *testing.T, columns int, args ...string) string {
	t.Helper()
	var errs bytes.Buffer
	run := func(out io.Writer) {
		if status := Main(context.Background(), args, strings.NewReader(""), out, &errs); status != 0 && status != foundProblems {
			t.Fatalf("%v: status %d, %s", args, status, errs.String())
		}
	}
	if columns == 0 {
		var out bytes.Buffer
		run(&out)
		return out.String()
	}
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := pty.Setsize(slave, &pty.Winsize{Rows: 24, Cols: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(master) // a terminal that was closed answers EIO
		read <- string(all)
	}()
	run(slave)
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(testwait.Receive(t, "the end of what was written", read), "\r\n", "\n")
}
