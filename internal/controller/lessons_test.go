// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/prometheus/client_golang/prometheus"
)

// notebook keeps a text in memory.
type notebook struct {
	text   string
	writes int
	err    error
}

func (n *notebook) Load(context.Context) (string, error) { return n.text, n.err }

func (n *notebook) Store(_ context.Context, text string) error {
	n.writes++
	if n.err == nil {
		n.text = text
	}
	return n.err
}

// TestKeep: what was learned of a machine that came short is kept once, again where that has failed, and the next process knows it.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := state.New()
		st.Resources().Dim("gpu")
		small := &model.InstanceType{Name: "small", Labels: model.Labels{model.LabelInstanceType: "small"}, Allocatable: model.Resources{2000, 8 << 30, 0, 110}}
		pool := &model.NodePool{Name: "p", UID: "uid-p", Ready: true, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1, ConsolidateAfter: -1,
			Labels: model.Labels{}, Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "p")), Types: []*model.InstanceType{small}}
		st.Pools.SetPool(pool)
		done := model.Condition{Status: "True"}
		st.SetClaim(&model.Claim{Name: "c", UID: "uid-c", Pool: "p", ProviderID: "x", Reserved: true, ExpireAfter: -1, TerminationGracePeriod: -1,
			Labels: model.Labels{model.LabelInstanceType: "small", model.LabelNodePool: "p"}, Slots: []model.Slot{{Class: "class", Owner: "owner", Count: 1, Requests: model.Resources{2000, 0, 0, 1}}},
			Conditions: map[string]model.Condition{lifecycle.Launched: done, lifecycle.Registered: done, lifecycle.Initialized: done}}, 1)
		st.SetNode(&model.Node{Name: "n", ProviderID: "x", Claim: "c", Ready: true, Labels: model.Labels{model.LabelRegistered: "true", model.LabelInitialized: "true"},
			Allocatable: model.Resources{1900, 8 << 30, 0, 110}, Taints: []model.Taint{{Key: model.TaintReserved, Value: "c", Effect: model.NoSchedule}}}, 1)
		now := time.Now()
		snap := st.Snapshot(now)
		_, mem := decide.Step(snap, decide.Memory{}, now, decide.DefaultPolicy(), decide.Request{})

		book := &notebook{err: errors.New("not now")}
		provider := cloud.NewSetAside(&pupil{}, cloud.Wall{}, time.Minute)
		c := New(&Controller{Keeper: book, Provider: provider, State: st, Config: DefaultConfig(), Metrics: metrics.New(prometheus.NewRegistry(), "test", cloud.Traits{}), Log: slog.New(slog.DiscardHandler)})
		c.mem = mem
		look := func() { // and take in what came of it
			c.keepLessons(t.Context(), snap)
			if c.keeping {
				(<-c.changes)(st)
			}
		}
		look()
		book.err = nil
		look()
		look()
		if book.writes != 2 || !strings.Contains(book.text, `"came":{"uid-c":{"cpu":1900,`) {
			t.Fatalf("%d writes, at last %q; want 2 and what the claim's node had", book.writes, book.text)
		}
		if took := time.Since(now); took != keepAgain {
			t.Errorf("tried again after %s, want %s", took, keepAgain)
		}

		next := New(&Controller{Keeper: book, Provider: provider, State: state.New(), Config: DefaultConfig(), Metrics: metrics.New(prometheus.NewRegistry(), "test", cloud.Traits{}), Log: slog.New(slog.DiscardHandler)})
		next.RecallLessons(t.Context())
		(<-next.changes)(next.State)
		if have, want := next.mem.Learned(next.State.Resources().Names()), c.mem.Learned(snap.ResourceNames); len(have.Types) != 1 || have.Types[0].Came["uid-c"]["cpu"] != want.Types[0].Came["uid-c"]["cpu"] {
			t.Errorf("the next process knows %v, want %v", have, want)
		}
		for _, b := range []*notebook{{text: "{"}, {err: errors.New("forbidden")}} {
			next.Keeper = b
			next.RecallLessons(t.Context())
		}
		if len(next.changes) > 0 {
			t.Error("what can't be read was taken over")
		}
	})
}

// What machines that came short have taught is true whoever acted meanwhile.
func TestStandingDownForgetsNoLesson(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Keeper = &notebook{text: `{"types":[{"pool":"uid-p","type":"cheap","basis":"b","promised":{"cpu":4000},"came":{"uid-c":{"cpu":3000}}}]}`}
		b.c.RecallLessons(t.Context())
		b.c.SetOtherAutoscalers([]string{karpenter})
		b.c.SetOtherAutoscalers(nil)
		known := make(chan decide.LearnedCapacity, 1)
		b.c.Emit(func(s *state.State) { known <- b.c.mem.Learned(s.Resources().Names()) })
		if l := <-known; len(l.Types) != 1 || l.Types[0].Came["uid-c"]["cpu"] != 3000 {
			t.Errorf("known are %+v", l)
		}
	})
}
