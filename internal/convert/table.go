// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package convert

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// narrowColumns is the width below which a row of a table stands in several lines.
const narrowColumns = 120

// row is a row of what is said: what it is about, its outcome, and what became of it.
type row struct {
	cells   []string // what it is about
	outcome string
	what    string
}

// WriteTable writes the result for every flag and tag: first those by which Dovetail does more than the Cluster Autoscaler does
// today, then those by which it does less, then the rest. width is the width of the terminal in columns; 0: nothing is shortened.
func (c *Conversion) WriteTable(w io.Writer, width int) error {
	var b bytes.Buffer
	flags := map[string][]row{}
	for _, r := range c.Rows {
		v := r.Value
		if !r.Given {
			v += " (default)"
		}
		flags[r.Pace] = append(flags[r.Pace], row{[]string{r.Flag, cmp.Or(v, `""`)}, r.Outcome, r.What})
	}
	for _, part := range []struct{ pace, title string }{
		{PaceMore, "More aggressive than your Cluster Autoscaler:"}, {PaceLess, "Less aggressive than your Cluster Autoscaler:"}, {"", "Other flags:"},
	} {
		if len(flags[part.pace]) > 0 {
			fmt.Fprintln(&b, part.title)
			writeRows(&b, width, []string{"FLAG", "VALUE"}, flags[part.pace])
			fmt.Fprintln(&b)
		}
	}
	var groups, marks []row
	for _, r := range c.groupRows() {
		groups = append(groups, row{[]string{r.Group, r.Field, cmp.Or(r.Value, `""`)}, r.Outcome, r.What})
	}
	for _, m := range Marks {
		if m.Outcome == NoMatch {
			marks = append(marks, row{[]string{m.Name, m.On}, m.Outcome, m.What})
		}
	}
	if len(groups) > 0 {
		writeRows(&b, width, []string{"GROUP", "TAG", "VALUE"}, groups)
		fmt.Fprintln(&b)
	}
	if len(marks) > 0 {
		fmt.Fprintln(&b, "Annotations, taints and objects without a counterpart:")
		writeRows(&b, width, []string{"NAME", "ON"}, marks)
		fmt.Fprintln(&b)
	}
	c.writeSummary(&b)
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write the conversion report: %w", err)
	}
	return nil
}

// writeRows writes rows below titles: one line each where the terminal has room for it, else what a row is about in
// one line and what became of it wrapped below.
func writeRows(b *bytes.Buffer, width int, titles []string, rows []row) {
	if width > 0 && width < narrowColumns {
		for _, r := range rows {
			for i, line := range wrapText(strings.Join(r.cells, " = "), width) {
				fmt.Fprintln(b, strings.Repeat("  ", min(i, 1))+line)
			}
			for _, line := range wrapText(r.outcome+": "+r.what, width-4) {
				fmt.Fprintln(b, "    "+line)
			}
		}
		return
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(slices.Concat(titles, []string{"OUTCOME", "DETAIL"}), "\t"))
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(slices.Concat(r.cells, []string{r.outcome, r.what}), "\t"))
	}
	_ = t.Flush() // into memory
}

// wrapText is a text in lines of at most so many columns, broken between words. A word that is longer stands alone.
func wrapText(text string, columns int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > columns {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// writeSummary counts the outcomes and writes the controller's command line and the notes.
func (c *Conversion) writeSummary(b *bytes.Buffer) {
	counts := map[string]int{}
	for _, r := range c.Rows {
		counts[r.Outcome]++
	}
	var parts []string
	for _, k := range []string{InObjects, ToController, SameHere, NoEffect, NoMatch} {
		if counts[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[k], k))
		}
	}
	groups := "all groups with the tags"
	if n := c.count(); n > 0 {
		groups = counted(n, "group")
	}
	fmt.Fprintf(b, "%s in %s; flags: %s\n", groups, counted(len(c.groups), "NodePool"), strings.Join(parts, ", "))
	fmt.Fprintf(b, "controller: dovetail controller %s\n", strings.Join(c.Controller, " "))
	for _, n := range c.Notes {
		fmt.Fprintln(b, "note:", n)
	}
}

func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
