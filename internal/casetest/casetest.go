// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package casetest runs text cases, which reviewers can read without knowing Go (Run), and randomized tests, of which
// soak tests run more (Drawn). It does not interpret the content of cases. Only tests import it.
package casetest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the outputs in testdata")

// Run runs every case of testdata/*.txt. Cases in a file are separated by a line of four equals signs. A case is a comment and an
// input, a line of four dashes, and the output of play for that input. With -update, the outputs are rewritten.
func Run(t *testing.T, play func(t *testing.T, input string) string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in testdata: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, c := range strings.Split(string(raw), "\n====\n") {
			input, want, _ := strings.Cut(c, "\n----\n")
			name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(input), "# "), "\n")
			got := strings.TrimSpace(want) // kept where only others are run
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				got = strings.TrimSpace(play(t, input))
				switch {
				case got == "":
					t.Errorf("%s\n--- nothing came out", input)
				case !*update && got != strings.TrimSpace(want):
					t.Errorf("%s\n--- got\n%s\n--- want\n%s", input, got, want)
				}
			})
			out = append(out, strings.TrimSpace(input)+"\n----\n"+got)
		}
		if *update {
			if err := os.WriteFile(file, []byte(strings.Join(out, "\n\n====\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
