// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"maps"
	"sync"
)

// Memory is where what was learned outlives the process: bytes by "type image".
type Memory interface {
	Load(ctx context.Context) (map[string]int64, error)
	Store(ctx context.Context, learned map[string]int64) error
}

// learned is how much memory nodes of a type and image really had.
type learned struct {
	store Memory // nil: nothing outlives the process

	mu      sync.Mutex
	bytes   map[string]int64
	loaded  bool
	changes int
	unsaved bool
}

// Remember says where what is learned is kept. It comes before the provider is used.
func (p *Provider) Remember(m Memory) { p.learned.store = m }

func (l *learned) load(ctx context.Context) error {
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
	if l.bytes == nil {
		l.bytes = map[string]int64{}
	}
	for k, v := range known {
		if _, ok := l.bytes[k]; !ok && v > 0 {
			l.bytes[k] = v
		}
	}
	l.changes++
	return nil
}

func (l *learned) version() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes
}

func (l *learned) memory(instanceType, image string) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.bytes[instanceType+" "+image]
	return v, ok
}

// Learn takes in how much memory a node has. Of several nodes of one type and image the smallest counts, so that what was planned
// for the type fits on each.
func (p *Provider) Learn(ctx context.Context, instanceType, image string, bytes int64) error {
	l := &p.learned
	if instanceType == "" || image == "" || bytes <= 0 {
		return nil
	}
	if err := l.load(ctx); err != nil {
		return err
	}
	k := instanceType + " " + image
	l.mu.Lock()
	if have, ok := l.bytes[k]; !ok || bytes < have {
		if l.bytes == nil {
			l.bytes = map[string]int64{}
		}
		l.bytes[k] = bytes
		l.changes++
		l.unsaved = true
	}
	all, save := maps.Clone(l.bytes), l.unsaved && l.store != nil
	l.mu.Unlock()
	if !save {
		return nil
	}
	if err := l.store.Store(ctx, all); err != nil {
		return err // it is used already, and kept when it is told again
	}
	l.mu.Lock()
	l.unsaved = !maps.Equal(l.bytes, all)
	l.mu.Unlock()
	return nil
}
