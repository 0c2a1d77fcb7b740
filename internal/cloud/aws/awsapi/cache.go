// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsapi

import (
	"context"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// Cache caches results by key. If a result is missing or expired, one caller fetches it and the others wait, each until
// its own context ends, and never for another key.
type Cache[T any] struct {
	clock cloud.Clock
	ttl   time.Duration

	mu      sync.Mutex
	entries map[string]*cacheEntry[T]
}

// cacheEntry is the answer of one key. Its fields, except usedAt, may be used only by the holder of turn.
type cacheEntry[T any] struct {
	turn      cloud.Lock // its holder may look and fetch
	value     T
	fetchedAt time.Time
	filled    bool
	failedAt  time.Time // when a newer one was last asked for and not received
	usedAt    time.Time
}

// staleWait is how long a caller that has an old answer waits for a new one, and for how long nobody asks again when that
// failed: all callers that need the answer wait for the one that asks.
const staleWait = 20 * time.Second

// NewCache returns a Cache whose results expire after ttl.
func NewCache[T any](clock cloud.Clock, ttl time.Duration) *Cache[T] {
	return &Cache[T]{clock: clock, ttl: ttl, entries: map[string]*cacheEntry[T]{}}
}

// Get returns the result for a key: the cached one if it has not expired, otherwise the result of fetch. If fetch fails
// because of a lost response or throttling, an expired result is returned without an error. Errors are those of fetch or
// of the context.
func (c *Cache[T]) Get(ctx context.Context, key string, fetch func(context.Context) (T, error)) (T, error) {
	v, _, err := c.GetDated(ctx, key, fetch)
	return v, err
}

// GetDated is like Get, and also returns the time of the fetch.
func (c *Cache[T]) GetDated(ctx context.Context, key string, fetch func(context.Context) (T, error)) (T, time.Time, error) {
	now := c.clock.Now()
	c.mu.Lock()
	a := c.entries[key]
	if a == nil {
		a = &cacheEntry[T]{turn: cloud.NewLock()}
		c.entries[key] = a
		for k, old := range c.entries { // what nobody asks for any more
			if k != key && !old.usedAt.IsZero() && now.Sub(old.usedAt) > 2*c.ttl+time.Hour {
				delete(c.entries, k)
			}
		}
	}
	a.usedAt = now
	c.mu.Unlock()
	var none T
	if err := a.turn.Acquire(ctx); err != nil {
		return none, time.Time{}, err
	}
	defer a.turn.Release()
	at := c.clock.Now()
	if a.filled && (at.Sub(a.fetchedAt) < c.ttl || at.Sub(a.failedAt) < staleWait) {
		return a.value, a.fetchedAt, ctx.Err()
	}
	limited := ctx
	if a.filled {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, staleWait)
		defer cancel()
	}
	v, err := fetch(limited)
	if err != nil {
		kind := cloud.KindOf(ClassifyError(ctx, "", "", err))
		if a.filled && ctx.Err() == nil && (kind == cloud.Throttled || kind == cloud.Unknown) {
			a.failedAt = c.clock.Now()
			return a.value, a.fetchedAt, nil
		}
		return none, time.Time{}, err
	}
	a.value, a.fetchedAt, a.filled = v, at, true
	return v, at, nil
}

// Forget removes the result of a key, so that the next Get fetches it.
func (c *Cache[T]) Forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}

// Has reports whether a key has a cached result, expired or not.
func (c *Cache[T]) Has(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.entries[key]
	return ok
}
