// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// Folder is what was measured of one folder's Go files. The package comment says what each figure counts.
type Folder struct {
	Path            string   `json:"path"` // from the top of the checkout, with slashes; "total" for the sum of all
	Files           int      `json:"files"`
	Lines           int      `json:"lines"`
	CodeLines       int      `json:"codeLines"`    // with code on them
	CommentLines    int      `json:"commentLines"` // with nothing but comment
	MostMethods     Named    `json:"mostMethods"`
	WithPromoted    Named    `json:"withPromoted"` // as MostMethods, with methods of embedded fields
	Functions       int      `json:"functions"`    // functions and methods, without main and init
	OneWord         int      `json:"oneWord"`      // of these, with a name of one word
	LongestFunction Named    `json:"longestFunction"`
	FunctionP99     int      `json:"functionP99"`
	LongestFile     Named    `json:"longestFile"`
	Uses            int      `json:"uses"`
	Upward          int      `json:"upward"`
	Order           []string `json:"order,omitempty"`  // the files, users before what they use
	Arrows          []Arrow  `json:"arrows,omitempty"` // the uses that run against Order

	functionLines []int // ascending
}

// Named is a figure and what it is of.
type Named struct {
	Count int    `json:"count"`
	Name  string `json:"name"`
}

// Arrow is what one file uses of another.
type Arrow struct {
	From  string   `json:"from"`
	To    string   `json:"to"`
	Names []string `json:"names"` // sorted
}

// source is one file read and parsed.
type source struct {
	name string // without folder
	text []byte
	ast  *ast.File
}

// measureTree measures the named folders of a checkout and all below them, or everything where none is named: one
// Folder for each that holds Go files, by path, and last the total of them.
func measureTree(dir string, under []string) ([]Folder, error) {
	if len(under) == 0 {
		under = []string{"."}
	}
	fset := token.NewFileSet()
	sources := map[string][]source{}
	for _, top := range under {
		err := filepath.WalkDir(filepath.Join(dir, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if path != filepath.Join(dir, top) && skipDir(d.Name()) {
					return filepath.SkipDir
				}
				return nil
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || !d.Type().IsRegular() {
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			file, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(dir, filepath.Dir(path))
			if err != nil {
				return err
			}
			if folder := filepath.ToSlash(rel); !ast.IsGenerated(file) {
				sources[folder] = append(sources[folder], source{name: d.Name(), text: text, ast: file})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("no Go files in %s", filepath.Join(dir, strings.Join(under, ", ")))
	}
	var out []Folder
	methods := readMethods(dir, sources)
	for path, files := range sources {
		f, err := measureFolder(fset, path, files, methods)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Folder) int { return strings.Compare(a.Path, b.Path) })
	return append(out, sumFolders(out)), nil
}

// skipDir reports whether a directory holds nothing to be measured: fixtures, other people's code, what the go command
// ignores.
func skipDir(name string) bool {
	return name == "testdata" || name == "vendor" || name == "third_party" || name == "node_modules" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// measureFolder measures the files of one folder.
func measureFolder(fset *token.FileSet, path string, files []source, all *methodSets) (Folder, error) {
	out := Folder{Path: path, Files: len(files)}
	methods := map[string]int{}
	for _, f := range files {
		lines, code, comment := countLines(fset, f)
		out.Lines += lines
		out.CodeLines += code
		out.CommentLines += comment
		out.LongestFile = larger(out.LongestFile, Named{lines, f.name})
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := fn.Name.Name
			if receiver := receiverType(fn); receiver != "" {
				methods[receiver]++
				name = receiver + "." + name
			} else if name == "main" || name == "init" {
				continue
			}
			out.Functions++
			if countWords(fn.Name.Name) == 1 {
				out.OneWord++
			}
			n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
			out.functionLines = append(out.functionLines, n)
			out.LongestFunction = larger(out.LongestFunction, Named{n, name})
		}
	}
	for name, n := range methods {
		out.MostMethods = larger(out.MostMethods, Named{n, name})
	}
	for _, name := range typeNames(files) {
		out.WithPromoted = larger(out.WithPromoted, Named{all.count(typeKey{path, name}), name})
	}
	slices.Sort(out.functionLines)
	out.FunctionP99 = percentile99(out.functionLines)
	uses, err := findUses(fset, path, files)
	if err != nil {
		return Folder{}, err
	}
	out.Order = orderFiles(files, uses)
	out.Uses, out.Arrows = splitUses(out.Order, uses)
	for _, a := range out.Arrows {
		out.Upward += len(a.Names)
	}
	return out, nil
}

// typeNames are the types that files declare, without interfaces.
func typeNames(files []source) (out []string) {
	for _, f := range files {
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if t, ok := s.(*ast.TypeSpec); ok {
					if _, isInterface := t.Type.(*ast.InterfaceType); !isInterface {
						out = append(out, t.Name.Name)
					}
				}
			}
		}
	}
	return out
}

// sumFolders is the total: sums, and the largest of what has a name.
func sumFolders(folders []Folder) Folder {
	out := Folder{Path: "total"}
	for _, f := range folders {
		out.Files += f.Files
		out.Lines += f.Lines
		out.CodeLines += f.CodeLines
		out.CommentLines += f.CommentLines
		out.Functions += f.Functions
		out.OneWord += f.OneWord
		out.Uses += f.Uses
		out.Upward += f.Upward
		out.MostMethods = larger(out.MostMethods, f.MostMethods)
		out.WithPromoted = larger(out.WithPromoted, f.WithPromoted)
		out.LongestFunction = larger(out.LongestFunction, f.LongestFunction)
		out.LongestFile = larger(out.LongestFile, f.LongestFile)
		out.functionLines = append(out.functionLines, f.functionLines...)
	}
	slices.Sort(out.functionLines)
	out.FunctionP99 = percentile99(out.functionLines)
	return out
}

// larger is the one with the larger count; of equals the first by name, so that the result does not depend on the
// order.
func larger(a, b Named) Named {
	if cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Name, b.Name)) < 0 || a.Count > b.Count {
		return a
	}
	return b
}

// percentile99 is the smallest of ascending values that 99 of 100 do not exceed; 0 where there are none.
func percentile99(ascending []int) int {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[(99*len(ascending)+99)/100-1]
}

// countLines counts all lines of a file, those with code and those with nothing but comment. A licence header is
// neither.
func countLines(fset *token.FileSet, f source) (lines, code, comment int) {
	inComment := map[int]bool{} // lines that a comment touches; false: part of the licence header
	for _, group := range f.ast.Comments {
		header := group.End() < f.ast.Package && group != f.ast.Doc && isLicence(group)
		for line := fset.Position(group.Pos()).Line; line <= fset.Position(group.End()).Line; line++ {
			inComment[line] = !header
		}
	}
	all := strings.Split(strings.TrimSuffix(string(f.text), "\n"), "\n")
	inBlock := false
	for i, line := range all {
		line = strings.TrimSpace(line)
		counted, touched := inComment[i+1]
		whole := touched && (inBlock || strings.HasPrefix(line, "//") || strings.HasPrefix(line, "/*"))
		if touched && strings.HasPrefix(line, "/*") {
			inBlock = true
		}
		if inBlock && strings.Contains(line, "*/") {
			inBlock = false
		}
		switch {
		case line == "":
		case !whole:
			code++
		case counted:
			comment++
		}
	}
	return len(all), code, comment
}

// isLicence reports whether a comment is a file's licence header.
func isLicence(group *ast.CommentGroup) bool {
	for _, c := range group.List {
		if strings.Contains(c.Text, "SPDX-License-Identifier") || strings.Contains(c.Text, "Copyright") {
			return true
		}
	}
	return false
}

// receiverType is the name of the type that a method is of; empty for a function.
func receiverType(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) != 1 {
		return ""
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// countWords counts the camel-case words of a name: podsOf has two, PDB one, HTTPServer two, list_all two. Digits
// belong to the word before them.
func countWords(name string) int {
	words := 0
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case r == '_':
		case i == 0 || runes[i-1] == '_':
			words++
		case unicode.IsUpper(r) && !unicode.IsUpper(runes[i-1]):
			words++
		case unicode.IsUpper(r) && i+1 < len(runes) && unicode.IsLower(runes[i+1]):
			words++
		}
	}
	return words
}
