// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// question matches the names of functions that are asked and change nothing.
var question = regexp.MustCompile(`^(?i:is|has|are|may|can|would|lacks|holds|covers|waits)[A-Z]|^(holds|covers|input|inputOf|startTimes|awaitedDaemons)$`)

// TestQuestionsChangeNothing holds that what is asked as a question neither changes the plan or the memory nor schedules a
// wake-up: whether it is asked, and how often, must not matter. It returns until when its answer holds.
func TestQuestionsChangeNothing(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.go", filepath.Join("*", "*.go")} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	asked := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !question.MatchString(fn.Name.Name) {
				continue
			}
			asked++
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if s, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"wakeAt", "heed", "addAction", "addNote"}, s.Sel.Name) {
						t.Errorf("%s: %s is a question and calls %s", f, fn.Name.Name, s.Sel.Name)
					}
				case *ast.AssignStmt:
					for _, to := range n.Lhs {
						if isMemory(to) {
							t.Errorf("%s: %s is a question and writes to the memory", f, fn.Name.Name)
						}
					}
				}
				return true
			})
		}
	}
	if asked < 40 {
		t.Errorf("%d questions were found: the names have changed", asked)
	}
}

// isMemory reports whether an expression is a part of a stage's memory.
func isMemory(x ast.Expr) bool {
	for {
		switch e := x.(type) {
		case *ast.SelectorExpr:
			if e.Sel.Name == "mem" {
				return true
			}
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		default:
			return false
		}
	}
}
