// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package wire

import (
	"fmt"
	"net/url"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"
)

// param is a form as the tree that its keys spell: Filter.1.Value.2.
type param struct {
	value string
	set   bool
	under map[string]*param
}

func decodeForm(form url.Values, in reflect.Type) (any, error) {
	root := &param{under: map[string]*param{}}
	for key, values := range form {
		at := root
		for _, part := range strings.Split(key, ".") {
			next := at.under[part]
			if next == nil {
				next = &param{under: map[string]*param{}}
				at.under[part] = next
			}
			at = next
		}
		at.value, at.set = values[0], true
	}
	v := reflect.New(in)
	return v.Interface(), decodeParam(root, v.Elem(), "")
}

// decodeParam fills v from a parameter, and refuses what it has no place for.
func decodeParam(p *param, v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeParam(p, v.Elem(), path)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			t, err := time.Parse(time.RFC3339, p.value)
			if err != nil {
				return Refuse("InvalidParameterValue", "Value (%s) for parameter %s is invalid. It must be an ISO 8601 date", p.value, path)
			}
			v.Set(reflect.ValueOf(t))
			return nil
		}
		known := map[string]bool{}
		for i := range v.NumField() {
			// Shape.member is the wire's name of a list of the query protocol; in EC2 lists are flat.
			name, member, isList := strings.Cut(v.Type().Field(i).Tag.Get("in"), ".")
			known[name] = true
			q := p.under[name]
			if q != nil && isList && !q.set {
				if q = q.under[member]; q == nil {
					return Refuse("MalformedQueryString", "%s: need %s.%s.N", join(path, name), join(path, name), member)
				}
			}
			if q != nil {
				if err := decodeParam(q, v.Field(i), join(path, name)); err != nil {
					return err
				}
			}
		}
		for name := range p.under {
			if !known[name] {
				return Refuse("UnknownParameter", "The parameter %s is not recognized", join(path, name))
			}
		}
		return nil
	case reflect.Slice:
		if p.set { // an empty list of the query protocol
			return nil
		}
		index := make([]int, 0, len(p.under))
		for k := range p.under {
			n, err := strconv.Atoi(k)
			if err != nil || n < 1 {
				return Refuse("UnknownParameter", "The parameter %s is not recognized", join(path, k))
			}
			index = append(index, n)
		}
		sort.Ints(index)
		list := reflect.MakeSlice(v.Type(), len(index), len(index))
		for i, n := range index {
			if err := decodeParam(p.under[strconv.Itoa(n)], list.Index(i), join(path, strconv.Itoa(n))); err != nil {
				return err
			}
		}
		v.Set(list)
		return nil
	}
	if len(p.under) > 0 || !p.set {
		return Refuse("UnknownParameter", "The parameter %s has the wrong form", path)
	}
	bad := func() error {
		return Refuse("InvalidParameterValue", "Value (%s) for parameter %s is invalid", p.value, path)
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(p.value)
	case reflect.Bool:
		b, err := strconv.ParseBool(p.value)
		if err != nil {
			return bad()
		}
		v.SetBool(b)
	case reflect.Int64:
		n, err := strconv.ParseInt(p.value, 10, 64)
		if err != nil {
			return bad()
		}
		v.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(p.value, 64)
		if err != nil {
			return bad()
		}
		v.SetFloat(f)
	default:
		return fmt.Errorf("parameter %s: no way to read a %s", path, v.Type())
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
