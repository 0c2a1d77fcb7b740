// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"maps"
	"sync"
)

// MemoryStore is where what was learned outlives the process: bytes by "type image".
type MemoryStore interface {
	Load(ctx context.Context) (map[string]int64, error)
	Store(ctx context.Context, learned map[string]int64) error
}

// nodeMemory is how much memory nodes of a type and image really had.
type nodeMemory struct {
	store MemoryStore // nil: nothing outlives the process

	mu       sync.Mutex
	smallest map[string]int64
	loaded   bool
	changes  int
	unsaved  bool
}

func (m *nodeMemory) loadOnce(ctx context.Context) error {
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

func (m *nodeMemory) changeCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes
}

func (m *nodeMemory) bytesOf(instanceType, image string) (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.smallest[instanceType+" "+image]
	return v, ok
}

// learn takes in how much memory a node has. Of several nodes of one type and image the smallest counts, so that what was planned
// for the type fits on each.
func (m *nodeMemory) learn(ctx context.Context, instanceType, image string, bytes int64) error {
	if instanceType == "" || image == "" || bytes <= 0 {
		return nil
	}
	if err := m.loadOnce(ctx); err != nil {
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

// estimateMemory is what a node is expected to have of a machine's memory before one was seen: what the hypervisor and the kernel
// keep is nowhere published.
func estimateMemory(t *typeInfo, overhead float64) int64 {
	total := t.memoryMiB
	if t.arch == "arm64" {
		total -= 64 // contiguous memory that the kernel sets aside
	}
	total *= mib
	kept := int64(float64(total)*overhead+float64(mib)-1) / mib * mib
	return total - kept
}
