// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// codes are the values of all constants of type plan.Code, in the order of the source.
func codes(t *testing.T) (out []plan.Code) {
	files, err := filepath.Glob("../plan/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := v.Type.(*ast.Ident); !ok || kind.Name != "Code" {
				return true
			}
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, plan.Code(text))
			return true
		})
	}
	return out
}

// TestEveryCode holds the sentence of every reason code, so that all of them can be read at a glance, in
// testdata/sentences.golden. Fields that a reason may have are written in capitals.
func TestEveryCode(t *testing.T) {
	const file = "testdata/sentences.golden"
	var b strings.Builder
	all := codes(t)
	if len(all) < 80 {
		t.Fatalf("%d codes found: the constants of plan.Code have moved", len(all))
	}
	for _, c := range all {
		r := plan.Reason{Code: c, Subject: "pod/NAMESPACE/NAME", Key: "KEY", Want: "WANT", Have: "HAVE"}
		if sentence(r) == "" && kept(r) == "" && waiting(r) == "" && action(r) == "" {
			t.Errorf("%s has no sentence", c)
		}
		fmt.Fprintf(&b, "%s: %s\n", c, Sentence(r))
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if have := b.String(); have != string(want) {
		t.Errorf("%s differs; go test ./internal/report -run TestEveryCode -args -update writes:\n%s", file, have)
	}
}
