// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command house prints structure metrics of Go code, one line per folder: length of files and functions, number of methods
// of the largest type, number of functions with a name of one word, share of comments, and cyclic uses between the files
// of a folder. It never fails because of a metric. It only reads source files, so the code does not need to compile.
// `make house` runs it; start reading at measureFolder.
//
//	go run ./test/house [-json] [-arrows] [-dir DIR] [FOLDER...]
//
// Tests, generated files, testdata and vendored code are excluded. Columns:
//
//   - files, lines: number of files and lines.
//   - comments: share of lines that contain only comments, among non-blank lines. Licence headers are excluded.
//   - most methods: the type with the most methods, and their number. with promoted: the same including promoted methods
//     of embedded fields, across the measured folders. Types from outside the checkout are ignored.
//   - one word: share of functions and methods whose name is one camel-case word ("sort", not "sortPods"; an acronym is
//     one word), except main and init.
//   - longest function, p99: lines from func to the closing brace, without the doc comment; p99 is the 99th percentile. A
//     function literal is part of its enclosing function.
//   - longest file: number of its lines.
//   - uses: a use is a pair of a file and a name (constant, variable, type, function or method) that the file uses and
//     another file of the same folder declares. Repeated uses count once. Fields and interface methods are not counted.
//   - upward: the files of a folder are ordered by a simple search so that most uses point downwards (see orderFiles).
//     This column counts the uses that point upwards, and their share of all uses. It is 0 without cycles between files.
//     -arrows lists them.
//
// A second table lists the checklists in docs/CHECKLISTS.md that have a block starting with "```files": the number of
// files that such a change touches, and missing files.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

func main() {
	dir := flag.String("dir", ".", "checkout to measure")
	asJSON := flag.Bool("json", false, "print JSON instead of a table")
	arrows := flag.Bool("arrows", false, "list the file order of each folder and the upward uses below the table")
	flag.Parse()
	if err := run(*dir, flag.Args(), *asJSON, *arrows); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(dir string, under []string, asJSON, arrows bool) error {
	folders, err := measureTree(dir, under)
	if err != nil {
		return err
	}
	lists, err := readChecklists(dir)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(os.Stdout, folders, lists)
	}
	if err := writeTable(os.Stdout, folders); err != nil {
		return err
	}
	if err := writeChecklists(os.Stdout, lists); err != nil || !arrows {
		return err
	}
	return writeArrows(os.Stdout, folders)
}

func writeJSON(w io.Writer, folders []Folder, lists []checklist) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Folders    []Folder    `json:"folders"`
		Checklists []checklist `json:"checklists"`
	}{folders, lists})
}

func writeTable(w io.Writer, folders []Folder) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "folder\tfiles\tlines\tcomments\tmost methods\twith promoted\tone word\tlongest function\tp99\tlongest file\tuses\tupward\tshare")
	for _, f := range folders {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%d\t%s\n", f.Path, f.Files, f.Lines, percent(f.CommentLines, f.CodeLines+f.CommentLines),
			named(f.MostMethods), named(f.WithPromoted), percent(f.OneWord, f.Functions), named(f.LongestFunction), f.FunctionP99, named(f.LongestFile), f.Uses, f.Upward, percent(f.Upward, f.Uses))
	}
	return t.Flush()
}

func writeArrows(w io.Writer, folders []Folder) error {
	for _, f := range folders {
		if len(f.Arrows) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s: %s\n", f.Path, strings.Join(f.Order, ", ")); err != nil {
			return err
		}
		for _, a := range f.Arrows {
			if _, err := fmt.Fprintf(w, "  %s uses of %s: %s\n", a.From, a.To, strings.Join(a.Names, ", ")); err != nil {
				return err
			}
		}
	}
	return nil
}

// percent is part of whole as a whole percentage; "-" where there is no whole.
func percent(part, whole int) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%d %%", (200*part+whole)/(2*whole))
}

// named is "12 name"; "-" where there is nothing.
func named(n Named) string {
	if n.Count == 0 {
		return "-"
	}
	return fmt.Sprintf("%d %s", n.Count, n.Name)
}
