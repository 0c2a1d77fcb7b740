// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
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

// retryPause returns how long a failed call waits before its retry, after the n-th failure in a row.
func retryPause(n int, first, most time.Duration) time.Duration {
	d := first
	for i := 1; i < n && d < most; i++ {
		d *= 2
	}
	return min(d, most)
}

// hasDoneNothing reports whether a call that failed has certainly done nothing.
func hasDoneNothing(err error) bool {
	return errors.Is(err, plan.ErrInvalid) || errors.Is(err, plan.ErrConflict) || isGone(err) || isBlocked(err)
}

func isBlocked(err error) bool { return errors.Is(err, plan.ErrBlocked) }

func isGone(err error) bool { return errors.Is(err, plan.ErrGone) }

// providerNodeClass is a node class as a provider takes it.
func providerNodeClass(k *state.NodeClass) cloud.NodeClass {
	return cloud.NodeClass{Group: k.Group, Kind: k.Kind, Name: k.Name, UID: k.UID, Generation: k.Generation, Created: k.Created, Annotations: k.Annotations, Spec: k.Spec}
}
