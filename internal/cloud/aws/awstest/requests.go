// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
)

// dryRun answers a call that only asks whether it may be made. Faults have refused it already if it may not.
func dryRun(asked *bool) error {
	if asked != nil && *asked {
		return &wire.Error{Code: "DryRunOperation", Message: "Request would have succeeded, but DryRun flag is set.", Status: http.StatusPreconditionFailed}
	}
	return nil
}

// pattern matches a value as filters do: * stands for anything, ? for one character.
func pattern(p, value string) bool {
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(value) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == value[j]):
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(p[i:], "*") == ""
}

// filtered reports whether an object passes all filters. values gives what it has under a filter's name, and false for a name that
// the call does not know.
func filtered(filters []shapes.EC2Filter, tags map[string]string, values func(name string) ([]string, bool)) (bool, error) {
	pass := true
	for _, f := range filters {
		var have []string
		key, isTag := strings.CutPrefix(f.Name, "tag:")
		switch {
		case isTag:
			if v, ok := tags[key]; ok {
				have = []string{v}
			}
		case f.Name == "tag-key":
			for k := range tags {
				have = append(have, k)
			}
		default:
			var known bool
			if have, known = values(f.Name); !known {
				return false, wire.Refuse("InvalidParameterValue", "The filter '%s' is invalid", f.Name)
			}
		}
		if len(f.Values) == 0 {
			return false, wire.Refuse("InvalidParameterValue", "The filter '%s' needs a value", f.Name)
		}
		found := false
		for _, want := range f.Values {
			for _, h := range have {
				found = found || pattern(want, h)
			}
		}
		pass = pass && found
	}
	return pass, nil
}

func tagMap(tags []shapes.EC2Tag) map[string]string {
	m := make(map[string]string, len(tags))
	for _, t := range tags {
		m[t.Key] = t.Value
	}
	return m
}

func tagList(tags map[string]string) []shapes.EC2Tag {
	out := make([]shapes.EC2Tag, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, shapes.EC2Tag{Key: k, Value: tags[k]})
	}
	return out
}

// page cuts a list, sorted by key, to what comes after a token, at most max, or limit where max is nil.
func page[T any](items []T, key func(T) string, token string, asked *int64, limit int) ([]T, string) {
	n := limit
	if asked != nil && int(*asked) < n {
		n = int(*asked)
	}
	start := 0
	for token != "" && start < len(items) && key(items[start]) <= token {
		start++
	}
	items = items[start:]
	if n <= 0 || len(items) <= n {
		return items, ""
	}
	return items[:n], key(items[n-1])
}

func is(b *bool) bool { return b != nil && *b }

func pointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Truncate(time.Millisecond)) // AWS has no finer times
}
