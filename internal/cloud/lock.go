// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud

import "context"

// Lock is a lock for which a caller waits no longer than its context lasts. Make it with NewLock.
type Lock chan struct{}

// NewLock makes a Lock that nobody holds.
func NewLock() Lock {
	l := make(Lock, 1)
	l <- struct{}{}
	return l
}

// Acquire waits for the lock. It returns the context's error, and does not hold the lock, when the context ends first.
func (l Lock) Acquire(ctx context.Context) error {
	select {
	case <-l:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TryAcquire takes the lock if it is free, and reports whether it has it.
func (l Lock) TryAcquire() bool {
	select {
	case <-l:
		return true
	default:
		return false
	}
}

// Release gives the lock up. Only its holder may call it.
func (l Lock) Release() { l <- struct{}{} }
