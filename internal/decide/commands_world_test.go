// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// putBack holds when no move is under way: nothing is tainted or marked for one, and nothing bears the record of one.
func (w *world) putBack() {
	for _, n := range slices.Sorted(maps.Keys(w.Nodes)) {
		if slices.Contains(w.Nodes[n].Taints, disrupt.DisruptedTaint) {
			w.fatalf("node %s is tainted for a move that is over", n)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(w.Claims)) {
		c := w.Claims[n]
		if c.Is(lifecycle.Disrupted) {
			w.fatalf("claim %s is marked for a move that is over", n)
		}
		for _, key := range []string{cluster.AnnotationCommand, cluster.AnnotationHost} {
			if c.Annotations[key] != "" {
				w.fatalf("claim %s bears the record of a move that is over: %s %s", n, key, c.Annotations[key])
			}
		}
	}
}

// TestMovesSettle consolidates while everything goes wrong, the controller's death included, and then nothing: every move is finished or
// taken back, every pod runs, nothing is left cordoned, and then nothing moves any more.
func TestMovesSettle(t *testing.T) {
	t.Parallel()
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pool().ConsolidateAfter = time.Duration(rapid.SampledFrom([]int{0, 5, 20}).Draw(t, "consolidateAfter")) * time.Second
		w.pol.BackOff = 20 * time.Second
		w.pool().ConsolidationPolicy = "WhenEmptyOrUnderutilized"
		if n := rapid.SampledFrom([]int64{-1, 1, 2}).Draw(t, "budget"); n >= 0 {
			w.pool().Budgets = []model.Budget{{Nodes: n}}
		}
		w.SetPool(w.pool())
		w.wild()
		w.rush(10, 120, 50, 200, 1000, 5000)
		w.say("from here on nothing goes wrong")
		w.settle(4000)
		w.putBack()
		// From here on pods and prices are frozen: moves end, each lowering the bill.
		for round := 0; ; round++ {
			if round > 20 {
				w.fatalf("moves don't end")
			}
			before, made := w.MicroPerHour(), w.created
			w.Now = w.Now.Add(2 * time.Hour) // what was bought to save money has paid for itself
			w.settle(4000)
			w.putBack()
			if w.created == made {
				break
			}
			if w.MicroPerHour() > before {
				w.fatalf("the bill rises from $%d an hour to $%d", before, w.MicroPerHour())
			}
		}
		for _, line := range w.history {
			if strings.Contains(line, "("+string(plan.Underutilized)) {
				moved++
				break
			}
		}
	})
	if moved == 0 {
		untested(t, "nothing was ever moved: nothing was tested")
	}
}

// TestDriftSettles changes the pool's template while everything goes wrong: in the end every machine is of the new one.
func TestDriftSettles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.BackOff = 20 * time.Second
		w.pool().Hash = "one"
		w.SetPool(w.pool())
		w.settle(3000)
		p := *w.pool()
		p.Hash = "two"
		if rapid.Bool().Draw(t, "budget") {
			p.Budgets = []model.Budget{{Nodes: 1}}
		}
		w.SetPool(&p)
		w.say("the pool's template is another")
		w.wild()
		w.rush(0, 60, 50, 200, 1000)
		w.say("from here on nothing goes wrong")
		former := func() string {
			for _, n := range slices.Sorted(maps.Keys(w.Claims)) {
				if w.Claims[n].Annotations[hashAnnotation] != "two" {
					return n
				}
			}
			return ""
		}
		for range 6 { // a node without a possible replacement backs off, twice as long each time, for up to two hours
			if w.settle(6000); former() == "" {
				break
			}
			w.Now = w.Now.Add(time.Hour)
		}
		w.putBack()
		if n := former(); n != "" {
			w.fatalf("claim %s is still of template %s", n, w.Claims[n].Annotations[hashAnnotation])
		}
	})
}

// TestHistoryChangesNothing takes a controller through rounds of growth and shrinking until it is at rest. One that starts then, knowing nothing of
// it, finds nothing more to do: what a controller has been through does not make it leave machines that another would give back.
func TestHistoryChangesNothing(t *testing.T) {
	t.Parallel()
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pool().ConsolidateAfter, w.pool().ConsolidationPolicy = 20*time.Second, "WhenEmptyOrUnderutilized"
		w.SetPool(w.pool())
		for range rapid.IntRange(2, 8).Draw(t, "rounds") {
			for _, l := range w.Workloads {
				l.Want = rapid.IntRange(0, 10).Draw(t, "replicas")
			}
			end := w.Now.Add(time.Duration(rapid.SampledFrom([]int{5, 30, 120, 900}).Draw(t, "seconds")) * time.Second)
			for w.Now.Before(end) {
				w.Tick()
				w.Now = w.Now.Add(time.Second)
			}
		}
		rest := func() (moves int) {
			for range 2 { // the second time what was bought to save money has paid for itself
				w.settle(4000)
				w.Now = w.Now.Add(2 * time.Hour)
			}
			w.settle(4000)
			for _, line := range w.history {
				if strings.Contains(line, "("+string(plan.Underutilized)) || strings.Contains(line, "("+string(plan.Empty)) {
					moves++
				}
			}
			return moves
		}
		before := rest()
		moved += before
		w.say("another controller")
		w.Controller.Restart()
		if after := rest(); after != before {
			w.fatalf("a controller that has just started goes on with %d actions", after-before)
		}
	})
	if moved == 0 {
		untested(t, "nothing was ever moved: nothing was tested")
	}
}

// TestOscillation has a workload go up and down. Where it comes back within seconds, few pods are moved after the first few times: the room is
// expected to be wanted again, and to come free again by itself. Where it stays down for a quarter of an hour its machines are given back every time
// that this pays.
func TestOscillation(t *testing.T) {
	t.Parallel()
	const cycles, learned, mostEvictions = 9, 3, 6
	slow := 0
	rapid.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.SampledFrom([]int{10, 15, 15, 900}).Draw(t, "seconds")) * time.Second
		high, low := rapid.IntRange(4, 12).Draw(t, "high"), rapid.IntRange(1, 4).Draw(t, "low")
		w := newWorld(t, false)
		w.pol.Landing.Mode = landing.Bind
		l := w.Workloads[0]
		w.Workloads, l.Stateful = w.Workloads[:1], false
		l.Class = classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": l.Name}, Scheduler: model.DefaultScheduler,
			Requests: model.Resources{rapid.SampledFrom([]int64{250, 900, 1500}).Draw(t, "milli-CPUs"), 128 << 20, 0, 1}})
		w.pool().ConsolidationPolicy, w.pool().ConsolidateAfter = "WhenEmptyOrUnderutilized", 0
		w.Controller.Restart()
		evictions := 0
		w.did = func(a plan.Action) {
			if _, ok := a.(plan.Evict); ok {
				evictions++
			}
		}
		for n := range 2 * cycles {
			if l.Want = []int{high, low}[n%2]; n == 2*learned {
				evictions = 0
			}
			for end := w.Now.Add(period); w.Now.Before(end); {
				w.Tick()
				step := 200 * time.Millisecond
				if w.Controller.IsQuiet() {
					step = min(max(time.Second, w.Controller.Next.Sub(w.Now)), 10*time.Second)
				}
				w.Now = w.Now.Add(min(step, end.Sub(w.Now)))
			}
		}
		if period == 15*time.Minute {
			slow += evictions
		} else if evictions > mostEvictions {
			w.fatalf("%d pods are evicted in %d cycles of %s after the first %d", evictions, cycles-learned, 2*period, learned)
		}
	})
	if slow == 0 {
		untested(t, "nothing was ever moved while a workload stayed down: nothing was tested")
	}
}

// TestResizedPodsAreNotMovedInVain has pods that are made smaller in place once they run, and whose successors are created as large as they were:
// capacity that they do not use is no reason to move them, since a node would have to be launched for the successor.
func TestResizedPodsAreNotMovedInVain(t *testing.T) {
	t.Parallel()
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		for i, l := range w.Workloads {
			c := model.Class{Namespace: "default", Labels: model.Labels{"app": l.Name}, Scheduler: model.DefaultScheduler,
				Requests: model.Resources{rapid.SampledFrom([]int64{1500, 3000, 3500}).Draw(t, "milli-CPUs when created"), 128 << 20, 0, 1}}
			l.Class, l.Stateful, l.Bare, l.Want = classOf(c), false, false, rapid.IntRange(1, 4).Draw(t, "replicas")
			if i == 0 || rapid.Bool().Draw(t, "is resized") {
				c.Requests = model.Resources{rapid.SampledFrom([]int64{100, 200, 900}).Draw(t, "milli-CPUs later"), 128 << 20, 0, 1}
				l.Resized = classOf(c)
			}
		}
		w.pool().ConsolidationPolicy, w.pool().ConsolidateAfter = "WhenEmptyOrUnderutilized", 30*time.Second
		w.Controller.Restart()
		w.settle(4000)
		vain := 0
		w.did = func(a plan.Action) {
			if c, ok := a.(plan.CreateClaim); ok && c.Why.Code == plan.Demand {
				vain++
			}
			if _, ok := a.(plan.Evict); ok {
				moved++
			}
		}
		for range 4 {
			w.Now = w.Now.Add(3 * time.Hour)
			w.settle(4000)
		}
		if vain > 0 {
			w.fatalf("%d nodes were launched for pods that had one, in 12 hours in which nobody but Dovetail changed anything", vain)
		}
	})
	if moved == 0 {
		untested(t, "nothing was ever moved: nothing was tested")
	}
}
