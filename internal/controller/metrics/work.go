// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// The kinds of work. They have the names of Karpenter's controllers that do the same.
const (
	workProvisioner  = "provisioner" // decisions with pending pods
	workDisruption   = "disruption"  // decisions without: the next step of each claim, and what may go
	workClaims       = "nodeclaim.lifecycle"
	workTermination  = "node.termination"
	workEviction     = "eviction-queue"
	workBinding      = "pod.binding"
	workPools        = "nodepool.counter"
	workClasses      = "nodeclass"
	workInstances    = "nodeclaim.garbagecollection"
	workDrift        = "nodeclaim.disruption"
	workOfferings    = "providers.instancetype"
	workInterruption = "interruption"
	workReboot       = "nodeclaim.reboot"
	workClassEnd     = "nodeclass.termination"
)

// workOfCall is the kind of work of calls.
var workOfCall = map[plan.CallKind]string{
	plan.CallCreateClaim: workClaims, plan.CallUpdateClaim: workClaims, plan.CallUpdateNode: workClaims, plan.CallLaunch: workClaims,
	plan.CallOverlay: workClaims, plan.CallBuffer: workClaims, plan.CallRequest: workClaims, plan.CallQuota: workClaims,
	plan.CallDeleteClaim: workTermination, plan.CallDeleteNode: workTermination, plan.CallTerminate: workTermination,
	plan.CallEvict: workEviction, plan.CallRestart: workEviction, plan.CallDeletePod: workEviction,
	plan.CallReboot: workReboot, plan.CallBind: workBinding, plan.CallTolerate: workBinding,
	plan.CallUpdatePool: workPools, plan.CallUpdateClass: workClasses, plan.CallInterrupted: workInterruption,
}

// workMetrics are the figures of the loop's work under the names that controller-runtime gives its controllers and their
// queues: label controller is the kind of work, a reconciliation is a decision or a call, and a queue holds the calls that
// wait for their turn. All kinds are there from the start.
type workMetrics struct {
	kinds map[string]*workKind

	total, errors, terminal, panics, timeouts *prometheus.CounterVec
	duration                                  *prometheus.HistogramVec
	active, width                             *prometheus.GaugeVec
	adds, retries                             *prometheus.CounterVec
	depth                                     *prometheus.GaugeVec
	queued, worked                            *prometheus.HistogramVec
	unfinished, longest                       *prometheus.Desc
}

// workKind is one kind of work.
type workKind struct {
	m    *workMetrics
	name string

	mu    sync.Mutex
	items map[*Work]struct{} // under way
}

// Work is one unit of work, from its start or from when it was queued.
type Work struct {
	kind           *workKind
	added, started time.Time
}

func newWorkMetrics(r prometheus.Registerer) *workMetrics {
	of, queue := []string{"controller"}, []string{"name", "controller"}
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	queueBuckets := prometheus.ExponentialBuckets(1e-8, 10, 12)
	hist := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m := &workMetrics{
		kinds:      map[string]*workKind{},
		total:      count("controller_runtime_reconcile_total", "Decisions and calls, by kind of work and result.", "controller", "result"),
		errors:     count("controller_runtime_reconcile_errors_total", "Decisions that failed verification, and failed calls.", of...),
		terminal:   count("controller_runtime_terminal_reconcile_errors_total", "Calls that the API server rejects permanently.", of...),
		panics:     count("controller_runtime_reconcile_panics_total", "Decisions that failed because of a bug in Dovetail.", of...),
		timeouts:   count("controller_runtime_reconcile_timeouts_total", "Calls that timed out.", of...),
		duration:   hist("controller_runtime_reconcile_time_seconds", "Duration of decisions and calls.", durationBuckets(), of...),
		active:     gauge("controller_runtime_active_workers", "Decisions and calls in progress.", of...),
		width:      gauge("controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent calls per kind, and per namespace or node class.", of...),
		adds:       count("workqueue_adds_total", "Decisions and calls that were started or queued.", queue...),
		retries:    count("workqueue_retries_total", "Failed calls, retried by a later decision.", queue...),
		depth:      gauge("workqueue_depth", "Queued calls.", "name", "controller", "priority"),
		queued:     hist("workqueue_queue_duration_seconds", "Time that calls spent in the queue.", queueBuckets, queue...),
		worked:     hist("workqueue_work_duration_seconds", "Duration of decisions and calls.", queueBuckets, queue...),
		unfinished: prometheus.NewDesc("workqueue_unfinished_work_seconds", "Total duration of the work in progress so far.", queue, nil),
		longest:    prometheus.NewDesc("workqueue_longest_running_processor_seconds", "Duration of the longest-running work in progress so far.", queue, nil),
	}
	r.MustRegister(m.total, m.errors, m.terminal, m.panics, m.timeouts, m.duration, m.active, m.width, m.adds, m.retries, m.depth, m.queued, m.worked, m)
	for _, name := range []string{workProvisioner, workDisruption, workClaims, workTermination, workEviction, workBinding, workPools, workClasses, workInstances, workDrift,
		workOfferings, workInterruption, workClassEnd, workReboot} {
		m.kinds[name] = &workKind{m: m, name: name, items: map[*Work]struct{}{}}
		for _, result := range []string{"success", "error", "requeue", "requeue_after"} {
			m.total.WithLabelValues(name, result)
		}
		for _, v := range []*prometheus.CounterVec{m.errors, m.terminal, m.panics, m.timeouts} {
			v.WithLabelValues(name)
		}
		m.duration.WithLabelValues(name)
		m.active.WithLabelValues(name)
		m.width.WithLabelValues(name).Set(1)
		m.adds.WithLabelValues(name, name)
		m.retries.WithLabelValues(name, name)
		m.depth.WithLabelValues(name, name, "0")
		m.queued.WithLabelValues(name, name)
		m.worked.WithLabelValues(name, name)
	}
	return m
}

// SetWidth sets the maximum number of concurrent calls.
func (m *Metrics) SetWidth(parallel, bindings int) {
	for _, name := range workOfCall {
		m.work.width.WithLabelValues(name).Set(float64(parallel))
	}
	m.work.width.WithLabelValues(workBinding).Set(float64(bindings))
	m.work.width.WithLabelValues(workInterruption).Set(1)
}

// AddCall records a call that is queued.
func (m *Metrics) AddCall(kind plan.CallKind) *Work { return m.work.add(workOfCall[kind]) }

// add takes in work of a kind that is to be done.
func (m *workMetrics) add(name string) *Work {
	m.adds.WithLabelValues(name, name).Inc()
	m.depth.WithLabelValues(name, name, "0").Inc()
	return &Work{kind: m.kinds[name], added: time.Now()}
}

// Start records that the work starts.
func (i *Work) Start() {
	k := i.kind
	i.started = time.Now()
	k.m.depth.WithLabelValues(k.name, k.name, "0").Dec()
	k.m.queued.WithLabelValues(k.name, k.name).Observe(i.started.Sub(i.added).Seconds())
	k.m.active.WithLabelValues(k.name).Inc()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.items[i] = struct{}{}
}

// Drop records that the work is no longer needed. It must not have been started.
func (i *Work) Drop() { i.kind.m.depth.WithLabelValues(i.kind.name, i.kind.name, "0").Dec() }

// End records that the work is done. more: it is repeated in any case.
func (i *Work) End(err error, more bool) {
	k := i.kind
	k.mu.Lock()
	delete(k.items, i)
	k.mu.Unlock()
	k.m.active.WithLabelValues(k.name).Dec()
	k.m.worked.WithLabelValues(k.name, k.name).Observe(time.Since(i.started).Seconds())
	k.observe(time.Since(i.started), err, more)
}

func (k *workKind) observe(d time.Duration, err error, more bool) {
	k.m.duration.WithLabelValues(k.name).Observe(d.Seconds())
	result := "error"
	switch {
	case err == nil && more:
		result = "requeue_after"
	case err == nil, errors.Is(err, plan.ErrGone):
		result = "success"
	case errors.Is(err, plan.ErrBlocked), errors.Is(err, plan.ErrConflict):
		result = "requeue"
	}
	k.m.total.WithLabelValues(k.name, result).Inc()
	if result == "requeue" || result == "error" {
		k.m.retries.WithLabelValues(k.name, k.name).Inc()
	}
	if result != "error" {
		return
	}
	k.m.errors.WithLabelValues(k.name).Inc()
	if errors.Is(err, context.DeadlineExceeded) {
		k.m.timeouts.WithLabelValues(k.name).Inc()
	}
	if errors.Is(err, plan.ErrInvalid) {
		k.m.terminal.WithLabelValues(k.name).Inc()
	}
}

// countDone takes in work that is done and did not wait.
func (m *workMetrics) countDone(name string, d time.Duration, err error) {
	m.adds.WithLabelValues(name, name).Inc()
	m.queued.WithLabelValues(name, name).Observe(0)
	m.worked.WithLabelValues(name, name).Observe(d.Seconds())
	m.kinds[name].observe(d, err, err == nil)
}

// Describe implements prometheus.Collector.
func (m *workMetrics) Describe(out chan<- *prometheus.Desc) { out <- m.unfinished; out <- m.longest }

// Collect implements prometheus.Collector.
func (m *workMetrics) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	for name, k := range m.kinds {
		var sum, longest float64
		k.mu.Lock()
		for i := range k.items {
			d := now.Sub(i.started).Seconds()
			sum, longest = sum+d, max(longest, d)
		}
		k.mu.Unlock()
		out <- prometheus.MustNewConstMetric(m.unfinished, prometheus.GaugeValue, sum, name, name)
		out <- prometheus.MustNewConstMetric(m.longest, prometheus.GaugeValue, longest, name, name)
	}
}
