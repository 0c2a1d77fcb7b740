// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud

import "context"

// Lock is a mutex whose Acquire respects a context. NewLock creates one.
type Lock chan struct{}

// NewLock returns an unlocked Lock.
func NewLock() Lock {
	l := make(Lock, 1)
	l <- struct{}{}
	return l
}

// Acquire waits for the lock. If the context ends first, it returns the context's error without holding the lock.
func (l Lock) Acquire(ctx context.Context) error {
	select {
	case <-l:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TryAcquire acquires the lock if it is free, and reports whether it did.
func (l Lock) TryAcquire() bool {
	select {
	case <-l:
		return true
	default:
		return false
	}
}

// Release releases the lock. Only its holder may call it.
func (l Lock) Release() { l <- struct{}{} }
