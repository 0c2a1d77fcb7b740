// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package groupstatus

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// ofGroup is a claim of group a.
func ofGroup(name string, age time.Duration, change func(*model.Claim)) *model.Claim {
	c := &model.Claim{Name: name, UID: name, NodeName: name, ProviderID: "m-" + name, Pool: "p", Created: noon.Add(-age), Labels: model.Labels{model.LabelNodeGroup: "a"},
		Conditions: map[string]model.Condition{initialized: {Status: "True"}}}
	if change != nil {
		change(c)
	}
	return c
}

func node(name string, age time.Duration, ready bool, pods ...*model.Pod) *model.Node {
	return &model.Node{Name: name, ProviderID: "m-" + name, Ready: ready, Created: noon.Add(-age), Pods: pods, Capacity: model.Resources{2000, 4 << 30}}
}

// Each node of a group is counted once, in the state that it is in.
func TestObserve(t *testing.T) {
	web := &model.Pod{Namespace: "default", Name: "web", Class: &model.Class{}, Owner: model.Owner{Kind: "ReplicaSet"}}
	s := &model.Snapshot{
		Pools: []*model.NodePool{{Name: "p", Scaling: &model.GroupScaling{Delays: model.ScaleDownDelays{AfterAdd: 10 * time.Minute}, Provision: 5 * time.Minute}, Types: []*model.InstanceType{
			{Name: "t", Offerings: []model.Offering{{Labels: model.Labels{model.LabelNodeGroup: "b"}}, {Available: true, Labels: model.Labels{model.LabelNodeGroup: "a"}}}}}}},
		Nodes: []*model.Node{node("busy", time.Hour, true, web), node("empty", time.Hour, true), node("broken", time.Hour, false, web), node("going", time.Hour, true), node("loose", time.Hour, true),
			node("starting", time.Minute, false), node("stuck", time.Hour, true), node("stranger", time.Hour, true)},
		Claims: []*model.Claim{
			ofGroup("asked", time.Minute, func(c *model.Claim) { c.NodeName, c.ProviderID = "", "" }),
			ofGroup("broken", time.Hour, nil), ofGroup("busy", time.Hour, nil), ofGroup("empty", time.Hour, nil),
			ofGroup("going", time.Hour, func(c *model.Claim) { c.Deleting = noon }),
			ofGroup("late", 6*time.Minute, func(c *model.Claim) { c.NodeName = "" }),
			ofGroup("starting", 2*time.Minute, func(c *model.Claim) { c.Conditions = nil }),
			ofGroup("stuck", time.Hour, func(c *model.Claim) { c.Conditions = nil }),
		},
		Instances: []*model.Instance{
			{ProviderID: "m-busy", ClaimUID: "busy", Labels: model.Labels{model.LabelNodeGroup: "a"}},
			{ProviderID: "m-loose", Labels: model.Labels{model.LabelNodeGroup: "a"}},
			{ProviderID: "m-new", Launched: noon.Add(-time.Minute), Labels: model.Labels{model.LabelNodeGroup: "a"}},
			{ProviderID: "m-gone", Gone: true, Labels: model.Labels{model.LabelNodeGroup: "a"}},
		},
	}
	v := Observe(s, []model.NodeGroup{{Name: "a", Max: 10, Desired: 7}, {Name: "b", Max: 3}, {Name: "c", Max: 3, Problem: "its launch template is gone"}}, noon)
	want := Counts{Ready: 3, Unready: 2, NotStarted: 1, BeingDeleted: 1, Unregistered: 2, LongUnregistered: 1}
	if v.Nodes != want || v.Groups[0].Nodes != want {
		t.Errorf("nodes are %+v, want %+v", v.Nodes, want)
	}
	if got := v.Groups[0].Candidates; got != 1 {
		t.Errorf("%d candidates, want the empty node", got)
	}
	if v.Groups[0].Backoff || !v.Groups[1].Backoff || v.Groups[2].Backoff || !v.Groups[0].IsHealthy() || v.Groups[2].IsHealthy() {
		t.Errorf("groups are %+v", v.Groups)
	}
	if v.MilliCPU != 16000 || !v.ScaleDownWaits {
		t.Errorf("%d milliCPU, waits: %t", v.MilliCPU, v.ScaleDownWaits)
	}
	s.Pools[0].Scaling.Delays.AfterAdd = time.Minute
	if Observe(s, nil, noon).ScaleDownWaits {
		t.Error("it waits for a node that was added a minute ago")
	}
}

// A group whose nodes have not become usable of late is not healthy, and is left alone for that cause.
func TestFailing(t *testing.T) {
	v := Observe(&model.Snapshot{}, []model.NodeGroup{{Name: "a", Max: 9}, {Name: "b", Max: 9}}, noon)
	v.NoteFailing("a", "RegistrationTimeout", "no node joined within 15m0s")
	if v.Groups[0].IsHealthy() || !v.Groups[1].IsHealthy() {
		t.Errorf("healthy: %t %t, want b alone", v.Groups[0].IsHealthy(), v.Groups[1].IsHealthy())
	}
	s := Build(v, nil, noon)
	if up := s.NodeGroups[0].ScaleUp; up.Status != InBackoff || up.BackoffInfo == nil || up.BackoffInfo.ErrorCode != "RegistrationTimeout" {
		t.Errorf("scale-up of a: %+v", up)
	}
	if up := s.NodeGroups[1].ScaleUp; up.Status != NoActivity {
		t.Errorf("scale-up of b: %+v", up)
	}
}
