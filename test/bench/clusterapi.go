// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi/clusterapitest"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/test/problems"
)

// kept is the stored record of a node group provider.
type kept string

// Load implements nodegroups.Records.
func (k kept) Load(context.Context) (string, error) { return string(k), nil }

// Swap implements nodegroups.Records.
func (k kept) Swap(context.Context, string, string) (bool, error) { return false, nil }

// steps is a clock that each step advances.
type steps struct {
	cloud.Wall
	now time.Time
}

// Now implements cloud.Clock.
func (s *steps) Now() time.Time { return s.now }

// clusterAPI measures one step with 60 MachineDeployments of 17 nodes with 12 pods each: all groups and Machines are read, pending pods are
// planned (or, without pending pods, consolidation is searched), and the plan is verified.
func clusterAPI(pending, runs int) (row, error) {
	const groups, each = 60, 17
	answers, record := clusterapitest.Fleet(groups, each)
	clock := &steps{now: start}
	s := state.New()
	p := clusterapi.New(clusterapi.Config{Namespace: "default", Name: "workload"}, answers, kept(record), s.Resources(), clock, slog.New(slog.NewTextHandler(io.Discard, nil)))
	class := cloud.NodeClass{Group: dovetailv1alpha1.Group, Kind: dovetailv1alpha1.KindNodeGroupClass, Name: "groups", Spec: []byte(`{"selectorTerms":[{"name":"*"}]}`)}
	x := problems.Shapes(pending)
	x.Pool.ClassGroup, x.Pool.ClassKind, x.Pool.ClassName = class.Group, class.Kind, class.Name
	x.Pool.ConsolidateAfter, x.Pool.ConsolidationPolicy = 0, "WhenEmptyOrUnderutilized"
	x.Pool.Budgets = []model.Budget{{Nodes: 10, Percent: true}}
	types, err := p.Offerings(context.Background(), x.Pool, class)
	if err != nil {
		return row{}, err
	}
	x.Pool.Types = types
	x.Nodes = problems.Standing(groups*each, 12, 0.2)
	for i, n := range x.Nodes {
		t := types[i/each]
		n.ProviderID = fmt.Sprintf("kwok://group-%02d-%d", i/each, i%each)
		n.Labels = model.Labels{model.LabelHostname: n.Name, model.LabelZone: t.Offerings[0].Zone, model.LabelInstanceType: t.Name, model.LabelArch: "amd64", model.LabelOS: "linux",
			model.LabelNodeGroup: t.Offerings[0].Labels[model.LabelNodeGroup]}
		n.Allocatable = t.Allocatable
		for _, pod := range n.Pods {
			pod.Owner = model.Owner{Kind: "ReplicaSet", Name: pod.Class.Key, UID: pod.Class.Key}
		}
	}
	fill(s, x)
	now := start
	var out decide.Output
	var mem decide.Memory
	var failed error
	added := 0
	step := func(add bool) {
		now = now.Add(11 * time.Second)
		clock.now = now
		s.SetNow(now)
		types, err := p.Offerings(context.Background(), x.Pool, class)
		if err != nil {
			failed = err
			return
		}
		list, err := p.List(context.Background())
		if err != nil {
			failed = err
			return
		}
		machines := make([]*model.Instance, len(list))
		for i := range list {
			machines[i] = &list[i]
		}
		s.Pools.SetTypes(x.Pool.Name, types)
		s.SetInstances(machines, now)
		if add {
			for _, d := range x.Demand {
				pod := *d
				pod.Created, pod.Unschedulable = now, now
				s.SetPod(&pod)
			}
		}
		snap := s.Snapshot(now)
		var after decide.Memory
		out, after = decide.Step(snap, mem, now, decide.DefaultPolicy(), decide.Request{Solve: true, OngoingOnly: !add, SearchNow: add && pending == 0})
		if !add {
			mem = after // each measured step is the first that may start something
		}
		if err := approve.Verify(snap, &out).Err(); err != nil {
			failed = err
		}
		added = 0
		if out.Result != nil {
			added = len(out.Result.New)
		}
		if add && added == 0 && len(out.Commands) == 0 {
			failed = errors.New("the step decided nothing")
		}
	}
	step(false)
	c := measure(runs, func() {
		step(true)
		for _, d := range x.Demand {
			s.DeletePod(d.Key())
		}
	})
	removed := 0
	for _, x := range out.Commands {
		removed += len(x.Candidates)
	}
	r := row{pods: pending, provenBy: out.Cost.ProvenBy, whole: c.cpu, clock: c.clock, bytes: c.bytes / uint64(max(1, pending)), allocs: c.allocs}
	if out.Cost.BoundMicroPerHour > 0 {
		r.ratio = float64(out.Cost.NewMicroPerHour) / float64(out.Cost.BoundMicroPerHour)
	}
	r.note = fmt.Sprintf("%d nodes launched, %d nodes removed", added, removed)
	r.met = r.whole <= 100*time.Millisecond
	return r, failed
}
