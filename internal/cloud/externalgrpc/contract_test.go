// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package externalgrpc_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc/externalgrpctest"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// notes is a record in memory. It remembers whose each machine ever was.
type notes struct {
	mu     sync.Mutex
	text   string
	owners map[string]string // uid by provider id
}

func (n *notes) Load(context.Context) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text, nil
}

func (n *notes) Swap(_ context.Context, old, text string) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.text != old {
		return false, nil
	}
	n.text = text
	var r struct {
		Groups map[string]struct {
			Owned map[string]struct{ UID string }
		}
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return false, err
	}
	for _, g := range r.Groups {
		for id, m := range g.Owned {
			n.owners[id] = m.UID
		}
	}
	return true, nil
}

// world is a server, a record, and providers that use them.
type world struct {
	t         testing.TB
	server    *externalgrpctest.Server
	address   string
	notes     *notes
	resources *state.ResourceTable
	clock     cloud.Clock
}

func newWorld(t testing.TB, s *externalgrpctest.Server) *world {
	return &world{t: t, server: s, address: s.Start(t), notes: &notes{owners: map[string]string{}}, resources: state.New().Resources(), clock: cloud.Wall{}}
}

func (w *world) provider() *externalgrpc.Provider {
	w.t.Helper()
	p, err := externalgrpc.New(&externalgrpc.Config{Address: w.address}, w.notes, w.resources, w.clock, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// launches counts machines ever made by the claim that has or had them.
func (w *world) launches() map[string]int {
	w.notes.mu.Lock()
	defer w.notes.mu.Unlock()
	out := map[string]int{}
	for _, id := range w.server.EverMade() {
		uid, ok := w.notes.owners[id]
		if !ok {
			uid = "unclaimed"
		}
		out[uid]++
	}
	return out
}

func class(spec string) cloud.NodeClass {
	return cloud.NodeClass{Group: dovetailv1alpha1.Group, Kind: dovetailv1alpha1.KindNodeGroupClass, Name: "groups", UID: "class-uid", Generation: 1, Spec: []byte(spec)}
}

const all = `{"selectorTerms":[{"name":"*"}]}`

// TestContract runs the suite over a real socket: a group for each type, zone and capacity type.
func TestContract(t *testing.T) {
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		s := &externalgrpctest.Server{}
		for i, name := range []string{"large", "medium", "small"} {
			for j, zone := range []string{"a", "b"} {
				cpus := int64(16 >> (2 * i))
				s.AddGroup(name, zone, model.OnDemand, cpus, float64(cpus)*0.05+float64(j)*0.001)
				s.AddGroup(name, zone, model.Spot, cpus, float64(cpus)*0.02+float64(j)*0.001)
			}
		}
		w := newWorld(t, s)
		return cloudtest.Harness{
			Provider: w.provider(), Pool: &model.NodePool{Name: "default"}, Class: class(all), Another: func() cloud.Provider { return w.provider() },
			Launches: w.launches, Later: true, NoImages: true,
			Exhaust: func(keys ...cloud.OfferingKey) {
				s.Set(func(s *externalgrpctest.Server) {
					s.Refuse = map[string]error{}
					for _, k := range keys {
						s.Refuse[k.InstanceType+"-"+k.Zone+"-"+k.CapacityType] = status.Error(codes.ResourceExhausted, "no capacity")
					}
				})
			},
			Throttle:  func(after time.Duration) { s.Set(func(s *externalgrpctest.Server) { s.Throttle = after }) },
			LoseReply: func() { s.Set(func(s *externalgrpctest.Server) { s.Lose = true }) },
			Hang: func() func() {
				hang := make(chan struct{})
				s.Set(func(s *externalgrpctest.Server) { s.Hang = hang })
				return func() {
					s.Set(func(s *externalgrpctest.Server) { s.Hang = nil })
					close(hang)
				}
			},
			Hold: func() func() {
				s.Set(func(s *externalgrpctest.Server) { s.Hold = true })
				return func() { s.Set(func(s *externalgrpctest.Server) { s.Hold = false }) }
			},
		}
	})
}
