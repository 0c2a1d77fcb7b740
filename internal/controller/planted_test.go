// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// faultyPool is the NodePool whose plans are spoilt between decide and verify.
const faultyPool = "faulty"

// planted is a fault of the solver: it spoils the machines that a plan launches from faultyPool.
type planted struct {
	name  string
	spoil func(x *spoiling)
	// stays: the fault is in the figures alone, so that the pods get their nodes.
	stays bool
}

// spoiling is a plan that is about to be spoilt: copies of all that may be changed.
type spoiling struct {
	out    *decide.Output
	res    *solve.Result
	faulty []int // machines of faultyPool, by place in res.New
}

// each spoils every machine of faultyPool.
func each(f func(x *spoiling, n *solve.NewNode)) func(*spoiling) {
	return func(x *spoiling) {
		for _, i := range x.faulty {
			f(x, &x.res.New[i])
		}
	}
}

// ofClaims spoils the NodeClaims of faultyPool.
func ofClaims(f func(i int, a *plan.CreateClaim)) func(*spoiling) {
	return func(x *spoiling) {
		n := 0
		for i, a := range x.out.Actions {
			if c, ok := a.(plan.CreateClaim); ok && c.Pool.Name == faultyPool {
				f(n, &c)
				x.out.Actions[i] = c
				n++
			}
		}
	}
}

// drop takes the machines of faultyPool out of a plan and returns them.
func (x *spoiling) drop() (gone []solve.NewNode) {
	for _, i := range x.faulty {
		gone = append(gone, x.res.New[i])
		x.res.Cost.NewMicroPerHour -= x.res.New[i].PriceMicro
	}
	x.res.New = slices.DeleteFunc(x.res.New, func(n solve.NewNode) bool { return n.Pool == faultyPool })
	x.res.Cost.BoundMicroPerHour = 0
	return gone
}

var plantedFaults = []planted{
	{"capacity: a choice is too small", each(func(_ *spoiling, n *solve.NewNode) {
		small := *n.Type
		small.Allocatable = model.Resources{1, 1, 0, 1}
		n.Choices = append(slices.Clone(n.Choices), &small)
	}), false},
	{"a zone without offerings", each(func(_ *spoiling, n *solve.NewNode) { n.Zones = []string{"nowhere"} }), false},
	{"a capacity type without offerings", each(func(_ *spoiling, n *solve.NewNode) { n.CapacityTypes = []string{model.Spot} }), false},
	{"a taint ignored", each(func(_ *spoiling, n *solve.NewNode) { n.Pool = "tainted" }), false},
	{"a selector ignored", each(func(_ *spoiling, n *solve.NewNode) { n.Pool = "p" }), false},
	{"a NodePool that is not there", each(func(_ *spoiling, n *solve.NewNode) { n.Pool = "ghost" }), false},
	{"requirements of the NodePool ignored", each(func(_ *spoiling, n *solve.NewNode) {
		n.Requirements = n.Requirements.With(model.OneOf(model.LabelInstanceType, "other"))
	}), false},
	{"the cheapest type is not among the choices", each(func(_ *spoiling, n *solve.NewNode) { n.Choices = n.Choices[1:] }), false},
	{"minValues broken", each(func(_ *spoiling, n *solve.NewNode) { n.Choices = n.Choices[:1] }), false},
	{"the price is not that of the cheapest", each(func(x *spoiling, n *solve.NewNode) { n.PriceMicro++; x.res.Cost.NewMicroPerHour++ }), false},
	{"a slot of a pod that is not pending", each(func(_ *spoiling, n *solve.NewNode) {
		n.Pods = append(slices.Clone(n.Pods), &model.Pod{Namespace: "default", Name: "gone", UID: "gone", Class: n.Pods[0].Class})
	}), false},
	{"a pod forgotten", each(func(_ *spoiling, n *solve.NewNode) { n.Pods = n.Pods[1:] }), false},
	{"a pod placed twice", each(func(_ *spoiling, n *solve.NewNode) { n.Pods = append(slices.Clone(n.Pods), n.Pods[0]) }), false},
	{"a machine for nobody", func(x *spoiling) {
		for _, i := range x.faulty {
			empty := x.res.New[i]
			empty.Pods = nil
			x.res.New = append(x.res.New, empty)
			x.res.Cost.NewMicroPerHour += empty.PriceMicro
		}
	}, false},
	{"limits exceeded", func(x *spoiling) {
		for _, i := range x.faulty { // each pod has a node, of which the limit allows two
			n := x.res.New[i]
			for _, p := range n.Pods[1:] {
				own := n
				own.Pods = []*model.Pod{p}
				x.res.New = append(x.res.New, own)
				x.res.Cost.NewMicroPerHour += own.PriceMicro
			}
			x.res.New[i].Pods = n.Pods[:1]
		}
	}, false},
	{"anti-affinity broken", func(x *spoiling) {
		var all []*model.Pod
		gone := x.drop()
		for _, n := range gone {
			all = append(all, n.Pods...)
		}
		if len(gone) > 0 {
			gone[0].Pods = all
			x.res.New = append(x.res.New, gone[0])
			x.res.Cost.NewMicroPerHour += gone[0].PriceMicro
		}
	}, false},
	{"a refusal without a reason", func(x *spoiling) {
		for _, n := range x.drop() {
			for _, p := range n.Pods {
				x.res.Refused = append(x.res.Refused, solve.Refusal{Pod: p})
			}
		}
	}, false},
	{"a node that is not there", func(x *spoiling) {
		for _, n := range x.drop() {
			x.res.OnNodes = append(x.res.OnNodes, solve.Assignment{Node: "ghost", Pods: n.Pods})
		}
	}, false},
	{"NodeClaims of one name", ofClaims(func(_ int, a *plan.CreateClaim) { a.Name = faultyPool + "-same" }), false},
	{"a NodeClaim without a name", ofClaims(func(_ int, a *plan.CreateClaim) { a.Name = "" }), false},
	{"slots counted twice", ofClaims(func(_ int, a *plan.CreateClaim) {
		a.Slots = slices.Clone(a.Slots)
		for i := range a.Slots {
			a.Slots[i].Count *= 2
		}
	}), false},
	{"a panic", func(x *spoiling) {
		if len(x.faulty) > 0 {
			panic("index out of range")
		}
	}, false},
	{"the sum is wrong", func(x *spoiling) { x.res.Cost.NewMicroPerHour += int64(len(x.faulty)) }, true},
	{"the bound is above the cost", func(x *spoiling) {
		if len(x.faulty) > 0 {
			x.res.Cost.BoundMicroPerHour = x.res.Cost.NewMicroPerHour + 1
		}
	}, true},
}

// plant spoils each plan of a loop by a fault, until the returned function is called.
func plant(b *bench, f planted) (heal func()) {
	planted := true
	b.c.Emit(func(*state.State) {
		b.c.decider = func(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy, req decide.Request) (decide.Output, decide.Memory) {
			out, next := decide.Step(s, mem, now, pol, req)
			if !planted || out.Result == nil {
				return out, next
			}
			res := *out.Result
			res.New, res.OnNodes, res.Refused = slices.Clone(res.New), slices.Clone(res.OnNodes), slices.Clone(res.Refused)
			out.Result, out.Actions = &res, slices.Clone(out.Actions)
			x := &spoiling{out: &out, res: &res}
			for i, n := range res.New {
				if n.Pool == faultyPool {
					x.faulty = append(x.faulty, i)
				}
			}
			f.spoil(x)
			return out, next
		}
	})
	return func() { b.c.Emit(func(*state.State) { planted = false }) }
}

// twoPools shows the NodePools faulty and tainted beside p, and pods that run only in faulty and that run in p.
func twoPools(b *bench) {
	b.emit(func(s *state.State) {
		own := *s.Pools.FindPool("p")
		minimum, _ := model.NewRequirement(model.LabelInstanceType, model.OpExists)
		minimum.MinValues = 2
		own.Name, own.UID, own.NodeLimit, own.Requirements = faultyPool, "uid-faulty", 2, model.NewRequirements(model.OneOf(model.LabelNodePool, faultyPool)).With(minimum)
		s.Pools.SetPool(&own)
		tainted := own
		tainted.Name, tainted.UID, tainted.Taints = "tainted", "uid-tainted", []model.Taint{{Key: "k", Value: "v", Effect: model.NoSchedule}}
		tainted.Requirements = model.NewRequirements(model.OneOf(model.LabelNodePool, "tainted"))
		s.Pools.SetPool(&tainted)
	})
	time.Sleep(5 * time.Second)
	b.mu.Lock()
	b.calls, b.start = nil, time.Now()
	b.mu.Unlock()
}

// podsOfTwoPools has pods come that run in faulty, two of which refuse each other's node, and pods that run in p.
func podsOfTwoPools(b *bench) {
	now := time.Now()
	in := func(pool string) []model.NodeTerm {
		return []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, pool))}}
	}
	b.emit(func(s *state.State) {
		selects := model.NewRequirements(model.OneOf("app", "apart"))
		apart := &model.Class{Key: "apart", Namespace: "default", Labels: model.Labels{"app": "apart"}, Requests: model.Resources{500, 1 << 30, 0, 1}, Scheduler: "default-scheduler", Terms: in(faultyPool),
			AntiAffinity: []model.PodTerm{{TopologyKey: model.LabelHostname, Selector: model.Selector{Namespaces: []string{"default"}, Pods: &selects}}}}
		plain := &model.Class{Key: "plain", Namespace: "default", Requests: model.Resources{500, 1 << 30, 0, 1}, Scheduler: "default-scheduler", Terms: in(faultyPool)}
		healthy := &model.Class{Key: "healthy", Namespace: "default", Requests: model.Resources{2500, 1 << 30, 0, 1}, Scheduler: "default-scheduler", Terms: in("p")}
		for name, class := range map[string]*model.Class{"f1": apart, "f2": apart, "f3": plain, "f4": plain, "h1": healthy, "h2": healthy, "h3": healthy} {
			s.SetPod(&model.Pod{Namespace: "default", Name: name, UID: "uid-" + name, Created: now, Unschedulable: now,
				Owner: model.Owner{Kind: "ReplicaSet", Name: class.Key, UID: "uid-" + class.Key}, Class: class})
		}
	})
}

// createdOf are the NodeClaims of a NodePool that were made, and when the last of them was.
func createdOf(b *bench, pool string) (names []string, last time.Duration) {
	for _, m := range b.made("create") {
		if strings.HasPrefix(m.what, pool+"-") {
			names, last = append(names, m.what), m.after
		}
	}
	slices.Sort(names) // of one instant in whatever order
	return names, last
}

// A fault of the solver in what it plans for one NodePool does not keep the pods of another from their nodes, not even for a
// step; the pods concerned are told, and get their nodes once the fault is gone.
func TestPlantedFaults(t *testing.T) {
	var want []string
	var soon time.Duration
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		twoPools(b)
		podsOfTwoPools(b)
		time.Sleep(2 * time.Second)
		want, soon = createdOf(b, "p")
		if faulty, _ := createdOf(b, faultyPool); len(want) != 3 || len(faulty) != 2 {
			t.Fatalf("without a fault %v and %v were made, want 3 and 2", want, faulty)
		}
	})
	for _, f := range plantedFaults {
		t.Run(f.name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				b.lead()
				twoPools(b)
				heal := plant(b, f)
				podsOfTwoPools(b)
				time.Sleep(2 * time.Second)
				if have, last := createdOf(b, "p"); !slices.Equal(have, want) || last > soon {
					t.Errorf("NodeClaims of the other NodePool: %v after %s, want %v after %s", have, last, want, soon)
				}
				faulty, _ := createdOf(b, faultyPool)
				if f.stays {
					if len(faulty) != 2 {
						t.Errorf("%v were made, want two: only the figures are wrong", faulty)
					}
					return
				}
				checkTold(t, b, faulty)
				heal()
				time.Sleep(time.Minute)
				if faulty, _ := createdOf(b, faultyPool); len(faulty) != 2 {
					t.Errorf("%v were made a minute after the fault had gone, want two", faulty)
				}
			})
		})
	}
}

// checkTold checks that each pod of faultyPool without a NodeClaim is told why, in an event and by why.
func checkTold(t *testing.T, b *bench, claims []string) {
	t.Helper()
	refused := 0
	for _, name := range []string{"f1", "f2", "f3", "f4"} {
		if slices.ContainsFunc(b.made("event"), func(m made) bool { return strings.HasPrefix(m.what, "Pod "+name+" Nominated") }) {
			continue
		}
		refused++
		if !slices.ContainsFunc(b.made("event"), func(m made) bool {
			return strings.HasPrefix(m.what, "Pod "+name+" FailedScheduling") && strings.Contains(m.what, "bug in Dovetail")
		}) {
			t.Errorf("no event tells pod %s of the refused plan: %v", name, b.made("event"))
		}
		a, err := b.c.Why(context.Background(), "pod/default/"+name)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(a.Findings, func(f plan.Finding) bool { return f.Reason.Code == plan.PlanRefused && f.Until.After(time.Now()) }) {
			t.Errorf("why pod %s: %+v, want %s", name, a.Findings, plan.PlanRefused)
		}
	}
	if refused == 0 {
		t.Errorf("no pod is refused; NodeClaims made: %v", claims)
	}
	values, _ := b.scrape(t)
	n := 0.0
	for k, v := range values {
		if strings.HasPrefix(k, "dovetail_plan_parts_refused_total{") {
			n += v
		}
	}
	if n == 0 {
		t.Error("no refused part is counted")
	}
}

// A fault that stays is met less and less often.
func TestPlantedFaultsBackOff(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		twoPools(b)
		plant(b, plantedFaults[0])
		podsOfTwoPools(b)
		time.Sleep(time.Hour)
		synctest.Wait()
		n := 0
		for _, e := range b.c.Ledger.Entries(nil) {
			if e.Kind == "verify" {
				n++
			}
		}
		if n < 10 || n > 40 { // two machines, after 30 s, 1, 2, 4, 8 minutes and then each 10
			t.Errorf("%d parts were refused in an hour, want less and less often", n)
		}
		if a, err := b.c.Why(context.Background(), "nodepool/"+faultyPool); err != nil || !strings.Contains(fmt.Sprint(a.Findings), string(plan.PlanRefused)) {
			t.Errorf("why nodepool/%s: %+v, %v", faultyPool, a.Findings, err)
		}
	})
}
