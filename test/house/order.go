// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// use is a file and a name that it mentions and another file of its folder declares.
type use struct {
	from, to string // files
	name     string // "Name", or "Type.Method"
}

// findUses finds the uses between the files of one folder, each once, in no order. Packages are type-checked each
// alone, with empty packages in place of what they import: a name of the folder's own is resolved all the same, and
// nothing has to be downloaded. A method is missed where only an imported package says which type it is called on.
//
// The folder's names are found whatever GOROOT is; generic functions of the standard library only with it, and a program
// built with -trimpath does not know it, so the go command is asked.
func findUses(fset *token.FileSet, folder string, files []source) ([]use, error) {
	if build.Default.GOROOT == "" {
		out, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return nil, fmt.Errorf("get GOROOT from the go command: %w", err)
		}
		build.Default.GOROOT = strings.TrimSpace(string(out))
	}
	packages := map[string][]*ast.File{}
	for _, f := range files {
		packages[f.ast.Name.Name] = append(packages[f.ast.Name.Name], f.ast)
	}
	found := map[use]bool{}
	for name, asts := range packages {
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
		config := types.Config{Importer: emptyImporter{importer.ForCompiler(token.NewFileSet(), "source", nil)}, Error: func(error) {}}
		pkg, err := config.Check(folder+"/"+name, fset, asts, info)
		if pkg == nil {
			return nil, err
		}
		for ident, object := range info.Uses {
			name := declaredName(pkg, object)
			if name == "" {
				continue
			}
			u := use{from: fileOf(fset, ident.Pos()), to: fileOf(fset, object.Pos()), name: name}
			if u.from != u.to {
				found[u] = true
			}
		}
	}
	var out []use
	for u := range found {
		out = append(out, u)
	}
	return out, nil
}

// declaredName is how a use calls an object: its name where it is declared at the top of the package, Type.Method for a
// method of such a type; empty for anything else.
func declaredName(pkg *types.Package, object types.Object) string {
	if object.Pkg() != pkg {
		return ""
	}
	if object.Parent() == pkg.Scope() {
		return object.Name()
	}
	fn, ok := object.(*types.Func)
	if !ok || fn.Signature().Recv() == nil {
		return ""
	}
	receiver := fn.Origin().Signature().Recv().Type()
	if p, ok := receiver.(*types.Pointer); ok {
		receiver = p.Elem()
	}
	named, ok := receiver.(*types.Named)
	if !ok || types.IsInterface(named) {
		return ""
	}
	return named.Obj().Name() + "." + fn.Name()
}

func fileOf(fset *token.FileSet, pos token.Pos) string {
	return filepath.Base(fset.Position(pos).Filename)
}

// emptyImporter gives an empty package for every import path, but for those through whose generic functions values keep
// their type.
type emptyImporter struct {
	standard types.Importer
}

// Import implements types.Importer.
func (e emptyImporter) Import(importPath string) (*types.Package, error) {
	switch importPath {
	case "cmp", "iter", "maps", "slices":
		return e.standard.Import(importPath)
	}
	name := path.Base(importPath)
	if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" { // a major version
		name = path.Base(path.Dir(importPath))
	}
	pkg := types.NewPackage(importPath, name)
	pkg.MarkComplete()
	return pkg, nil
}

// orderFiles puts the files of a folder in an order in which few uses run upwards, that is from a file to one before
// it. To find the order with fewest is NP-hard; this takes, from all files that are left, those that nothing uses to
// the front, those that use nothing to the back, and otherwise the one that uses most more than it is used to the front
// (Eades, Lin and Smyth), and then moves single files for as long as one finds a better place. Equals go by name, so
// that the same files have the same order always.
func orderFiles(files []source, uses []use) []string {
	var left []string
	for _, f := range files {
		left = append(left, f.name)
	}
	slices.Sort(left)
	weight := map[[2]string]int{}
	for _, u := range uses {
		weight[[2]string{u.from, u.to}]++
	}
	var front, back []string
	for len(left) > 0 {
		best, bestScore := 0, 0
		atBack := false
		for i, f := range left {
			out, in := 0, 0
			for _, g := range left {
				out += weight[[2]string{f, g}]
				in += weight[[2]string{g, f}]
			}
			if in == 0 || out == 0 {
				best, atBack = i, in > 0
				break
			}
			if i == 0 || out-in > bestScore {
				best, bestScore = i, out-in
			}
		}
		if atBack {
			back = append(back, left[best])
		} else {
			front = append(front, left[best])
		}
		left = slices.Delete(left, best, best+1)
	}
	slices.Reverse(back)
	return improveOrder(append(front, back...), weight)
}

// improveOrder moves single files to where fewest uses run upwards, until no move helps.
func improveOrder(order []string, weight map[[2]string]int) []string {
	for improved := true; improved; {
		improved = false
		for _, f := range slices.Sorted(slices.Values(order)) {
			rest := slices.DeleteFunc(slices.Clone(order), func(g string) bool { return g == f })
			upward := 0 // with f before all others
			for _, g := range rest {
				upward += weight[[2]string{g, f}]
			}
			best, bestUpward, now := 0, upward, upward
			for i, g := range rest {
				upward += weight[[2]string{f, g}] - weight[[2]string{g, f}]
				if upward < bestUpward {
					best, bestUpward = i+1, upward
				}
				if i+1 == slices.Index(order, f) {
					now = upward
				}
			}
			if bestUpward < now {
				order, improved = slices.Insert(rest, best, f), true
			}
		}
	}
	return order
}

// splitUses counts the uses and returns those that run upwards in an order, by file and name.
func splitUses(order []string, uses []use) (int, []Arrow) {
	var out []Arrow
	byPair := map[[2]string]int{}
	for _, u := range uses {
		if slices.Index(order, u.from) < slices.Index(order, u.to) {
			continue
		}
		pair := [2]string{u.from, u.to}
		i, ok := byPair[pair]
		if !ok {
			i = len(out)
			byPair[pair] = i
			out = append(out, Arrow{From: u.from, To: u.to})
		}
		out[i].Names = append(out[i].Names, u.name)
	}
	for i := range out {
		slices.Sort(out[i].Names)
	}
	slices.SortFunc(out, func(a, b Arrow) int { return strings.Compare(a.From+" "+a.To, b.From+" "+b.To) })
	return len(uses), out
}
