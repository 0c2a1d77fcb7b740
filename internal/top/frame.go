// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Frame renders a View as at most Look.Height lines of at most Look.Width columns. details are shown if a row is open.
func Frame(v *View, l *Look, details []DetailLine) []Line {
	foot := footer(l)
	var out []Line
	if l.help {
		out = helpLines(v, l.Width)
	} else {
		out = summaryOf(v, l.Width, mostNext)
		if l.Height < short {
			out = summaryOf(v, l.Width, mostNext-1)
		}
		trouble := problems(v, l.Width, 2)
		if l.Height < 16 { // what is wrong goes before sums
			out = out[:min(len(out), max(1, 3-len(trouble)))]
		}
		out = append(out, trouble...)
		left := l.Height - len(out) - 1
		if len(l.open) > 0 {
			out = append(out, detailFrame(l, details, left)...)
		} else {
			out = append(out, stack(v, l, left)...)
		}
	}
	out = out[:min(len(out), max(0, l.Height-1))]
	for len(out) < l.Height-1 {
		out = append(out, Line{})
	}
	return crop(append(out, foot), l.Width)
}

// crop takes off what is beyond the terminal's width.
func crop(lines []Line, to int) []Line {
	for i, line := range lines {
		left := to
		for j, s := range line {
			w := width(s.Text)
			if w > left {
				lines[i] = append(slices.Clone(line[:j]), Span{cut(s.Text, left), s.Tone})
				break
			}
			left -= w
		}
	}
	return lines
}

// chunks lays out pieces of text with a dot between them, on as many lines as a width makes it; 0: on one.
func chunks(pieces []Span, to int) []Line {
	var out []Line
	var line Line
	have := 0
	for _, p := range pieces {
		if p.Text == "" {
			continue
		}
		w := width(p.Text)
		if len(line) > 0 && to > 0 && have+3+w > to {
			out, line, have = append(out, line), nil, 0
		}
		if len(line) > 0 {
			line = append(line, Span{" · ", Dim})
			have += 3
		}
		line = append(line, p)
		have += w
	}
	return append(out, line)
}

// summary is the head of the screen: the cluster, who autoscales it, and sums.
func summary(v *View, to int) []Line { return summaryOf(v, to, mostNext) }

// summaryOf is the summary with at most so many lines about what comes next.
func summaryOf(v *View, to, most int) []Line { return append(sums(v, to), nextLines(v, to, most)...) }

// sums are the cluster, its autoscaler, and its sums.
func sums(v *View, to int) []Line {
	who := make([]string, len(v.Autoscalers))
	for i, a := range v.Autoscalers {
		if who[i] = a.Name; a.Name == Dovetail && v.passive {
			who[i] += " (passive)"
		}
	}
	autoscaler := Span{"no autoscaler seen", Warn}
	switch {
	case len(who) == 0 && len(v.Reading) > 0:
		autoscaler = Span{}
	case len(who) > 0:
		autoscaler = Span{"autoscaler: " + strings.Join(who, ", "), Plain}
	}
	version := ""
	if v.Cluster.Version != "" {
		version = "Kubernetes " + clean(v.Cluster.Version)
	}
	t := &v.Total
	out := chunks([]Span{{clean(cmp.Or(v.Cluster.Name, v.Cluster.Server)), Head}, {version, Plain}, autoscaler, {v.At.UTC().Format("15:04:05") + " UTC", Dim}}, to)
	nodes := []Span{{model.Count(t.Nodes, "node"), Plain}}
	if t.NotReady > 0 {
		nodes = append(nodes, Span{strconv.Itoa(t.NotReady) + " not ready", Warn})
	}
	for _, state := range []string{Launching, Booting, Starting, Draining, Ending} {
		if n := t.States[state]; n > 0 {
			nodes = append(nodes, Span{strconv.Itoa(n) + " " + strings.ToLower(state), Plain})
		}
	}
	nodes = append(nodes, Span{model.Count(t.Pods, "pod"), Plain})
	if t.Pending > 0 {
		nodes = append(nodes, Span{strconv.Itoa(t.Pending) + " pending", Warn})
	}
	if t.Starting > 0 {
		nodes = append(nodes, Span{strconv.Itoa(t.Starting) + " starting", Plain})
	}
	if t.Unpriced < t.Nodes || t.Nodes == 0 {
		nodes = append(nodes, Span{priceText(t.Micro, t.modelled) + "/h", Head}, Span{priceText(t.Micro*730, t.modelled) + " a month", Plain})
	} else {
		nodes = append(nodes, Span{"no prices", Dim})
	}
	if t.Unpriced > 0 && t.Unpriced < t.Nodes {
		nodes = append(nodes, Span{"without " + model.Count(t.Unpriced, "node"), Dim})
	}
	out = append(out, chunks(nodes, to)...)
	fill := []Span{
		{"CPU " + percent(t.Requested.CPU, t.Allocatable.CPU) + " of " + cores(t.Allocatable.CPU) + " requested", Plain},
		{"memory " + percent(t.Requested.Memory, t.Allocatable.Memory) + " of " + bytesText(t.Allocatable.Memory) + " requested", Plain},
	}
	if v.UseKnown {
		fill = append(fill, Span{"in use: CPU " + percent(t.Used.CPU, t.Allocatable.CPU) + ", memory " + percent(t.Used.Memory, t.Allocatable.Memory), Plain})
	}
	return append(out, chunks(fill, to)...)
}

// mostNext is how many lines say what comes next.
const mostNext = 3

// nextLines say what comes next, in at most so many lines; a width of 0 has no such limit.
func nextLines(v *View, to, most int) (out []Line) {
	if len(v.Next) == 0 {
		return nil
	}
	lines := wrap("Next: "+strings.Join(v.Next, "; ")+".", to)
	for i, line := range lines {
		if to > 0 && i == most-1 && len(lines) > most {
			line = cut(line+" "+lines[i+1], to)
		}
		if i < most || to == 0 {
			out = append(out, text(line, Plain))
		}
	}
	return out
}

// problems are lines about what can't be shown, at most so many; 0: all.
func problems(v *View, to, most int) []Line {
	var out []Line
	if len(v.Reading) > 0 {
		out = append(out, text("Reading "+strings.Join(v.Reading, ", ")+" …", Warn))
	}
	for i, p := range v.Problems {
		if most > 0 && i == most-1 && len(v.Problems) > most {
			out = append(out, text("and "+strconv.Itoa(len(v.Problems)-i)+" more problems; press ? for all", Warn))
			break
		}
		if most > 0 {
			out = append(out, text(cut(p, to), Warn))
			continue
		}
		for _, part := range wrap(p, to) {
			out = append(out, text(part, Warn))
		}
	}
	return out
}

// aside is how many rows a table without the focus shows. On a terminal of fewer than short lines, the table with the focus may take
// five sixths of the lines instead of half of them.
const aside, short = 4, 30

// stack lays out the four tables in so many lines: that with the keys gets what the others leave.
func stack(v *View, l *Look, lines int) []Line {
	t := v.rows(l)
	var share [sections]int // lines beside the title
	free := lines - int(sections)
	const wanted = 6 // rows that the table with the keys has before others have any
	if free < wanted+2 {
		return section(v, l, t, l.Focus, max(0, lines-1))
	}
	limit := free / 2
	if l.Height < short {
		limit = free * 5 / 6
	}
	others := free - min(free, max(wanted, min(t.len(l.Focus)+1, limit)))
	for _, s := range []Section{Pending, Decisions, Pools, Nodes} {
		if n := t.len(s); s != l.Focus && n > 0 {
			if n = min(n, aside) + 1; others >= n {
				share[s] = n
				others -= n
			} else if others >= 2 {
				share[s] = others
				others = 0
			}
		}
	}
	share[l.Focus] = free
	for s := range sections {
		if s != l.Focus {
			share[l.Focus] -= share[s]
		}
	}
	var out []Line
	for s := range sections {
		out = append(out, section(v, l, t, s, share[s])...)
	}
	return out
}

// section is a table with its title and so many lines below.
func section(v *View, l *Look, t *tables, s Section, lines int) []Line {
	n, all := t.len(s), [sections]int{len(v.Pools), len(v.Nodes), v.Total.Pending, len(v.Decisions)}[s]
	name := [sections]string{"Pools", "Nodes", "Pending pods", "Decisions"}[s]
	tone := Dim
	if s == l.Focus {
		tone = Head
	}
	title := Line{{strconv.Itoa(int(s)+1) + " " + name, tone}, {" " + strconv.Itoa(all), tone}}
	if l.Filter != "" {
		of := n
		if s == Pending {
			of = 0
			for _, c := range t.pending {
				of += len(c.Pods)
			}
		}
		title = append(title, Span{", " + strconv.Itoa(of) + " with “" + l.Filter + "”", tone})
	}
	if s == Pending && n > 0 {
		title = append(title, Span{", " + model.Count(n, "cause"), Dim})
	}
	if s == Decisions {
		title = append(title, Span{", from " + v.From, Dim})
	}
	out := []Line{title}
	if lines < 2 || n == 0 {
		if n == 0 && lines > 0 && s == l.Focus {
			out = append(out, text("  "+none(v, l, s), Dim))
		}
		return padLines(out, lines+1)
	}
	at := &l.at[s]
	at.cursor = max(0, min(at.cursor, n-1))
	body := lines - 1
	if at.cursor < at.first {
		at.first = at.cursor
	}
	if at.cursor >= at.first+body {
		at.first = at.cursor - body + 1
	}
	at.first = max(0, min(at.first, n-body))
	from, to, cursor := at.first, min(n, at.first+body), -1
	if s == l.Focus {
		cursor = at.cursor - from
	} else {
		from, to = 0, min(n, body)
	}
	switch s {
	case Pools:
		out = append(out, table(poolColumns(), t.pools, from, to, l, s, cursor)...)
	case Nodes:
		out = append(out, table(nodeColumns(v.UseKnown), t.nodes, from, to, l, s, cursor)...)
	case Pending:
		out = append(out, table(causeColumns(), t.pending, from, to, l, s, cursor)...)
	case Decisions:
		out = append(out, table(decisionColumns(v.At), t.decisions, from, to, l, s, cursor)...)
	}
	return padLines(out, lines+1)
}

// none says why a table is empty.
func none(v *View, l *Look, s Section) string {
	if l.Filter != "" {
		return "No row contains “" + l.Filter + "”; Esc shows all."
	}
	if len(v.Reading) > 0 {
		return "Not read yet."
	}
	return [sections]string{"There is no NodePool and no node.", "There is no node.", "No pod is pending.", "No decisions are known."}[s]
}

func padLines(lines []Line, to int) []Line {
	for len(lines) < to {
		lines = append(lines, Line{})
	}
	return lines[:max(0, min(len(lines), max(1, to)))]
}

// widthRows is how many rows are measured for the widths of columns, so that those do not change while one scrolls.
const widthRows = 300

// table lays out the rows from and to; cursor is which of them has the cursor, -1: none.
func table[R any](columns []column[R], rows []R, from, to int, l *Look, s Section, cursor int) []Line {
	measured := rows[from:to]
	if len(rows) <= widthRows {
		measured = rows
	}
	kept, widths := fit(columns, measured, l.Width-2)
	out := []Line{append(text("  ", Plain), header(kept, widths, l.sort[s].column, l.sort[s].descending)...)}
	for i := from; i < to; i++ {
		line := row(kept, widths, &rows[i])
		if i-from == cursor {
			line = append(text("> ", Chosen), Span{pad(line.String(), l.Width-2, false), Chosen})
		} else {
			line = append(text("  ", Plain), line...)
		}
		out = append(out, line)
	}
	return out
}

func footer(l *Look) Line {
	switch {
	case l.editing:
		return Line{{"Filter: " + l.Filter, Head}, {"▏", Head}, {"  Enter applies, Esc cancels", Dim}}
	case l.help:
		return text("any key goes back", Dim)
	case len(l.open) > 0:
		return text("Esc back · ↑↓ move · Enter opens · ? help · q quit", Dim)
	case l.Width < 70:
		return text("Tab ↑↓ Enter · s sort · / filter · ? · q", Dim)
	}
	return text("Tab 1-4 table · ↑↓ move · Enter details · s sort · r reverse · / filter · ? help · q quit", Dim)
}

func helpLines(v *View, to int) []Line {
	out := []Line{text("Keys", Head)}
	for _, k := range [][2]string{
		{"Tab, 1-4", "switch to another table"}, {"↑ ↓ PgUp PgDn g G", "move"},
		{"Enter", "show details, and reasons if Dovetail is reachable"}, {"Esc", "go back; clear the filter"}, {"s, r", "sort by the next column; reverse the order"},
		{"/", "show only rows that contain a text"}, {"q, Ctrl-C", "quit"},
	} {
		out = append(out, Line{{"  " + pad(k[0], 18, false), Plain}, {" " + k[1], Plain}})
	}
	out = append(out, Line{}, text("Figures", Head))
	for _, note := range append([]string{"CPU and MEM are what pods request of what nodes can allocate."}, v.Notes...) {
		for _, part := range wrap(note, to-2) {
			out = append(out, text("  "+part, Plain))
		}
	}
	for _, a := range v.Autoscalers {
		for _, part := range wrap(a.Name+": "+clean(a.Sign)+".", to-2) {
			out = append(out, text("  "+part, Plain))
		}
	}
	if len(v.Problems) > 0 {
		out = append(out, Line{}, text("What can't be shown", Head))
		for _, p := range v.Problems {
			for _, part := range wrap(p, to-2) {
				out = append(out, text("  "+part, Warn))
			}
		}
	}
	return out
}

// detailFrame lays out details in so many lines, with the cursor in sight.
func detailFrame(l *Look, details []DetailLine, lines int) []Line {
	at := &l.open[len(l.open)-1]
	at.cursor = max(0, min(at.cursor, len(details)-1))
	if at.cursor < at.first {
		at.first = at.cursor
	}
	if at.cursor >= at.first+lines {
		at.first = at.cursor - lines + 1
	}
	var out []Line
	for i := at.first; i < min(len(details), at.first+lines); i++ {
		if i == at.cursor {
			out = append(out, text(pad(details[i].Line.String(), l.Width, false), Chosen))
		} else {
			out = append(out, details[i].Line)
		}
	}
	return out
}

func when(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return ageText(now.Sub(at)) + " ago"
}
