// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package archtest

import (
	"go/ast"
	"regexp"
	"slices"
	"testing"
)

// textWork finds code that looks into what somebody else said in a reason, or into a reason as it stands on the wire.
var textWork = regexp.MustCompile(`strings\.\w+\([^\n]*(\.Said|\.Summary\(\))|(\.Said\)?|\.Summary\(\)) [!=]= "[^"]|\.Fields\(\)\.(Subject|Key|Want|Have)`)

// TestReasonsAreTyped holds that each code of a reason has one type of Detail, that reasons of it are made with that, and
// that nobody but report and plan reads texts.
func TestReasonsAreTyped(t *testing.T) {
	codes, details := []string{}, map[string]string{}
	files := goFiles(t)
	for _, f := range files {
		if f.dir != "internal/plan" || !product(f) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "Code" {
				codes = append(codes, v.Names[0].Name)
			}
			if !slices.Contains([]string{"poolChecks", "refusals", "disruptions", "otherDetails"}, v.Names[0].Name) {
				return true
			}
			for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
				var row [2]ast.Expr // code and Detail
				switch e := e.(type) {
				case *ast.KeyValueExpr:
					row = [2]ast.Expr{e.Key, e.Value}
				case *ast.CompositeLit:
					row = [2]ast.Expr(e.Elts)
				}
				code := row[0].(*ast.Ident).Name
				if details[code] != "" {
					t.Errorf("code %s has two rows in plan's details", code)
				}
				details[code] = row[1].(*ast.CompositeLit).Type.(*ast.Ident).Name
			}
			return true
		})
	}
	if len(codes) < 100 || len(details) < 70 {
		t.Fatalf("%d codes and %d details were found: the test looks in the wrong place", len(codes), len(details))
	}
	for _, code := range codes {
		if details[code] == "" {
			t.Errorf("code %s has no row in plan's details", code)
		}
	}
	for code := range details {
		if !slices.Contains(codes, code) {
			t.Errorf("plan's details have a row for %s, which is no code", code)
		}
	}
	for _, f := range files {
		if !product(f) || f.dir == "internal/plan" || f.dir == "internal/report" {
			continue
		}
		if found := textWork.FindString(f.text); found != "" {
			t.Errorf("%s reads the text of a reason: %s. Ask the fields of its Detail", f.path, found)
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			fields := map[string]ast.Expr{}
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if name, ok := kv.Key.(*ast.Ident); ok {
						fields[name.Name] = kv.Value
					}
				}
			}
			code, ok := fields["Code"].(*ast.SelectorExpr)
			if !ok || details[code.Sel.Name] == "" {
				return true
			}
			if x, ok := code.X.(*ast.Ident); !ok || x.Name != "plan" {
				return true
			}
			at := f.fset.Position(lit.Pos())
			if d, ok := fields["Detail"].(*ast.CompositeLit); ok {
				if kind, ok := d.Type.(*ast.SelectorExpr); ok && kind.Sel.Name != details[code.Sel.Name] {
					t.Errorf("%s:%d: a reason of code %s has a plan.%s; it must be a plan.%s", f.path, at.Line, code.Sel.Name, kind.Sel.Name, details[code.Sel.Name])
				}
			}
			return true
		})
	}
}
