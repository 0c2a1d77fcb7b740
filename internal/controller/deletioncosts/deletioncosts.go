// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package deletioncosts writes the pod deletion costs that package deletioncost computes, once a minute.
//
// It makes no decisions, and reads the last Snapshot, so the loop never waits for it. Start reading at Keeper.Run.
package deletioncosts

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dovetail-sh/dovetail/internal/deletioncost"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// every is how often costs are written.
const every = time.Minute

// Loop is the part of the controller's loop that a Keeper uses.
type Loop interface {
	// LastSnapshot returns the Snapshot of the last decision; nil: no decision yet.
	LastSnapshot() *model.Snapshot
	// WritesTold records events on objects of a kind when the API server refuses writes to them, or accepts them again.
	WritesTold(verb, kind string, answers []plan.WriteAnswer)
}

// Store writes the deletion costs of pods.
type Store interface {
	// WriteDeletionCost returns an error that wraps plan.ErrGone if the pod is gone, or plan.ErrConflict if another writer has set
	// its cost.
	WriteDeletionCost(context.Context, deletioncost.Write) error
}

// Keeper maintains the deletion costs of pods.
type Keeper struct {
	Loop    Loop
	Store   Store
	On      bool // feature gate PodDeletionCostManagement; if off, costs written earlier are removed
	Log     *slog.Logger
	Metrics *Metrics

	planner deletioncost.Planner
}

// Run maintains deletion costs until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	for {
		if s := k.Loop.LastSnapshot(); s != nil {
			k.write(ctx, s)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

// write writes what there is to be written now. What fails is tried again in a later step.
func (k *Keeper) write(ctx context.Context, s *model.Snapshot) {
	written, failed := 0, error(nil)
	var answers []plan.WriteAnswer
	defer func() { k.Loop.WritesTold("set the deletion cost of", "Pod", answers) }()
	writes := k.planner.Plan(time.Now(), s, !k.On)
	k.Metrics.setPending(s, writes)
	for _, w := range writes {
		err := k.Store.WriteDeletionCost(ctx, w)
		if ctx.Err() != nil {
			return
		}
		k.Metrics.count(err)
		answers = append(answers, plan.WriteAnswer{Namespace: w.Namespace, Name: w.Pod, UID: w.UID, Err: err})
		gone := errors.Is(err, plan.ErrGone)
		k.planner.Answer(time.Now(), w.UID, err != nil && !gone)
		switch {
		case err == nil:
			written++
		case gone, errors.Is(err, plan.ErrConflict):
		case failed == nil:
			failed = err
		}
	}
	if written > 0 {
		k.Log.Info("pod deletion costs were written", "pods", written)
	}
	if failed != nil {
		k.Log.Error("some pod deletion costs were not written", "error", failed)
	}
}
