// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// memo remembers answers by key. One caller fetches what is missing or old, the others wait for it, each as long as its context
// lasts; they never wait for another key.
type memo[T any] struct {
	clock cloud.Clock
	ttl   time.Duration

	mu sync.Mutex
	m  map[string]*answer[T]
}

type answer[T any] struct {
	turn  chan struct{} // holds one token; who has it may look and fetch
	value T
	at    time.Time
	has   bool
	tried time.Time // when a newer one was asked for in vain
	used  time.Time
}

// patience is how long who has an old answer waits for a new one, and how long nobody asks again when that was in vain: all who need the answer
// wait for the one who asks.
const patience = 20 * time.Second

func newMemo[T any](clock cloud.Clock, ttl time.Duration) *memo[T] {
	return &memo[T]{clock: clock, ttl: ttl, m: map[string]*answer[T]{}}
}

// get answers what is known, if it is young enough, and else what fetch says. When fetch fails for want of a reply or a free
// bucket, an old answer stays in use.
func (m *memo[T]) get(ctx context.Context, key string, fetch func(context.Context) (T, error)) (T, error) {
	now := m.clock.Now()
	m.mu.Lock()
	a := m.m[key]
	if a == nil {
		a = &answer[T]{turn: make(chan struct{}, 1)}
		a.turn <- struct{}{}
		m.m[key] = a
		for k, old := range m.m { // what nobody asks for any more
			if k != key && !old.used.IsZero() && now.Sub(old.used) > 2*m.ttl+time.Hour {
				delete(m.m, k)
			}
		}
	}
	a.used = now
	m.mu.Unlock()
	var none T
	select {
	case <-a.turn:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	defer func() { a.turn <- struct{}{} }()
	at := m.clock.Now()
	if a.has && (at.Sub(a.at) < m.ttl || at.Sub(a.tried) < patience) {
		return a.value, ctx.Err()
	}
	limited := ctx
	if a.has {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	v, err := fetch(limited)
	if err != nil {
		kind := cloud.KindOf(failed(ctx, "", "", err))
		if a.has && ctx.Err() == nil && (kind == cloud.Throttled || kind == cloud.Unknown) {
			a.tried = m.clock.Now()
			return a.value, nil
		}
		return none, err
	}
	a.value, a.at, a.has = v, at, true
	return v, nil
}

// forget drops an answer.
func (m *memo[T]) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.m, key)
}

// has says whether there is an answer, however old.
func (m *memo[T]) has(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.m[key]
	return ok
}
