// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// TestUnreservedLaunches fills nodes that are not reserved, which kube-scheduler fills as it likes, one after the other, and looks at each decision:
// if first fit decreasing places all pending pods on the free capacity of what stands and is on its way, nothing is launched.
func TestUnreservedLaunches(t *testing.T) {
	t.Parallel()
	more := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.Landing.Mode = landing.Off
		node := model.Resources{16_000, 64 << 30, 0, 110}
		x := &model.InstanceType{Name: "n", Labels: model.Labels{model.LabelInstanceType: "n"}, Capacity: node, Allocatable: node,
			Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, PriceMicro: 1_600_000, Available: true, Remaining: -1}}}
		w.Types = []*model.InstanceType{x}
		w.editPool(func(p *model.NodePool) { p.Types = w.Types })
		delays := map[string]time.Duration{}
		w.Delays = func(c *model.Claim) (boot, ready time.Duration) {
			if _, ok := delays[c.Name]; !ok {
				delays[c.Name] = time.Duration(rapid.IntRange(10, 100).Draw(t, "boot")) * 100 * time.Millisecond
			}
			return delays[c.Name], time.Duration(rapid.IntRange(0, 10).Draw(t, "ready")) * 100 * time.Millisecond
		}
		w.Workloads = nil
		sizes := rapid.SampledFrom([][]int64{{10_000, 6000, 5330}, {10_000, 6000, 5330}, {9000, 7000, 4000}, {11_000, 5000, 2500}, {8000, 5000, 3000}}).Draw(t, "sizes")
		times := rapid.IntRange(3, 7).Draw(t, "times")
		for i, cpu := range sizes {
			name := fmt.Sprint("w", i)
			w.Workloads = append(w.Workloads, &sim.Workload{Name: name, Want: times * []int{1, 1, 3}[i], Grace: time.Second,
				Class: classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": name}, Scheduler: model.DefaultScheduler, Requests: model.Resources{cpu, 1 << 30, 0, 1}})})
		}
		bought := false
		w.judge = func(s *model.Snapshot, out *Output) {
			launches := slices.ContainsFunc(out.Actions, func(a plan.Action) bool { _, ok := a.(plan.CreateClaim); return ok })
			if !launches {
				return
			}
			if bought {
				more++
			}
			bought = true
			free := freeMilli(s, node.At(model.CPU))
			var pods []int64
			for _, p := range s.Pending {
				pods = append(pods, p.Class.Requests.At(model.CPU))
			}
			if fit(pods, free) {
				w.fatalf("nodes are launched, and the pods fit what is there: pods %v, free %v", pods, free)
			}
		}
		w.settle(3000)
		w.clean()
	})
	if more == 0 {
		untested(t, "nothing was launched besides the first plan's nodes: nothing was tested")
	}
	t.Logf("%d decisions launched more", more)
}

// freeMilli returns the free milli-CPUs of the nodes that stand, and of those on their way.
func freeMilli(s *model.Snapshot, whole int64) (free []int64) {
	nodes := map[string]bool{}
	for _, n := range s.Nodes {
		nodes[n.ProviderID] = true
		free = append(free, n.Allocatable.Sub(n.Used).At(model.CPU))
	}
	for _, c := range s.Claims {
		if !nodes[c.ProviderID] && !c.Is(lifecycle.Registered) {
			free = append(free, whole)
		}
	}
	return free
}

// fit reports whether pods fit the free capacity of nodes, the largest first, each on the first node that it fits on.
func fit(pods, free []int64) bool {
	free = slices.Clone(free)
	for _, want := range slices.Backward(slices.Sorted(slices.Values(pods))) {
		i := slices.IndexFunc(free, func(f int64) bool { return f >= want })
		if i < 0 {
			return false
		}
		free[i] -= want
	}
	return true
}
