// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headrooms

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/headroom"
)

// mostHeadroomsMeasured is how many Headrooms have series of their own, the first by namespace and name; the others
// are summed up under headroomsBeyond.
const mostHeadroomsMeasured = 200

// headroomsBeyond is the value of label headroom for those that have no series of their own. No Headroom has that name.
const headroomsBeyond = "(others)"

// Metrics are the metrics of Headrooms as of their last evaluation, computed on each scrape. Deleted Headrooms and replicas that do
// not lead have none.
type Metrics struct {
	k                                 *Keeper
	wanted, held, forecast, cost      *prometheus.Desc
	weekPods, weekSeconds, weekIdle   *prometheus.Desc
	weekCost, limited, problems, lead *prometheus.Desc
}

// NewMetrics returns the metrics of a keeper's Headrooms.
func NewMetrics(k *Keeper) *Metrics {
	of := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("dovetail_headroom_"+name, help, append([]string{"namespace", "headroom"}, labels...), nil)
	}
	return &Metrics{
		k:           k,
		wanted:      of("wanted_pods", "Additional pods for which capacity is wanted."),
		held:        of("held_pods", "Pods for which capacity is held; 0 in modes Recommend and Off."),
		forecast:    of("forecast_pods", "Forecast rise in pods within a node's startup time."),
		cost:        of("cost_usd_per_hour", "Cost of the nodes for held capacity in dollars per hour. Unknown prices are not counted."),
		limited:     of("limited", "1 if a limit prevents the Headroom from holding all wanted capacity."),
		problems:    of("problems", "Number of errors in spec and target. Above 0, nothing is held."),
		lead:        of("lead_seconds", "Startup time of nodes, from NodeClaim to Ready. Nodes are launched this much earlier."),
		weekPods:    of("pods_last_week", "Pods added by spikes in the last seven days, by result: hit (capacity was held) or miss.", "result"),
		weekSeconds: of("pod_seconds_last_week", "Pod-seconds of waiting in the last seven days, by result: spared (avoided) or waited.", "result"),
		weekIdle:    of("idle_pod_seconds_last_week", "Pod-seconds of held and unused capacity in the last seven days."),
		weekCost:    of("cost_usd_last_week", "Cost of held capacity in the last seven days, in dollars."),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.wanted, m.held, m.forecast, m.cost, m.limited, m.problems, m.lead, m.weekPods, m.weekSeconds, m.weekIdle, m.weekCost} {
		out <- d
	}
}

// MicroPerHour returns the cost of nodes for held capacity, in micro-dollars per hour. Unknown prices count as 0.
func (k *Keeper) MicroPerHour() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := figures{}
	for _, s := range k.statuses {
		f.add(s)
	}
	return f.micro
}

// figures are the figures of one Headroom, or of several in sum.
type figures struct {
	wanted, held, forecast, limited, problems int
	micro                                     int64
	lead                                      float64 // seconds; the longest
	week                                      headroom.Record
}

// add takes in a Headroom's last look.
func (f *figures) add(s *headroom.Status) {
	for i := range s.Output.Holds {
		f.wanted += s.Output.Holds[i].Wanted
		f.forecast += s.Output.Holds[i].Rise.Rise
	}
	if s.Spec.Mode == headroom.Active {
		f.held += s.Output.Held
		f.micro += s.Output.Micro
	}
	if s.Output.Limited != "" {
		f.limited++
	}
	f.problems += len(s.Problems)
	f.lead = max(f.lead, s.Lead.Seconds())
	week := s.Memory.LastWeek()
	f.week.Hits += week.Hits
	f.week.Misses += week.Misses
	f.week.SparedSeconds += week.SparedSeconds
	f.week.WaitedSeconds += week.WaitedSeconds
	f.week.IdleSeconds += week.IdleSeconds
	f.week.Micro += week.Micro
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.k.mu.Lock()
	statuses := maps.Clone(m.k.statuses) // a Status is not changed any more once it is there
	m.k.mu.Unlock()
	var beyond *figures
	for i, key := range slices.Sorted(maps.Keys(statuses)) {
		s := statuses[key]
		if i >= mostHeadroomsMeasured {
			if beyond == nil {
				beyond = &figures{}
			}
			beyond.add(s)
			continue
		}
		f := &figures{}
		f.add(s)
		m.send(out, f, s.Spec.Namespace, s.Spec.Name)
	}
	if beyond != nil {
		m.send(out, beyond, "", headroomsBeyond)
	}
}

// send sends the series of one Headroom.
func (m *Metrics) send(out chan<- prometheus.Metric, f *figures, namespace, name string) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{namespace, name}, labels...)...)
	}
	gauge(m.wanted, float64(f.wanted))
	gauge(m.held, float64(f.held))
	gauge(m.forecast, float64(f.forecast))
	gauge(m.cost, float64(f.micro)/1e6)
	gauge(m.limited, float64(f.limited))
	gauge(m.problems, float64(f.problems))
	gauge(m.lead, f.lead)
	gauge(m.weekPods, float64(f.week.Hits), "hit")
	gauge(m.weekPods, float64(f.week.Misses), "miss")
	gauge(m.weekSeconds, float64(f.week.SparedSeconds), "spared")
	gauge(m.weekSeconds, float64(f.week.WaitedSeconds), "waited")
	gauge(m.weekIdle, float64(f.week.IdleSeconds))
	gauge(m.weekCost, float64(f.week.Micro)/1e6)
}
