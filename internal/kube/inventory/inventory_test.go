// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package inventory

import (
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/compatibility/pods.md")

// allFields are the fields of the Go types.
func allFields() (out []Field) {
	for _, k := range Kinds {
		for _, path := range Fields(reflect.TypeOf(k)) {
			out = append(out, Field{KindOf(k), path})
		}
	}
	return out
}

// TestInventory compares fields.txt with the API types: each field has one line, and each line is of a field.
func TestInventory(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	fields := allFields()
	if len(fields) < 1500 {
		t.Fatalf("only %d fields found: the walk over the types is broken", len(fields))
	}
	if p := Problems(all, fields); len(p) > 0 {
		t.Errorf("%d problems:\n%s", len(p), strings.Join(p, "\n"))
	}
}

// TestInventoryGoesStale shows that the comparison finds what it is for.
func TestInventoryGoesStale(t *testing.T) {
	const text = "heeded a\ndoes this\nshown by TestX\nPod spec.old\nPod spec.a\n\nirrelevant b\nPod spec.b.*\nPod spec.a\n"
	all, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	have := Problems(all, []Field{{"Pod", "spec.a"}, {"Pod", "spec.b.c"}, {"Pod", "spec.new"}})
	want := []string{"no line: Pod spec.new", "no such field: Pod spec.old", "two lines: Pod spec.a"}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
	for _, bad := range []string{"heeded a\ndoes this\nshown by TestX\nPod spec.*\n", "heeded a\nPod spec.a\n", "heeded a\ndoes b\nshown by c\n", "ignored a\nPod spec.a\n"} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("accepted: %q", bad)
		}
	}
}

// The tables of docs/compatibility/pods.md stand between these lines.
const page, begin, end = "../../../docs/compatibility/pods.md", "<!-- generated from internal/kube/inventory/fields.txt -->\n", "<!-- end of generated tables -->\n"

// TestCompatibility compares the tables in docs/compatibility/pods.md with the inventory.
func TestCompatibility(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	have, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks the lines %q and %q", page, begin, end)
	}
	switch want := Markdown(all); {
	case have == want:
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the tables are not those of fields.txt: go test ./internal/kube/inventory -update")
	}
}
