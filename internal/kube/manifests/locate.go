// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
)

// A place in a document is a path of keys (string) and indexes (int).

// parsePath reads a.b[0].c[some/key].
func parsePath(s string) []any {
	var out []any
	for s != "" {
		if s[0] == '[' {
			in, rest, ok := strings.Cut(s[1:], "]")
			if !ok {
				return append(out, s)
			}
			if n, err := strconv.Atoi(in); err == nil {
				out = append(out, n)
			} else {
				out = append(out, in)
			}
			s = strings.TrimPrefix(rest, ".")
			continue
		}
		end := strings.IndexAny(s, ".[")
		if end < 0 {
			return append(out, s)
		}
		out = append(out, s[:end])
		s = s[end:]
		s = strings.TrimPrefix(s, ".")
	}
	return out
}

func pathText(path []any) string {
	var b strings.Builder
	for _, p := range path {
		switch p := p.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", p)
		case string:
			switch {
			case strings.ContainsAny(p, "./"):
				b.WriteString("[" + p + "]")
			case b.Len() > 0:
				b.WriteString("." + p)
			default:
				b.WriteString(p)
			}
		}
	}
	return b.String()
}

// underItems is how much of a path leads to the object: a list's items are objects of their own.
func underItems(path []any) int {
	n := 0
	for n+1 < len(path) && path[n] == "items" {
		if _, ok := path[n+1].(int); !ok {
			break
		}
		n += 2
	}
	return n
}

// wrong returns an error for a field: its location in the file, and its value. A missing field has the location of the
// nearest object around it.
func (r *reader) wrong(path []any, object, reason string) error {
	e := &Error{File: r.file, Line: r.line, Object: object, Field: pathText(path[underItems(path):]), Reason: reason}
	root := r.tree()
	if root == nil {
		return e
	}
	line, node, found := root.Line, root, 0
	for _, p := range path {
		l, next := child(node, p)
		if next == nil {
			break
		}
		line, node = l, next
		found++
	}
	if e.Line += line - 1; found == len(path) && found > underItems(path) {
		if node.Kind == yamlnode.ScalarNode {
			e.Line = r.line + node.Line - 1
		}
		e.Value = valueText(node)
	}
	return e
}

// tree returns the document with line numbers; nil if the parser with line numbers cannot read it.
func (r *reader) tree() *yamlnode.Node {
	var doc yamlnode.Node
	if yamlnode.Unmarshal(r.text, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	return doc.Content[0]
}

// child is an element and the line it begins on, which for a field is its key's.
func child(n *yamlnode.Node, at any) (int, *yamlnode.Node) {
	if n.Kind == yamlnode.AliasNode {
		n = n.Alias
	}
	switch at := at.(type) {
	case string:
		if n.Kind == yamlnode.MappingNode {
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == at {
					return n.Content[i].Line, n.Content[i+1]
				}
			}
		}
	case int:
		if n.Kind == yamlnode.SequenceNode && at < len(n.Content) {
			return n.Content[at].Line, n.Content[at]
		}
	}
	return 0, nil
}

const maxValueText = 80

func valueText(n *yamlnode.Node) string {
	if n.Kind == yamlnode.ScalarNode {
		if n.Tag == "!!str" {
			return cut(strconv.Quote(n.Value))
		}
		return cut(n.Value)
	}
	var v any
	if n.Decode(&v) != nil {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return cut(string(b))
}

func cut(s string) string {
	if len(s) > maxValueText {
		return s[:maxValueText] + "…"
	}
	return s
}

var unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)

var duplicateField = regexp.MustCompile(`duplicate field "([^"]+)"`)

var wrongType = regexp.MustCompile(`cannot unmarshal (\w+)(?: [^ ]+)? into Go .*?of type (\S+)`)

// undecodable says which value of an object keeps it from being decoded. Decoders name Go types and not always a field, so the value
// is found by trying: the object is cut off after more and more of its values, in the order they are written; the first one with
// which decoding fails is the one, or, where another value in its place changes nothing, the object or list around it.
func (r *reader) undecodable(data []byte, path []any, object string, decode func([]byte) error, failure error) error {
	text := failure.Error()
	if f := unknownField.FindStringSubmatch(text); f != nil {
		return r.wrong(append(slices.Clip(path), parsePath(f[1])...), object, "unknown field; correct or remove it")
	}
	if f := duplicateField.FindStringSubmatch(text); f != nil {
		return r.wrong(append(slices.Clip(path), parsePath(f[1])...), object, "set twice; remove one")
	}
	var whole map[string]any
	root := r.tree()
	for _, p := range path {
		if root != nil {
			_, root = child(root, p)
		}
	}
	if root == nil || json.Unmarshal(data, &whole) != nil {
		return r.wrong(path, object, plain(failure))
	}
	leaves := leavesOf(root, nil, nil)
	fails := func(n int, blank []any) error {
		var part any = map[string]any{}
		for _, f := range []string{"apiVersion", "kind"} {
			if v, ok := whole[f]; ok {
				part = put(part, []any{f}, v)
			}
		}
		for _, l := range leaves[:n] {
			if v, ok := get(whole, l); ok {
				part = put(part, l, v)
			}
		}
		if blank != nil {
			part = put(part, blank, nil)
		}
		b, err := json.Marshal(part)
		if err != nil {
			return nil
		}
		return decode(b)
	}
	n := sort.Search(len(leaves), func(i int) bool { return fails(i+1, nil) != nil })
	if n == len(leaves) {
		return r.wrong(path, object, plain(failure))
	}
	at := leaves[n]
	first := fails(n+1, nil)
	for len(at) > 1 {
		other := fails(n+1, at)
		if other == nil || other.Error() != first.Error() {
			break
		}
		at = at[:len(at)-1]
	}
	return r.wrong(append(slices.Clip(path), at...), object, plain(first))
}

// leavesOf are the paths of all values that hold no others, in the order they are written.
func leavesOf(n *yamlnode.Node, path []any, out [][]any) [][]any {
	if n.Kind == yamlnode.AliasNode {
		n = n.Alias
	}
	if len(n.Content) == 0 || len(path) > 64 {
		return append(out, slices.Clone(path))
	}
	for i := 0; i < len(n.Content); i++ {
		if n.Kind == yamlnode.MappingNode {
			out = leavesOf(n.Content[i+1], append(slices.Clip(path), n.Content[i].Value), out)
			i++
		} else {
			out = leavesOf(n.Content[i], append(slices.Clip(path), i), out)
		}
	}
	return out
}

func get(v any, path []any) (any, bool) {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				return nil, false
			}
			if v, ok = m[p]; !ok {
				return nil, false
			}
		case int:
			l, ok := v.([]any)
			if !ok || p >= len(l) {
				return nil, false
			}
			v = l[p]
		}
	}
	return v, true
}

// put sets a value, creating missing parents, and returns the root.
func put(in any, path []any, v any) any {
	if len(path) == 0 {
		return v
	}
	switch p := path[0].(type) {
	case string:
		m, ok := in.(map[string]any)
		if !ok {
			m = map[string]any{}
		}
		m[p] = put(m[p], path[1:], v)
		return m
	case int:
		l, ok := in.([]any)
		if !ok {
			l = []any{}
		}
		for len(l) <= p {
			l = append(l, nil)
		}
		l[p] = put(l[p], path[1:], v)
		return l
	}
	return in
}

// plain says a decoder's error without the names of Go.
func plain(err error) string {
	text := err.Error()
	if f := wrongType.FindStringSubmatch(text); f != nil {
		return "need " + typeWord(f[2]) + ", have " + typeWord(f[1])
	}
	for e := errors.Unwrap(err); e != nil; e = errors.Unwrap(e) {
		text = e.Error()
	}
	switch {
	case strings.Contains(text, "quantities must match"), strings.Contains(text, "unable to parse quantity"):
		return "need a quantity such as 500m, 2 or 1Gi"
	case strings.Contains(text, "invalid duration"), strings.Contains(text, "in duration"):
		return "need a duration such as 1h30m"
	case strings.Contains(text, "parsing time"):
		return "need a time such as 2026-01-31T12:00:00Z"
	}
	return strings.TrimPrefix(text, "json: ")
}

func typeWord(t string) string {
	switch t = strings.TrimPrefix(t, "*"); {
	case strings.HasPrefix(t, "int"), strings.HasPrefix(t, "uint"):
		return "a whole number"
	case t == "number", strings.HasPrefix(t, "float"):
		return "a number"
	case t == "bool":
		return "true or false"
	case t == "array", strings.HasPrefix(t, "[]"):
		return "a list"
	case t == "string":
		return "a string"
	}
	if i := strings.LastIndexByte(t, '.'); i >= 0 {
		switch t = t[i+1:]; t {
		case "Time", "MicroTime":
			return "a time such as 2026-01-31T12:00:00Z"
		case "Duration":
			return "a duration such as 1h30m"
		}
		if strings.HasSuffix(t, "Type") || strings.HasSuffix(t, "Policy") || strings.HasSuffix(t, "Operator") || strings.HasSuffix(t, "Effect") ||
			strings.HasSuffix(t, "Action") || strings.HasSuffix(t, "Mode") || t == "Protocol" || t == "UID" {
			return "a string"
		}
	}
	return "an object"
}
