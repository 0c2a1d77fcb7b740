// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"log/slog"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// edges are what the parts of the loop reach the world by; they share one.
type edges struct {
	cluster  Cluster
	provider *cloud.SetAside
	state    *state.State
	ledger   *ledger.Ledger
	metrics  *metrics.Metrics
	log      *slog.Logger
	config   *Config
	changes  chan<- state.Change          // to the loop
	begin    func(time.Time, plan.Action) // begins an action; the loop's alone
}

// newEdges returns those of a controller whose exported fields are set.
func newEdges(c *Controller) *edges {
	return &edges{
		cluster: c.Cluster, provider: c.Provider, state: c.State, ledger: c.Ledger, metrics: c.Metrics, log: c.Log, config: &c.Config, changes: c.changes,
		begin: func(now time.Time, a plan.Action) { c.beginAction(c.base, now, a) },
	}
}

// emit hands a change to the loop. It blocks when the loop is far behind.
func (e *edges) emit(ch state.Change) { e.changes <- ch }

// askLoop has the loop answer a question.
func askLoop[T any](ctx context.Context, changes chan<- state.Change, ask func(*state.State) T) (none T, err error) {
	ch := make(chan T, 1)
	select {
	case changes <- func(s *state.State) { ch <- ask(s) }:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	select {
	case a := <-ch:
		return a, nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
