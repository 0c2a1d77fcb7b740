// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// A launch batch is released batchPause after its last claim was added, and at most batchMaxWait after its first.
const (
	batchPause   = 150 * time.Millisecond
	batchMaxWait = time.Second
)

// waitForBatch delays a claim while following claims of its plan are expected: until the last of them is added, or none
// is for batchPause. false: the context ended first.
func (s *groupState) waitForBatch(ctx context.Context, clock cloud.Clock, following int) bool {
	s.mu.Lock()
	if s.batch == nil {
		s.batch = &batch{since: clock.Now(), released: make(chan struct{})}
	}
	c := s.batch
	c.last = clock.Now()
	if following == 0 {
		s.releaseBatch(c)
	}
	s.mu.Unlock()
	for {
		s.mu.Lock()
		left := min(c.last.Add(batchPause).Sub(clock.Now()), c.since.Add(batchMaxWait).Sub(clock.Now()))
		if left <= 0 {
			s.releaseBatch(c)
		}
		s.mu.Unlock()
		timed, cancel := context.WithCancel(ctx)
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = clock.Wait(timed, left) // or the batch was released
		}()
		select {
		case <-c.released:
			cancel()
			return ctx.Err() == nil
		case <-over:
			cancel()
			if ctx.Err() != nil {
				return false
			}
		}
	}
}

// releaseBatch lets the claims of a batch go on together. The caller holds mu.
func (s *groupState) releaseBatch(c *batch) {
	if s.batch == c {
		s.batch = nil
		close(c.released)
	}
}
