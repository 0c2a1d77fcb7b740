// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-sh/dovetail/internal/controller/view"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// What is asked of the loop from beside it. All of this may be called from anywhere.

// errNotSynced answers who asks before the first list of all objects is there.
var errNotSynced = errors.New("the controller has not read the cluster yet: retry in a few seconds")

// LastView returns the view of the last step; nil: no decision was made in this process.
func (c *Controller) LastView() *view.View { return c.view.Load() }

// LastSnapshot returns the Snapshot of the last decision; nil: no decision yet.
func (c *Controller) LastSnapshot() *model.Snapshot {
	if v := c.view.Load(); v != nil {
		return v.Snap
	}
	return nil
}

// View implements answer.Loop.
func (c *Controller) View(ctx context.Context) (*view.View, error) {
	if v := c.view.Load(); v != nil && c.synced.Load() {
		return v, nil
	}
	// Nothing has been decided here: this is not the leader, and only what it sees can be told.
	return askSynced(ctx, c, func(s *state.State) *view.View { return &view.View{Policy: c.Policy, Snap: s.Snapshot(time.Now())} })
}

// Look returns the current state of the cluster as the controller sees it.
func (c *Controller) Look(ctx context.Context) (*model.Snapshot, error) {
	return askSynced(ctx, c, func(s *state.State) *model.Snapshot { return s.Snapshot(time.Now()) })
}

// FindPod implements answer.Loop.
func (c *Controller) FindPod(ctx context.Context, key string) (*model.Pod, error) {
	return askLoop(ctx, c.changes, func(s *state.State) *model.Pod { return s.FindPod(key) })
}

// HourlyCost implements answer.Loop.
func (c *Controller) HourlyCost(ctx context.Context) (int64, error) {
	return askSynced(ctx, c, func(s *state.State) int64 { return c.recorder.HourlyCost(s.Snapshot(time.Now())) })
}

// StandsDownFor implements answer.Loop.
func (c *Controller) StandsDownFor() []string {
	if d := c.passive.Load(); d != nil {
		return d.others
	}
	return nil
}

// askSynced has the loop answer a question once it knows the cluster.
func askSynced[T any](ctx context.Context, c *Controller, ask func(*state.State) T) (none T, err error) {
	if !c.synced.Load() {
		return none, errNotSynced
	}
	return askLoop(ctx, c.changes, ask)
}

// Event records an event on an object; in shadow mode it does nothing.
func (c *Controller) Event(kind, namespace, name, uid string, warn bool, reason, message string) {
	c.Cluster.Event(kind, namespace, name, uid, warn, reason, message)
}
