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
	"github.com/dovetail-sh/dovetail/internal/state"
)

// plant spoils each plan of a loop, until the returned function is called.
func plant(b *bench) (heal func()) {
	planted, faulty := true, spoilt(decide.Step)
	b.c.Emit(func(*state.State) {
		b.c.decider = func(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy, req decide.Request) (decide.Output, decide.Memory) {
			if planted {
				return faulty(s, mem, now, pol, req)
			}
			return decide.Step(s, mem, now, pol, req)
		}
	})
	return func() { b.c.Emit(func(*state.State) { planted = false }) }
}

// twoPools shows a NodePool in which a fault may be planted, with a DaemonSet, and the NodePool tainted beside p.
func twoPools(b *bench, faulty string) {
	b.emit(func(s *state.State) {
		own := *s.Pools.FindPool("p")
		minimum, _ := model.NewRequirement(model.LabelInstanceType, model.OpExists)
		minimum.MinValues = 2
		own.Name, own.UID, own.NodeLimit, own.Requirements = faulty, "uid-faulty", 2, model.NewRequirements(model.OneOf(model.LabelNodePool, faulty)).With(minimum)
		s.Pools.SetPool(&own)
		tainted := own
		tainted.Name, tainted.UID, tainted.Taints = "tainted", "uid-tainted", []model.Taint{{Key: "k", Value: "v", Effect: model.NoSchedule}}
		tainted.Requirements = model.NewRequirements(model.OneOf(model.LabelNodePool, "tainted"))
		s.Pools.SetPool(&tainted)
		s.SetDaemon(&model.Daemon{Namespace: "default", Name: "agent", UID: "uid-agent", Class: &model.Class{Key: "agent", Namespace: "default", Requests: model.Resources{200, 1 << 20, 0, 1}, Daemon: true, Terms: inPool(faulty)}})
	})
	time.Sleep(5 * time.Second)
	b.mu.Lock()
	b.calls, b.start = nil, time.Now()
	b.mu.Unlock()
}

// inPool is the affinity of pods that run in one NodePool.
func inPool(name string) []model.NodeTerm {
	return []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, name))}}
}

// podsOfTwoPools has pods come that run in a NodePool, two of which refuse each other's node, and pods that run in p.
func podsOfTwoPools(b *bench, faulty string) {
	now := time.Now()
	b.emit(func(s *state.State) {
		selects := model.NewRequirements(model.OneOf("app", "apart"))
		apart := &model.Class{Key: "apart", Namespace: "default", Labels: model.Labels{"app": "apart"}, Requests: model.Resources{500, 1 << 30, 0, 1}, Scheduler: "default-scheduler", Terms: inPool(faulty),
			AntiAffinity: []model.PodTerm{{TopologyKey: model.LabelHostname, Selector: model.Selector{Namespaces: []string{"default"}, Pods: &selects}}}}
		plain := &model.Class{Key: "plain", Namespace: "default", Requests: model.Resources{500, 1 << 30, 0, 1}, Scheduler: "default-scheduler", Terms: inPool(faulty)}
		healthy := &model.Class{Key: "healthy", Namespace: "default", Requests: model.Resources{2500, 1 << 30, 0, 1}, Scheduler: "default-scheduler", Terms: inPool("p")}
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
		twoPools(b, faultyPool(0))
		podsOfTwoPools(b, faultyPool(0))
		time.Sleep(2 * time.Second)
		want, soon = createdOf(b, "p")
		if faulty, _ := createdOf(b, faultyPool(0)); len(want) != 3 || len(faulty) != 2 {
			t.Fatalf("without a fault %v and %v were made, want 3 and 2", want, faulty)
		}
	})
	for i, f := range plantedFaults {
		pool := faultyPool(i)
		t.Run(f.name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				b.lead()
				twoPools(b, pool)
				heal := plant(b)
				podsOfTwoPools(b, pool)
				time.Sleep(2 * time.Second)
				if have, last := createdOf(b, "p"); !slices.Equal(have, want) || last > soon {
					t.Errorf("NodeClaims of the other NodePool: %v after %s, want %v after %s", have, last, want, soon)
				}
				faulty, _ := createdOf(b, pool)
				if f.stays {
					if len(faulty) != 2 {
						t.Errorf("%v were made, want two: only the figures are wrong", faulty)
					}
					return
				}
				checkTold(t, b, faulty)
				heal()
				time.Sleep(time.Minute)
				if faulty, _ := createdOf(b, pool); len(faulty) != 2 {
					t.Errorf("%v were made a minute after the fault had gone, want two", faulty)
				}
			})
		})
	}
}

// checkTold checks that each pod of the faulty NodePool without a NodeClaim is told why, in an event and by why.
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
		a, err := b.c.Answers.Why(context.Background(), "pod/default/"+name)
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

// A fault that stays is met less and less often, however often the process begins anew.
func TestPlantedFaultsBackOff(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarts %t", restarts), func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				pool := faultyPool(0)
				b.c.Keeper = &notebook{}
				b.lead()
				twoPools(b, pool)
				plant(b)
				podsOfTwoPools(b, pool)
				for range 12 {
					time.Sleep(5 * time.Minute)
					if restarts {
						b.c.Emit(func(*state.State) { b.c.mem = decide.Memory{} })
						b.c.RecallLessons(t.Context())
					}
				}
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
				if a, err := b.c.Answers.Why(context.Background(), "nodepool/"+pool); err != nil || !strings.Contains(fmt.Sprint(a.Findings), string(plan.PlanRefused)) {
					t.Errorf("why nodepool/%s: %+v, %v", pool, a.Findings, err)
				}
			})
		})
	}
}
