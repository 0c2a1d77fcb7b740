// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// prioritySeries is the series of `make bench-priorities` in virtual time: Deployments of five priority classes, half of them with
// PodDisruptionBudgets, that are all pending at once, then a third of them is scaled down, then some grow and shrink.
type prioritySeries struct {
	*world
	rnd     *rand.Rand
	usual   []int
	removed []removal
	emptied time.Time // when consolidation last removed a node with pods
	phase   priorityPhase
}

// priorityPhase is what happened in one part of a series.
type priorityPhase struct{ launched, again, replacedAgain, takenBack, preempted, evicted int }

// removal is a node that was removed, with what all workloads wanted then in milli-CPUs.
type removal struct {
	at    time.Time
	milli int64
}

// newPrioritySeries returns a series of drawn workloads; it has run nothing yet.
func newPrioritySeries(t *rapid.T, seed uint64, workloads int) *prioritySeries {
	w := newWorld(t, false)
	w.pol.Landing.Mode = landing.Bind
	w.Types = nil
	for _, cpu := range []int64{1, 2, 4, 8} {
		for _, f := range []struct {
			name string
			gib  int64
		}{{"c", 2}, {"s", 4}, {"m", 8}} {
			x := &model.InstanceType{Name: fmt.Sprint(f.name, "-", cpu), Labels: model.Labels{model.LabelInstanceType: fmt.Sprint(f.name, "-", cpu)},
				Capacity: model.Resources{cpu * 1000, (cpu * f.gib) << 30, 0, 16 * cpu}, Allocatable: model.Resources{cpu * 1000, (cpu * f.gib) << 30, 0, 16 * cpu}}
			price := 25_000*cpu + 1074*cpu*f.gib
			for _, z := range []string{"a", "b"} {
				x.Offerings = append(x.Offerings, model.Offering{Zone: z, CapacityType: model.OnDemand, PriceMicro: price, Available: true, Remaining: -1})
			}
			w.Types = append(w.Types, x)
		}
	}
	slices.SortFunc(w.Types, func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	w.pool().Types = w.Types
	w.pool().ConsolidationPolicy, w.pool().ConsolidateAfter = "WhenEmptyOrUnderutilized", 10*time.Second
	w.pool().Budgets = []model.Budget{{Nodes: 1000}}
	ps := &prioritySeries{world: w, rnd: rand.New(rand.NewPCG(seed, 72))}
	w.Workloads = nil
	cpus, mems := []int64{100, 250, 500, 750, 1000, 1500}, []int64{128, 256, 512, 1024, 2048, 4096}
	priorities := []int32{-100, 0, 1000, 10_000, 100_000}
	for i := range workloads {
		at := ps.rnd.IntN(len(cpus))
		usual := 4 + ps.rnd.IntN(17)
		name := fmt.Sprintf("w%02d", i)
		w.Workloads = append(w.Workloads, &sim.Workload{Name: name, Want: usual, Guarded: i%2 == 0, MinHealthy: usual - (usual+3)/4, Grace: 5 * time.Second, Class: classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": name}, Scheduler: model.DefaultScheduler,
			Priority: priorities[i%5], Preempts: i%5 != 3, Requests: model.Resources{cpus[at], mems[max(0, min(len(mems)-1, at+ps.rnd.IntN(3)-1))] << 20, 0, 1}})})
		ps.usual = append(ps.usual, usual)
	}
	w.Controller.Restart()
	w.did = func(a plan.Action) {
		switch a := a.(type) {
		case plan.CreateClaim:
			ps.phase.launched++
			if a.Why.Code == plan.Underutilized && w.Now.Before(ps.emptied.Add(time.Minute)) {
				ps.phase.replacedAgain++
			}
			i := slices.IndexFunc(ps.removed, func(r removal) bool { return w.Now.Sub(r.at) <= time.Minute && ps.wanted() <= r.milli })
			if i >= 0 { // a removal excuses at most one launch; a launch for pods that were not wanted then is not one again
				ps.removed = slices.Delete(ps.removed, i, i+1)
				ps.phase.again++
				w.say("launched again: %s", a.Name)
			}
		case plan.DeleteClaim:
			if a.Why.Code == plan.Underutilized {
				ps.emptied = w.Now
			}
			ps.removed = append(ps.removed, removal{w.Now, ps.wanted()})
		case plan.Evict:
			ps.phase.evicted++
		}
	}
	w.preempted = func(*model.Pod) { ps.phase.preempted++ }
	w.judge = func(_ *model.Snapshot, out *Output) {
		for _, a := range out.Actions {
			if u, ok := a.(plan.UpdateClaim); ok && u.Why.Code == plan.Aborted && len(u.Conditions) > 0 {
				ps.phase.takenBack++
			}
		}
	}
	return ps
}

// wanted returns what all workloads want, in milli-CPUs.
func (ps *prioritySeries) wanted() (milli int64) {
	for _, l := range ps.Workloads {
		milli += int64(l.Want) * l.Class.Requests.At(model.CPU)
	}
	return milli
}

func (ps *prioritySeries) scale(i, want int) {
	l := ps.Workloads[i]
	ps.say("%s of priority %d is scaled from %d to %d", l.Name, l.Class.Priority, l.Want, want)
	l.Want = want
	l.MinHealthy = want - (want+3)/4
}

// ended returns what happened since the last part ended.
func (ps *prioritySeries) ended() priorityPhase {
	out := ps.phase
	ps.phase = priorityPhase{}
	return out
}

// overBound returns what the nodes cost, as a multiple of the proven bound for the pods that are wanted.
func (ps *prioritySeries) overBound() float64 {
	var pods []*model.Pod
	for _, l := range ps.Workloads {
		for i := range l.Want {
			name := fmt.Sprint(l.Name, "-", i)
			pods = append(pods, &model.Pod{Namespace: "default", Name: name, UID: name, Class: l.Class})
		}
	}
	s := ps.st().Snapshot(ps.Now)
	res, _ := solve.Solve(&solve.Problem{ResourceNames: s.ResourceNames, Demand: pods, Pools: []solve.Pool{{NodePool: ps.pool(), NodesLeft: -1}}}, solve.Memory{}, ps.pol.Solve)
	return float64(ps.MicroPerHour()) / float64(res.Cost.BoundMicroPerHour)
}

// TestPrioritySeries plays series with fewer Deployments than the benchmark has. Pods that are all pending at once preempt nobody, nor do those that
// Dovetail moves; what kube-scheduler preempts for Deployments that are scaled up is theirs. Where Deployments grow and shrink, consolidation
// launches no replacement soon after a removal.
func TestPrioritySeries(t *testing.T) {
	t.Parallel()
	const workloads, series = 18, 3
	played := 0
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		if played++; played > series {
			return // one takes seconds
		}
		ps := newPrioritySeries(rt, seed, workloads)
		ps.Run(time.Minute)
		first := ps.ended()
		for i := 0; i < workloads; i += 3 {
			ps.scale(i, max(1, ps.Workloads[i].Want*2/5))
		}
		ps.Run(time.Minute)
		down := ps.ended()
		for range 9 {
			for range 2 {
				i := ps.rnd.IntN(workloads)
				ps.scale(i, 1+ps.rnd.IntN(2*ps.usual[i]))
			}
			ps.Run(20 * time.Second)
		}
		upAndDown := ps.ended() // some four minutes: less than consolidation waits at most before it launches a replacement
		ps.Run(time.Minute)
		t.Logf("seed %d: first launch %+v, a third scaled down %+v, up and down %+v; cost at rest %.3f of the bound", seed, first, down, upAndDown, ps.overBound())
		if first.launched == 0 {
			ps.fatalf("nothing was launched")
		}
		if n := upAndDown.replacedAgain; n > 0 {
			ps.fatalf("%d nodes were launched to save money within a minute after consolidation removed a node with pods; want none", n)
		}
		if n := first.preempted + down.preempted; n > 0 {
			ps.fatalf("%d pods were preempted; want none", n)
		}
	})
}
