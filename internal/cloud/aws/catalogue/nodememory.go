// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalogue

import (
	"context"
	"maps"
	"sync"
)

// MemoryStore is where what was learned of nodes' memory outlives the process: bytes by "instance type image id".
type MemoryStore interface {
	Load(ctx context.Context) (map[string]int64, error)
	Store(ctx context.Context, learned map[string]int64) error
}

// NodeMemory is how much memory nodes of an instance type and an image really had. The zero value knows nothing and
// keeps what it learns in the process.
type NodeMemory struct {
	store MemoryStore // nil: nothing outlives the process

	mu       sync.Mutex
	smallest map[string]int64
	loaded   bool
	changes  int
	unsaved  bool
}

// KeepIn says where what is learned outlives the process. It comes before anything else is called.
func (m *NodeMemory) KeepIn(store MemoryStore) { m.store = store }

// LoadOnce reads what was learned by processes before this one. Once that has worked it does nothing.
func (m *NodeMemory) LoadOnce(ctx context.Context) error {
	m.mu.Lock()
	done := m.loaded || m.store == nil
	m.mu.Unlock()
	if done {
		return nil
	}
	known, err := m.store.Load(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded {
		return nil
	}
	m.loaded = true
	if m.smallest == nil {
		m.smallest = map[string]int64{}
	}
	for k, v := range known {
		if _, ok := m.smallest[k]; !ok && v > 0 {
			m.smallest[k] = v
		}
	}
	m.changes++
	return nil
}

// ChangeCount is a number that grows with every change of what is known.
func (m *NodeMemory) ChangeCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes
}

// BytesOf is the memory that nodes of a type and an image have, in bytes; false: no such node was seen.
func (m *NodeMemory) BytesOf(instanceType, image string) (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.smallest[instanceType+" "+image]
	return v, ok
}

// Learn takes in how many bytes of memory a node has. Of several nodes of one type and image the smallest counts, so
// that what was planned for the type fits on each. On an error it is used already, and is kept when it is told again.
func (m *NodeMemory) Learn(ctx context.Context, instanceType, image string, bytes int64) error {
	if instanceType == "" || image == "" || bytes <= 0 {
		return nil
	}
	if err := m.LoadOnce(ctx); err != nil {
		return err
	}
	k := instanceType + " " + image
	m.mu.Lock()
	if have, ok := m.smallest[k]; !ok || bytes < have {
		if m.smallest == nil {
			m.smallest = map[string]int64{}
		}
		m.smallest[k] = bytes
		m.changes++
		m.unsaved = true
	}
	all, save := maps.Clone(m.smallest), m.unsaved && m.store != nil
	m.mu.Unlock()
	if !save {
		return nil
	}
	if err := m.store.Store(ctx, all); err != nil {
		return err // it is used already, and kept when it is told again
	}
	m.mu.Lock()
	m.unsaved = !maps.Equal(m.smallest, all)
	m.mu.Unlock()
	return nil
}

// EstimateMemory is the memory that a node of a type is expected to have, in bytes, before one was seen. overhead is
// the share that the hypervisor and the kernel keep, which is published nowhere.
func EstimateMemory(t *TypeInfo, overhead float64) int64 {
	total := t.MemoryMiB
	if t.Arch == "arm64" {
		total -= 64 // contiguous memory that the kernel sets aside
	}
	total *= MiB
	kept := int64(float64(total)*overhead+float64(MiB)-1) / MiB * MiB
	return total - kept
}
