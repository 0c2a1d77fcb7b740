// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers are the parts of this package, as files are named, from the bottom up. What a part calls lies in the part
// itself or below it.
var layers = []string{"contract", "problem", "topology", "pack", "bound", "explain"}

// layerOf is the place of a file among layers; what is named otherwise is the composition, above all.
func layerOf(file string) int {
	name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".go"), "_")
	if i := slices.Index(layers, name); i >= 0 {
		return i
	}
	return len(layers)
}

// noImports makes the type checker do without other packages: what is theirs is left unresolved, what is ours is found.
type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not looked at") }

// TestLayers holds every function against the rule that calls go down. Types may name what is above them: a class
// knows its topology, and nothing below topology looks at it.
func TestLayers(t *testing.T) {
	fset := token.NewFileSet()
	var files []*ast.File
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: noImports{}, Error: func(error) {}}
	conf.Check("solve", fset, files, info) // errors are of what isn't imported
	checked := 0
	for _, f := range files {
		here := layerOf(fset.Position(f.Pos()).Filename)
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			called, ok := info.Uses[id].(*types.Func)
			if !ok || called.Pkg() == nil || called.Pkg().Path() != "solve" {
				return true
			}
			checked++
			if at := fset.Position(called.Pos()); layerOf(at.Filename) > here {
				t.Errorf("%s calls %s, which lies above it, in %s", fset.Position(id.Pos()), called.Name(), at.Filename)
			}
			return true
		})
	}
	if checked < 1000 {
		t.Errorf("%d calls were looked at: too few to say anything", checked)
	}
}
