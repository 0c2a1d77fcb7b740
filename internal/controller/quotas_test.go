// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"maps"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestQuotaStatus: the status counts the capacity of the nodes that a CapacityQuota selects, and is written once.
func TestQuotaStatus(t *testing.T) {
	node := func(team string) *model.Node {
		return &model.Node{Labels: model.Labels{"team": team}, Capacity: model.Resources{4000, 16 << 30}}
	}
	s := &model.Snapshot{ResourceNames: model.FixedNames(), Nodes: []*model.Node{node("web"), node("web"), node("other")}}
	l := &model.CapacityLimit{Name: "capacityquota/web", Nodes: 3, MicroPerHour: -1, Selector: model.NewRequirements(model.OneOf("team", "web")),
		Quota: &model.Quota{Name: "web", UID: "u", Generation: 2, Resources: []string{"cpu", "memory", "nodes"}}}
	a := quotaStatus(l, s)
	if want := map[string]string{"cpu": "8", "memory": "32Gi", "nodes": "2"}; !maps.Equal(a.Used, want) || a.Generation != 2 {
		t.Errorf("used %v, want %v; generation %d", a.Used, want, a.Generation)
	}
	if c := a.Conditions[quotaValid]; c.Status != "True" {
		t.Errorf("condition %+v", c)
	}
	if !quotaStatusDiffers(l.Quota, &a) {
		t.Error("a status that was never written is not written")
	}
	l.Quota.Used, l.Quota.ObservedGeneration, l.Quota.Conditions = a.Used, 2, a.Conditions
	if quotaStatusDiffers(l.Quota, &a) {
		t.Error("it is written again")
	}
	l.Quota.Invalid = "spec.limits.resources.cpu is -1; give a whole number of 0 or more"
	if c := quotaStatus(l, s).Conditions[quotaReconciled]; c.Status != "False" || c.Reason != "ReconciliationFailed" {
		t.Errorf("condition %+v", c)
	}
}
