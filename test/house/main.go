// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command house measures how readable a Go code base is inside its folders, and prints one line per folder: how long
// files and functions are, how many methods the largest type has, how many functions have a name of one word, how much
// is comment, and how much the files of a folder use each other in circles. It judges nothing and fails on no figure.
// It reads source files alone, so it can measure any checkout, whether or not that builds. `make house` runs it; start
// reading at measureFolder.
//
//	go run ./test/house [-json] [-arrows] [-dir DIR] [FOLDER...]
//
// Tests, generated files, testdata and vendored code are left out. The columns:
//
//   - lines: all lines of the files. files: how many.
//   - comments: the share of lines that hold nothing but comment, among lines that are not blank. Licence headers count
//     as neither.
//   - most methods: the type with the most methods, and how many it has. with promoted: the same with the methods that it
//     gets from embedded fields, across the folders that are measured; types from outside the checkout are not followed.
//   - one word: the share of functions and methods whose name is one camel-case word ("sort", not "sortPods"; an
//     acronym is a word). main and init are left out.
//   - longest function, p99: lines from func to the closing brace, without the doc comment. 99 of 100 functions are no
//     longer than p99. A function literal counts as part of the function that it stands in.
//   - longest file: its lines.
//   - uses: a use is a pair of a file and a name (constant, variable, type, function or method) that it mentions and
//     that another file of the same folder declares, however often it is mentioned. Fields and the methods of
//     interfaces are not counted.
//   - upward: the files of the folder are put in an order in which uses run downwards, as far as a simple search finds
//     one (see orderFiles). These are the uses that run upwards in it, and their share of all uses: without circles
//     between files there are none. -arrows lists them.
//
// Below the folders is a table of the check-lists in docs/CHECKLISTS.md that name their files in a block that begins with
// "```files": how many files a change of that kind touches, and those that do not exist.
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
	dir := flag.String("dir", ".", "the checkout to measure")
	asJSON := flag.Bool("json", false, "print JSON instead of a table")
	arrows := flag.Bool("arrows", false, "list the order of each folder's files and the uses that run against it, below the table")
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
