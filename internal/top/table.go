// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Tone is the visual emphasis of a piece of text. Terminals without color support ignore it.
type Tone uint8

// The tones.
const (
	Plain Tone = iota
	Head       // a title
	Dim        // of less interest
	Good
	Warn
	Bad
	Chosen // the row under the cursor
)

// Span is text of one tone.
type Span struct {
	Text string
	Tone Tone
}

// Line is one row of the terminal.
type Line []Span

// String returns the text alone, without blanks at its end.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return strings.TrimRight(b.String(), " ")
}

func text(s string, tone Tone) Line { return Line{{s, tone}} }

// width is how many columns of a terminal a text takes.
func width(s string) int { return ansi.StringWidth(s) }

// cut shortens a text to so many columns, its end replaced by an ellipsis.
func cut(s string, to int) string { return ansi.Truncate(s, to, "…") }

// cutMiddle shortens a name to so many columns. A DNS domain goes first, for nodes of a cluster have the same; else the middle, since
// names differ at their end.
func cutMiddle(s string, to int) string {
	if width(s) <= to || to < 6 {
		return cut(s, to)
	}
	if host, _, ok := strings.Cut(s, "."); ok && width(host) < to {
		return host + "…"
	}
	tail := (to - 1) / 2
	return ansi.Truncate(s, to-1-tail, "") + ansi.TruncateLeft(s, width(s)-tail, "…")
}

func pad(s string, to int, right bool) string {
	n := to - width(s)
	if n <= 0 {
		return s
	}
	if right {
		return strings.Repeat(" ", n) + s
	}
	return s + strings.Repeat(" ", n)
}

// wrap breaks a text into lines of at most so many columns, at blanks only: names are to be copied whole, so that ansi.Wrap, which
// breaks at hyphens too, is not used.
func wrap(s string, to int) []string {
	if to <= 0 {
		return []string{s}
	}
	var out []string
	line := ""
	for _, word := range strings.Fields(s) {
		for width(word) > to {
			if line != "" {
				out, line = append(out, line), ""
			}
			part := ansi.Truncate(word, to, "")
			if part == "" { // its first character alone is wider
				_, n := utf8.DecodeRuneInString(word)
				part = word[:n]
			}
			out, word = append(out, part), word[len(part):]
		}
		switch {
		case line == "":
			line = word
		case width(line)+1+width(word) <= to:
			line += " " + word
		default:
			out, line = append(out, line), word
		}
	}
	return append(out, line)
}

// extra is the drop of a column that is shown only if no column has to be shortened for it.
const extra = 95

// column of a table over rows R.
type column[R any] struct {
	title   string
	right   bool
	drop    int // columns with the highest number are dropped first on a narrow terminal; 0: never; extra: before any is shortened
	least   int // columns that it is not narrower than
	shrinks int // 1: the first to be shortened where space is short, 2: the second; 0: never
	middle  bool
	text    func(*R) string
	tone    func(*R) Tone
	sortBy  func(a, b *R) int // nil: rows can't be sorted by it
}

const gap = 2 // blanks between columns

// fit chooses the columns that a width has space for and how wide each is. A width of 0 has space for all.
func fit[R any](columns []column[R], rows []R, total int) (kept []column[R], widths []int) {
	kept = columns
	for {
		widths = make([]int, len(kept))
		needed, least := 0, 0
		for i, c := range kept {
			w := max(c.least, width(c.title))
			floor := w
			for j := range rows {
				w = max(w, width(c.text(&rows[j])))
			}
			widths[i] = w
			needed += w + gap
			if c.shrinks > 0 {
				least += min(w, floor) + gap
			} else {
				least += w + gap
			}
		}
		needed, least = needed-gap, least-gap
		if total <= 0 || needed <= total {
			return kept, widths
		}
		worst := 0
		for i, c := range kept {
			if c.drop > kept[worst].drop {
				worst = i
			}
		}
		if least <= total && kept[worst].drop < extra || !droppable(kept) {
			shrink(kept, widths, needed-total)
			return kept, widths
		}
		kept = append(append([]column[R]{}, kept[:worst]...), kept[worst+1:]...)
	}
}

func droppable[R any](columns []column[R]) bool {
	for _, c := range columns {
		if c.drop > 0 {
			return true
		}
	}
	return false
}

// shrink takes so many columns off those that may be shortened.
func shrink[R any](columns []column[R], widths []int, by int) {
	for order := 1; order <= 2; order++ {
		for i, c := range columns {
			if c.shrinks == order && by > 0 {
				take := min(by, widths[i]-max(c.least, width(c.title)))
				widths[i] -= take
				by -= take
			}
		}
	}
}

// header is the line of titles; that of the column sorted by has an arrow.
func header[R any](columns []column[R], widths []int, sorted string, descending bool) Line {
	var b strings.Builder
	for i, c := range columns {
		title := c.title
		if title != "" && title == sorted && width(title) < widths[i]+gap {
			title += map[bool]string{false: "▴", true: "▾"}[descending]
		}
		if i == len(columns)-1 {
			b.WriteString(pad(title, min(widths[i], width(title)), c.right))
			break
		}
		cell := pad(title, widths[i], c.right)
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", max(0, widths[i]+gap-width(cell))))
	}
	return text(b.String(), Dim)
}

// row is one line of a table.
func row[R any](columns []column[R], widths []int, r *R) Line {
	var out Line
	for i, c := range columns {
		s := c.text(r)
		if c.middle {
			s = cutMiddle(s, widths[i])
		} else {
			s = cut(s, widths[i])
		}
		tone := Plain
		if c.tone != nil {
			tone = c.tone(r)
		}
		last := i == len(columns)-1
		if !last || c.right {
			s = pad(s, widths[i], c.right)
		}
		if !last {
			s += strings.Repeat(" ", gap)
		}
		out = append(out, Span{s, tone})
	}
	return out
}
