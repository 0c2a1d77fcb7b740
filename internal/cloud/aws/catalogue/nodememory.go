// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalogue

import (
	"context"
	"maps"
	"sync"
)

// MemoryStore stores the observed memory of nodes across restarts: bytes by "instance type image id".
type MemoryStore interface {
	Load(ctx context.Context) (map[string]int64, error)
	Store(ctx context.Context, learned map[string]int64) error
}

// NodeMemory is the observed memory of nodes by instance type and image. The zero value is empty and not stored.
type NodeMemory struct {
	store MemoryStore // nil: nothing outlives the process

	mu       sync.Mutex
	smallest map[string]int64
	loaded   bool
	changes  int
	unsaved  bool
}

// KeepIn sets the store. Call it before all other methods.
func (m *NodeMemory) KeepIn(store MemoryStore) { m.store = store }

// LoadOnce loads the values stored by earlier processes. After it has succeeded once, it does nothing.
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

// ChangeCount returns a number that increases with every change of the values.
func (m *NodeMemory) ChangeCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes
}

// BytesOf returns the memory of nodes with this type and image, in bytes; false: no such node was observed.
func (m *NodeMemory) BytesOf(instanceType, image string) (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.smallest[instanceType+" "+image]
	return v, ok
}

// Learn records the memory of a node in bytes. The minimum over all nodes of a type and image is used, so that plans fit
// on each of them. If it returns an error, the value is used but not stored, until the next call.
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

// EstimateMemory returns the expected memory of a node of a type, in bytes, before one was observed. overhead is the
// share used by the hypervisor and the kernel, which is not published.
func EstimateMemory(t *TypeInfo, overhead float64) int64 {
	total := t.MemoryMiB
	if t.Arch == "arm64" {
		total -= 64 // contiguous memory that the kernel sets aside
	}
	total *= MiB
	kept := int64(float64(total)*overhead+float64(MiB)-1) / MiB * MiB
	return total - kept
}
