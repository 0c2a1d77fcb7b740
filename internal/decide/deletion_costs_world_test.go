// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/deletioncost"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// kubeOrder compares pods of a workload as kube-controller-manager does to choose which to delete: those that run nowhere, by deletion cost, those that share their node
// with the most of them, the newest.
func (w *world) kubeOrder(l *sim.Workload) func(a, b *model.Pod) int {
	return func(a, b *model.Pod) int {
		beside := func(p *model.Pod) (n int) {
			for _, o := range w.PodsOn(p.Node) {
				if o.Class == l.Class {
					n++
				}
			}
			return n
		}
		return cmp.Or(cmp.Compare(min(len(a.Node), 1), min(len(b.Node), 1)), cmp.Compare(a.DeletionCostValue(), b.DeletionCostValue()), cmp.Compare(beside(b), beside(a)),
			b.Created.Compare(a.Created), cmp.Compare(b.Seen, a.Seen))
	}
}

// TestDeletionCosts scales workloads down step by step, once with pod deletion costs written each minute and once without: over some draws, always the same, fewer pods are evicted
// with them, and nodes cost at most a hundredth more.
func TestDeletionCosts(t *testing.T) {
	t.Parallel()
	var evictions [2]int
	var micro [2]float64
	scaleDowns := rapid.Custom(func(t *rapid.T) bool {
		n, rounds := rapid.IntRange(1, 3).Draw(t, "kinds"), rapid.IntRange(1, 4).Draw(t, "scale-downs")
		var cpu []int64
		var wants [][]int
		for range n {
			cpu = append(cpu, rapid.SampledFrom([]int64{250, 900, 1500}).Draw(t, "milli-CPUs"))
			list := []int{rapid.IntRange(6, 20).Draw(t, "replicas")}
			for range rounds {
				list = append(list, rapid.IntRange(max(1, list[len(list)-1]/2), list[len(list)-1]).Draw(t, "replicas then"))
			}
			wants = append(wants, list)
		}
		for on := range evictions {
			w, costs := newWorld(t, false), &deletioncost.Planner{}
			w.pol.Landing.Mode, w.Workloads = landing.Bind, nil
			for i := range n {
				l := &sim.Workload{Name: fmt.Sprint("w", i), Grace: time.Second, Want: wants[i][0], Class: classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": fmt.Sprint("w", i)},
					Scheduler: model.DefaultScheduler, Requests: model.Resources{cpu[i], 128 << 20, 0, 1}})}
				l.Order = w.kubeOrder(l)
				w.Workloads = append(w.Workloads, l)
			}
			w.editPool(func(p *model.NodePool) {
				p.ConsolidationPolicy, p.ConsolidateAfter = "WhenEmptyOrUnderutilized", 30*time.Second
			})
			w.Controller.Restart()
			w.settle(3000)
			w.did = func(a plan.Action) {
				if _, ok := a.(plan.Evict); ok {
					evictions[on]++
				}
			}
			for round := range rounds {
				for minute := range 20 {
					if on == 1 {
						w.writeDeletionCosts(costs)
					}
					if minute == 2 { // costs are written before
						for i, l := range w.Workloads {
							l.Want = wants[i][round+1]
						}
					}
					micro[on] += w.Run(time.Minute)
				}
			}
			for range 10 { // all are written
				w.writeDeletionCosts(costs)
				w.Run(time.Second)
			}
			if list := costs.Plan(w.Now, w.st().Snapshot(w.Now), false); on == 1 && len(list) > 0 {
				w.fatalf("costs are written again and again though nothing changes: %v", list)
			}
		}
		return true
	})
	seeds := 16
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		scaleDowns.Example(seed)
	}
	t.Logf("%d evictions with deletion costs, %d without; nodes cost %.3f of it", evictions[1], evictions[0], micro[1]/micro[0])
	if testing.Short() { // few worlds are drawn then
		return
	}
	if evictions[1] >= evictions[0] || micro[1] > 1.01*micro[0] {
		t.Errorf("%d evictions with deletion costs, %d without; nodes cost %.3f of it", evictions[1], evictions[0], micro[1]/micro[0])
	}
}

// writeDeletionCosts writes what is to be written now.
func (w *world) writeDeletionCosts(costs *deletioncost.Planner) {
	for _, x := range costs.Plan(w.Now, w.st().Snapshot(w.Now), false) {
		if p := w.Pods[model.PodKey(x.Namespace, x.Pod)]; p != nil && p.UID == x.UID {
			q := *p
			q.DeletionCost, q.OwnDeletionCost = x.Cost, x.Cost
			w.SetPod(&q)
		}
	}
}
