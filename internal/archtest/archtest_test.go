// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/dovetail-sh/dovetail"

var root = filepath.Join("..", "..")

// allowed reads the policy: for each package, the packages that it may import.
func allowed(t *testing.T) map[string]map[string]bool {
	t.Helper()
	direct := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(Policy), "\n") {
		steps := strings.Split(line, "<")
		for i := range steps {
			for _, pkg := range names(steps[i]) {
				if direct[pkg] == nil {
					direct[pkg] = []string{}
				}
				if i > 0 {
					direct[pkg] = append(direct[pkg], names(steps[i-1])...)
				}
			}
		}
	}
	out := map[string]map[string]bool{}
	var visit func(into map[string]bool, pkg string)
	visit = func(into map[string]bool, pkg string) {
		for _, r := range direct[pkg] {
			if !into[r] {
				into[r] = true
				visit(into, r)
			}
		}
	}
	for pkg := range direct {
		out[pkg] = map[string]bool{}
		visit(out[pkg], pkg)
		if out[pkg][pkg] {
			t.Fatalf("the policy is a circle through %s", pkg)
		}
	}
	return out
}

func names(s string) []string {
	var out []string
	for _, n := range strings.Split(s, ",") {
		out = append(out, strings.TrimSpace(n))
	}
	return out
}

// packageOf is the package a folder (slash-separated, from the top) belongs to; empty: none.
func packageOf(dir string, packages map[string]map[string]bool) string {
	dir = strings.TrimPrefix(dir, "internal/")
	for d := dir; d != "." && d != ""; d = filepath.ToSlash(filepath.Dir(d)) {
		if _, ok := packages[d]; ok {
			return d
		}
	}
	return ""
}

type file struct {
	path, dir string
	ast       *ast.File
	fset      *token.FileSet
	text      string
}

func goFiles(t *testing.T) []file {
	t.Helper()
	var out []file
	for _, top := range []string{"internal", "api", "cmd", "charts", "examples", "sandbox", "test", "build"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(p string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") {
				return err
			}
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, p, b, parser.ParseComments)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, p)
			if err != nil {
				return err
			}
			rel = filepath.ToSlash(rel)
			out = append(out, file{path: rel, dir: filepath.ToSlash(filepath.Dir(rel)), ast: f, fset: fset, text: string(b)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(out) < 10 {
		t.Fatalf("only %d Go files found: the test looks in the wrong place", len(out))
	}
	return out
}

func product(f file) bool {
	return !strings.HasSuffix(f.path, "_test.go") && !strings.HasPrefix(f.path, "sandbox/") && !strings.HasPrefix(f.path, "test/") && !strings.HasPrefix(f.path, "build/") &&
		!strings.HasPrefix(f.path, "internal/archtest/")
}

func TestImports(t *testing.T) {
	packages := allowed(t)
	checked := 0
	for _, f := range goFiles(t) {
		if !product(f) {
			continue
		}
		pkg := packageOf(f.dir, packages)
		if pkg == "" {
			t.Errorf("%s: its folder is in no package of the policy; put it in one, or give it a line in Policy", f.path)
			continue
		}
		if strings.HasSuffix(f.dir, "/gen") {
			continue // a generator runs on a developer's machine and is not in the product
		}
		for _, i := range f.ast.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if rest, ok := strings.CutPrefix(path, module+"/"); ok {
				other := packageOf(rest, packages)
				checked++
				if other != pkg && !packages[pkg][other] {
					t.Errorf("%s: package %s may not import package %s (%s)", f.path, pkg, other, path)
				}
			}
			for prefix, who := range KubernetesOnly {
				if strings.HasPrefix(path, prefix) && !slices.Contains(who, pkg) {
					t.Errorf("%s: only %s may import %s", f.path, strings.Join(who, ", "), path)
				}
			}
		}
	}
	if checked == 0 {
		t.Fatal("no import between packages was checked")
	}
}

// The product binary links nothing that only the sandbox and tests need.
func TestNotLinked(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/dovetail")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list what cmd/dovetail links: %v", err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, module+"/internal/cli") {
		t.Fatalf("cmd/dovetail does not link internal/cli: the list of %d packages is wrong", len(linked))
	}
	for _, name := range NotLinked {
		if _, err := os.Stat(filepath.Join(root, "internal", filepath.FromSlash(name))); err != nil {
			t.Errorf("NotLinked: %v", err)
		}
		if slices.Contains(linked, module+"/internal/"+name) {
			t.Errorf("cmd/dovetail links internal/%s, which only the sandbox and tests may", name)
		}
	}
}

// A package of the policy without a file is a plan that nobody follows.
func TestPackagesExist(t *testing.T) {
	packages := allowed(t)
	found := map[string]bool{}
	for _, f := range goFiles(t) {
		if product(f) {
			found[packageOf(f.dir, packages)] = true
		}
	}
	for pkg := range packages {
		if !found[pkg] {
			t.Errorf("package %s of the policy has no Go file", pkg)
		}
	}
	for _, pkg := range Pure {
		if packages[pkg] == nil {
			t.Errorf("pure package %s is not in the policy", pkg)
		}
	}
}

func TestPurePackages(t *testing.T) {
	packages := allowed(t)
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
	checked := 0
	for _, f := range goFiles(t) {
		if !product(f) || !slices.Contains(Pure, packageOf(f.dir, packages)) {
			continue
		}
		checked++
		for _, i := range f.ast.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			for prefix, why := range Banned {
				if path == strings.TrimSuffix(prefix, "/") || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/") {
					t.Errorf("%s: a pure package may not import %s: %s", f.path, path, why)
				}
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
					t.Errorf("%s: a pure package may not call time.%s: the instant is an argument", f.fset.Position(n.Pos()), n.Sel.Name)
				}
			case *ast.GoStmt:
				t.Errorf("%s: a pure package starts no goroutine", f.fset.Position(n.Pos()))
			}
			return true
		})
	}
	if checked == 0 {
		t.Fatal("no pure package was checked")
	}
}

func TestFileManners(t *testing.T) {
	packages := map[string]int{}
	for _, f := range goFiles(t) {
		generated := strings.Contains(f.text, "DO NOT EDIT.")
		if !strings.HasPrefix(f.text, "// SPDX-License-Identifier: Apache-2.0\n// Copyright 2026 The Dovetail Authors\n") && !generated {
			t.Errorf("%s: the first two lines must be the SPDX header", f.path)
		}
		if _, ok := packages[f.dir]; !ok {
			packages[f.dir] = 0
		}
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		if f.ast.Doc != nil && strings.TrimSpace(f.ast.Doc.Text()) != "" {
			packages[f.dir]++
			if strings.Contains(f.ast.Doc.Text(), "SPDX") {
				t.Errorf("%s: the licence header has become the package comment: put an empty line after it", f.path)
			}
		}
		switch f.ast.Name.Name {
		case "util", "utils", "common", "helpers", "manager", "pkg":
			t.Errorf("%s: package %s says nothing about what is in it", f.path, f.ast.Name.Name)
		}
	}
	for _, f := range goFiles(t) {
		if !strings.HasSuffix(f.path, "_test.go") && packages[f.dir] != 1 {
			t.Errorf("%s: the package has %d package comments, must have one", f.dir, packages[f.dir])
			packages[f.dir] = 1
		}
	}
}

// Only kube/client makes a client of an API server: a connection that it made to read only can't be gone round.
func TestOneMakerOfClients(t *testing.T) {
	makers := []string{"RESTClientFor", "RESTClientForConfigAndClient", "HTTPClientFor", "NewForConfig", "NewForConfigAndClient", "InClusterConfig"}
	found := 0
	for _, f := range goFiles(t) {
		if !product(f) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(makers, s.Sel.Name) {
				return true
			}
			if f.dir != "internal/kube/client" {
				t.Errorf("%s: calls %s: ask internal/kube/client for a client", f.path, s.Sel.Name)
			}
			found++
			return true
		})
	}
	if found == 0 {
		t.Fatal("kube/client makes no client: the test looks for the wrong names")
	}
}
