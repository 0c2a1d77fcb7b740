// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages returns the text of every page at the top and under docs, by path.
func pages(t *testing.T) map[string]string {
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/reference/*.md", "docs/compatibility/*.md", "docs/design/*.md"} {
		list, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range list {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			out[path] = string(text)
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d pages found: the test looks in the wrong place", len(out))
	}
	return out
}

// functionName returns a function's name as the pages write it: Type.Method, or the name alone.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	if name, ok := receiver.(*ast.Ident); ok {
		return name.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// functions returns the functions of the code, as file and name, and the names of the tests.
func functions(t *testing.T) (declared map[[2]string]bool, tests []string) {
	declared = map[[2]string]bool{}
	for _, f := range goFiles(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				declared[[2]string{f.path, functionName(fn)}] = true
				if strings.HasSuffix(f.path, "_test.go") {
					tests = append(tests, fn.Name.Name)
				}
			}
		}
	}
	return declared, tests
}

// The table "Where is behaviour X?" answers with functions that exist, in the files where they are.
func TestWhereIsIt(t *testing.T) {
	declared, _ := functions(t)
	page := pages(t)[filepath.Join(root, "docs", "ARCHITECTURE.md")]
	rows := regexp.MustCompile(`(?m)^\| .*\? \| (.*) \|$`).FindAllStringSubmatch(page, -1)
	if len(rows) < 30 {
		t.Errorf("docs/ARCHITECTURE.md answers %d questions, 30 are expected", len(rows))
	}
	answer := regexp.MustCompile("`([^`]+\\.go)` `([^`]+)`")
	for _, row := range rows {
		answers := answer.FindAllStringSubmatch(row[1], -1)
		if len(answers) == 0 {
			t.Errorf("docs/ARCHITECTURE.md: a row names no file with a function\n%s", row[0])
		}
		for _, a := range answers {
			if !declared[[2]string{"internal/" + a[1], a[2]}] {
				t.Errorf("docs/ARCHITECTURE.md: %s has no function %s; mend the row\n%s", a[1], a[2], row[0])
			}
		}
	}
}

// anchors returns the fragments by which a page's headings are linked to: lower case, spaces as hyphens, no punctuation.
func anchors(t *testing.T, path string) map[string]bool {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		slug := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out[strings.ReplaceAll(slug, " ", "-")] = true
	}
	return out
}

// Links between pages lead to files and headings that exist, and files that check-lists count, tests and make targets that pages name exist. A test
// may be named by how its name begins.
func TestPagesPointAtWhatExists(t *testing.T) {
	_, tests := functions(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	test := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
	const verb = `make ([a-z-]+(?:[0-9.]*[0-9])?)`
	target := regexp.MustCompile("(?m)`" + verb + `|^\s+` + verb + "|^" + verb)
	files := regexp.MustCompile("(?s)```files\n(.*?)```")
	begins := func(name string) bool {
		for _, x := range tests {
			if strings.HasPrefix(x, name) {
				return true
			}
		}
		return false
	}
	checked := 0
	for path, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			checked++
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, m[1])
			} else if m[2] != "" && strings.HasSuffix(target, ".md") && !anchors(t, target)[m[2]] {
				t.Errorf("%s links to %s#%s, and that page has no such heading", path, m[1], m[2])
			}
		}
		for _, block := range files.FindAllStringSubmatch(text, -1) {
			for _, name := range strings.Fields(block[1]) {
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
					t.Errorf("%s lists the file %s, which does not exist", path, name)
				}
			}
		}
		for _, name := range test.FindAllString(text, -1) {
			if checked++; !begins(name) {
				t.Errorf("%s names the test %s, which is not there", path, name)
			}
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if name := m[1] + m[2] + m[3]; !strings.Contains(string(makefile), "\n"+name+":") {
				t.Errorf("%s names `make %s`, which is not there", path, name)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links and tests were checked", checked)
	}
}

// Each row of docs/compatibility that says served names a test that shows it, itself or in its notes: a function, or a file of text
// cases. That the functions exist is TestPagesPointAtWhatExists' to see.
func TestServedRowsNameTests(t *testing.T) {
	checked := 0
	for path, page := range pages(t) {
		if filepath.Dir(path) == filepath.Join(root, "docs", "compatibility") {
			checked += checkServedRows(t, filepath.Base(path), page)
		}
	}
	if checked < 200 {
		t.Errorf("only %d rows that say served: the test looks in the wrong place", checked)
	}
}

// checkServedRows checks the rows of one page that say served, and returns how many there are.
func checkServedRows(t *testing.T, name, page string) (checked int) {
	notes := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\[\^(\w+)\]: (.*)$`).FindAllStringSubmatch(page, -1) {
		notes[m[1]] = m[2]
	}
	cell, note := regexp.MustCompile(`(?:[^|\\]|\\.)*\|`), regexp.MustCompile(`\[\^(\w+)\]`)
	served, function := regexp.MustCompile(`\bserved\b`), regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
	anchor := regexp.MustCompile(`\(#[^)]*\)`) // of a link within the page
	cases := regexp.MustCompile(`\w[\w/]*/testdata/[\w./-]+`)
	for line := range strings.Lines(page) {
		row, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
		cells := cell.FindAllString(row, -1)
		if !ok || len(cells) < 2 || !served.MatchString(anchor.ReplaceAllString(cells[1], "")) {
			continue
		}
		checked++
		text := row
		for _, m := range note.FindAllStringSubmatch(row, -1) {
			text += " " + notes[m[1]]
		}
		files := cases.FindAllString(text, -1)
		for _, file := range files {
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("docs/compatibility/%s names the text cases %s, which are not there\n%s", name, file, line)
			}
		}
		if len(files) == 0 && !function.MatchString(text) {
			t.Errorf("docs/compatibility/%s says served, and which test shows it is missing from the row and its notes:\n%s", name, line)
		}
	}
	return checked
}

// Each row of docs/SECURITY.md's tables of threats and of what is kept names a test that shows it, or a constant of the code.
func TestSecurityRowsNameTests(t *testing.T) {
	page := pages(t)[filepath.Join(root, "docs", "SECURITY.md")]
	shown := regexp.MustCompile("`(?:Test|Fuzz)[A-Z]\\w+`|`model\\.[A-Z]\\w+`")
	checked := 0
	for _, head := range []string{"| attacker | threat | mitigation | test |", "| data | maximum | code and test |"} {
		_, rest, ok := strings.Cut(page, head+"\n")
		if !ok {
			t.Fatalf("docs/SECURITY.md has no table %s", head)
		}
		rows, _, _ := strings.Cut(rest, "\n\n")
		for _, row := range strings.Split(rows, "\n")[1:] {
			cells := strings.Split(strings.Trim(row, "|"), "|")
			if checked++; !shown.MatchString(cells[len(cells)-1]) {
				t.Errorf("docs/SECURITY.md doesn't say which test shows it:\n%s", row)
			}
		}
	}
	if checked < 25 {
		t.Errorf("only %d rows: the test looks in the wrong place", checked)
	}
}
