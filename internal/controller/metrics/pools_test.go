// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestUsageOfEmptyNodePool checks that a NodePool has a usage of each resource that every node has, which is 0 before its first node and after its
// last, and a usage of other resources only while it has nodes with them.
func TestUsageOfEmptyNodePool(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := New(registry, "test", cloud.Traits{})
	p := model.NodePool{Name: "p", UID: "uid-p", NodeLimit: -1}
	for _, c := range []struct {
		resources model.Resources
		nodes     int64
		want      map[string]float64
	}{
		{nil, 0, map[string]float64{"cpu": 0, "memory": 0, "ephemeral_storage": 0, "pods": 0, "nodes": 0}},
		{model.Resources{4000, 1 << 34, 1 << 30, 110, 2}, 1, map[string]float64{"cpu": 4, "memory": 1 << 34, "ephemeral_storage": 1 << 30, "pods": 110, "nodes": 1, "nvidia.com/gpu": 2}},
		{nil, 0, map[string]float64{"cpu": 0, "memory": 0, "ephemeral_storage": 0, "pods": 0, "nodes": 0}},
	} {
		q := p
		q.StatusResources, q.StatusNodes = c.resources, c.nodes
		m.ObserveSnapshot(&model.Snapshot{Pools: []*model.NodePool{&q}, ResourceNames: []string{"cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu"}}, nil, time.Unix(1_000, 0))
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]float64{}
		for _, f := range families {
			if f.GetName() != "karpenter_nodepools_usage" {
				continue
			}
			for _, series := range f.GetMetric() {
				for _, l := range series.GetLabel() {
					if l.GetName() == "resource_type" {
						have[l.GetValue()] = series.GetGauge().GetValue()
					}
				}
			}
		}
		if len(have) != len(c.want) {
			t.Errorf("with %d nodes, usage is %v, want %v", c.nodes, have, c.want)
		}
		for name, want := range c.want {
			if v, ok := have[name]; !ok || v != want {
				t.Errorf("with %d nodes, usage of %s is %g (series exists: %t), want %g", c.nodes, name, v, ok, want)
			}
		}
	}
}
