// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package archtest

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the texts that were found to testdata/texts.golden")

// textSections are the kinds of texts, in the order of the golden file.
var textSections = []string{"commands", "flags", "columns", "conditions", "events", "logs"}

// TestTexts holds what people read, beside the sentences of internal/report/testdata/sentences.golden, against one file: help of commands and
// flags, columns, messages of conditions, events and log messages. {x} stands for what an expression says. Read a change by the
// rules of the pages in docs before it is taken over.
func TestTexts(t *testing.T) {
	found := map[string][]string{}
	for _, f := range goFiles(t) {
		if !product(f) || strings.HasPrefix(f.dir, "internal/cloud/aws/awstest") || f.dir == "internal/cloud/simulated" || strings.HasPrefix(f.dir, "internal/cloud/cloudtest") || strings.HasPrefix(f.dir, "internal/casetest") || f.dir == "internal/testwait" {
			continue
		}
		s := textScan{fset: f.fset, pkg: strings.TrimPrefix(f.dir, "internal/"), found: found}
		s.file(f)
	}
	var out strings.Builder
	for _, section := range textSections {
		lines := found[section]
		if len(lines) < 10 {
			t.Errorf("%s: only %d texts found: the test looks for the wrong calls", section, len(lines))
		}
		slices.Sort(lines)
		fmt.Fprintf(&out, "== %s ==\n%s\n\n", section, strings.Join(slices.Compact(lines), "\n"))
	}
	file := filepath.Join("testdata", "texts.golden")
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("texts have changed:\n%sRead them, then run: go test ./internal/archtest -run TestTexts -update", changedLines(string(want), out.String()))
	}
}

// changedLines are the lines that only one of two texts has.
func changedLines(before, after string) string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	var out strings.Builder
	for _, l := range a {
		if !slices.Contains(b, l) {
			out.WriteString("- " + l + "\n")
		}
	}
	for _, l := range b {
		if !slices.Contains(a, l) {
			out.WriteString("+ " + l + "\n")
		}
	}
	return out.String()
}

// textScan collects the texts of one file.
type textScan struct {
	fset  *token.FileSet
	pkg   string
	found map[string][]string // by section, a line each
}

func (s *textScan) add(section, format string, args ...any) {
	s.found[section] = append(s.found[section], fmt.Sprintf(format, args...))
}

func (s *textScan) file(f file) {
	for _, c := range f.ast.Comments {
		for _, l := range c.List {
			if m := regexp.MustCompile("printcolumn:name=\"?([^\",]+)").FindStringSubmatch(l.Text); m != nil {
				s.add("columns", "%s: %s", s.pkg, m[1])
			}
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			s.call(n)
		case *ast.CompositeLit:
			s.literal(n)
		}
		return true
	})
}

var (
	logLevels   = []string{"Debug", "Info", "Warn", "Error"}
	flagMethods = regexp.MustCompile(`^(\w*Var)(P?)$`)
)

func (s *textScan) call(c *ast.CallExpr) {
	method, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	name, receiver := method.Sel.Name, s.source(method.X)
	switch m := flagMethods.FindStringSubmatch(name); {
	case slices.Contains(logLevels, name) && len(c.Args) > 0 && regexp.MustCompile(`(?i)(log|slog)$`).MatchString(receiver):
		var keys []string
		for i := 1; i < len(c.Args); i += 2 {
			keys = append(keys, s.text(c.Args[i]))
		}
		text := strings.ToLower(name) + " " + s.pkg + ": " + s.text(c.Args[0])
		if len(keys) > 0 {
			text += "  (" + strings.Join(keys, ", ") + ")"
		}
		s.add("logs", "%s", text)
	case name == "Event" && len(c.Args) == 7:
		s.add("events", "%s %s: %s", s.text(c.Args[0]), s.text(c.Args[5]), s.text(c.Args[6]))
	case name == "WriteReported" && len(c.Args) == 5:
		s.add("events", "%s %s", s.text(c.Args[0]), s.text(c.Args[4]))
	case regexp.MustCompile(`(?i)^set.*condition$`).MatchString(name) && len(c.Args) >= 3:
		var parts []string
		for _, a := range c.Args {
			parts = append(parts, s.text(a))
		}
		s.add("conditions", "%s: %s", s.pkg, strings.Join(parts, " · "))
	case m != nil && strings.HasPrefix(s.pkg, "cli") && len(c.Args) >= 3:
		at := 1
		if s.source(c.Args[0])[0] == '"' { // without a variable of its own
			at = 0
		}
		s.add("flags", "--%s: %s", s.text(c.Args[at]), s.text(c.Args[len(c.Args)-1]))
	}
}

func (s *textScan) literal(c *ast.CompositeLit) {
	fields := map[string]ast.Expr{}
	for _, e := range c.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if k, ok := kv.Key.(*ast.Ident); ok {
				fields[k.Name] = kv.Value
			}
		}
	}
	switch {
	case fields["Use"] != nil && fields["Short"] != nil:
		s.add("commands", "%s: %s", s.text(fields["Use"]), s.text(fields["Short"]))
		for _, more := range []string{"Long", "Example"} {
			if fields[more] != nil {
				s.add("commands", "%s · %s:\n    %s", s.text(fields["Use"]), strings.ToLower(more), strings.ReplaceAll(s.text(fields[more]), "\n", "\n    "))
			}
		}
	case fields["title"] != nil && s.pkg == "top":
		s.add("columns", "%s: %s", s.pkg, s.text(fields["title"]))
	case fields["Message"] != nil && (fields["Status"] != nil || fields["Reason"] != nil || fields["True"] != nil):
		reason := "?"
		if fields["Reason"] != nil {
			reason = s.text(fields["Reason"])
		}
		s.add("conditions", "%s: %s · %s", s.pkg, reason, s.text(fields["Message"]))
	}
}

// text is what an expression says: literals as they are, formats with their verbs, what is only known later in braces.
func (s *textScan) text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return s.text(e.X) + s.text(e.Y)
		}
	case *ast.ParenExpr:
		return s.text(e.X)
	case *ast.CallExpr:
		if f := s.source(e.Fun); (f == "fmt.Sprintf" || f == "fmt.Errorf" || f == "string") && len(e.Args) > 0 {
			return s.text(e.Args[0])
		}
	}
	return "{" + s.source(e) + "}"
}

// source is the text of an expression on one line.
func (s *textScan) source(e ast.Expr) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, s.fset, e); err != nil {
		return "?"
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
