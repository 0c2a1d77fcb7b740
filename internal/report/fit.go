// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Fit breaks the lines of a text that are wider than a terminal. Nothing is left out: a row of a table goes on below,
// cell by cell; a command is continued with a backslash, so that it can still be pasted; a word that alone is wider
// than the terminal stays whole, for the terminal to fold.
func Fit(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.TrimSuffix(line, "\n"), strings.HasSuffix(line, "\n")
		if ansi.StringWidth(line) > width {
			line = strings.Join(fitLine(line, width), "\n")
		}
		b.WriteString(line)
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// fitLine breaks one line.
func fitLine(line string, width int) []string {
	body := strings.TrimLeft(line, " ")
	indent := ansi.StringWidth(line) - ansi.StringWidth(body)
	bullet := 0
	if mark, rest, ok := strings.Cut(body, " "); ok && (mark == "-" || isNumbered(mark)) {
		bullet, body = len(mark)+1, strings.TrimLeft(rest, " ")
	}
	f := &fitting{width: width, hang: strings.Repeat(" ", indent+bullet), line: line[:len(line)-len(body)]}
	first, _, _ := strings.Cut(body, " ")
	switch cells := splitCells(body); {
	case first == "kubectl" || first == "dovetail" || first == "aws":
		f.addCommand(body)
	case len(cells) > 1 && indent+bullet+cells[len(cells)-1].at <= width/2: // the last cell has half of the width
		last := cells[len(cells)-1]
		f.line += string([]rune(body)[:last.at])
		f.hang = strings.Repeat(" ", indent+bullet+last.at)
		f.addWords(last.text)
	case len(cells) > 1: // what fits keeps its columns
		f.hang += "    "
		whole := 0
		for whole < len(cells) && indent+bullet+cells[whole].end() <= width {
			whole++
		}
		if whole > 0 {
			f.line += string([]rune(body)[:cells[whole-1].end()])
			f.breakLine("")
		}
		for i, c := range cells[whole:] {
			f.addCell(c.text, i > 0)
		}
	default:
		if indent+bullet == 0 {
			f.hang = "  "
		}
		f.addWords(body)
	}
	return append(f.done, f.line)
}

// isNumbered reports whether a word is the number of an item, as in "1.".
func isNumbered(word string) bool {
	digits, ok := strings.CutSuffix(word, ".")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// cell is a part of a line, and the column where it begins.
type cell struct {
	at   int
	text string
}

func (c cell) end() int { return c.at + ansi.StringWidth(c.text) }

// splitCells splits a line where two spaces or more stand together.
func splitCells(body string) (out []cell) {
	at := 0
	for body != "" {
		text, rest, _ := strings.Cut(body, "  ")
		out = append(out, cell{at, text})
		next := strings.TrimLeft(rest, " ")
		at += ansi.StringWidth(body) - ansi.StringWidth(next)
		body = next
	}
	return out
}

// fitting is one line on its way to several.
type fitting struct {
	width int
	hang  string // begins each line but the first
	done  []string
	line  string
}

func (f *fitting) room() int { return f.width - ansi.StringWidth(f.line) }

// isFresh says that there is nothing but the indent, or a bullet, on the line yet.
func (f *fitting) isFresh() bool {
	return f.line == f.hang || len(f.done) == 0 && ansi.StringWidth(f.line) <= ansi.StringWidth(f.hang)
}

func (f *fitting) breakLine(end string) {
	f.done = append(f.done, strings.TrimRight(f.line, " ")+end)
	f.line = f.hang
}

// addWords adds words, the first where the line is.
func (f *fitting) addWords(text string) {
	for i, word := range strings.Fields(text) {
		n := ansi.StringWidth(word)
		switch {
		case i == 0 && (f.isFresh() || n <= f.room()):
		case i > 0 && n+1 <= f.room():
			f.line += " "
		default:
			f.breakLine("")
		}
		f.line += word
	}
}

// addCell adds a cell of a table, on the line if it fits there.
func (f *fitting) addCell(text string, follows bool) {
	switch n := ansi.StringWidth(text); {
	case !follows:
	case n+2 <= f.room():
		f.line += "  "
	default:
		f.breakLine("")
	}
	f.addWords(text)
}

// addCommand adds a command that a shell takes as one, with the remark after it on lines of its own.
func (f *fitting) addCommand(text string) {
	const more = `\`
	text, remark, remarked := strings.Cut(text, " # ")
	f.hang += "  "
	for i, word := range splitQuoted(text) {
		n := ansi.StringWidth(word)
		switch {
		case i == 0:
		case n+1+len(" "+more) <= f.room():
			f.line += " "
		default:
			f.breakLine(" " + more)
		}
		f.line += word
	}
	if !remarked {
		return
	}
	f.hang += "# "
	f.breakLine("")
	f.addWords(remark)
}

// splitQuoted splits at spaces that are not between single quotes.
func splitQuoted(text string) (out []string) {
	quoted, begin := false, 0
	for i := range len(text) {
		switch {
		case text[i] == '\'':
			quoted = !quoted
		case text[i] == ' ' && !quoted:
			out = append(out, text[begin:i])
			begin = i + 1
		}
	}
	return append(out, text[begin:])
}
