// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package approve

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A command that removes more nodes than a disruption budget allows, or a node that another command removes, is refused,
// and none beside it.
func TestCommandsWithinBudgets(t *testing.T) {
	pool := &model.NodePool{Name: "p", Budgets: []model.Budget{{Nodes: 2}, {Nodes: 0, Reasons: []string{"Drifted"}}, {Nodes: 0, Schedule: "@daily", Duration: time.Hour}}}
	other := &model.NodePool{Name: "q", Budgets: []model.Budget{{Nodes: 10, Percent: true}}}
	snap := &model.Snapshot{}
	command := func(id plan.CommandID, cause plan.Code, pool *model.NodePool, from, to int) decide.StartedCommand {
		m := decide.StartedCommand{ID: id, Command: &disrupt.Command{Cause: cause}}
		for i := from; i < to; i++ {
			name := fmt.Sprint(pool.Name, i)
			m.Candidates = append(m.Candidates, &disrupt.Candidate{Pool: pool, Claim: &model.Claim{Name: name, UID: name, Pool: pool.Name}, Node: &model.Node{Name: name}})
		}
		return m
	}
	for _, p := range []*model.NodePool{pool, other} {
		for i := range 11 {
			name := fmt.Sprint(p.Name, i)
			snap.Claims = append(snap.Claims, &model.Claim{Name: name, UID: name, Pool: p.Name})
		}
	}
	out := &decide.Output{Commands: []decide.StartedCommand{
		command("within", plan.Underutilized, pool, 0, 2), command("beyond", plan.Empty, pool, 2, 5), command("drifted", plan.Drifted, pool, 5, 6),
		command("expired", plan.Expired, pool, 6, 10), command("percent", plan.Empty, other, 0, 2), command("more", plan.Empty, other, 2, 5), command("again", plan.Empty, pool, 0, 1),
	}}
	var refused []plan.CommandID
	for _, m := range Verify(snap, out).Moves {
		refused = append(refused, m.ID)
	}
	if want := []plan.CommandID{"beyond", "drifted", "more", "again"}; !slices.Equal(refused, want) {
		t.Errorf("refused %v, want %v", refused, want)
	}
}

// The parts without which deciding does not panic are found, and no others.
func TestIsolate(t *testing.T) {
	snap := &model.Snapshot{}
	for i := range 37 {
		snap.Pools = append(snap.Pools, &model.NodePool{Name: fmt.Sprintf("p%02d", i)})
		snap.Pending = append(snap.Pending, &model.Pod{Name: fmt.Sprint(i), Class: &model.Class{Key: fmt.Sprint(i / 2)}})
	}
	for _, culprits := range [][]string{{"p00"}, {"p36"}, {"p17"}, {"p03", "p21"}} {
		trials := 0
		parts := isolate(snap, "index out of range", func(withheld []demand.Withheld) bool {
			trials++
			return slices.ContainsFunc(culprits, func(c string) bool {
				return !slices.ContainsFunc(withheld, func(w demand.Withheld) bool { return w.Pool == c })
			})
		})
		var found []string
		for _, x := range parts {
			found = append(found, x.Pool)
		}
		if !slices.Equal(found, culprits) || trials > maxTrials+1 {
			t.Errorf("found %v in %d trials, want %v", found, trials, culprits)
		}
	}
	parts := isolate(snap, "index out of range", func(withheld []demand.Withheld) bool {
		return !slices.ContainsFunc(withheld, func(w demand.Withheld) bool {
			return slices.ContainsFunc(w.Pods, func(p *model.Pod) bool { return p.Name == "9" })
		})
	})
	if len(parts) != 1 || len(parts[0].Pods) != 1 || parts[0].Pods[0].Name != "9" || !strings.Contains(string(plan.DetailOf[plan.OfPlanRefused](parts[0].Why).Said), "index out of range") {
		t.Errorf("found %+v, want the pods of one class", parts)
	}
	if parts := isolate(snap, "", func([]demand.Withheld) bool { return true }); parts != nil {
		t.Errorf("found %+v where nothing helps", parts)
	}
}

// A what-if tells the pods whose plan verify refuses, and plans for the others.
func TestWhatIfLeavesOut(t *testing.T) {
	out, err := whatIfOfTwo(func(out *decide.Output) {
		for i := range out.Result.New {
			if n := &out.Result.New[i]; n.Pool == "faulty" {
				n.Zones = []string{"nowhere"}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := out["sound"]; d.Outcome != plan.OnNew {
		t.Errorf("the pod of the other NodePool: %+v, want a new node", d)
	}
	if d := out["faulty"]; d.Outcome != plan.Refused || len(d.Reasons) != 1 || d.Reasons[0].Code != plan.PlanRefused || d.Reasons[0].Pool != "faulty" ||
		plan.DetailOf[plan.OfPlanRefused](d.Reasons[0]).Said == "" || !plan.DetailOf[plan.OfPlanRefused](d.Reasons[0]).Until.IsZero() {
		t.Errorf("the pod of the faulty NodePool: %+v, want %s", d, plan.PlanRefused)
	}
}

// A what-if that no part of the plan makes right, or that always panics, is an error, and tells it to every pod.
func TestWhatIfGivesUp(t *testing.T) {
	for name, spoil := range map[string]func(*decide.Output){
		"a refusal of a pod that nobody asked about": func(out *decide.Output) {
			res := *out.Result
			res.Refused = append(slices.Clip(res.Refused), solve.Refusal{Pod: &model.Pod{Name: "nobody", Class: &model.Class{}}, Reasons: []plan.Reason{{Code: plan.NoPools}}})
			out.Result = &res
		},
		"a panic": func(*decide.Output) { panic("index out of range") },
	} {
		out, err := whatIfOfTwo(spoil)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		for _, pod := range []string{"sound", "faulty"} {
			if d := out[pod]; d.Outcome != plan.Refused || len(d.Reasons) != 1 || d.Reasons[0].Code != plan.PlanRefused || plan.DetailOf[plan.OfPlanRefused](d.Reasons[0]).Said == "" {
				t.Errorf("%s: pod %s: %+v, want %s", name, pod, d, plan.PlanRefused)
			}
		}
	}
}

// whatIfOfTwo returns, by name, what becomes of a pod of NodePool faulty and one of NodePool sound if what is decided is spoilt.
func whatIfOfTwo(spoil func(*decide.Output)) (map[string]plan.PodDecision, error) {
	room := model.Resources{4000, 16 << 30, 0, 110}
	types := []*model.InstanceType{{Name: "t", Labels: model.Labels{model.LabelInstanceType: "t"}, Capacity: room, Allocatable: room,
		Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, PriceMicro: 100_000, Available: true, Remaining: -1}}}}
	snap, now := &model.Snapshot{ResourceNames: model.FixedNames(), Namespaces: map[string]model.Labels{"n": {}}}, time.Unix(1000, 0)
	for _, name := range []string{"faulty", "sound"} {
		in := model.NewRequirements(model.OneOf(model.LabelNodePool, name))
		snap.Pools = append(snap.Pools, &model.NodePool{Name: name, UID: name, Ready: true, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1, ConsolidateAfter: -1,
			Labels: model.Labels{}, Requirements: in, Types: types})
		snap.Pending = append(snap.Pending, &model.Pod{Namespace: "n", Name: name, UID: name, Created: now, Unschedulable: now,
			Class: &model.Class{Key: name, Namespace: "n", Scheduler: "default-scheduler", Requests: model.Resources{500, 1 << 30, 0, 1}, Terms: []model.NodeTerm{{Requirements: in}}}})
	}
	out, err := whatIf(func(s *model.Snapshot, now time.Time, pol decide.Policy, withheld []demand.Withheld) decide.Output {
		out := decide.WhatIfWithout(s, now, pol, withheld)
		spoil(&out)
		return out
	}, snap, now, decide.DefaultPolicy())
	got := map[string]plan.PodDecision{}
	for _, d := range out.Pods {
		got[d.Pod.Name] = d
	}
	return got, err
}
