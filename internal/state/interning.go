// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"iter"
	"slices"
	"sync"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// ResourceTable interns the names of resources: it assigns dimensions in order of first use, after the fixed dimensions. Unlike
// State, it is safe for concurrent use, because objects are translated concurrently.
type ResourceTable struct {
	mu    sync.Mutex
	index map[string]model.Dim
	names []string
}

// NewResourceTable returns a table with the fixed dimensions.
func NewResourceTable() *ResourceTable {
	t := &ResourceTable{index: map[string]model.Dim{}, names: model.FixedNames()}
	for i, n := range t.names {
		t.index[n] = model.Dim(i)
	}
	return t
}

// Dim returns the dimension of a resource, and adds it if it is new.
func (t *ResourceTable) Dim(name string) model.Dim {
	t.mu.Lock()
	defer t.mu.Unlock()
	d, ok := t.index[name]
	if !ok {
		d = model.Dim(len(t.names))
		t.index[name] = d
		t.names = append(t.names, name)
	}
	return d
}

// mostNames is how many names pods may bring the table to: every class has room for each of them.
const mostNames = 1024

// DimOfPod is Dim for a resource that a pod requests. Creators of pods can invent names, so a new name is added only while the
// table has fewer than mostNames; otherwise it returns false. Names of nodes and instance types are always added, so a pod that requests
// only those is never refused.
func (t *ResourceTable) DimOfPod(name string) (model.Dim, bool) {
	t.mu.Lock()
	d, ok := t.index[name]
	full := len(t.names) >= mostNames
	t.mu.Unlock()
	switch {
	case ok:
		return d, true
	case full:
		return 0, false
	}
	return t.Dim(name), true
}

// Names returns the names by dimension. The result is read-only and does not grow.
func (t *ResourceTable) Names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clip(t.names)
}

// classTable interns pod classes by key, so that equal classes are one pointer.
type classTable map[string]*model.Class

// intern returns the class of this key that is in the table, or puts this one there. Before the table grows far beyond
// the number of objects that have a class it forgets all that are not in use: every StatefulSet's pod and every rollout
// has one of its own.
func (t classTable) intern(c *model.Class, objects int, inUse iter.Seq[*model.Class]) *model.Class {
	if have, ok := t[c.Key]; ok {
		return have
	}
	if len(t) > 1000+2*objects {
		clear(t)
		for used := range inUse {
			t[used.Key] = used
		}
	}
	t[c.Key] = c
	return c
}
