// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/nodeoverlay"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// setOverlay has the watch show a NodeOverlay.
func (b *bench) setOverlay(t *testing.T, o nodeoverlay.Overlay, price string) {
	t.Helper()
	if price != "" {
		var err error
		if o.Price, err = nodeoverlay.ReadPrice(price); err != nil {
			t.Fatal(err)
		}
	}
	o.UID = "uid-" + o.Name
	b.c.Emit(func(s *state.State) { s.Pools.SetNodeOverlay(o) })
}

// A NodeOverlay makes the dear type the cheap one: it is what is launched, the provider is told by which prices, and the
// overlay's status says that it is applied.
func TestOverlayDecidesWhatIsLaunched(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		var asked []cloud.LaunchRequest
		b.launch = func(_ context.Context, r cloud.LaunchRequest) cloud.LaunchResult {
			asked = append(asked, r)
			return b.buy(r)
		}
		b.setOverlay(t, nodeoverlay.Overlay{Name: "committed", Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, "dear"))}, "0.05")
		b.c.MarkSynced()
		b.c.StartActing()
		b.pod("a", "a")
		time.Sleep(5 * time.Second)
		if got := b.made("overlay"); len(got) != 1 || got[0].what != "committed True ValidationSucceeded: " {
			t.Errorf("statuses written: %v", got)
		}
		if len(asked) != 1 || !slices.Equal(asked[0].Types, []string{"dear"}) {
			t.Fatalf("launched %+v, want one of type dear", asked)
		}
		want := cloud.OfferingKey{InstanceType: "dear", Zone: "a", CapacityType: model.OnDemand}
		if len(asked[0].Prices) != 1 || asked[0].Prices[want] != 50_000 {
			t.Errorf("prices %v", asked[0].Prices)
		}
	})
}

// Two overlays of equal weight: the conflict is told once, and told no more when it has gone.
func TestOverlayConflictIsTold(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		b.setOverlay(t, nodeoverlay.Overlay{Name: "x"}, "0.05")
		b.setOverlay(t, nodeoverlay.Overlay{Name: "y"}, "0.06")
		time.Sleep(time.Second)
		got := subjects(b.made("overlay"))
		want := "x False Conflict: NodeOverlay y has the same weight (0) and also sets the price of cheap in a (on-demand) in NodePool p; give one of them another weight"
		if !slices.Contains(got, want) || !slices.Contains(got, "y True ValidationSucceeded: ") {
			t.Fatalf("statuses written: %q", got)
		}
		b.c.Emit(func(s *state.State) { s.Pools.DeleteNodeOverlay("y") })
		time.Sleep(time.Minute)
		if got := b.made("overlay"); got[len(got)-1].what != "x True ValidationSucceeded: " {
			t.Fatalf("statuses written: %v", got)
		}
	})
}

// Extended resources that an overlay adds: they are on the claim's status though the provider knows nothing of them, and
// the provider is not asked for a type that has them.
func TestOverlayResources(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		const fuse = model.FirstExtended
		var asked []cloud.LaunchRequest
		b.launch = func(_ context.Context, r cloud.LaunchRequest) cloud.LaunchResult {
			asked = append(asked, r)
			return b.buy(r)
		}
		var updates []plan.UpdateClaim
		b.updateClaim = func(a plan.UpdateClaim) error { updates = append(updates, a); return nil }
		b.setOverlay(t, nodeoverlay.Overlay{Name: "fuse", Capacity: []nodeoverlay.Resource{{Name: "example.com/fuse", Dim: fuse, Amount: 10}}}, "")
		b.lead()
		now := time.Now()
		b.c.Emit(func(s *state.State) {
			s.Resources().Dim("example.com/fuse")
			s.SetPod(&model.Pod{Namespace: "default", Name: "a", UID: "uid-a", Created: now, Unschedulable: now,
				Class: &model.Class{Key: "a", Namespace: "default", Requests: model.Resources{1000, 1 << 30, 0, 1}.With(fuse, 2), Scheduler: "default-scheduler"}})
		})
		time.Sleep(5 * time.Second)
		if len(asked) != 1 || asked[0].Requests.At(fuse) != 0 || asked[0].Requests.At(model.CPU) != 1000 || len(asked[0].Prices) != 0 {
			t.Fatalf("asked %+v", asked)
		}
		if !slices.ContainsFunc(updates, func(a plan.UpdateClaim) bool { return a.Capacity.At(fuse) == 10 && a.Allocatable.At(fuse) == 10 }) {
			t.Errorf("no update of the claim has the resource: %+v", updates)
		}
	})
}
