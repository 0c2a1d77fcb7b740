// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

type parser struct {
	name string
	data []byte
	at   map[string]int64 // offset of each type, by name
}

// line counts from 1.
func (p *parser) line(offset int64) int {
	return 1 + bytes.Count(p.data[:min(max(offset, 0), int64(len(p.data)))], []byte{'\n'})
}

func (p *parser) errorf(offset int64, format string, args ...any) error {
	return fmt.Errorf("catalog %s line %d: %w", p.name, p.line(offset), fmt.Errorf(format, args...))
}

// jsonError says where and what. base is the offset that the error's own offset counts from.
func (p *parser) jsonError(base int64, object string, err error) error {
	if object != "" {
		object += ": "
	}
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return p.errorf(base+syntax.Offset, "%snot JSON: %s", object, syntax)
	case errors.As(err, &typed):
		if typed.Field != "" {
			object += typed.Field + ": "
		}
		return p.errorf(base+typed.Offset, "%sneed %s, have %s", object, kindName(typed.Type.Kind().String()), kindName(typed.Value))
	}
	return p.errorf(base, "%s%s", object, err)
}

func kindName(k string) string {
	switch k {
	case "int64", "float64", "int":
		return "a number"
	case "slice", "array":
		return "a list"
	case "map", "struct", "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	return "a " + k
}

// wrong returns an error for a field of an object with its value.
func wrong(field, value, format string, args ...any) error {
	if value != "" {
		field += ": " + value
	}
	return fmt.Errorf("%s: %w", field, fmt.Errorf(format, args...))
}

// each decodes the elements of the list the decoder is in, and names each one in its errors.
func each[T any](p *parser, dec *json.Decoder, list string, add func(T) (Type, error), nameOf func(T) string) ([]Type, error) {
	var out []Type
	for i := 0; dec.More(); i++ {
		at := dec.InputOffset()
		for at < int64(len(p.data)) && strings.IndexByte(", \t\r\n", p.data[at]) >= 0 {
			at++
		}
		object := fmt.Sprintf("%s[%d]", list, i)
		var raw T
		err := dec.Decode(&raw)
		if n := nameOf(raw); n != "" {
			object += fmt.Sprintf(" %q", n)
		}
		if err != nil {
			return nil, p.jsonError(at, object, err)
		}
		t, err := add(raw)
		if err == nil {
			err = t.check()
		}
		if before, ok := p.at[t.Name]; ok && err == nil {
			err = wrong("name", "", "already used on line %d", p.line(before))
		}
		if err != nil {
			return nil, p.jsonError(at, object, err)
		}
		p.at[t.Name] = at
		out = append(out, t)
	}
	if len(out) == 0 {
		return nil, p.errorf(dec.InputOffset(), "%s: there are no instance types", list)
	}
	return out, nil
}

// check holds what both formats must.
func (t *Type) check() error {
	for _, r := range slices.Sorted(maps.Keys(t.Allocatable)) {
		if have, of := t.Allocatable[r], t.Capacity[r]; have > of {
			return wrong("allocatable."+r, FormatQuantity(r, have), "more than the machine's %s", FormatQuantity(r, of))
		}
	}
	for _, r := range []string{"cpu", "memory", "pods"} {
		if t.Allocatable[r] <= 0 {
			return wrong("allocatable."+r, FormatQuantity(r, t.Allocatable[r]), "must be more than 0")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(t.Labels)) {
		if !isLabelKey(k) {
			return wrong("labels", fmt.Sprintf("%q", k), "not a label key")
		}
		if err := checkLabelValue("labels."+k, t.Labels[k]); err != nil {
			return err
		}
	}
	seen := map[[2]string]bool{}
	for _, o := range t.Offerings {
		k := [2]string{o.Zone, o.CapacityType}
		if seen[k] {
			return wrong("offerings", o.Zone+" "+o.CapacityType, "offered twice")
		}
		seen[k] = true
	}
	return nil
}

func checkLabelValue(field, v string) error {
	if v != "" && !isName(v) {
		return wrong(field, fmt.Sprintf("%q", v), "not a label value: at most 63 letters, digits, '-', '_' or '.', starting and ending with a letter or digit")
	}
	return nil
}

// isName reports whether s can be a label value, or a label key without its domain.
func isName(s string) bool {
	if s == "" || len(s) > 63 || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// isLabelKey reports whether s can be a label key or the name of a resource.
func isLabelKey(s string) bool {
	domain, name, ok := strings.Cut(s, "/")
	if !ok {
		return isName(s)
	}
	if domain == "" || len(domain) > 253 {
		return false
	}
	for _, part := range strings.Split(domain, ".") {
		if !isName(part) || strings.ToLower(part) != part || strings.Contains(part, "_") {
			return false
		}
	}
	return isName(name)
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// checkName wants a name that can be a label value and is not empty.
func checkName(field, v string) error {
	if v == "" {
		return wrong(field, "", "missing")
	}
	return checkLabelValue(field, v)
}

func checkArch(field, v string) error {
	switch v {
	case "x86_64":
		return wrong(field, fmt.Sprintf("%q", v), "Kubernetes calls it amd64")
	case "aarch64":
		return wrong(field, fmt.Sprintf("%q", v), "Kubernetes calls it arm64")
	}
	return checkName(field, v)
}

// text is a JSON value as written, strings without quotes. It accepts any value, so that the code for the field can
// report an invalid one.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	switch {
	case bytes.Equal(b, []byte("null")):
		return nil
	case b[0] == '"':
		return json.Unmarshal(b, (*string)(t))
	}
	*t = text(b)
	return nil
}

func amounts(field string, in map[string]text) (Amounts, error) {
	out := make(Amounts, len(in))
	for _, r := range slices.Sorted(maps.Keys(in)) {
		v, err := ParseQuantity(r, string(in[r]))
		if err != nil {
			return nil, wrong(field+"."+r, fmt.Sprintf("%q", string(in[r])), "%s", err)
		}
		if !isLabelKey(r) {
			return nil, wrong(field, fmt.Sprintf("%q", r), "not a resource name")
		}
		out[r] = v
	}
	return out, nil
}

// labelsOf are the labels every type has.
func labelsOf(name, arch, os, region string) model.Labels {
	l := model.Labels{model.LabelInstanceType: name, model.LabelArch: arch, model.LabelOS: os}
	if region != "" {
		l[model.LabelRegion] = region
	}
	return l
}
