// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demandhistory

import "github.com/prometheus/client_golang/prometheus"

// counters are of the histories of demand. All values of labels are there from the start.
type counters struct {
	known, refused, leftOut prometheus.Gauge
	dropped, writes, reads  *prometheus.CounterVec
	queries                 *prometheus.CounterVec
	filled                  prometheus.Counter
}

func newCounters(r prometheus.Registerer) *counters {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	count := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	m := &counters{
		known:   gauge("dovetail_demand_histories", "Workloads with a demand history."),
		refused: gauge("dovetail_demand_histories_refused", "Workloads without a demand history, because the maximum number is reached."),
		leftOut: gauge("dovetail_demand_histories_not_stored", "Histories that do not fit in the ConfigMaps and are lost when the process exits."),
		dropped: count("dovetail_demand_histories_dropped_total", "Histories dropped, by reason: gone (no demand for four weeks) or room (replaced by other workloads).", "reason", "gone", "room"),
		writes:  count("dovetail_demand_history_writes_total", "Writes of a ConfigMap with histories, by result: written or failed.", "result", "written", "failed"),
		reads:   count("dovetail_demand_histories_read_total", "Histories read from ConfigMaps, by result: read or refused (damaged, unknown format, or in the future).", "result", "read", "refused"),
		queries: count("dovetail_prometheus_queries_total", "Queries for past replicas, by result: answered or failed.", "result", "answered", "failed"),
		filled:  prometheus.NewCounter(prometheus.CounterOpts{Name: "dovetail_demand_histories_filled_total", Help: "Histories filled from Prometheus."}),
	}
	r.MustRegister(m.known, m.refused, m.leftOut, m.dropped, m.writes, m.reads, m.queries, m.filled)
	return m
}
