// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// addPool adds a NodePool with the instance types of the first one, and with a label unless its key is empty.
func addPool(s *model.Snapshot, name, key, value string) *model.NodePool {
	p := &model.NodePool{Name: name, UID: name, NodeLimit: -1, Replicas: -1, Ready: true, Types: s.Pools[0].Types,
		Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, name))}
	if key != "" {
		p.Labels = model.Labels{key: value}
		p.Requirements = p.Requirements.With(model.OneOf(key, value))
	}
	s.Pools = append(s.Pools, p)
	return p
}

// selecting makes a pod select labels.
func selecting(p *model.Pod, labels ...string) *model.Pod {
	var rs []model.Requirement
	for i := 0; i < len(labels); i += 2 {
		rs = append(rs, model.OneOf(labels[i], labels[i+1]))
	}
	p.Class.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(rs...)}}
	return p
}

// whyPod is the answer about a pod.
func whyPod(t *testing.T, s *model.Snapshot, p *model.Pod) plan.Answer {
	t.Helper()
	a, err := Why(s, decide.Memory{}, epoch, decide.DefaultPolicy(), "pod/"+p.Key())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A NodePool that only a taint keeps a pod off comes nearer than one without the label that the pod selects, and not than one whose limit is reached;
// a taint for devices that the pod doesn't use does not come nearer.
func TestNearestPool(t *testing.T) {
	taints := []model.Taint{{Key: "gpu", Effect: "NoSchedule"}}
	for _, c := range []struct {
		name  string
		pools func(s *model.Snapshot)
		want  string // the NodePool of the first reason
		code  plan.Code
	}{
		{"only a taint", func(s *model.Snapshot) { addPool(s, "tainted", "team", "ml").Taints = taints }, "tainted", plan.Taint},
		{"a taint and another label", func(s *model.Snapshot) { addPool(s, "tainted", "team", "db").Taints = taints }, "batch", plan.Requirement},
		{"a limit", func(s *model.Snapshot) {
			addPool(s, "tainted", "team", "ml").Taints = taints
			p := addPool(s, "full", "team", "ml")
			p.HasLimit, p.Limits = []bool{true}, model.Resources{1000}
		}, "full", plan.Limit},
		{"a taint for devices", func(s *model.Snapshot) {
			p := addPool(s, "tainted", "team", "ml")
			p.Taints = taints
			gpu := *p.Types[0]
			gpu.Name, gpu.Labels = "g", model.Labels{model.LabelInstanceType: "g"}
			gpu.Capacity, gpu.Allocatable = gpu.Capacity.With(model.FirstExtended, 1), gpu.Allocatable.With(model.FirstExtended, 1)
			p.Types = []*model.InstanceType{&gpu}
			s.ResourceNames = append(model.FixedNames(), "nvidia.com/gpu")
		}, "batch", plan.Requirement},
	} {
		s := waitingCluster()
		addPool(s, "batch", "team", "batch")
		c.pools(s)
		pod := selecting(addPending(s, "r", 1000, true), "team", "ml")
		if d := decide.WhatIf(s, epoch, decide.DefaultPolicy()).Pods[0]; d.Reasons[0].Pool != c.want || d.Reasons[0].Code != c.code {
			t.Errorf("%s: the plan says %v first, want %s of NodePool %s", c.name, d.Reasons, c.code, c.want)
		}
		a := whyPod(t, s, pod)
		if len(a.Ways) == 0 {
			t.Errorf("%s: no way of %+v", c.name, a.Findings)
		} else if a.Findings[0].Reason.Pool != a.Ways[0].Pool {
			t.Errorf("%s: the first reason is of NodePool %s, the first change is for NodePool %s", c.name, a.Findings[0].Reason.Pool, a.Ways[0].Pool)
		}
	}
}
