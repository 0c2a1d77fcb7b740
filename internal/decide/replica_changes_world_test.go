// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// TestAutoscaledWorkload has the pods of one workload go up or down by a drawn number each minute for ten minutes, among others that stay as they are.
// Once it has changed four times few pods are evicted for room that it takes again a minute later.
func TestAutoscaledWorkload(t *testing.T) {
	t.Parallel()
	const minutes, learned, mostEvictions = 10, 4, 0.25 // of the pods that the autoscaler makes and deletes
	evictions, moved, cost, runs := 0, 0, 0.0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.Landing.Mode = landing.Bind
		w.pool().ConsolidationPolicy, w.pool().ConsolidateAfter = "WhenEmptyOrUnderutilized", 5*time.Second
		w.Workloads = nil
		for _, d := range []struct {
			name string
			cpu  int64
			want int
		}{{"autoscaled", rapid.SampledFrom([]int64{900, 1500}).Draw(t, "milli-CPUs"), 30}, {"steady", 900, 12}, {"other", 3000, 4}} {
			w.Workloads = append(w.Workloads, &sim.Workload{Name: d.name, Want: d.want, Grace: 30 * time.Second, Class: classOf(model.Class{Namespace: "default",
				Labels: model.Labels{"app": d.name}, Scheduler: model.DefaultScheduler, Requests: model.Resources{d.cpu, 128 << 20, 0, 1}})})
		}
		w.Controller.Restart()
		counting := false
		w.did = func(a plan.Action) {
			if _, ok := a.(plan.Evict); ok && counting {
				evictions++
			}
		}
		w.settle(3000)
		l := w.Workloads[0]
		for n := range minutes {
			before := l.Want
			l.Want = min(max(4, l.Want+rapid.IntRange(-12, 12).Draw(t, "by")), 50)
			if counting = n >= learned; counting {
				moved += max(l.Want-before, before-l.Want)
			}
			cost += w.Run(time.Minute)
		}
		runs++
	})
	t.Logf("%d runs: %d evictions, where the autoscaler made or deleted %d pods; $%.4f a run", runs, evictions, moved, cost/1e6/float64(runs))
	if moved == 0 || float64(evictions) > mostEvictions*float64(moved) {
		t.Errorf("%d evictions, want at most %.0f", evictions, mostEvictions*float64(moved))
	}
}

// TestFreshControllerChoosesAlike has workloads grow and shrink, some of them each minute as an autoscaler does, until the controller is at rest. One
// that knows nothing of it chooses no other disruption command then, unless `why` says of one of the command's nodes that a workload is expected to
// scale again.
func TestFreshControllerChoosesAlike(t *testing.T) {
	t.Parallel()
	rests, others, moved := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pool().ConsolidateAfter, w.pool().ConsolidationPolicy = 5*time.Second, "WhenEmptyOrUnderutilized"
		w.SetPool(w.pool())
		w.did = func(a plan.Action) {
			if _, ok := a.(plan.Evict); ok {
				moved++
			}
		}
		for range rapid.IntRange(2, 4).Draw(t, "rounds") {
			l := rapid.SampledFrom(w.Workloads).Draw(t, "workload")
			every := time.Duration(rapid.SampledFrom([]int{20, 60, 300}).Draw(t, "seconds")) * time.Second
			for range rapid.IntRange(1, 6).Draw(t, "changes") {
				l.Want = rapid.IntRange(0, 16).Draw(t, "replicas")
				w.say("%s is to have %d pods", l.Name, l.Want)
				w.Run(every)
			}
			w.settle(4000)
			rests++
			s := w.st().Snapshot(w.Now)
			out, _ := Step(s, Memory{}, w.Now, w.pol, Request{Solve: true})
			for _, cmd := range out.Commands {
				if cmd.Cause != plan.Underutilized {
					continue
				}
				others++
				var whys []plan.Code
				for _, c := range cmd.Candidates {
					whys = append(whys, w.mem.search.consolidation.WhyKept(c.Node.Name).Code)
				}
				if !slices.Contains(whys, plan.ShortLived) {
					w.fatalf("a controller that has just started removes %d nodes and saves %s; of these `why` says %v", len(whys), cmd.Why.Fields().Have, whys)
				}
			}
		}
	})
	t.Logf("%d times at rest after %d evictions; another controller chose %d other commands, each for a reason that is said", rests, moved, others)
	if others == 0 || moved == 0 {
		untested(t, "no other command was ever chosen: nothing was tested")
	}
}
