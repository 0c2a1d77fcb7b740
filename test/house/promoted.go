// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// typeKey is a declared type.
type typeKey struct{ folder, name string }

// methodSets are the methods of all types of a checkout, by syntax alone.
type methodSets struct {
	module   string // path of the module at the top of the checkout; empty: imports between folders are not followed
	own      map[typeKey][]string
	embedded map[typeKey][]typeKey
}

var moduleLine = regexp.MustCompile(`(?m)^module\s+(\S+)`)

// readMethods reads the methods and embedded fields of every type.
func readMethods(dir string, sources map[string][]source) *methodSets {
	m := &methodSets{own: map[typeKey][]string{}, embedded: map[typeKey][]typeKey{}}
	if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil {
		if found := moduleLine.FindSubmatch(text); found != nil {
			m.module = string(found[1])
		}
	}
	for folder, files := range sources {
		for _, f := range files {
			m.readFile(folder, f.ast)
		}
	}
	return m
}

func (m *methodSets) readFile(folder string, file *ast.File) {
	folders := map[string]string{} // of imported packages, by the name that the file knows them by
	for _, i := range file.Imports {
		importPath := strings.Trim(i.Path.Value, `"`)
		rest, ok := strings.CutPrefix(importPath, m.module+"/")
		if m.module == "" || !ok {
			continue
		}
		name := path.Base(importPath)
		if i.Name != nil {
			name = i.Name.Name
		}
		folders[name] = rest
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if receiver := receiverType(d); receiver != "" {
				key := typeKey{folder, receiver}
				m.own[key] = append(m.own[key], d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if t, ok := s.(*ast.TypeSpec); ok {
					m.readType(folder, folders, t)
				}
			}
		}
	}
}

func (m *methodSets) readType(folder string, folders map[string]string, t *ast.TypeSpec) {
	key := typeKey{folder, t.Name.Name}
	var fields *ast.FieldList
	switch x := t.Type.(type) {
	case *ast.StructType:
		fields = x.Fields
	case *ast.InterfaceType:
		fields = x.Methods
	default:
		return
	}
	for _, f := range fields.List {
		if _, isMethod := f.Type.(*ast.FuncType); isMethod {
			for _, n := range f.Names {
				m.own[key] = append(m.own[key], n.Name)
			}
		}
		if len(f.Names) > 0 {
			continue
		}
		e := f.Type
		if p, ok := e.(*ast.StarExpr); ok {
			e = p.X
		}
		if x, ok := e.(*ast.IndexExpr); ok {
			e = x.X
		}
		switch e := e.(type) {
		case *ast.Ident:
			m.embedded[key] = append(m.embedded[key], typeKey{folder, e.Name})
		case *ast.SelectorExpr:
			if pkg, ok := e.X.(*ast.Ident); ok && folders[pkg.Name] != "" {
				m.embedded[key] = append(m.embedded[key], typeKey{folders[pkg.Name], e.Sel.Name})
			}
		}
	}
}

// count returns how many methods a type has, those promoted from what it embeds included. A name counts once.
func (m *methodSets) count(key typeKey) int {
	names, seen := map[string]bool{}, map[typeKey]bool{}
	var visit func(typeKey)
	visit = func(k typeKey) {
		if seen[k] {
			return
		}
		seen[k] = true
		for _, n := range m.own[k] {
			names[n] = true
		}
		for _, e := range m.embedded[k] {
			visit(e)
		}
	}
	visit(key)
	return len(names)
}
