// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsapi

import (
	"context"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// Batcher combines requests of several callers within a short time into one call.
type Batcher[K comparable, V any] struct {
	clock   cloud.Clock
	window  time.Duration
	maxKeys int
	call    func(context.Context, []K) []V

	mu   sync.Mutex
	open *batch[K, V]
}

// batch is one call that is being gathered, or under way. answers is set when done is closed.
type batch[K comparable, V any] struct {
	keys    []K
	done    chan struct{}
	answers []V
}

// NewBatcher returns a Batcher that waits for window after the first key, collects at most most keys, and then calls
// call, which returns results in the order of the keys.
func NewBatcher[K comparable, V any](clock cloud.Clock, window time.Duration, most int, call func(context.Context, []K) []V) *Batcher[K, V] {
	return &Batcher[K, V]{clock: clock, window: window, maxKeys: most, call: call}
}

// Ask requests keys, and returns their results in the same order. false: the context ended first; the call is made
// nevertheless.
func (b *Batcher[K, V]) Ask(ctx context.Context, keys []K) ([]V, bool) {
	type place struct {
		in *batch[K, V]
		at int
	}
	places := make([]place, len(keys))
	b.mu.Lock()
	for i, k := range keys {
		if b.open == nil || len(b.open.keys) >= b.maxKeys {
			next := &batch[K, V]{done: make(chan struct{})}
			b.open = next
			go b.runBatch(context.WithoutCancel(ctx), next)
		}
		places[i] = place{b.open, len(b.open.keys)}
		b.open.keys = append(b.open.keys, k)
	}
	b.mu.Unlock()
	out := make([]V, len(keys))
	for i, p := range places {
		select {
		case <-p.in.done:
			out[i] = p.in.answers[p.at]
		case <-ctx.Done():
			return nil, false
		}
	}
	return out, true
}

// BatchTimeout is the timeout of a batch's call, independent of its callers.
const BatchTimeout = time.Minute

// runBatch waits for the window, closes the batch, makes the call, and wakes all waiting callers. It does not end with
// the context of the first caller.
func (b *Batcher[K, V]) runBatch(ctx context.Context, mine *batch[K, V]) {
	ctx, cancel := context.WithTimeout(ctx, BatchTimeout)
	defer cancel()
	_ = b.clock.Wait(ctx, b.window) // cut short, the call says so
	b.mu.Lock()
	if b.open == mine {
		b.open = nil
	}
	b.mu.Unlock()
	mine.answers = b.call(ctx, mine.keys)
	close(mine.done)
}
