// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// ObserveSnapshot records the Snapshot of a step.
func (m *Metrics) ObserveSnapshot(s *model.Snapshot, classes []*state.NodeClass, now time.Time) {
	m.setClusterGauges(s, now)
	m.changes.observeSnapshot(s, classes, now)
}

// setClusterGauges sets the gauges that follow the Snapshot.
func (m *Metrics) setClusterGauges(s *model.Snapshot, now time.Time) {
	m.synced.Set(1)
	m.nodeCount.Set(float64(len(s.Nodes)))
	seen := map[string]bool{}
	for _, p := range s.Pools {
		seen[p.Name] = true
		delete(m.poolsGone, p.Name)
		for i, name := range s.ResourceNames {
			d := model.Dim(i)
			if v := p.StatusResources.At(d); v != 0 || d < model.FirstExtended { // these are 0 for a NodePool without nodes, as in its status
				m.poolUsage.WithLabelValues(resourceLabel(name), p.Name).Set(inBaseUnit(d, v))
			} else {
				m.poolUsage.DeleteLabelValues(resourceLabel(name), p.Name)
			}
			if i < len(p.HasLimit) && p.HasLimit[i] {
				m.poolLimit.WithLabelValues(resourceLabel(name), p.Name).Set(inBaseUnit(d, p.Limits.At(d)))
			} else {
				m.poolLimit.DeleteLabelValues(resourceLabel(name), p.Name)
			}
		}
		m.poolUsage.WithLabelValues("nodes", p.Name).Set(float64(p.StatusNodes))
		if p.NodeLimit >= 0 {
			m.poolLimit.WithLabelValues("nodes", p.Name).Set(float64(p.NodeLimit))
		} else {
			m.poolLimit.DeleteLabelValues("nodes", p.Name)
		}
	}
	for name := range m.pools {
		if !seen[name] {
			m.poolsGone[name] = now
			m.poolUsage.DeletePartialMatch(prometheus.Labels{"nodepool": name})
			m.poolLimit.DeletePartialMatch(prometheus.Labels{"nodepool": name})
		}
	}
	m.pools = seen
	m.forgetPools(now)
}

// forgetPools takes away the figures of pools that have been gone for a while: pools that come and go must not add up.
func (m *Metrics) forgetPools(now time.Time) {
	for name, since := range m.poolsGone {
		if now.Sub(since) < poolsKeptFor {
			continue
		}
		delete(m.poolsGone, name)
		for _, label := range []string{"nodepool", "karpenter_sh_nodepool", "provisioner"} {
			for _, s := range m.ofPools {
				s.DeletePartialMatch(prometheus.Labels{label: name})
			}
		}
	}
}

// inBaseUnit is an amount in the base unit: cores, bytes, counts.
func inBaseUnit(d model.Dim, v int64) float64 {
	if d == model.CPU {
		return float64(v) / 1000
	}
	return float64(v)
}
