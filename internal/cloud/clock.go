// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud

import (
	"context"
	"time"
)

// Clock is the time source of a decorator: the wall clock in the controller, a virtual one in the simulator and in tests.
type Clock interface {
	Now() time.Time
	// Wait returns nil when d has passed, or the context's error when it ends first.
	Wait(ctx context.Context, d time.Duration) error
}

// Wall is the wall clock.
type Wall struct{}

// Now implements Clock.
func (Wall) Now() time.Time { return time.Now() }

// Wait implements Clock.
func (Wall) Wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
