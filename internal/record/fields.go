// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

//go:embed fields.txt
var fieldsText string

// field is one field of an object: a leaf, or a struct with fields below it.
type field struct {
	of    treatment // empty: a struct
	below map[string]*field
}

// allowed is the allow-list of fields.txt.
type allowed struct {
	kinds       map[string]*field
	annotations map[string]treatment
}

// fields returns the allow-list.
var fields = sync.OnceValue(func() *allowed {
	out, err := parseFields(fieldsText)
	if err != nil {
		panic("internal/record/fields.txt: " + err.Error()) // a mistake in that file, which tests find
	}
	return out
})

func parseFields(text string) (*allowed, error) {
	out := &allowed{kinds: map[string]*field{}, annotations: map[string]treatment{}}
	type line struct {
		of         treatment
		kind, path string
	}
	var lines []line
	every := map[string]treatment{}
	for raw := range strings.SplitSeq(text, "\n") {
		if raw == "" || strings.HasPrefix(raw, "#") {
			continue
		}
		words := strings.Fields(raw)
		if len(words) != 3 {
			return nil, fmt.Errorf("%q: need a treatment, a kind and a path", raw)
		}
		for _, kind := range expand(words[1]) {
			for _, path := range expand(words[2]) {
				switch {
				case words[0] == "annotation":
					out.annotations[path] = treatment(kind)
				case kind == "*":
					every[path] = treatment(words[0])
				default:
					lines = append(lines, line{treatment(words[0]), kind, path})
				}
			}
		}
	}
	for _, l := range lines {
		root := out.kinds[l.kind]
		if root == nil {
			root = &field{below: map[string]*field{}}
			out.kinds[l.kind] = root
			for path, of := range every {
				root.add(path, of)
			}
		}
		root.add(l.path, l.of)
	}
	// A template has the fields of a Pod, which is complete only now.
	for _, root := range out.kinds {
		root.share(out.kinds["Pod"].below["spec"])
	}
	return out, nil
}

// add puts a path below a field. Elements of a list have the fields of the list.
func (f *field) add(path string, of treatment) {
	first, rest, more := strings.Cut(path, ".")
	first = strings.TrimSuffix(first, "[]")
	next := f.below[first]
	if next == nil {
		next = &field{below: map[string]*field{}}
		f.below[first] = next
	}
	if !more {
		next.of = of
		return
	}
	next.add(rest, of)
}

// share replaces fields that are a Pod's spec by that.
func (f *field) share(spec *field) {
	for k, below := range f.below {
		if below.of == podSpec {
			f.below[k] = spec
			continue
		}
		below.share(spec)
	}
}

// expand returns the texts that a text with {a,b} stands for.
func expand(s string) []string {
	before, rest, ok := strings.Cut(s, "{")
	if !ok {
		return []string{s}
	}
	inner, after, _ := strings.Cut(rest, "}")
	var out []string
	for part := range strings.SplitSeq(inner, ",") {
		out = append(out, expand(before+part+after)...)
	}
	return out
}

// project returns what a recording keeps of a decoded object, with names replaced if a is not nil.
func project(kind string, object map[string]any, a *Anonymizer) map[string]any {
	root := fields().kinds[kind]
	if root == nil {
		return nil
	}
	p := projection{a: a, kind: kind}
	if a != nil {
		p.look(object)
	}
	out, _ := p.fields(root, object).(map[string]any)
	return out
}

// commandText is the message of a condition that names a disruption command. What else messages say is for people.
var commandText = regexp.MustCompile(`^move [a-z0-9]{10}$`)

// fields returns what is kept of a value with fields below it; nil: nothing.
func (p *projection) fields(f *field, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			below := f.below[k]
			switch {
			case below == nil:
				continue
			case below.of == "":
				x = p.fields(below, x)
			case below.of == annotations:
				x = p.annotations(x)
			case below.of == command:
				if text, _ := x.(string); !commandText.MatchString(text) {
					x = nil
				}
			case p.a != nil:
				x = p.replaced(below.of, k, v, x)
			}
			if x != nil {
				out[k] = x
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(v)) // an element of which nothing is kept still counts
		for _, x := range v {
			out = append(out, p.fields(f, x))
		}
		return out
	}
	return nil
}

// annotations returns those annotations of a map that a recording keeps.
func (p *projection) annotations(v any) any {
	have, _ := v.(map[string]any)
	out := map[string]any{}
	for k, x := range have {
		of, ok := fields().annotations[k]
		switch {
		case !ok || of == plain && p.a != nil:
			continue
		case p.a != nil:
			x = p.replaced(of, k, have, x)
		}
		out[k] = x
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
