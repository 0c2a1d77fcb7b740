// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/casetest"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
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
			w.pool.ConsolidateAfter = 10 * time.Second
		}
		if rapid.IntRange(0, 3).Draw(t, "startup taints") == 0 {
			w.pool.StartupTaints = []model.Taint{startupCNI}
		}
		if rapid.IntRange(0, 3).Draw(t, "expires") == 3 {
			w.pool.ExpireAfter = 40 * time.Second
		}
		if rapid.IntRange(0, 3).Draw(t, "is forced to end") == 3 {
			w.pool.TerminationGracePeriod = 20 * time.Second
		}
		w.st.Pools.SetPool(w.pool)
		w.wild = true
		for range rapid.IntRange(10, 150).Draw(t, "wild ticks") {
			w.tick()
			w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{50, 200, 1000, 5000}).Draw(t, "ms")) * time.Millisecond)
		}
		w.say("from here on nothing goes wrong")
		p := *w.pool
		p.ExpireAfter = -1
		w.pool = &p
		w.st.Pools.SetPool(w.pool)
		if !w.settle(3000) {
			w.fatalf("it does not end\n%s", w.remains())
		}
		w.clean()
	})
}

// TestLimitHolds lets everything go wrong under a limit: it is never exceeded, whatever is in flight.
func TestLimitHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, true)
		w.pool.Limits, w.pool.HasLimit = model.Resources{rapid.SampledFrom([]int64{2000, 6000, 8000, 14000}).Draw(t, "limit")}, []bool{true}
		w.st.Pools.SetPool(w.pool)
		w.wild = true
		for range rapid.IntRange(10, 100).Draw(t, "wild ticks") {
			w.tick() // which checks it
			w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{50, 200, 1000, 5000}).Draw(t, "ms")) * time.Millisecond)
		}
	})
}

// TestClusterLimitHolds lets everything go wrong under a limit over the cluster, on nodes, cores and dollars: it is never
// exceeded, whatever is in flight.
func TestClusterLimitHolds(t *testing.T) {
	t.Parallel()
	reached := int64(0)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, true)
		w.limit = &model.CapacityLimit{Name: model.ClusterLimits, Nodes: int64(rapid.IntRange(0, 6).Draw(t, "nodes")), HasMost: []bool{true},
			Most:         model.Resources{rapid.SampledFrom([]int64{2000, 6000, 14000, 100000}).Draw(t, "cores")},
			MicroPerHour: rapid.SampledFrom([]int64{50_000, 150_000, 400_000, 10_000_000}).Draw(t, "micro-dollars")}
		w.st.SetLimit(w.limit)
		w.wild = true
		for range rapid.IntRange(10, 60).Draw(t, "wild ticks") {
			w.tick() // which checks it
			w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{50, 200, 1000, 5000}).Draw(t, "ms")) * time.Millisecond)
		}
		reached = max(reached, w.mostMicro)
	})
	if reached == 0 {
		t.Error("nothing was bought within any limit")
	}
}

// TestGroupRulesHold lets everything go wrong, but for a crash, in a pool of node groups with a delay after removals, and
// with pods that are expendable: no node is launched for these, no removal begins within the delay, and in the end no
// node is kept for them.
func TestGroupRulesHold(t *testing.T) {
	removed, kept := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, true)
		c := *w.workloads[0].class
		c.Priority = -11
		w.workloads[0].class = classOf(c)
		delay := rapid.SampledFrom([]time.Duration{5 * time.Second, 20 * time.Second, 2 * time.Minute}).Draw(t, "delay after a removal")
		w.pool.Labels = model.Labels{model.LabelNodeGroup: "web"}
		w.pool.Scaling = &model.GroupScaling{UtilizationPercent: -1, GPUPercent: -1, Cutoff: model.PriorityCutoff{Set: true, Below: -10},
			Delays: model.ScaleDownDelays{AfterDelete: delay, PerGroup: rapid.Bool().Draw(t, "delays count per group")}}
		w.pool.ConsolidateAfter, w.pool.ConsolidationPolicy = 5*time.Second, "WhenEmptyOrUnderutilized"
		w.st.Pools.SetPool(w.pool)
		var last time.Time
		w.did = func(a plan.Action) {
			if d, ok := a.(plan.DeleteClaim); ok && isConsolidation(d.Why.Code) {
				last = w.now
				removed++
			}
		}
		w.judge = func(_ *model.Snapshot, out *Output) {
			for _, a := range out.Actions {
				if a, ok := a.(plan.CreateClaim); ok {
					if i := slices.IndexFunc(a.Pods, w.mayPend); i >= 0 {
						w.fatalf("claim %s is made for %s, which is expendable", a.Name, a.Pods[i].Name)
					}
				}
			}
			for _, m := range out.Commands {
				if isConsolidation(m.Cause) && !last.IsZero() && w.now.Before(last.Add(delay)) {
					w.fatalf("the removal of %d nodes (%s) begins %s after another, want %s", len(m.Candidates), m.Cause, w.now.Sub(last), delay)
				}
			}
		}
		w.wild, w.only = true, map[string]bool{"watch lags": true, "slow call": true, "call fails": true, "answer lost": true, "a pod is deleted": true, "scale": true,
			"no capacity": true, "a claim is deleted": true, "a machine dies": true, "eviction blocked": true, "slow to boot": true, "no look at demand": true}
		for range rapid.IntRange(10, 150).Draw(t, "wild ticks") {
			w.tick()
			w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{50, 200, 1000, 5000}).Draw(t, "ms")) * time.Millisecond)
		}
		w.say("from here on nothing goes wrong")
		if !w.settle(3000) {
			w.fatalf("it does not end\n%s", w.remains())
		}
		w.clean()
		for _, c := range w.claims {
			if w.nodes[c.NodeName] == nil || w.now.Before(w.mem.backOffs.byClaim[c.UID].until) {
				continue
			}
			needed := false
			for _, p := range w.pods {
				needed = needed || p.Node == c.NodeName && !w.mayPend(p)
			}
			if kept++; needed {
				continue
			}
			why, err := Why(w.st.Snapshot(w.now), w.mem, w.now, w.pol, "node/"+c.NodeName)
			if err != nil || !slices.ContainsFunc(why.Findings, func(f plan.Finding) bool { return f.Reason.Code == plan.DelayAfterDelete }) {
				w.fatalf("node %s is kept, and nothing but expendable pods is on it: %+v %v", c.NodeName, why.Findings, err)
			}
		}
	})
	if removed == 0 || kept == 0 {
		t.Errorf("%d nodes were removed, %d kept", removed, kept)
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
		w.pol.Landing = rapid.SampledFrom([]Landing{LandBind, LandTolerate}).Draw(t, "landing")
		w.wild, w.only = true, map[string]bool{"watch lags": true, "slow call": true, "crash": true, "call fails": true, "answer lost": true,
			"answer of the launch lost": true, "pods are made one by one": true, "scheduler is slow": true, "no look at demand": true, "list fails": true, "not listed yet": true}
		room := func() map[string]int {
			out := map[string]int{}
			for _, c := range w.claims {
				for _, s := range c.Slots {
					out[s.Owner] += s.Count
				}
			}
			return out
		}
		for range rapid.IntRange(10, 60).Draw(t, "ticks") {
			if rapid.IntRange(0, 9).Draw(t, "wave") == 9 {
				l := rapid.SampledFrom(w.workloads).Draw(t, "workload")
				l.want += rapid.IntRange(1, 5).Draw(t, "more")
				w.say("%s is scaled to %d", l.name, l.want)
			}
			w.tick()
			have := room()
			for _, l := range w.workloads {
				if n := have["uid-"+l.name]; n > l.want {
					w.fatalf("%d slots were bought for the %d pods of %s", n, l.want, l.name)
				}
			}
			w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{20, 50, 200, 400}).Draw(t, "ms")) * time.Millisecond)
		}
	})
	if expected == 0 {
		t.Error("nothing was bought for pods that were to come")
	}
}

// TestWordIsKept scales workloads whose pods keep apart to more than zones or limits allow, while watches lag and pods come one by one: a pod
// that was told of its node is not refused later, and one that was refused does not run, since nothing becomes free.
func TestWordIsKept(t *testing.T) {
	t.Parallel()
	refusals := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.Landing = rapid.SampledFrom([]Landing{LandBind, LandTolerate}).Draw(t, "landing")
		w.serial = rapid.IntRange(0, 9).Draw(t, "first number") // pods come by name in another order than they were made in
		w.workloads = nil
		key := rapid.SampledFrom([]string{model.LabelZone, model.LabelHostname}).Draw(t, "apart by")
		if key == model.LabelHostname {
			w.pool.NodeLimit = int64(rapid.IntRange(1, 3).Draw(t, "nodes at most"))
			w.st.Pools.SetPool(w.pool)
		}
		for i := range rapid.IntRange(1, 2).Draw(t, "workloads") {
			name := fmt.Sprint("w", i)
			sel := model.NewRequirements(model.OneOf("app", name))
			w.workloads = append(w.workloads, &workload{name: name, want: rapid.IntRange(2, 7).Draw(t, "replicas"), class: classOf(model.Class{
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
		w.wild, w.only = true, map[string]bool{"watch lags": true, "slow call": true, "pods are made one by one": true, "scheduler is slow": true, "no look at demand": true, "slow to boot": true}
		for range rapid.IntRange(10, 60).Draw(t, "ticks") {
			w.tick()
			for _, k := range sortedKeys(w.pods) {
				if p := w.pods[k]; p.Node != "" && refused[p.UID] {
					w.fatalf("pod %s was refused and runs on %s", p.Name, p.Node)
				}
			}
			w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{20, 50, 200, 1000}).Draw(t, "ms")) * time.Millisecond)
		}
		refusals += len(refused)
	})
	if refusals == 0 {
		t.Error("no pod was refused")
	}
}

// TestAskedAgain decides on any cluster, has what was decided recorded as under way, and decides again: nothing more is bought, and
// nothing is begun twice.
func TestAskedAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawCluster(t)
		first, mem := Step(w.st.Snapshot(w.now), w.mem, w.now, w.pol, Request{Solve: true})
		begun := map[string]bool{}
		for _, a := range first.Actions {
			if begun[a.Key()] {
				w.fatalf("twice in one plan: %s", describeAction(a))
			}
			begun[a.Key()] = true
			record(w.st, a, w.now)
		}
		second, _ := Step(w.st.Snapshot(w.now), mem, w.now, w.pol, Request{Solve: true})
		for _, a := range second.Actions {
			if _, ok := a.(plan.CreateClaim); ok {
				w.fatalf("bought once more: %s\nfirst: %s", describeAction(a), actions(first))
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
		for _, k := range sortedKeys(w.claims) {
			events = append(events, func(s *state.State) { s.SetClaim(w.claims[k], 1) })
		}
		for _, k := range sortedKeys(w.nodes) {
			events = append(events, func(s *state.State) { s.SetNode(w.nodes[k], 1) })
		}
		for _, k := range sortedKeys(w.pods) {
			events = append(events, func(s *state.State) { s.SetPod(w.pods[k]) })
		}
		for _, l := range w.workloads {
			events = append(events, func(s *state.State) { s.SetReplicas("uid-"+l.name, w.told[l.name]) })
		}
		answer := func(events []func(*state.State)) string {
			s := state.New()
			s.SetNow(w.now)
			s.SetNamespace("default", nil)
			s.Pools.SetPool(w.pool)
			for _, ev := range events {
				ev(s)
			}
			snap := s.Snapshot(w.now)
			first, mem := Step(snap, Memory{}, w.now, w.pol, Request{Solve: true})
			again, _ := Step(snap, Memory{}, w.now, w.pol, Request{Solve: true})
			if a, b := actions(first), actions(again); a != b {
				w.fatalf("asked twice, answered twice:\n%s\n%s", a, b)
			}
			later, _ := Step(snap, mem, w.now.Add(time.Minute), w.pol, Request{Solve: true})
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
		w.pool.ConsolidateAfter = 10 * time.Second
	}
	w.st.Pools.SetPool(w.pool)
	w.wild = true
	for range rapid.IntRange(1, 60).Draw(t, "wild ticks") {
		w.tick()
		w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{50, 200, 1000, 5000}).Draw(t, "ms")) * time.Millisecond)
	}
	w.mischief()
	w.controllers()
	w.kubelets()
	w.scheduler()
	w.deliver()
	w.st.SetNow(w.now)
	w.st.ExpireActions(w.now)
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
	for _, k := range sortedKeys(w.pods) {
		if p := w.pods[k]; p.Node == "" || !p.Deleting.IsZero() {
			out += "pod " + p.Name + " on " + p.Node + " deleting " + p.Deleting.String() + "\n"
		}
	}
	for _, k := range sortedKeys(w.claims) {
		if c := w.claims[k]; !c.Deleting.IsZero() || !c.Is("Initialized") {
			out += "claim " + c.Name + " deleting " + c.Deleting.String() + "\n"
		}
	}
	return out
}

// clean holds what must be true when all is done.
func (w *world) clean() {
	for _, p := range w.pods {
		if p.Node == "" && !w.mayPend(p) {
			w.fatalf("pod %s is not bound", p.Name)
		}
	}
	for _, n := range w.nodes {
		for _, t := range n.Taints {
			if t.Key == model.TaintReserved || t.Key == model.TaintUnregistered {
				w.fatalf("node %s bears %s for ever", n.Name, taintText(t))
			}
		}
	}
	owned := map[string]bool{}
	for _, m := range w.machines {
		if !m.gone {
			if w.claimOf(m) == nil {
				w.fatalf("machine %s belongs to nobody", m.id)
			}
			owned[m.claimUID] = true
		}
	}
	for _, c := range w.claims {
		if !owned[c.UID] {
			w.fatalf("claim %s has no machine", c.Name)
		}
	}
}
