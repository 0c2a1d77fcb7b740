// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package deletioncosts

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/deletioncost"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Metrics are Karpenter's metrics of deletion costs, without skipped writes: unchanged costs are not written.
type Metrics struct {
	pending *prometheus.GaugeVec
	writes  *prometheus.CounterVec
}

// NewMetrics registers the metrics. They have no series until the first write.
func NewMetrics(to prometheus.Registerer) *Metrics {
	m := &Metrics{
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes", Help: "Nodes with pods whose deletion cost was to be written in the last minute."}, []string{"nodepool"}),
		writes:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_pod_deletion_cost_pod_annotation_writes_total", Help: "Writes of deletion costs of pods, by result: updated, skipped_notfound, skipped_conflict or error."}, []string{"result"}),
	}
	to.MustRegister(m.pending, m.writes)
	return m
}

// setPending sets how many nodes of each NodePool have pods that are to be written to.
func (m *Metrics) setPending(s *model.Snapshot, writes []deletioncost.Write) {
	has := make(map[string]bool, len(writes))
	for _, w := range writes {
		has[w.Node] = true
	}
	m.pending.Reset()
	for _, n := range s.Nodes {
		if has[n.Name] {
			m.pending.WithLabelValues(n.Labels[model.LabelNodePool]).Inc()
		}
	}
}

// count counts a write by what came of it.
func (m *Metrics) count(err error) {
	result := "error"
	switch {
	case err == nil:
		result = "updated"
	case errors.Is(err, plan.ErrGone):
		result = "skipped_notfound"
	case errors.Is(err, plan.ErrConflict):
		result = "skipped_conflict"
	}
	m.writes.WithLabelValues(result).Inc()
}
