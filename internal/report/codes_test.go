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
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

// filled returns a Detail of the same type that has a value in each field but flags, and those that are there instead of another.
func filled(d plan.Detail) plan.Detail {
	if d == nil {
		return nil
	}
	v := reflect.New(reflect.TypeOf(d)).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if name := v.Type().Field(i).Name; !f.CanInterface() || slices.Contains([]string{"Replacing", "GivenUp", "Missing", "TooMany", "ExcludedBy"}, name) && v.Type() != reflect.TypeFor[plan.OfNodeMissing]() || v.Type() == reflect.TypeFor[plan.OfAborted]() && name == "Until" {
			continue
		}
		switch x := f.Addr().Interface().(type) {
		case *plan.ResourceName:
			*x = "cpu"
		case *time.Time:
			*x = time.Unix(1_800_000_000, 0)
		case *plan.UnfitCause:
			*x = plan.UnfitVolume
		case *plan.NotSchedulableCause:
			*x = plan.PriorityCause
		case *plan.Rule:
			*x = "LABEL In [A B]"
		case *plan.Rules:
			*x = "LABEL In [A B]"
		default:
			switch {
			case f.CanInt():
				f.SetInt(3)
			case f.Kind() == reflect.String:
				f.SetString(strings.ToUpper(v.Type().Field(i).Name))
			}
		}
	}
	return v.Interface().(plan.Detail)
}

// TestEveryCode holds the sentence of every reason code, so that all of them can be read at a glance, in
// testdata/sentences.golden. Texts that a reason may have are written in capitals, numbers are 3.
func TestEveryCode(t *testing.T) {
	const file = "testdata/sentences.golden"
	var b strings.Builder
	all := codes(t)
	if len(all) < 80 {
		t.Fatalf("%d codes found: the constants of plan.Code have moved", len(all))
	}
	for _, c := range all {
		r := plan.Reason{Code: c, Subject: "pod/NAMESPACE/NAME", Detail: filled(plan.DetailFor(c))}
		back := plan.ReadReason(c, r.Fields())
		if back.Fields() != r.Fields() || r.Detail != nil && Sentence(back) != Sentence(r) {
			t.Errorf("%s is written as %+v, and read as %+v: %s", c, r.Fields(), back.Fields(), Sentence(back))
		}
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

// TestUnfitStandsAlone holds that what a node has instead of what a pod needs is understood without the rest of the sentence: the reason of an
// unused launch says nothing else.
func TestUnfitStandsAlone(t *testing.T) {
	for cause := plan.UnfitGone; cause <= plan.UnfitSkew; cause++ {
		r := plan.Reason{Code: plan.BindingUnfit, Detail: plan.OfBindingUnfit{Filter: plan.FilterVolumes, Cause: cause, What: "WHAT", Pod: "pod/NAMESPACE/NAME", Need: 2, Have: 1}}
		if said := r.Summary(); len(strings.Fields(said)) < 4 && !strings.Contains(said, "WHAT") && !strings.Contains(said, "NAME") {
			t.Errorf("cause %d is told as %q", cause, said)
		}
	}
}
