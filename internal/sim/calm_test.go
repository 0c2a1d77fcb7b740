// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// later is a Decider that does nothing and wants to look again after a quarter of a second, as decide does for pods that kube-scheduler has not marked yet.
type later struct{}

func (later) Restart(*state.ResourceTable) {}
func (later) Decide(now time.Time, _ *model.Snapshot, _ bool) ([]plan.Action, time.Time) {
	return nil, now.Add(250 * time.Millisecond)
}

// TestCalmPutsOffNoPod: with Batch.Calm, a decision that was put off for a pod that had just been created is made when it is due; for a pod that has waited for
// longer it is made when Calm has passed.
func TestCalmPutsOffNoPod(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for waited, want := range map[time.Duration]time.Duration{0: 250 * time.Millisecond, 900 * time.Millisecond: 250 * time.Millisecond, 2 * time.Second: 30 * time.Second} {
		c := New(begin)
		x := c.Control(later{})
		x.Batch = UsualBatch
		x.Batch.Calm = 30 * time.Second
		c.SetPod(&model.Pod{Namespace: "default", Name: "a", UID: "a", Class: class("a", 100), Created: c.Now})
		c.Now = c.Now.Add(waited)
		x.tick(false)
		if got := x.dueAt().Sub(c.Now); got > want || want > time.Second && got < want { // UsualBatch.Idle may be sooner
			t.Errorf("a pod of %s when it was decided on: the next decision is due after %s, want %s", waited, got, want)
		}
	}
}
