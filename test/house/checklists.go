// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// checklist is one section of docs/CHECKLISTS.md that lists its files in a block that begins with "```files".
type checklist struct {
	Title   string   `json:"title"`
	Files   []string `json:"files"`
	Missing []string `json:"missing,omitempty"` // those that do not exist
}

// readChecklists returns the checklists of a checkout; none if it has no such page.
func readChecklists(dir string) ([]checklist, error) {
	page, err := os.ReadFile(filepath.Join(dir, "docs", "CHECKLISTS.md"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []checklist
	title, inBlock := "", false
	for _, line := range strings.Split(string(page), "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			title = strings.TrimPrefix(line, "## ")
		case line == "```files":
			inBlock = true
			out = append(out, checklist{Title: title})
		case line == "```":
			inBlock = false
		case inBlock && line != "":
			last := &out[len(out)-1]
			last.Files = append(last.Files, line)
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(line))); err != nil {
				last.Missing = append(last.Missing, line)
			}
		}
	}
	return out, nil
}

func writeChecklists(w io.Writer, lists []checklist) error {
	if len(lists) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nchecklist\tfiles\tmissing")
	for _, l := range lists {
		fmt.Fprintf(t, "%s\t%d\t%s\n", l.Title, len(l.Files), strings.Join(l.Missing, " "))
	}
	return t.Flush()
}
