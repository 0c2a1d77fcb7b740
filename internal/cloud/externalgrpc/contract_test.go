// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package externalgrpc_test

import (
	"io"
	"log/slog"
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

// world is a server, a record, and providers that use them.
type world struct {
	t         testing.TB
	server    *externalgrpctest.Server
	address   string
	record    *cloudtest.Record
	resources *state.ResourceTable
	clock     cloud.Clock
}

func newWorld(t testing.TB, s *externalgrpctest.Server) *world {
	return &world{t: t, server: s, address: s.Start(t), record: &cloudtest.Record{}, resources: state.New().Resources(), clock: cloud.Wall{}}
}

func (w *world) provider() *externalgrpc.Provider {
	w.t.Helper()
	p, err := externalgrpc.New(&externalgrpc.Config{Address: w.address}, w.record, w.resources, w.clock, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// launches counts machines ever made by the claim that has or had them.
func (w *world) launches() map[string]int { return w.record.Launches(w.server.EverMade()) }

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
			Launches: func() map[string]int { s.Standing(); return w.launches() }, Later: true, NoImages: true,
			Standing: s.Standing,
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
			Stray: func(of cloud.LaunchResult) func() int {
				name := of.InstanceType + "-" + of.Zone + "-" + of.CapacityType
				s.Set(func(s *externalgrpctest.Server) { s.Fail = map[string]bool{name: true} })
				before, _ := s.Size(name)
				s.Grow(name, 1)
				return func() int { now, _ := s.Size(name); return now - before }
			},
			Hold: func() func() {
				s.Set(func(s *externalgrpctest.Server) { s.Hold = true })
				return func() { s.Set(func(s *externalgrpctest.Server) { s.Hold = false }) }
			},
		}
	})
}
