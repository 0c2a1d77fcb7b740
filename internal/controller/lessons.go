// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

const (
	recallLimit = 5 * time.Second  // then it goes on without: the pods wait
	keepAgain   = 10 * time.Second // after a failure
)

// RecallLessons loads what the previous leader has learned. It must be called before Lead.
func (c *Controller) RecallLessons(ctx context.Context) {
	if c.Keeper == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recallLimit)
	defer cancel()
	var kept decide.LearnedCapacity
	text, err := c.Keeper.Load(ctx)
	if err == nil && text != "" {
		if err = json.Unmarshal([]byte(text), &kept); err != nil {
			err = fmt.Errorf("decode learned capacity: %w", err)
		}
	}
	if err != nil {
		c.Log.Warn("learned capacity of nodes that are smaller than expected can't be read: up to two such nodes may be launched again for a pod", "error", err.Error())
		return
	}
	c.Emit(func(s *state.State) { c.mem = c.mem.WithLearned(kept, s.Resources().Dim) })
}

// keepLessons has what was learned kept when there is more of it.
func (c *Controller) keepLessons(ctx context.Context, snap *model.Snapshot) {
	n := c.mem.LearnedChanges()
	if c.Keeper == nil || c.keeping || n == c.kept {
		return
	}
	text, err := json.Marshal(c.mem.Learned(snap.ResourceNames))
	if err != nil {
		c.Log.Error("learned capacity can't be encoded", "error", err.Error()) // of numbers and names: it can't fail
		return
	}
	c.keeping = true
	go func() {
		call, cancel := context.WithTimeout(ctx, c.Config.CallLimit)
		err := c.Keeper.Store(call, string(text))
		cancel()
		if err != nil && ctx.Err() == nil {
			c.Log.Warn("learned capacity of nodes that are smaller than expected was not saved, trying again", "error", err.Error())
			select {
			case <-time.After(keepAgain):
			case <-ctx.Done():
				return
			}
		}
		c.Emit(func(*state.State) {
			c.keeping = false
			if err == nil {
				c.kept = n
			}
		})
	}()
}
