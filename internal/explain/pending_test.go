// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

var epoch = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

// waitingCluster returns a cluster without nodes whose NodePool has one instance type of 4 CPU.
func waitingCluster() *model.Snapshot {
	size := model.Resources{4000, 16 << 30, 0, 110}
	t := &model.InstanceType{Name: "t", Labels: model.Labels{model.LabelInstanceType: "t"}, Capacity: size, Allocatable: size,
		Offerings: []model.Offering{{Zone: "z", CapacityType: model.OnDemand, PriceMicro: 100_000, Available: true, Remaining: -1}}}
	return &model.Snapshot{ResourceNames: model.FixedNames(), Pools: []*model.NodePool{{Name: "p", UID: "p", NodeLimit: -1, Replicas: -1, Ready: true, Types: []*model.InstanceType{t},
		Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "p"))}}}
}

// addPending adds a pod of a class of its own, which kube-scheduler has looked at or not.
func addPending(s *model.Snapshot, owner string, milliCPU int64, seen bool) *model.Pod {
	name := fmt.Sprintf("w%03d", len(s.Pending))
	p := &model.Pod{Namespace: "n", Name: name, UID: name, Created: epoch, Owner: model.Owner{Kind: "ReplicaSet", Name: owner, UID: owner},
		Class: &model.Class{Key: name, Namespace: "n", Scheduler: model.DefaultScheduler, Requests: model.Resources{milliCPU, 0, 0, 1}}}
	if seen {
		p.Unschedulable = epoch
	}
	s.Pending = append(s.Pending, p)
	return p
}

// Pending decides so many times and no more, however many workloads wait for what is remembered of their launches: given up, barred and others, of which
// kube-scheduler has looked at some.
func TestPendingDecidesOnce(t *testing.T) {
	const most = 3
	pol := decide.DefaultPolicy()
	for _, each := range []int{1, 30} {
		s, req := waitingCluster(), decide.Request{Solve: true}
		refused := func(p *model.Pod, claim string, at time.Time) model.UnmadeClaim {
			return model.UnmadeClaim{Claim: claim + p.Name, Pool: "p", At: at, Message: "denied",
				Slots: []model.Slot{{Class: cluster.ClassHash(p.Class), Owner: p.Owner.UID, Count: 1, Requests: p.Class.Requests}}}
		}
		var barred []*model.Pod
		for range each {
			given := addPending(s, "given up", 1000, true)
			for _, node := range []string{"a", "b"} {
				req.NotBound = append(req.NotBound, decide.RefusedBinding{Pod: given.UID, Key: given.Key(), Node: node, Why: plan.Reason{Code: plan.BindingUnfit}})
			}
			barred = append(barred, addPending(s, "barred", 1000, true))
			addPending(s, "too large", 99_000, true)
			addPending(s, "new", 1000, false)
			addPending(s, "new and too large", 99_000, false)
		}
		_, mem := decide.Step(s, decide.Memory{}, epoch, pol, req)
		now := epoch
		for _, claim := range []string{"first", "second"} {
			for _, p := range barred {
				s.Unmade = append(s.Unmade[:len(s.Unmade):len(s.Unmade)], refused(p, claim, now))
			}
			now = now.Add(time.Second)
			_, mem = decide.Step(s, mem, now, pol, decide.Request{Solve: true})
		}
		ex := newExplanation(s, mem, now, pol)
		waiting := ex.pending()
		if n := ex.Decided(); n == 0 || n > most {
			t.Errorf("with %d groups, pending pods were decided on %d times, want at most %d", len(waiting), n, most)
		}
		found := map[plan.Code]int{}
		for i := range waiting {
			for _, f := range waiting[i].Answer.Findings[:min(1, len(waiting[i].Answer.Findings))] {
				found[f.Reason.Code]++
			}
		}
		if len(waiting) != 5*each || found[plan.BindingUnfit] != each || found[plan.UnusedLaunches] != each || found[plan.Resource] != 2*each {
			t.Errorf("with %d of each there are %d groups, with the findings %v", each, len(waiting), found)
		}
		for i := range waiting[:5] {
			before := ex.Decided()
			have, err := waiting[i].Why()
			if err != nil {
				t.Fatal(err)
			}
			want, err := Why(s, mem, now, pol, have.Subject)
			if err != nil || !reflect.DeepEqual(have, want) {
				t.Errorf("with what was decided before, the answer for %s is\n%+v\nand else, with %v,\n%+v", have.Subject, have, err, want)
			}
			if code := have.Findings; len(code) > 0 && (code[0].Reason.Code == plan.BindingUnfit || code[0].Reason.Code == plan.UnusedLaunches) && ex.Decided() != before {
				t.Errorf("%s is decided on again", have.Subject)
			}
		}
	}
}

// Limits are raised to what a plan for all pods that wait needs, those included that kube-scheduler has not looked at yet: no less is enough.
func TestLimitsForUnseenPods(t *testing.T) {
	pol := decide.DefaultPolicy()
	limited := func(s *model.Snapshot, cores int64) *model.Snapshot {
		out := *s
		p := *s.Pools[0]
		p.HasLimit, p.Limits = []bool{true}, model.Resources{cores * 1000}
		out.Pools = []*model.NodePool{&p}
		return &out
	}
	for seen := range 4 {
		for unseen := range 4 {
			s := waitingCluster()
			for i := range seen + unseen {
				addPending(s, "r", 1500, i < seen)
			}
			least := int64(-1) // cores
			for cores := int64(0); least < 0; cores++ {
				out := decide.WhatIf(limited(s, cores), epoch, pol)
				placed := 0
				for _, d := range out.Pods {
					if d.Outcome == plan.OnNew {
						placed++
					}
				}
				if placed == len(s.Pending) {
					least = cores
				}
			}
			for _, p := range s.Pending {
				a, err := Why(limited(s, 1), decide.Memory{}, epoch, pol, "pod/"+p.Key())
				if err != nil {
					t.Fatal(err)
				}
				want := plan.Change{Object: "nodepool/p", Field: "spec.limits.cpu", Op: plan.Set, Value: strconv.FormatInt(least, 10)}
				if len(a.Ways) == 0 || len(a.Ways[0].Changes) != 1 || a.Ways[0].Changes[0] != want || a.Ways[0].Starts != len(s.Pending) {
					t.Errorf("of %d pods that were seen and %d that were not, %s is offered %+v; want %+v, which starts all", seen, unseen, p.Name, a.Ways, want)
				}
			}
		}
	}
}

// Nodes that are not Ready and count against the limit that refuses a pod are named, a few of them however many there are, each with what it waits for.
func TestUnusableNodesAreFew(t *testing.T) {
	const fact = "counts against the limit of nodepool/p"
	for nodes, want := range map[int][]string{
		0: nil,
		2: {"node/n0, which is not Ready and has been terminating since 2026-03-01T03:00:00Z", "node/n1, which is not Ready yet"},
		5: {"node/n0, which is not Ready and has been terminating since 2026-03-01T03:00:00Z", "node/n1, which is not Ready yet", "node/n2, which is not Ready", "and 2 more nodes that are not Ready"},
	} {
		s := waitingCluster()
		s.Pools[0].HasLimit, s.Pools[0].Limits = []bool{true}, model.Resources{1000}
		size := model.Resources{1000, 4 << 30, 0, 110} // less than the pod requests
		for i := range nodes {
			n := &model.Node{Name: fmt.Sprintf("n%d", i), UID: fmt.Sprintf("n%d", i), ProviderID: fmt.Sprintf("i%d", i), Claim: fmt.Sprintf("c%d", i), Capacity: size, Allocatable: size, Created: epoch,
				Labels: model.Labels{model.LabelNodePool: "p", model.LabelInstanceType: "t"}}
			c := &model.Claim{Name: n.Claim, UID: n.Claim, Pool: "p", NodeName: n.Name, ProviderID: n.ProviderID, Created: epoch, Capacity: size, Allocatable: size,
				Conditions: map[string]model.Condition{"Launched": {Status: "True"}, "Registered": {Status: "True"}, "Initialized": {Status: "True"}}}
			switch i {
			case 0:
				c.Deleting = epoch
			case 1:
				delete(c.Conditions, "Initialized")
			}
			s.Nodes, s.Claims = append(s.Nodes, n), append(s.Claims, c)
		}
		p := addPending(s, "r", 1500, true)
		a, err := Why(s, decide.Memory{}, epoch.Add(time.Minute), decide.DefaultPolicy(), "pod/"+p.Key())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range a.Facts {
			if f.Name == fact {
				got = append(got, f.Value)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %d nodes that are not Ready: %q, want %q", nodes, got, want)
		}
		for i := range nodes {
			if named := slices.Contains(a.Related, fmt.Sprintf("node/n%d", i)); named != (i < 3) {
				t.Errorf("with %d nodes that are not Ready, node n%d among what is related: %t", nodes, i, named)
			}
		}
	}
}
