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
)

// scaleDowns is a world of Deployments on machines of 2 to 64 CPUs, of which the larger ones hold a little more for their price. It is at rest when
// the Deployments are scaled down.
type scaleDowns struct {
	*world
	rnd  *rand.Rand
	last time.Time // when the Deployments were scaled down; zero: they have not been
	done scaleDownCounts
}

// scaleDownCounts is what became of the pods that were left.
type scaleDownCounts struct {
	left, evicted int
	twice         int     // evictions of pods that had been created in place of evicted ones since the scale-down
	takenBack     int     // NodeClaims whose disruption command was taken back
	dollars       float64 // for all machines, in the quarter of an hour after the scale-down
}

// newScaleDowns returns a world at rest whose pods have a grace period of 30 seconds. Equal seeds make equal worlds.
func newScaleDowns(t *rapid.T, seed uint64) *scaleDowns {
	w := newWorld(t, false)
	sd := &scaleDowns{world: w, rnd: rand.New(rand.NewPCG(seed, 1))}
	w.pol.Landing.Mode = landing.Bind
	w.Types = nil
	for _, cpu := range []int64{2, 4, 8, 16, 32, 64} {
		for _, f := range []struct {
			name string
			gib  int64 // for each CPU
		}{{"c", 2}, {"m", 4}} {
			name := fmt.Sprintf("%s-%02d", f.name, cpu)
			w.Types = append(w.Types, &model.InstanceType{Name: name, Labels: model.Labels{model.LabelInstanceType: name},
				Capacity: model.Resources{cpu * 1000, (cpu * f.gib) << 30, 0, 250}, Allocatable: model.Resources{cpu*1000 - 80 - cpu, (cpu*f.gib)<<30 - 1<<30, 0, 250},
				Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, PriceMicro: 30_000*cpu + 2100*cpu*f.gib, Available: true, Remaining: -1}}})
		}
	}
	w.pool().Types = w.Types
	w.pool().ConsolidationPolicy = "WhenEmptyOrUnderutilized"
	w.pool().ConsolidateAfter = []time.Duration{0, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}[sd.rnd.IntN(5)]
	w.pool().Budgets = []model.Budget{{Nodes: 1000}}
	w.Workloads = nil
	milli, mebi := []int64{250, 500, 900, 1500}, []int64{256, 512, 2048, 4096}
	for i := range 1 + sd.rnd.IntN(4) {
		name := fmt.Sprint("w", i)
		w.Workloads = append(w.Workloads, &sim.Workload{Name: name, Want: 20 + sd.rnd.IntN(150), Grace: 30 * time.Second, Class: classOf(model.Class{Namespace: "default",
			Labels: model.Labels{"app": name}, Scheduler: model.DefaultScheduler, Requests: model.Resources{milli[sd.rnd.IntN(4)], mebi[sd.rnd.IntN(4)] << 20, 0, 1}})})
	}
	w.Controller.Restart()
	w.did = func(a plan.Action) {
		if u, ok := a.(plan.UpdateClaim); ok && u.Why.Code == plan.Aborted && !sd.last.IsZero() {
			sd.done.takenBack++
		}
		e, ok := a.(plan.Evict)
		if !ok || sd.last.IsZero() {
			return
		}
		sd.done.evicted++
		if p := w.Pods[e.Namespace+"/"+e.Pod]; p != nil && p.Created.After(sd.last) {
			sd.done.twice++
		}
	}
	w.settle(3000)
	return sd
}

// scaleDown leaves between two and nine pods of ten of each Deployment, on nodes that are drawn, and lets a quarter of an hour pass. The other pods end after
// their grace period.
func (sd *scaleDowns) scaleDown(grace time.Duration) {
	sd.last = sd.Now
	for _, l := range sd.Workloads {
		want := max(1, l.Want*(2+sd.rnd.IntN(8))/10)
		var pods []*model.Pod
		for _, p := range sd.Pods {
			if p.Class == l.Class {
				pods = append(pods, p)
			}
		}
		slices.SortFunc(pods, func(a, b *model.Pod) int { return strings.Compare(a.Name, b.Name) })
		sd.rnd.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		for _, p := range pods[:max(0, len(pods)-want)] {
			sd.DeletePod(p, grace)
		}
		sd.say("%s is scaled from %d to %d", l.Name, l.Want, want)
		l.Want = want
		sd.done.left += want
	}
	sd.done.dollars += sd.Run(15*time.Minute) / 1e6
}

// TestScaleDownsMoveOnce scales Deployments down, whose pods end at once in one world and at the end of their grace period in another, which is the same
// otherwise. Half a minute of waiting is no reason to evict more pods, or to evict pods again that have just been moved.
func TestScaleDownsMoveOnce(t *testing.T) {
	t.Parallel()
	const worlds = 10
	const mostMore, mostTwice = 1.1, 0.1
	var atOnce, late scaleDownCounts
	played := 0
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		if played++; played > worlds {
			return // one takes a second
		}
		for _, x := range []struct {
			sum   *scaleDownCounts
			grace time.Duration
		}{{&atOnce, 0}, {&late, 30 * time.Second}} {
			sd := newScaleDowns(t, seed)
			sd.scaleDown(x.grace)
			x.sum.left += sd.done.left
			x.sum.evicted += sd.done.evicted
			x.sum.twice += sd.done.twice
			x.sum.dollars += sd.done.dollars
		}
	})
	t.Logf("pods that end at once %+v; after their grace period %+v", atOnce, late)
	switch {
	case atOnce.evicted == 0:
		t.Fatal("no pod was evicted: nothing was tested")
	case float64(late.evicted) > mostMore*float64(atOnce.evicted):
		t.Errorf("%d pods are evicted where others end after their grace period, and %d where they end at once; want at most %.1f times as many", late.evicted, atOnce.evicted, mostMore)
	case float64(late.twice) > mostTwice*float64(late.evicted):
		t.Errorf("%d of %d evictions are of pods that had been moved since the scale-down; want at most %.1f of them", late.twice, late.evicted, mostTwice)
	}
}

// TestMovedPodsKeepAway scales Deployments down on a cloud whose machines take 35 seconds to boot. What a command evicts meanwhile does not come to the nodes
// that another is about to replace, which stay open until their replacements are ready: these would be kept, and filled, and replaced a minute later.
func TestMovedPodsKeepAway(t *testing.T) {
	t.Parallel()
	const worlds = 10
	const mostTwice, mostTakenBack = 0.1, 0.02
	var sum scaleDownCounts
	played := 0
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		if played++; played > worlds {
			return // one takes a second
		}
		sd := newScaleDowns(t, seed)
		sd.Boot = 35 * time.Second
		sd.scaleDown(0)
		sum.left += sd.done.left
		sum.evicted += sd.done.evicted
		sum.twice += sd.done.twice
		sum.takenBack += sd.done.takenBack
	})
	t.Logf("%+v", sum)
	switch {
	case sum.evicted == 0:
		t.Fatal("no pod was evicted: nothing was tested")
	case float64(sum.twice) > mostTwice*float64(sum.evicted):
		t.Errorf("%d of %d evictions are of pods that had been moved since the scale-down; want at most %.1f of them", sum.twice, sum.evicted, mostTwice)
	case float64(sum.takenBack) > mostTakenBack*float64(sum.evicted):
		t.Errorf("%d disruption commands were taken back while %d pods were evicted; want at most %.2f of that", sum.takenBack, sum.evicted, mostTakenBack)
	}
}
