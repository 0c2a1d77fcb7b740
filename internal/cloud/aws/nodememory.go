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

// KeepNodeMemory says where what is learned is kept. It comes before the provider is used.
func (p *Provider) KeepNodeMemory(m MemoryStore) { p.nodeMemory.store = m }

func (l *nodeMemory) loadOnce(ctx context.Context) error {
	l.mu.Lock()
	done := l.loaded || l.store == nil
	l.mu.Unlock()
	if done {
		return nil
	}
	known, err := l.store.Load(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loaded {
		return nil
	}
	l.loaded = true
	if l.smallest == nil {
		l.smallest = map[string]int64{}
	}
	for k, v := range known {
		if _, ok := l.smallest[k]; !ok && v > 0 {
			l.smallest[k] = v
		}
	}
	l.changes++
	return nil
}

func (l *nodeMemory) changeCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes
}

func (l *nodeMemory) bytesOf(instanceType, image string) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.smallest[instanceType+" "+image]
	return v, ok
}

// Learn takes in how much memory a node has. Of several nodes of one type and image the smallest counts, so that what was planned
// for the type fits on each.
func (p *Provider) Learn(ctx context.Context, instanceType, image string, bytes int64) error {
	l := &p.nodeMemory
	if instanceType == "" || image == "" || bytes <= 0 {
		return nil
	}
	if err := l.loadOnce(ctx); err != nil {
		return err
	}
	k := instanceType + " " + image
	l.mu.Lock()
	if have, ok := l.smallest[k]; !ok || bytes < have {
		if l.smallest == nil {
			l.smallest = map[string]int64{}
		}
		l.smallest[k] = bytes
		l.changes++
		l.unsaved = true
	}
	all, save := maps.Clone(l.smallest), l.unsaved && l.store != nil
	l.mu.Unlock()
	if !save {
		return nil
	}
	if err := l.store.Store(ctx, all); err != nil {
		return err // it is used already, and kept when it is told again
	}
	l.mu.Lock()
	l.unsaved = !maps.Equal(l.smallest, all)
	l.mu.Unlock()
	return nil
}
