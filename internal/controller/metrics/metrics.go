// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package metrics exports Prometheus metrics about the loop and the cluster. Metrics that Karpenter or Cluster
// Autoscaler have use their names; the names of others begin with dovetail_.
//
// Metrics are updated when something happens (count.go, work.go), or when two Snapshots differ (change.go, pods.go).
// State and Groups compute theirs on each scrape, from the results of the last step (Loop), at no cost for the step.
// Start reading at New, then State.Collect.
package metrics

import (
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics that the loop counts. They have Karpenter's names, types, labels and label values if Karpenter has the
// same metric (karpenter_, operator_, controller_runtime_, workqueue_); otherwise the prefix is dovetail_. State computes the
// metrics of the cluster's state.
type Metrics struct {
	registerer    prometheus.Registerer
	scheduler     schedulerMetrics
	nodeClaims    nodeClaimMetrics
	disruption    disruptionMetrics
	cloud         cloudMetrics
	interruptions interruptionMetrics
	ours          ownMetrics
	work          *workMetrics
	changes       *changes
	podStarts     *podStarts
	groups        *groupCounters
	expanderCalls *prometheus.CounterVec

	deciding  atomic.Pointer[decision] // the one under way; nil: none is
	decisions int64                    // how many there were; the loop's alone

	evictions, podsDrained *prometheus.CounterVec
	nodeCount, synced      prometheus.Gauge
	poolUsage, poolLimit   *prometheus.GaugeVec

	ofPools   []seriesOfPool // all that has a label nodepool, to forget pools by
	poolsGone map[string]time.Time
	pools     map[string]bool // those of the last Snapshot
}

// decision is one under way.
type decision struct {
	kind  string // of work
	id    string
	began time.Time
}

// Registerer returns the registry of the metrics, for packages with their own metrics.
func (m *Metrics) Registerer() prometheus.Registerer { return m.registerer }

// seriesOfPool is a family that has a label nodepool or provisioner.
type seriesOfPool interface {
	DeletePartialMatch(prometheus.Labels) int
}

// poolsKeptFor is how long the figures of a pool that is gone are kept, so that what ends with it is still scraped.
const poolsKeptFor = 15 * time.Minute

// schedulerMetrics are of decisions. Label controller is provisioner for those with pending pods, disruption for others.
type schedulerMetrics struct {
	duration                *prometheus.HistogramVec
	queueDepth, unplaceable *prometheus.GaugeVec
	// As Karpenter called them in the days of Provisioners, for dashboards of that time.
	binpacking, scheduling *prometheus.HistogramVec
	bind                   prometheus.Histogram
}

type nodeClaimMetrics struct {
	created, disrupted, unhealthy, podsDisrupted, reboots *prometheus.CounterVec
	rebootDuration                                        *prometheus.HistogramVec
	rebootRecovery                                        prometheus.Observer
}

type disruptionMetrics struct {
	evaluation                                                           *prometheus.HistogramVec
	decisions, decisionsByPool, queueFailures, timeouts, notValid, moves *prometheus.CounterVec
	terminateFirst                                                       *prometheus.CounterVec
	score                                                                *prometheus.HistogramVec
}

type cloudMetrics struct {
	provider                                    string
	duration                                    *prometheus.HistogramVec
	errors, launchFailures, terminationFailures *prometheus.CounterVec
}

type interruptionMetrics struct {
	received *prometheus.CounterVec
	deleted  prometheus.Counter
	queued   prometheus.Histogram
}

type ownMetrics struct {
	plansRefused, decisionsFailed   prometheus.Counter
	unusedLaunches, unusedDollars   *prometheus.CounterVec
	partsRefused                    *prometheus.CounterVec
	movesRefused, bindings          *prometheus.CounterVec
	planCost, planBound, standingBy prometheus.Gauge
	planGap                         prometheus.Histogram
}

// registrar makes metrics and registers them, and notes those that have a label nodepool.
type registrar struct {
	prometheus.Registerer
	m *Metrics
}

func (r registrar) count(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	r.add(v, v, labels)
	return v
}

func (r registrar) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	r.add(v, v, labels)
	return v
}

func (r registrar) hist(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	r.add(v, v, labels)
	return v
}

func (r registrar) summary(name, help string, labels ...string) *prometheus.SummaryVec {
	v := prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: name, Help: help, Objectives: quantiles()}, labels)
	r.add(v, v, labels)
	return v
}

func (r registrar) add(c prometheus.Collector, s seriesOfPool, labels []string) {
	r.MustRegister(c)
	if slices.Contains(labels, "nodepool") || slices.Contains(labels, "karpenter_sh_nodepool") || slices.Contains(labels, "provisioner") {
		r.m.ofPools = append(r.m.ofPools, s)
	}
}

// revision is the commit that the binary was built from, as far as it says so.
func revision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

func newSchedulerMetrics(r registrar) schedulerMetrics {
	const old = "karpenter_allocation_controller_"
	m := schedulerMetrics{
		duration:    r.hist("karpenter_scheduler_scheduling_duration_seconds", "Duration of a decision.", durationBuckets(), "controller"),
		queueDepth:  r.gauge("karpenter_scheduler_queue_depth", "Pods in the current decision; 0 if none is running.", "controller", "scheduling_id"),
		unplaceable: r.gauge("karpenter_scheduler_unschedulable_pods_count", "Pods that the last decision could not place.", "controller"),
		binpacking:  r.hist(old+"binpacking_duration_seconds", "Duration of a decision with pending pods, for each NodePool in which it launched nodes.", durationBuckets(), "provisioner"),
		scheduling:  r.hist(old+"scheduling_duration_seconds", "Duration of a decision with pending pods, for each NodePool in which it launched nodes.", durationBuckets(), "provisioner"),
		bind:        prometheus.NewHistogram(prometheus.HistogramOpts{Name: old + "bind_duration_seconds", Help: "Duration of calls that bind a pod.", Buckets: durationBuckets()}),
	}
	r.MustRegister(m.bind)
	return m
}

func newDisruptionMetrics(r registrar) disruptionMetrics {
	m := disruptionMetrics{
		evaluation:      r.hist("karpenter_voluntary_disruption_decision_evaluation_duration_seconds", "Duration of a decision. Each decision evaluates all reasons.", durationBuckets(), "reason", "consolidation_type"),
		decisions:       r.count("karpenter_voluntary_disruption_decisions_total", "Disruption commands started.", "decision", "reason", "consolidation_type"),
		decisionsByPool: r.count("karpenter_voluntary_disruption_decisions_by_nodepool_total", "Disruption commands started, by NodePool of their nodes.", "nodepool", "decision", "reason", "consolidation_type"),
		terminateFirst:  r.count("karpenter_voluntary_disruption_terminate_first_decisions_total", "Disruption commands started that terminate a node before its replacement is launched.", "nodepool", "reason", "terminate_first_reason"),
		queueFailures:   r.count("karpenter_voluntary_disruption_queue_failures_total", "Nodes whose disruption command was cancelled.", "decision", "reason", "consolidation_type"),
		timeouts:        r.count("karpenter_voluntary_disruption_consolidation_timeouts_total", "Always 0: the search for consolidation is limited by work, not by time.", "consolidation_type"),
		notValid:        r.count("karpenter_voluntary_disruption_failed_validations_total", "Nodes of disruption commands that failed verification.", "consolidation_type"),
		moves:           r.count("karpenter_consolidation_moves_total", "Consolidations started, or rejected by policy Balanced, counted for each NodePool.", "decision", "nodepool", "policy"),
		score:           r.hist("karpenter_consolidation_score", "Score of consolidations under policy Balanced. The minimum is 0.5.", []float64{.1, .25, .33, .5, .75, 1, 1.5, 2, 5, 10}, "decision", "nodepool", "policy"),
	}
	for _, kind := range []string{"multi", "single"} {
		m.timeouts.WithLabelValues(kind)
	}
	return m
}

func newOwnMetrics(r registrar) ownMetrics {
	m := ownMetrics{
		plansRefused: prometheus.NewCounter(prometheus.CounterOpts{Name: "dovetail_plans_refused_total", Help: "Plans with a part that failed verification; that part was not carried out."}),
		partsRefused: r.count("dovetail_plan_parts_refused_total", "Parts of plans dropped because planning or verification failed, by unit (pod, nodeclaim, node, class, nodepool, cost, plan) and NodePool.",
			"unit", "nodepool"),
		decisionsFailed: prometheus.NewCounter(prometheus.CounterOpts{Name: "dovetail_decisions_failed_total", Help: "Decisions that failed because of a bug in Dovetail; nothing was launched or disrupted for the affected objects."}),
		movesRefused:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dovetail_moves_refused_total", Help: "Disruption commands that failed verification and were not carried out."}, []string{"reason"}),
		bindings:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dovetail_bindings_total", Help: "Bindings of pods to nodes, by result: bound, conflict (already bound or being deleted), gone, refused (by admission), error, unfit (rejected by a kube-scheduler filter, not tried)."}, []string{"result"}),
		unusedLaunches:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dovetail_unused_launches_total", Help: "Launches whose pods never ran on the launched node, by NodePool and most likely cause."}, []string{"nodepool", "cause"}),
		unusedDollars:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dovetail_unused_launch_dollars_total", Help: "Cost of unused launches in dollars, by NodePool."}, []string{"nodepool"}),
		planCost:        prometheus.NewGauge(prometheus.GaugeOpts{Name: "dovetail_plan_cost_usd_per_hour", Help: "Price of the nodes of the last plan that launched any, in dollars per hour."}),
		standingBy:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "dovetail_standing_down", Help: "Number of other running autoscalers. Above 0, nothing is launched or disrupted."}),
		planBound:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "dovetail_plan_lower_bound_usd_per_hour", Help: "Proven lower bound on dovetail_plan_cost_usd_per_hour."}),
		planGap:         prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dovetail_plan_gap_ratio", Help: "Relative gap between cost and lower bound of plans that launched nodes.", Buckets: []float64{.001, .003, .01, .02, .05, .1, .2, .5, 1, 2}}),
	}
	r.MustRegister(m.plansRefused, m.decisionsFailed, m.movesRefused, m.bindings, m.unusedLaunches, m.unusedDollars, m.planCost, m.standingBy, m.planBound, m.planGap)
	return m
}
