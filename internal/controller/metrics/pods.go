// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// podTimes are the metrics of pods that this process has seen waiting, by what it knows itself: when it first saw them and when it first
// had a place for them. DaemonSets' pods and static ones are not among them.
type podTimes struct {
	decision, bound, startup prometheus.Observer

	mu sync.Mutex          // for whoever collects
	of map[string]*podTime // by uid, until the pod is ready or gone
}

type podTime struct {
	name, namespace        string
	seen                   time.Time
	decided, placed, bound time.Time // first decided on, first given a place, bound; zero: not yet
}

// noDynamicResources is the value of dynamicResources for a pod with planned capacity: one that asks for such devices is refused.
const noDynamicResources = "false"

func newPodTimes(r registrar) *podTimes {
	hist := func(name, help string) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "karpenter_pods_" + name, Help: help, Buckets: durationBuckets()})
		r.MustRegister(h)
		return h
	}
	return &podTimes{
		of:       map[string]*podTime{},
		decision: hist("scheduling_decision_duration_seconds", "Time from when a pending pod was first seen until the first decision about it."),
		bound:    r.hist("karpenter_pods_provisioning_bound_duration_seconds", "Time from when a pod had planned capacity until it was bound.", durationBuckets(), dynamicResources).WithLabelValues(noDynamicResources),
		startup:  hist("provisioning_startup_duration_seconds", "Time from when a pod had planned capacity until it was ready."),
	}
}

// notePending takes in a pod that is not bound.
func (m *podTimes) notePending(p *model.Pod, now time.Time) {
	if !p.IsWorkload() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[p.UID] == nil {
		m.of[p.UID] = &podTime{name: p.Name, namespace: p.Namespace, seen: now}
	}
}

// NoteDecided takes in what a plan says of pods.
func (m *podTimes) noteDecided(pods []plan.PodDecision, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range pods {
		t := m.of[d.Pod.UID]
		if t == nil || d.Outcome == plan.NotOurs {
			continue
		}
		if t.decided.IsZero() {
			t.decided = now
			m.decision.Observe(now.Sub(t.seen).Seconds())
		}
		if t.placed.IsZero() && d.Outcome != plan.Refused {
			t.placed = now
		}
	}
}

// noteOnNode takes in a pod on a node.
func (m *podTimes) noteOnNode(p *model.Pod, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.of[p.UID]
	if t == nil {
		return
	}
	if t.bound.IsZero() {
		if t.bound = now; !t.placed.IsZero() {
			m.bound.Observe(now.Sub(t.placed).Seconds())
		}
	}
	if p.Ready {
		if !t.placed.IsZero() {
			m.startup.Observe(now.Sub(t.placed).Seconds())
		}
		delete(m.of, p.UID)
	}
}

// forgetPod takes in a pod that is not there any more. waiting: it was not bound when last seen, and may be by now.
func (m *podTimes) forgetPod(uid string, waiting bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.of[uid]; t != nil && (!waiting || t.bound.IsZero()) {
		delete(m.of, uid)
	}
}

// collectWaits says how long the pods have waited so far.
func (m *podTimes) collectWaits(now time.Time, put func(string, float64, ...string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.of {
		since := func(metric string, at time.Time, more ...string) {
			put(metric, max(0, now.Sub(at).Seconds()), append([]string{t.name, t.namespace}, more...)...)
		}
		if t.decided.IsZero() {
			since("pods_provisioning_scheduling_undecided_time_seconds", t.seen)
		}
		if t.placed.IsZero() {
			continue
		}
		since("pods_provisioning_unstarted_time_seconds", t.placed)
		if t.bound.IsZero() {
			since("pods_provisioning_unbound_time_seconds", t.placed, noDynamicResources)
		}
	}
}
