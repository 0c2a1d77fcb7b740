// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the outputs in testdata")

// TestCases runs testdata: each file holds cases separated by a line of equals signs, each case a comment and a script, a line of
// four dashes, and what was decided. See script for the words.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
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
			got := ""
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				got = run(t, input)
				if !*update && strings.TrimSpace(got) != strings.TrimSpace(want) {
					t.Errorf("%s\n--- got\n%s--- want\n%s", input, got, want)
				}
			})
			out = append(out, strings.TrimSpace(input)+"\n----\n"+strings.TrimSpace(got))
		}
		if *update {
			if err := os.WriteFile(file, []byte(strings.Join(out, "\n\n====\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
