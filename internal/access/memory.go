// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package access

import (
	"sync"
	"time"
)

// memory keeps values until their time is over, at most so many: where there is no place, the one that ends first makes
// way. It is safe for concurrent use.
type memory[K comparable, V any] struct {
	mu   sync.Mutex
	most int
	now  func() time.Time
	kept map[K]remember[V]
}

type remember[V any] struct {
	value V
	until time.Time
}

func newMemory[K comparable, V any](most int, now func() time.Time) *memory[K, V] {
	return &memory[K, V]{most: most, now: now, kept: map[K]remember[V]{}}
}

// get returns what is kept of a key; ok is false when nothing is, or its time is over.
func (m *memory[K, V]) get(key K) (v V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.kept[key]
	if !ok || !m.now().Before(r.until) {
		return v, false
	}
	return r.value, true
}

// put keeps a value for so long.
func (m *memory[K, V]) put(key K, v V, keep time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if _, have := m.kept[key]; !have && len(m.kept) >= m.most {
		m.makePlace(now)
	}
	m.kept[key] = remember[V]{v, now.Add(keep)}
}

// makePlace forgets all whose time is over, or else the one that ends first.
func (m *memory[K, V]) makePlace(now time.Time) {
	var first K
	var end time.Time
	for k, r := range m.kept {
		if !now.Before(r.until) {
			delete(m.kept, k)
		} else if end.IsZero() || r.until.Before(end) {
			first, end = k, r.until
		}
	}
	if len(m.kept) >= m.most {
		delete(m.kept, first)
	}
}
