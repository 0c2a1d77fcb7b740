// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// table is the objects of one kind by key. It keeps the list that it last made of them, so that Snapshots share it
// until something changes.
type table[T any] struct {
	rows    map[string]T
	changed bool
	compare func(a, b T) int
	listed  []T
}

func newTable[T any](compare func(a, b T) int) table[T] {
	return table[T]{rows: map[string]T{}, changed: true, compare: compare}
}

func (t *table[T]) set(key string, row T) {
	t.rows[key], t.changed = row, true
}

func (t *table[T]) delete(key string) {
	delete(t.rows, key)
	t.changed = true
}

// list returns the objects in order. It must not be changed.
func (t *table[T]) list() []T {
	if t.changed {
		t.listed, t.changed = sorted(t.rows, t.compare), false
	}
	return t.listed
}

// sorted returns the values of a map in order.
func sorted[T any](m map[string]T, compare func(a, b T) int) []T {
	out := make([]T, 0, len(m))
	for _, v := range m {
		out = append(out, v)
	}
	slices.SortFunc(out, compare)
	return out
}

// patched returns a list sorted by name with some of its items, those of these names, as now gives them; nil: it is
// gone. The list itself stays as it was. The cost beyond a copy is that of what changed.
func patched[T any](list []*T, names map[string]bool, name func(*T) string, now func(string) *T) []*T {
	out := slices.Clone(list)
	removed := false
	var added []*T
	for n := range names {
		x := now(n)
		i, ok := slices.BinarySearchFunc(list, n, func(y *T, n string) int { return strings.Compare(name(y), n) })
		switch {
		case ok:
			out[i], removed = x, removed || x == nil
		case x != nil:
			added = append(added, x)
		}
	}
	if removed {
		out = slices.DeleteFunc(out, func(x *T) bool { return x == nil })
	}
	if len(added) == 0 {
		return out
	}
	slices.SortFunc(added, func(a, b *T) int { return strings.Compare(name(a), name(b)) })
	merged := make([]*T, 0, len(out)+len(added))
	for _, x := range out {
		for len(added) > 0 && name(added[0]) < name(x) {
			merged, added = append(merged, added[0]), added[1:]
		}
		merged = append(merged, x)
	}
	return append(merged, added...)
}

// namespaceTable is the labels of the namespaces, and which of them are being deleted. Like a table it keeps what it last handed
// out until something changes.
type namespaceTable struct {
	labels  map[string]model.Labels // by name
	changed bool
	listed  map[string]model.Labels
	ending  map[string]time.Time // since when a namespace is being deleted; replaced, never changed
}

func (t *namespaceTable) set(name string, l model.Labels) {
	t.labels[name], t.changed = l, true
}

// setEnding notes since when a namespace is being deleted, and reports whether that is new. Zero: it is not.
func (t *namespaceTable) setEnding(name string, since time.Time) bool {
	if t.ending[name].Equal(since) {
		return false
	}
	t.ending = maps.Clone(t.ending)
	if since.IsZero() {
		delete(t.ending, name)
		return false
	}
	if t.ending == nil {
		t.ending = map[string]time.Time{}
	}
	t.ending[name] = since
	return true
}

func (t *namespaceTable) delete(name string) {
	delete(t.labels, name)
	t.setEnding(name, time.Time{})
	t.changed = true
}

// list returns the labels by namespace. They must not be changed.
func (t *namespaceTable) list() map[string]model.Labels {
	if t.changed {
		t.listed, t.changed = maps.Clone(t.labels), false
	}
	return t.listed
}
