// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/casetest"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
	"github.com/dovetail-sh/dovetail/internal/state"
)

func TestMain(m *testing.M) { casetest.Drawn(m, 50, 20_000) }

// TestWorldSettles lets everything go wrong for a while, and then nothing: whatever happened, every pod runs in the end, and
// nothing is left behind.
func TestWorldSettles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, true)
		w.sickly = rapid.IntRange(0, 2).Draw(t, "kubelets die") == 0
		if rapid.IntRange(0, 3).Draw(t, "consolidates") == 0 {
			w.pool().ConsolidateAfter = 10 * time.Second
		}
		if rapid.IntRange(0, 3).Draw(t, "startup taints") == 0 {
			w.pool().StartupTaints = []model.Taint{{Key: "cni", Effect: model.NoSchedule}}
		}
		if rapid.IntRange(0, 3).Draw(t, "expires") == 3 {
			w.pool().ExpireAfter = 40 * time.Second
		}
		if rapid.IntRange(0, 3).Draw(t, "is forced to end") == 3 {
			w.pool().TerminationGracePeriod = 20 * time.Second
		}
		w.SetPool(w.pool())
		w.wild()
		w.rush(10, 150, 50, 200, 1000, 5000)
		w.say("from here on nothing goes wrong")
		w.editPool(func(p *model.NodePool) { p.ExpireAfter = -1 })
		w.settle(3000)
		w.clean()
	})
}

// TestLimitHolds lets everything go wrong under a limit: it is never exceeded, whatever is in flight.
func TestLimitHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, true)
		w.pool().Limits, w.pool().HasLimit = model.Resources{rapid.SampledFrom([]int64{2000, 6000, 8000, 14000}).Draw(t, "limit")}, []bool{true}
		w.SetPool(w.pool())
		w.wild()
		w.rush(10, 100, 50, 200, 1000, 5000)
	})
}

// TestClusterLimitHolds lets everything go wrong under a limit over the cluster, on nodes, cores and dollars: it is never
// exceeded, whatever is in flight.
func TestClusterLimitHolds(t *testing.T) {
	t.Parallel()
	reached := int64(0)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, true)
		limit := &model.CapacityLimit{Name: model.ClusterLimits, Nodes: int64(rapid.IntRange(0, 6).Draw(t, "nodes")), HasMost: []bool{true},
			Most:         model.Resources{rapid.SampledFrom([]int64{2000, 6000, 14000, 100000}).Draw(t, "cores")},
			MicroPerHour: rapid.SampledFrom([]int64{50_000, 150_000, 400_000, 10_000_000}).Draw(t, "micro-dollars")}
		w.SetLimit(limit)
		w.wild()
		w.rush(10, 60, 50, 200, 1000, 5000)
		reached = max(reached, w.mostMicro)
	})
	if reached == 0 {
		untested(t, "nothing was bought within any limit")
	}
}

// TestGroupRulesHold lets everything go wrong, but for a crash, in a pool of node groups with a delay after removals, and
// with pods that are expendable: no node is launched for these, no removal begins within the delay, and in the end no
// node is kept for them.
func TestGroupRulesHold(t *testing.T) {
	removed, kept := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, true)
		c := *w.Workloads[0].Class
		c.Priority = -11
		w.Workloads[0].Class = classOf(c)
		for _, l := range w.Workloads[1:] { // as most pods do, and reservations protect expendable ones from it
			c := *l.Class
			c.Preempts = true
			l.Class = classOf(c)
		}
		delay := rapid.SampledFrom([]time.Duration{5 * time.Second, 20 * time.Second, 2 * time.Minute}).Draw(t, "delay after a removal")
		w.pool().Labels = model.Labels{model.LabelNodeGroup: "web"}
		w.pool().Scaling = &model.GroupScaling{UtilizationPercent: -1, GPUPercent: -1, Cutoff: model.PriorityCutoff{Set: true, Below: -10},
			Delays: model.ScaleDownDelays{AfterDelete: delay, PerGroup: rapid.Bool().Draw(t, "delays count per group")}}
		w.pool().ConsolidateAfter, w.pool().ConsolidationPolicy = 5*time.Second, "WhenEmptyOrUnderutilized"
		w.SetPool(w.pool())
		var last time.Time
		w.did = func(a plan.Action) {
			if d, ok := a.(plan.DeleteClaim); ok && disrupt.IsConsolidation(d.Why.Code) {
				last = w.Now
				removed++
			}
		}
		w.judge = func(_ *model.Snapshot, out *Output) {
			for _, a := range out.Actions {
				if a, ok := a.(plan.CreateClaim); ok {
					if i := slices.IndexFunc(a.Pods, w.MayPend); i >= 0 {
						w.fatalf("claim %s is made for %s, which is expendable", a.Name, a.Pods[i].Name)
					}
				}
			}
			for _, m := range out.Commands {
				if disrupt.IsConsolidation(m.Cause) && !last.IsZero() && w.Now.Before(last.Add(delay)) {
					w.fatalf("the removal of %d nodes (%s) begins %s after another, want %s", len(m.Candidates), m.Cause, w.Now.Sub(last), delay)
				}
			}
		}
		w.wild(sim.WatchLags, sim.SlowCall, sim.CallFails, sim.AnswerLost, sim.PodDeleted, sim.Scaled, sim.NoCapacityLeft, sim.ClaimDeleted, sim.MachineDies, sim.EvictionBlocked, sim.SlowToBoot, sim.NoLookAtDemand)
		w.rush(10, 150, 50, 200, 1000, 5000)
		w.say("from here on nothing goes wrong")
		w.settle(3000)
		w.clean()
		for _, c := range w.Claims {
			if w.Nodes[c.NodeName] == nil || w.Now.Before(w.mem.backOffs.Until(c.UID)) {
				continue
			}
			needed := false
			for _, p := range w.Pods {
				needed = needed || p.Node == c.NodeName && !w.MayPend(p)
			}
			if kept++; needed {
				continue
			}
			why, err := Why(w.st().Snapshot(w.Now), w.mem, w.Now, w.pol, "node/"+c.NodeName)
			if err != nil || !slices.ContainsFunc(why.Findings, func(f plan.Finding) bool { return f.Reason.Code == plan.DelayAfterDelete }) {
				w.fatalf("node %s is kept, and nothing but expendable pods is on it: %+v %v", c.NodeName, why.Findings, err)
			}
		}
	})
	if removed == 0 || kept == 0 {
		untested(t, "%d nodes were removed, %d kept", removed, kept)
	}
}

// TestNothingIsBoughtTwice has waves of pods come, some one by one, while calls are slow, watches lag and the controller dies: room is bought
// for each pod once, and before it is there or after.
func TestNothingIsBoughtTwice(t *testing.T) {
	t.Parallel()
	expected := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.judge = func(_ *model.Snapshot, out *Output) {
			for _, a := range out.Actions {
				if a, ok := a.(plan.CreateClaim); ok && slices.ContainsFunc(a.Pods, func(p *model.Pod) bool { return p.Expected }) {
					expected++
				}
			}
		}
		w.pol.Landing.Mode = rapid.SampledFrom([]landing.Mode{landing.Bind, landing.Tolerate}).Draw(t, "landing")
		w.wild(sim.WatchLags, sim.SlowCall, sim.Crash, sim.CallFails, sim.AnswerLost, sim.LaunchAnswerLost, sim.PodsOneByOne, sim.SchedulerIsSlow, sim.NoLookAtDemand, sim.ListFails, sim.NotListedYet)
		room := func() map[string]int {
			out := map[string]int{}
			for _, c := range w.Claims {
				for _, s := range c.Slots {
					out[s.Owner] += s.Count
				}
			}
			return out
		}
		for range rapid.IntRange(10, 60).Draw(t, "ticks") {
			if rapid.IntRange(0, 9).Draw(t, "wave") == 9 {
				l := rapid.SampledFrom(w.Workloads).Draw(t, "workload")
				l.Want += rapid.IntRange(1, 5).Draw(t, "more")
				w.say("%s is scaled to %d", l.Name, l.Want)
			}
			w.Tick()
			have := room()
			for _, l := range w.Workloads {
				if n := have["uid-"+l.Name]; n > l.Want {
					w.fatalf("%d slots were bought for the %d pods of %s", n, l.Want, l.Name)
				}
			}
			w.Now = w.Now.Add(time.Duration(rapid.SampledFrom([]int{20, 50, 200, 400}).Draw(t, "ms")) * time.Millisecond)
		}
	})
	if expected == 0 {
		untested(t, "nothing was bought for pods that were to come")
	}
}

// TestNoNodeIsOverfilled scales workloads up and down in pools that consolidate, some of node groups, while kube-scheduler hears of changes later
// than Dovetail: the two never fill one node together.
func TestNoNodeIsOverfilled(t *testing.T) {
	t.Parallel()
	hosts, bound := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.Landing.Mode = landing.Bind
		w.Packs = rapid.Bool().Draw(t, "packs")
		if rapid.Bool().Draw(t, "pods tolerate the taints of a node that is Ready and not registered yet") {
			w.Readiness = 0
			for _, x := range w.Workloads {
				c := *x.Class
				c.Tolerations = []model.Toleration{{Exists: true, Effect: model.NoExecute, For: -1}}
				x.Class = classOf(c)
			}
		}
		w.editPool(func(p *model.NodePool) {
			p.ConsolidateAfter, p.ConsolidationPolicy = time.Second, "WhenEmptyOrUnderutilized"
			if rapid.Bool().Draw(t, "node group") {
				p.Labels = model.Labels{model.LabelNodeGroup: "web"}
				p.Scaling = &model.GroupScaling{UtilizationPercent: -1, GPUPercent: -1}
			}
		})
		w.did = func(a plan.Action) {
			switch a := a.(type) {
			case plan.UpdateClaim:
				if record := a.Annotations[cluster.AnnotationHost]; record != "" && record != plan.Unset {
					hosts++
				}
			case plan.Bind:
				bound++
			}
		}
		w.wild(sim.Scaled, sim.PodDeleted, sim.WatchLags, sim.SlowCall, sim.PodsOneByOne, sim.SchedulerIsSlow, sim.SchedulerLags, sim.BindingIsLate, sim.NoLookAtDemand, sim.Crash, sim.AnswerLost)
		w.Faults.Odds[sim.Scaled], w.Faults.Odds[sim.PodDeleted], w.Faults.Odds[sim.SchedulerLags] = 5, 3, 60
		w.rush(20, 150, 20, 50, 200, 1000, 3000)
	})
	if hosts == 0 || bound == 0 {
		untested(t, "%d nodes were reserved and %d pods bound", hosts, bound)
	}
}

// TestWordIsKept scales workloads whose pods keep apart to more than zones or limits allow, while watches lag and pods come one by one: a pod
// that was told of its node is not refused later, and one that was refused does not run, since nothing becomes free.
func TestWordIsKept(t *testing.T) {
	t.Parallel()
	refusals := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.Landing.Mode = rapid.SampledFrom([]landing.Mode{landing.Bind, landing.Tolerate}).Draw(t, "landing")
		w.Serial = rapid.IntRange(0, 9).Draw(t, "first number") // pods come by name in another order than they were made in
		w.Workloads = nil
		key := rapid.SampledFrom([]string{model.LabelZone, model.LabelHostname}).Draw(t, "apart by")
		if key == model.LabelHostname {
			w.pool().NodeLimit = int64(rapid.IntRange(1, 3).Draw(t, "nodes at most"))
			w.SetPool(w.pool())
		}
		for i := range rapid.IntRange(1, 2).Draw(t, "workloads") {
			name := fmt.Sprint("w", i)
			sel := model.NewRequirements(model.OneOf("app", name))
			w.Workloads = append(w.Workloads, &sim.Workload{Name: name, Want: rapid.IntRange(2, 7).Draw(t, "replicas"), Grace: time.Second, Class: classOf(model.Class{
				Namespace: "default", Labels: model.Labels{"app": name}, Scheduler: model.DefaultScheduler, Requests: model.Resources{900, 128 << 20, 0, 1},
				AntiAffinity: []model.PodTerm{{TopologyKey: key, Selector: model.Selector{Namespaces: []string{"default"}, Pods: &sel}}}})})
		}
		told, refused := map[string]string{}, map[string]bool{}
		w.judge = func(_ *model.Snapshot, out *Output) {
			for _, d := range out.Pods {
				switch {
				case d.Outcome != plan.Refused:
					told[d.Pod.UID] = d.Target
				case told[d.Pod.UID] != "":
					w.fatalf("pod %s was told of %s and is refused: %s", d.Pod.Name, told[d.Pod.UID], reason(d.Reasons[0]))
				default:
					refused[d.Pod.UID] = true
				}
			}
		}
		w.wild(sim.WatchLags, sim.SlowCall, sim.PodsOneByOne, sim.SchedulerIsSlow, sim.NoLookAtDemand, sim.SlowToBoot)
		for range rapid.IntRange(10, 60).Draw(t, "ticks") {
			w.Tick()
			for _, k := range slices.Sorted(maps.Keys(w.Pods)) {
				if p := w.Pods[k]; p.Node != "" && refused[p.UID] {
					w.fatalf("pod %s was refused and runs on %s", p.Name, p.Node)
				}
			}
			w.Now = w.Now.Add(time.Duration(rapid.SampledFrom([]int{20, 50, 200, 1000}).Draw(t, "ms")) * time.Millisecond)
		}
		refusals += len(refused)
	})
	if refusals == 0 {
		untested(t, "no pod was refused")
	}
}

// TestAskedAgain decides on any cluster, has what was decided recorded as under way, and decides again: nothing more is bought, and
// nothing is begun twice.
func TestAskedAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawCluster(t)
		first, mem := Step(w.st().Snapshot(w.Now), w.mem, w.Now, w.pol, Request{Solve: true})
		begun := map[model.ActionKey]bool{}
		for _, a := range first.Actions {
			if begun[a.Key()] {
				w.fatalf("twice in one plan: %s", describeAction(a))
			}
			begun[a.Key()] = true
			w.st().Begin(a, w.Now, w.Now.Add(time.Minute))
		}
		second, _ := Step(w.st().Snapshot(w.Now), mem, w.Now, w.pol, Request{Solve: true})
		for _, a := range second.Actions {
			if _, ok := a.(plan.CreateClaim); ok {
				w.fatalf("bought once more: %s\nfirst: %s\nsecond: %s", describeAction(a), actions(first), actions(second))
			}
			if begun[a.Key()] {
				w.fatalf("begun twice: %s", describeAction(a))
			}
		}
	})
}

// TestOrderDoesNotMatter hands one cluster to two controllers, its objects in different orders: they decide the same, and the same
// again when asked again, for a decision changes nothing that it looked at.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawCluster(t)
		var events []func(*state.State)
		for _, k := range slices.Sorted(maps.Keys(w.Claims)) {
			events = append(events, func(s *state.State) { s.SetClaim(w.Claims[k], 1) })
		}
		for _, k := range slices.Sorted(maps.Keys(w.Nodes)) {
			events = append(events, func(s *state.State) { s.SetNode(w.Nodes[k], 1) })
		}
		for _, k := range slices.Sorted(maps.Keys(w.Pods)) {
			events = append(events, func(s *state.State) { s.SetPod(w.Pods[k]) })
		}
		for _, l := range w.Workloads {
			events = append(events, func(s *state.State) { s.SetReplicas("uid-"+l.Name, l.Want) })
		}
		answer := func(events []func(*state.State)) string {
			s := state.New()
			s.SetNow(w.Now)
			s.SetNamespace("default", nil, time.Time{})
			s.Pools.SetPool(w.pool())
			for _, ev := range events {
				ev(s)
			}
			snap := s.Snapshot(w.Now)
			first, mem := Step(snap, Memory{}, w.Now, w.pol, Request{Solve: true})
			again, _ := Step(snap, Memory{}, w.Now, w.pol, Request{Solve: true})
			if a, b := actions(first), actions(again); a != b {
				w.fatalf("asked twice, answered twice:\n%s\n%s", a, b)
			}
			later, _ := Step(snap, mem, w.Now.Add(time.Minute), w.pol, Request{Solve: true})
			return actions(first) + actions(later)
		}
		a, b := answer(events), answer(rapid.Permutation(events).Draw(t, "order"))
		if a != b {
			w.fatalf("the order of events matters:\n%s\n%s", a, b)
		}
	})
}

// drawCluster is a cluster as it may be at any moment.
func drawCluster(t *rapid.T) *world {
	w := newWorld(t, true)
	if rapid.Bool().Draw(t, "consolidates") {
		w.pool().ConsolidateAfter = 10 * time.Second
	}
	w.SetPool(w.pool())
	w.wild()
	w.rush(1, 60, 50, 200, 1000, 5000)
	w.Happen()
	w.Controller.See()
	return w
}

// actions writes all that an answer says.
func actions(out Output) string {
	var b strings.Builder
	for _, a := range out.Actions {
		fmt.Fprintf(&b, "%s: %s\n", a.Key(), describeAction(a))
	}
	for _, d := range out.Pods {
		fmt.Fprintf(&b, "%s %s %s %v\n", d.Pod.Name, d.Outcome, d.Target, d.Reasons)
	}
	fmt.Fprintf(&b, "%+v next %s\n", out.Cost, out.Next)
	return b.String()
}

// remains says what is not as it should be in the end.
func (w *world) remains() string {
	var out string
	for _, k := range slices.Sorted(maps.Keys(w.Pods)) {
		if p := w.Pods[k]; p.Node == "" || !p.Deleting.IsZero() {
			out += "pod " + p.Name + " on " + p.Node + " deleting " + p.Deleting.String() + "\n"
		}
	}
	for _, k := range slices.Sorted(maps.Keys(w.Claims)) {
		if c := w.Claims[k]; !c.Deleting.IsZero() || !c.Is("Initialized") {
			out += "claim " + c.Name + " deleting " + c.Deleting.String() + "\n"
		}
	}
	return out
}

// clean holds what must be true when all is done.
func (w *world) clean() {
	for _, p := range w.Pods {
		if p.Node == "" && !w.MayPend(p) {
			w.fatalf("pod %s is not bound", p.Name)
		}
	}
	for _, n := range w.Nodes {
		for _, t := range n.Taints {
			if t.Key == model.TaintReserved || t.Key == model.TaintUnregistered {
				w.fatalf("node %s bears %s for ever", n.Name, taintText(t))
			}
		}
	}
	owned := map[string]bool{}
	for _, m := range w.Machines {
		if !m.Gone {
			if w.ClaimOf(m) == nil {
				w.fatalf("machine %s belongs to nobody", m.ID)
			}
			owned[m.ClaimUID] = true
		}
	}
	for _, c := range w.Claims {
		if !owned[c.UID] {
			w.fatalf("claim %s has no machine", c.Name)
		}
	}
}
