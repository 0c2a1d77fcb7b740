// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package inventory lists every field of the API types that affect scheduling, and how Dovetail treats it: heeded
// (supported), irrelevant, or refused (pods that set it are refused with a Reason).
//
// The list is fields.txt. Tests compare it with the Go types by reflection, and with the effect of each field on the
// translation in internal/kube. docs/compatibility/pods.md is generated from it, and test/oracle generates its
// clusters from it. Only tests import this package. Start reading at fields.txt, then Parse.
package inventory

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed fields.txt
var text string

// Verdict is how Dovetail treats a field.
type Verdict string

// The verdicts.
const (
	Heeded     Verdict = "heeded"     // changes the plan
	Irrelevant Verdict = "irrelevant" // does not change the plan
	Refused    Verdict = "refused"    // pods that set it are refused
)

// Block is a group of fields with one verdict: a row of the table in docs/compatibility/pods.md.
type Block struct {
	Title   string // description of the fields; empty if Verdict is Irrelevant
	Verdict Verdict
	Code    string // reason code of the refusal
	Text    string // effect of the fields, or why they are irrelevant
	ShownBy string // tests and files of test cases
	Lines   []string
	Fields  []Field
}

// Field is a path in one kind.
type Field struct {
	Kind string // "*": every kind
	Path string // ends with ".*": everything below; irrelevant fields only
}

func (f Field) String() string { return f.Kind + " " + f.Path }

// All returns the built-in inventory.
func All() ([]Block, error) { return Parse(text) }

// Parse parses an inventory: blocks separated by empty lines. A line that begins with # is a comment. The first line of
// a block is its verdict: "heeded TITLE", "refused CODE TITLE" or "irrelevant WHY". The lines "does TEXT" and "shown by
// TESTS" may follow. All other lines are a kind and a path, in which {a,b} expands to a and b.
func Parse(text string) ([]Block, error) {
	var out []Block
	for _, part := range strings.Split(text, "\n\n") {
		var b Block
		for line := range strings.SplitSeq(part, "\n") {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if err := b.read(line); err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
		}
		switch {
		case b.Verdict == "":
			continue
		case len(b.Fields) == 0:
			return nil, fmt.Errorf("%s %s: lists no field", b.Verdict, b.Title+b.Text)
		case b.Verdict != Irrelevant && (b.ShownBy == "" || b.Text == ""):
			return nil, fmt.Errorf("%s %s: needs a line \"does\" and a line \"shown by\"", b.Verdict, b.Title)
		}
		out = append(out, b)
	}
	return out, nil
}

func (b *Block) read(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	if b.Verdict == "" {
		switch b.Verdict = Verdict(word); b.Verdict {
		case Heeded:
			b.Title = rest
		case Irrelevant:
			b.Text = rest
		case Refused:
			b.Code, b.Title, _ = strings.Cut(rest, " ")
		default:
			return fmt.Errorf("unknown verdict %s; use %s, %s or %s", word, Heeded, Irrelevant, Refused)
		}
		return nil
	}
	switch word {
	case "does":
		b.Text = rest
		return nil
	case "shown":
		b.ShownBy = strings.TrimPrefix(rest, "by ")
		return nil
	}
	b.Lines = append(b.Lines, line)
	for _, kind := range expand(word) {
		for _, path := range expand(rest) {
			if b.Verdict != Irrelevant && (kind == "*" || strings.HasSuffix(path, "*")) {
				return fmt.Errorf("only irrelevant fields may be listed by a wildcard")
			}
			b.Fields = append(b.Fields, Field{kind, path})
		}
	}
	return nil
}

// expand returns the texts that a text with {a,b} stands for.
func expand(s string) []string {
	open := strings.IndexByte(s, '{')
	if open < 0 {
		return []string{s}
	}
	end := open + strings.IndexByte(s[open:], '}')
	if end < open {
		return []string{s}
	}
	var out []string
	for part := range strings.SplitSeq(s[open+1:end], ",") {
		out = append(out, expand(s[:open]+part+s[end+1:])...)
	}
	return out
}

// covers reports whether a line speaks of a field.
func (f Field) covers(x Field) bool {
	if f.Kind != "*" && f.Kind != x.Kind {
		return false
	}
	if below, ok := strings.CutSuffix(f.Path, "*"); ok {
		return strings.HasPrefix(x.Path, below)
	}
	return f.Path == x.Path
}

// Find returns the block of a field: the block that names it, otherwise the block whose wildcard matches it.
func Find(all []Block, x Field) *Block {
	var found *Block
	for i := range all {
		for _, f := range all[i].Fields {
			if f.covers(x) {
				if f == x {
					return &all[i]
				}
				found = &all[i]
			}
		}
	}
	return found
}

// Problems returns the differences between an inventory and the fields of the given kinds: a field without a line, a
// line without a field, a field named by two lines.
func Problems(all []Block, fields []Field) (out []string) {
	used := map[Field]int{}
	for _, x := range fields {
		named, covered := 0, false
		for i := range all {
			for _, f := range all[i].Fields {
				if !f.covers(x) {
					continue
				}
				used[f]++
				covered = true
				if f == x {
					named++
				}
			}
		}
		switch {
		case !covered:
			out = append(out, "no line: "+x.String())
		case named > 1:
			out = append(out, "two lines: "+x.String())
		}
	}
	for i := range all {
		for _, f := range all[i].Fields {
			if used[f] == 0 {
				out = append(out, "no such field: "+f.String())
			}
		}
	}
	slices.Sort(out)
	return out
}

// Markdown returns the tables of docs/compatibility/pods.md: heeded and refused fields, then irrelevant fields.
func Markdown(all []Block) string {
	var b strings.Builder
	b.WriteString("| feature | fields | status | shown by |\n|---|---|---|---|\n")
	for _, x := range all {
		if x.Verdict != Irrelevant {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", x.Title, x.cell(), x.Text, x.ShownBy)
		}
	}
	b.WriteString("\nFields without effect on scheduling:\n\n| fields | why |\n|---|---|\n")
	for _, x := range all {
		if x.Verdict == Irrelevant {
			fmt.Fprintf(&b, "| %s | %s |\n", x.cell(), x.Text)
		}
	}
	return b.String()
}

// cell returns the lines of a block as they are written, each kind once.
func (b *Block) cell() string {
	var out []string
	last := ""
	for _, line := range b.Lines {
		kind, path, _ := strings.Cut(line, " ")
		if kind == last {
			out = append(out, "`"+path+"`")
			continue
		}
		last = kind
		if kind == "*" {
			kind = "every kind"
		}
		out = append(out, kind+" `"+path+"`")
	}
	return strings.Join(out, "<br>")
}
