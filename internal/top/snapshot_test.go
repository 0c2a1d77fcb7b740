// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// What a controller's page shows of its snapshot: nodes with fill and price, pending pods with the controller's own reason, and whose
// each NodePool is while they are divided.
func TestSetSnapshot(t *testing.T) {
	now := time.Unix(100_000, 0)
	class := &model.Class{Requests: model.Resources{500, 1 << 30}}
	large := &model.InstanceType{Name: "m5.large", Offerings: []model.Offering{{Zone: "a", CapacityType: model.Spot, PriceMicro: 40_000, Modelled: true}, {Zone: "b", CapacityType: model.OnDemand, PriceMicro: 96_000}}}
	labels := func(capacity string) model.Labels {
		return model.Labels{model.LabelNodePool: "default", model.LabelInstanceType: "m5.large", model.LabelZone: "a", model.LabelCapacityType: capacity}
	}
	s := &model.Snapshot{
		ResourceNames: model.FixedNames(),
		Nodes: []*model.Node{
			{Name: "n1", Labels: labels(model.Spot), Ready: true, Created: now.Add(-time.Hour), Allocatable: model.Resources{2000, 8 << 30, 0, 29},
				Taints: []model.Taint{{Key: taintUnschedulable}}, Pods: []*model.Pod{{Namespace: "shop", Name: "cart", Class: class, Ready: true, Deployment: "cart"}}},
		},
		Claims: []*model.Claim{{Name: "c2", Pool: "default", Labels: labels(model.OnDemand), Created: now}},
		Pools: []*model.NodePool{
			{Name: "default", Ready: true, Taken: true, HasLimit: []bool{true, true}, Limits: model.Resources{8000, 16 << 30}, Types: []*model.InstanceType{large}},
			{Name: "other", NotReady: model.Condition{Message: "its class is gone"}},
			{Name: "returned", Ready: true, Manager: "karpenter"},
			{Name: "returning", Ready: true, Taken: true, Release: model.ReleaseHold},
			{Name: "settling", Ready: true, Taken: true, Release: model.ReleaseSettle},
		},
		Pending: []*model.Pod{
			{Namespace: "shop", Name: "lost", Class: class, Unschedulable: now, Created: now},
			{Namespace: "shop", Name: "gated", Class: class, Gated: true, Created: now},
			{Namespace: "shop", Name: "made-soon", Class: class, Expected: true, Created: now},
		},
	}
	b := NewBoard(Cluster{Name: "test"}, Prices{})
	b.SetSnapshot(s, map[string]string{"shop/lost": "no instance type is large enough"}, true)
	v := b.View(now)
	if len(v.Nodes) != 2 || v.Total.Micro != 40_000+96_000 || v.Total.Pending != 2 || v.Total.Pods != 3 {
		t.Errorf("%d nodes for %d micro-dollars, %d of %d pods pending; want 2 for 136000, 2 of 3", len(v.Nodes), v.Total.Micro, v.Total.Pending, v.Total.Pods)
	}
	if n := v.Node("n1"); n == nil || n.Requested != (Amounts{500, 1 << 30}) || n.State != Ready || n.Doing != "Cordoned" {
		t.Errorf("node n1 is %+v", n)
	}
	causes := map[string]bool{}
	for _, c := range v.Pending {
		causes[c.Cause] = true
	}
	if !causes["no instance type is large enough"] || !causes["Scheduling gates: the pod may not be scheduled yet"] {
		t.Errorf("causes are %v", causes)
	}
	want := map[string]string{
		"nodepool/default": "Ready; taken over by Dovetail", "nodepool/other": "NotReady: its class is gone; managed by the other autoscaler",
		"nodepool/returned": "Ready; released to karpenter", "nodepool/returning": "Ready; being released, paused in Dovetail",
		"nodepool/settling": "Ready; being released, Dovetail completes operations in progress",
	}
	for _, p := range v.Pools {
		if got := p.stateText(); got != want[p.Key] {
			t.Errorf("%s: %q, want %q", p.Key, got, want[p.Key])
		}
		delete(want, p.Key)
		if p.Key == "nodepool/default" && !strings.HasPrefix(p.Limits, "cpu 8") {
			t.Errorf("limits are %q", p.Limits)
		}
	}
	if len(want) > 0 {
		t.Errorf("not shown: %v", want)
	}
	s.Pools = []*model.NodePool{{Name: "default", Ready: true}}
	b = NewBoard(Cluster{}, Prices{})
	b.SetSnapshot(s, nil, false)
	if v := b.View(now); v.Pools[0].stateText() != "Ready" || v.Total.Pods != 2 {
		t.Errorf("undivided, without bound pods: %q, %d pods", v.Pools[0].stateText(), v.Total.Pods)
	}
}
