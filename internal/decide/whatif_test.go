// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Every pending pod is answered once: by room that stands, by a machine that comes for it, by one to buy, or by whose it is instead.
func TestWhatIf(t *testing.T) {
	now := time.Date(2026, 7, 20, 12, 0, 0, 0, time.UTC)
	small := &model.InstanceType{Name: "small", Labels: model.Labels{model.LabelInstanceType: "small"}, Capacity: model.Resources{2000, 4 << 30, 0, 10},
		Allocatable: model.Resources{2000, 4 << 30, 0, 10}, Offerings: []model.Offering{{Zone: "z", CapacityType: model.OnDemand, PriceMicro: 100_000, Available: true, Remaining: -1}}}
	pool := &model.NodePool{Name: "default", UID: "pool", NodeLimit: -1, Replicas: -1, Ready: true, Types: []*model.InstanceType{small},
		Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "default"))}
	class := func(cpu int64, scheduler string) *model.Class {
		return &model.Class{Key: fmt.Sprintf("%s %d", scheduler, cpu), Namespace: "n", Scheduler: scheduler, Requests: model.Resources{cpu, 0, 0, 1}}
	}
	one, two, huge, foreign := class(1000, model.DefaultScheduler), class(2000, model.DefaultScheduler), class(64_000, model.DefaultScheduler), class(1, "volcano")
	pod := func(name string, c *model.Class, change func(*model.Pod)) *model.Pod {
		p := &model.Pod{Namespace: "n", Name: name, UID: name, Class: c, Created: now} // kube-scheduler has not looked at it
		if change != nil {
			change(p)
		}
		return p
	}
	covered := pod("covered", two, func(p *model.Pod) { p.Owner = model.Owner{Kind: "ReplicaSet", Name: "r", UID: "r"} })
	s := &model.Snapshot{
		ResourceNames: model.FixedNames(), Pools: []*model.NodePool{pool},
		Nodes: []*model.Node{{Name: "standing", Labels: model.Labels{model.LabelHostname: "standing"}, Created: now.Add(-time.Hour), Ready: true,
			Capacity: model.Resources{1000, 4 << 30, 0, 10}, Allocatable: model.Resources{1000, 4 << 30, 0, 10}}},
		Claims: []*model.Claim{{Name: "coming", UID: "coming", Pool: "default", Created: now, Labels: model.Labels{model.LabelNodePool: "default"},
			Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, "small")), Requests: model.Resources{2000, 0, 0, 1},
			Slots: []model.Slot{{Class: cluster.ClassHash(two), Owner: "r", Count: 1, Requests: two.Requests}}}},
		Pending: []*model.Pod{
			pod("a-fits", one, nil), pod("b-buys", two, nil), covered, pod("daemon", &model.Class{Key: "d", Daemon: true, Namespace: "n"}, nil),
			pod("foreign", foreign, nil), pod("gated", one, func(p *model.Pod) { p.Gated = true }), pod("huge", huge, nil),
			pod("nominated", one, func(p *model.Pod) { p.Nominated = "other" }),
		},
	}
	out := WhatIf(s, now, DefaultPolicy())
	var have []string
	for _, d := range out.Pods {
		line := fmt.Sprintf("%s %s %s", d.Pod.Name, d.Outcome, d.Target)
		if d.Outcome == plan.OnNew {
			line = d.Pod.Name + " new"
		}
		for _, r := range d.Reasons {
			line += " " + strings.TrimSpace(string(r.Code)+" "+r.Fields().Key)
		}
		have = append(have, strings.TrimSpace(line))
	}
	want := []string{"a-fits node standing", "b-buys new", "covered claim coming", "daemon ignored  NotSchedulable owner",
		"foreign ignored  NotSchedulable schedulerName", "gated ignored  NotSchedulable schedulingGates", "huge refused  Resource cpu",
		"nominated ignored  NotSchedulable nominatedNodeName"}
	if !slices.Equal(have, want) {
		t.Errorf("have\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	if len(out.Actions) != 1 || out.Cost.NewMicroPerHour != 100_000 {
		t.Errorf("want one machine to buy for 100000, have %d actions for %d", len(out.Actions), out.Cost.NewMicroPerHour)
	}
	if _, ok := out.Actions[0].(plan.CreateClaim); !ok {
		t.Errorf("want a claim to be made, have %T", out.Actions[0])
	}
	if nothing := WhatIf(&model.Snapshot{ResourceNames: model.FixedNames()}, now, DefaultPolicy()); len(nothing.Pods) != 0 || nothing.Cost.ProvenBy == "" {
		t.Errorf("of nothing comes %+v", nothing)
	}
}
