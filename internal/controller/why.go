// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Why asks the loop what is in the way of an object now; see decide.Why. It may be called from anywhere.
func (c *Controller) Why(ctx context.Context, subject string) (plan.Answer, error) {
	type answer struct {
		plan.Answer
		err error
	}
	if !c.synced.Load() {
		return plan.Answer{}, errors.New("the cluster is not known yet: ask again in a moment")
	}
	ch := make(chan answer, 1)
	select {
	case c.changes <- func(s *state.State) {
		now := time.Now()
		a, err := decide.Why(s.Snapshot(now), c.mem, now, c.Policy, subject)
		ch <- answer{a, err}
	}:
	case <-ctx.Done():
		return plan.Answer{}, ctx.Err()
	}
	select {
	case a := <-ch:
		return a.Answer, a.err
	case <-ctx.Done():
		return plan.Answer{}, ctx.Err()
	}
}
