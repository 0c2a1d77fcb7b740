// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package savingskeeper

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of the whole account, computed on each scrape. A process that has not read the account yet has none.
type Metrics struct {
	k             *Keeper
	cost, saved   *prometheus.Desc
	unknown, from *prometheus.Desc
}

// NewMetrics returns the metrics of a keeper's account.
func NewMetrics(k *Keeper) *Metrics {
	of := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("dovetail_"+name, help, labels, nil)
	}
	return &Metrics{
		k:       k,
		cost:    of("nodes_cost_usd", "Cost of nodes in the last 24 hours, in dollars, by NodePool and capacity type. NodePool (others): those without a series of their own.", "nodepool", "capacity_type"),
		saved:   of("savings_usd", "Savings in the last 24 hours, in dollars, by cause: consolidation, spot, reservations, overlays or headroom (negative).", "cause"),
		unknown: of("savings_unknown_seconds", "Missing data of the last 24 hours in seconds, by kind: unpriced (nodes without a price), no_on_demand_price, ended (nodes that ended unobserved), unseen (no controller running) or no_credit (consolidations with unknown savings).", "what"),
		from:    of("savings_start_seconds", "Unix time in seconds at which savings data begins."),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.cost, m.saved, m.unknown, m.from} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	a, err := m.k.Since(time.Now().Add(-24 * time.Hour))
	if err != nil || len(a.Periods) == 0 {
		return
	}
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	const dollar = 3600 * 1e6
	for i, s := range a.Series {
		if s.Pool != "" {
			send(m.cost, float64(a.Sums[i].Cost)/dollar, s.Pool, s.CapacityType)
		}
	}
	for _, c := range a.Causes().List() {
		send(m.saved, float64(c.Amount)/dollar, c.Name)
	}
	for what, seconds := range map[string]int64{"unpriced": a.Total.NoPrice, "no_on_demand_price": a.Total.NoOnDemand, "ended": a.Total.Ended, "unseen": a.Total.Unseen, "no_credit": a.Total.NoCredit} {
		send(m.unknown, float64(seconds), what)
	}
	send(m.from, float64(a.Begin.Unix()))
}
