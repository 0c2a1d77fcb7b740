// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// view is what the last step saw and remembers. Neither is changed any more once it is shown.
type view struct {
	snap *model.Snapshot
	mem  decide.Memory

	classes []*state.NodeClass // by group, kind and name
}

// Why says what is in the way of an object now; see decide.Why. It may be called from anywhere and does its work in the caller's goroutine,
// one after another: the loop does not wait for it.
func (c *Controller) Why(ctx context.Context, subject string) (plan.Answer, error) {
	if !c.synced.Load() {
		return plan.Answer{}, errors.New("the cluster is not known yet: ask again in a moment")
	}
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return plan.Answer{}, ctx.Err()
	}
	v := c.view.Load()
	if v == nil { // nothing has been decided here: this is not the leader, and only what it sees can be told
		var err error
		if v, err = inLoop(ctx, c, func(s *state.State) *view { return &view{snap: s.Snapshot(time.Now())} }); err != nil {
			return plan.Answer{}, err
		}
	}
	a, err := decide.Why(v.snap, v.mem, time.Now(), c.Policy, subject)
	if d := c.standing.Load(); d != nil && err == nil {
		a.Facts = slices.Insert(a.Facts, 0, plan.Fact{Name: "standing down", Value: "nothing is bought or moved while another autoscaler is live: " + strings.Join(d.others, "; ")})
	}
	return a, err
}
