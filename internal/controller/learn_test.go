// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// pupil is a provider that is told what nodes have.
type pupil struct {
	cloud.Provider
	told chan string
	err  error
}

func (p *pupil) Learn(_ context.Context, instanceType, image string, bytes int64) error {
	p.told <- instanceType + " " + image + " " + model.FormatAmount(model.Memory, bytes)
	return p.err
}

// TestLearn: of the nodes of a type and image the least memory is told, once, and again when it is less or was not kept.
func TestLearn(t *testing.T) {
	p := &pupil{told: make(chan string, 10), err: errors.New("not now")}
	c := New(&Controller{State: state.New(), Provider: cloud.NewSetAside(p, cloud.Wall{}, time.Minute), Config: DefaultConfig(), Metrics: metrics.New(prometheus.NewRegistry(), "test", cloud.Traits{}), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	claim := func(id, image string) *model.Claim {
		return &model.Claim{ProviderID: id, ImageID: image, Labels: model.Labels{model.LabelInstanceType: "m5.large"}}
	}
	node := func(id string, gib int64) *model.Node {
		return &model.Node{ProviderID: id, Capacity: model.Resources{model.CPU: 1, model.Memory: gib << 30}}
	}
	snap := &model.Snapshot{Claims: []*model.Claim{claim("1", "ami"), claim("2", "ami"), claim("3", "")}, Nodes: []*model.Node{node("1", 7), node("2", 6), node("3", 5), node("4", 4)}}
	look := func() { // and take in what came of it
		t.Helper()
		c.teacher.teachProvider(t.Context(), snap)
		if c.teacher.asking {
			change := <-c.changes
			change(state.New())
		}
	}
	wantTold := func(want ...string) {
		t.Helper()
		look()
		for _, w := range want {
			if have := <-p.told; have != w {
				t.Errorf("told %q, want %q", have, w)
			}
		}
		if len(p.told) > 0 {
			t.Errorf("told too much: %s", <-p.told)
		}
	}
	wantTold("m5.large ami 6Gi")
	p.err = nil
	wantTold("m5.large ami 6Gi") // it was not kept
	wantTold()
	snap.Nodes[0] = node("1", 3)
	wantTold("m5.large ami 3Gi")
	wantTold()
}
