// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// seeded is Luck of a seed.
type seeded struct{ *rand.Rand }

func (s seeded) Draw(_ string, n int) int { return s.IntN(n) }

// eager is a Decider that launches a node for each pod that fits nowhere, and lets nodes in.
type eager struct {
	made map[string]bool
}

func (e *eager) Restart(*state.ResourceTable) {}

func (e *eager) Decide(now time.Time, s *model.Snapshot, solve bool) (actions []plan.Action, next time.Time) {
	for _, p := range s.Pending {
		if name := "c-" + p.UID; solve && !p.Unschedulable.IsZero() && !e.made[name] {
			e.made[name] = true
			actions = append(actions, plan.CreateClaim{Name: name, Pool: s.Pools[0], Requests: p.Class.Requests,
				Requirements: s.Pools[0].Requirements.With(model.OneOf(model.LabelInstanceType, "small", "large"))})
		}
	}
	for _, c := range s.Claims {
		switch {
		case c.Provisional || len(s.InFlight) > 0:
		case !c.Is(lifecycle.Launched):
			actions = append(actions, plan.LaunchClaim{Claim: c.Name, UID: c.UID})
		case !c.Deleting.IsZero():
			actions = append(actions, plan.Terminate{Claim: c.Name, ProviderID: c.ProviderID},
				plan.UpdateClaim{Claim: c.Name, UID: c.UID, RemoveFinalizer: true})
		}
	}
	for _, n := range s.Nodes {
		if n.HasTaint(model.TaintUnregistered) && len(s.InFlight) == 0 {
			actions = append(actions, plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveTaints: []model.Taint{{Key: model.TaintUnregistered, Effect: model.NoExecute}}})
		}
	}
	return actions, next
}

func class(app string, cpu int64) *model.Class {
	return &model.Class{Key: fmt.Sprint(app, cpu), Namespace: "default", Labels: model.Labels{"app": app}, Scheduler: model.DefaultScheduler, Requests: model.Resources{cpu, 1 << 20, 0, 1}}
}

func instanceType(name string, cpu, micro int64) *model.InstanceType {
	t := &model.InstanceType{Name: name, Labels: model.Labels{model.LabelInstanceType: name}, Capacity: model.Resources{cpu, 1 << 34, 0, 110}, Allocatable: model.Resources{cpu, 1 << 34, 0, 110}}
	for _, z := range []string{"a", "b"} {
		t.Offerings = append(t.Offerings, model.Offering{Zone: z, CapacityType: model.OnDemand, PriceMicro: micro, Available: true, Remaining: -1})
	}
	return t
}

// newCluster returns a cluster with one NodePool of two instance types.
func newCluster() *Cluster {
	c := New(start)
	c.Types = []*model.InstanceType{instanceType("small", 2000, 100_000), instanceType("large", 8000, 350_000)}
	c.SetPool(&model.NodePool{Name: "p", UID: "uid-p", Ready: true, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1, ConsolidateAfter: -1,
		Labels: model.Labels{}, Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "p")), Types: c.Types})
	return c
}

// log collects what happens, a line an event.
func log(c *Cluster) *[]string {
	var out []string
	c.Observe = func(e Event) {
		if e.Kind != Begun && e.Kind != Decided {
			out = append(out, strings.TrimSpace(fmt.Sprintf("+%s %s %s %s", e.At.Sub(start), e.Kind, e.Object, e.Text)))
		}
	}
	return &out
}

func node(c *Cluster, name string, cpu int64, labels model.Labels) {
	all := model.Labels{model.LabelHostname: name}
	for k, v := range labels {
		all[k] = v
	}
	c.SetNode(&model.Node{Name: name, UID: "uid-" + name, Labels: all, Ready: true, Allocatable: model.Resources{cpu, 1 << 34, 0, 110}})
}

func pods(c *Cluster, l *Workload) (on []string) {
	for _, p := range byKey(c.ofClass[l.Class]) {
		on = append(on, p.Node)
	}
	slices.Sort(on)
	return on
}

// TestLaunch: a pod that fits nowhere gets a node, step by step and each at its time.
func TestLaunch(t *testing.T) {
	c := newCluster()
	c.Workloads = []*Workload{{Name: "w", Class: class("w", 1500), Want: 1}}
	c.Control(&eager{made: map[string]bool{}})
	events := log(c)
	if err := c.Play(start.Add(time.Minute), nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"+0s claim created c-uid-w-1", "+0s machine bought m2 small", "+3s node joined n-m2", "+3s node changed n-m2", "+4s node readiness n-m2 True"}
	if !slices.Equal(*events, want) {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(*events, "\n"), strings.Join(want, "\n"))
	}
	if on := pods(c, c.Workloads[0]); !slices.Equal(on, []string{"n-m2"}) || c.MicroPerHour() != 100_000 {
		t.Errorf("pods run on %q, at %d micro-dollars an hour; want n-m2, 100000", on, c.MicroPerHour())
	}
}

// TestStartupTaints: an agent removes a node's startup taints once. Those that are written again stay.
func TestStartupTaints(t *testing.T) {
	c := newCluster()
	c.NodePools[0].StartupTaints = []model.Taint{{Key: "cni", Effect: model.NoSchedule}}
	c.Workloads = []*Workload{{Name: "w", Class: class("w", 1500), Want: 1}}
	c.Control(&eager{made: map[string]bool{}})
	if err := c.Play(start.Add(time.Minute), nil); err != nil {
		t.Fatal(err)
	}
	n := *c.Nodes["n-m2"]
	first := n.Taints
	n.Taints = c.NodePools[0].StartupTaints
	c.SetNode(&n)
	if err := c.Play(start.Add(2*time.Minute), nil); err != nil {
		t.Fatal(err)
	}
	if again := c.Nodes["n-m2"].Taints; len(first) > 0 || !slices.Equal(again, n.Taints) {
		t.Errorf("taints %v and then %v, want none and then %v", first, again, n.Taints)
	}
}

// TestEnd: a machine that ends leaves a node that is not Ready and then gone, and its pods are made anew.
func TestEnd(t *testing.T) {
	c := newCluster()
	c.Workloads = []*Workload{{Name: "w", Class: class("w", 1500), Want: 1}}
	c.Control(&eager{made: map[string]bool{}})
	if err := c.Play(start.Add(time.Minute), nil); err != nil {
		t.Fatal(err)
	}
	events := log(c)
	for _, m := range c.Machines {
		c.End(m)
	}
	if err := c.Play(start.Add(2*time.Minute), nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"+1m0s machine ended m2", "+1m0s node readiness n-m2 False"}
	if len(*events) < 2 || !slices.Equal((*events)[:2], want) || c.Nodes["n-m2"] != nil {
		t.Errorf("events\n%s\nand node n-m2 is %v; want first\n%s\nand no node", strings.Join(*events, "\n"), c.Nodes["n-m2"], strings.Join(want, "\n"))
	}
	if on := pods(c, c.Workloads[0]); len(on) != 1 || on[0] == "" || on[0] == "n-m2" {
		t.Errorf("pods run on %q, want a new node", on)
	}
}

// TestScheduler holds kube-scheduler's part against what it does: the emptiest node, anti-affinity, spread, preemption.
func TestScheduler(t *testing.T) {
	apart, spread, late := class("apart", 100), class("spread", 100), class("late", 900)
	self := func(app string) *model.Requirements {
		q := model.NewRequirements(model.OneOf("app", app))
		return &q
	}
	apart.AntiAffinity = []model.PodTerm{{TopologyKey: model.LabelHostname, Selector: model.Selector{Namespaces: []string{"default"}, Pods: self("apart")}}}
	spread.Spread = []model.SpreadConstraint{{TopologyKey: model.LabelZone, MaxSkew: 1, Hard: true, Selector: self("spread")}}
	late.Priority, late.Preempts = 100, true
	for _, x := range []struct {
		name  string
		class *model.Class
		count int
		packs bool
		want  []string
	}{
		{"emptiest", class("w", 100), 3, false, []string{"n1", "n2", "n3"}},
		{"fullest", class("w", 100), 3, true, []string{"n1", "n1", "n1"}},
		{"apart", apart, 4, true, []string{"", "n1", "n2", "n3"}},
		{"spread", spread, 3, true, []string{"n1", "n1", "n3"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := newCluster()
			for i, zone := range []string{"a", "a", "b"} {
				node(c, fmt.Sprint("n", i+1), 1000, model.Labels{model.LabelZone: zone})
			}
			c.Packs = x.packs
			c.Workloads = []*Workload{{Name: "w", Class: x.class, Want: x.count}}
			c.Tick()
			if on := pods(c, c.Workloads[0]); !slices.Equal(on, x.want) {
				t.Errorf("pods run on %q, want %q", on, x.want)
			}
		})
	}
	c := newCluster()
	node(c, "n1", 1000, nil)
	c.Workloads = []*Workload{{Name: "low", Class: class("low", 500), Want: 2}}
	c.Tick()
	c.Workloads = append(c.Workloads, &Workload{Name: "late", Class: late, Want: 1})
	events := log(c)
	for range 4 {
		c.Tick()
		c.Now = c.Now.Add(time.Second)
	}
	if on := pods(c, c.Workloads[1]); !slices.Equal(on, []string{"n1"}) || len(*events) != 2 {
		t.Errorf("the pod of higher priority runs on %q after %q, want on n1 after two were preempted", on, *events)
	}
}

// TestDaemons: a node has a pod of each DaemonSet that selects it.
func TestDaemons(t *testing.T) {
	c := newCluster()
	agent := class("agent", 100)
	agent.Daemon, agent.Terms = true, []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelZone, "a"))}}
	c.Daemons = []*model.Daemon{{Namespace: "default", Name: "agent", UID: "uid-agent", Class: agent}}
	node(c, "n1", 1000, model.Labels{model.LabelZone: "a"})
	node(c, "n2", 1000, model.Labels{model.LabelZone: "b"})
	c.Tick()
	c.Tick()
	if n, m := len(c.PodsOn("n1")), len(c.PodsOn("n2")); n != 1 || m != 0 {
		t.Errorf("%d and %d daemon pods, want 1 and 0", n, m)
	}
}

// TestEviction: a PodDisruptionBudget refuses an eviction that leaves too few pods; one that is allowed takes its grace period.
func TestEviction(t *testing.T) {
	c := newCluster()
	node(c, "n1", 1000, nil)
	c.Workloads = []*Workload{{Name: "w", Class: class("w", 100), Want: 2, Grace: 10 * time.Second, Guarded: true, MinHealthy: 1}}
	c.Tick()
	var errs []error
	for _, p := range c.PodsOn("n1") {
		_, err := c.Do(plan.Evict{Namespace: p.Namespace, Pod: p.Name, UID: p.UID, Node: "n1"})
		errs = append(errs, err)
	}
	if len(errs) != 2 || errs[0] != nil || errs[1] != plan.ErrBlocked {
		t.Errorf("evicted with %v, want one allowed and one blocked", errs)
	}
	before := len(c.PodsOn("n1"))
	c.Now = c.Now.Add(9 * time.Second)
	c.Tick()
	early := len(c.PodsOn("n1"))
	c.Now = c.Now.Add(time.Second)
	c.Tick()
	if late := len(c.PodsOn("n1")); before != 2 || early != 3 || late != 2 {
		t.Errorf("%d, %d and %d pods after 0, 9 and 10 s; want 2, 3 (one is ending), 2", before, early, late)
	}
}

// TestSeeds: equal luck gives equal events, other luck others, and each fault happens.
func TestSeeds(t *testing.T) {
	play := func(seed uint64) (string, map[string]int) {
		c := newCluster()
		c.Faults = Faults{Luck: seeded{rand.New(rand.NewPCG(seed, 1))}, Odds: Usual()}
		c.Notices = func(string, time.Time, time.Time) map[string]string { return nil }
		c.Workloads = []*Workload{{Name: "w", Class: class("w", 1500), Want: 3, Grace: time.Second}, {Name: "v", Class: class("v", 700), Want: 4}}
		c.Control(&eager{made: map[string]bool{}})
		events, mishaps := log(c), map[string]int{}
		for range 400 {
			c.Tick()
			c.Now = c.Now.Add(500 * time.Millisecond)
		}
		for _, e := range *events {
			if _, what, ok := strings.Cut(e, string(Mishap)+" "); ok {
				for f := range Usual() {
					if strings.HasSuffix(what, string(f)) {
						mishaps[string(f)]++
					}
				}
			}
		}
		return strings.Join(*events, "\n"), mishaps
	}
	all := map[string]int{}
	first, _ := play(1)
	for seed := range uint64(8) {
		a, mishaps := play(seed)
		if b, _ := play(seed); a != b {
			t.Errorf("seed %d: played twice, happened otherwise", seed)
		}
		if seed > 1 && a == first {
			t.Errorf("seed %d: the same as seed 1", seed)
		}
		for f, n := range mishaps {
			all[f] += n
		}
	}
	for _, f := range []Fault{Scaled, PodDeleted, ClaimDeleted, NodeDeleted, NodeTakenAway, MachineDies, Crash} {
		if all[string(f)] == 0 {
			t.Errorf("%s has never happened: %v", f, all)
		}
	}
}
