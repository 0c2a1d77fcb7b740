// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"cmp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

const karpenterGroup = "karpenter.sh"

// conditionMetrics are operator_…: what the conditions of objects are and how they change, and how long objects take to
// end. Each kind has families of its own. operator_status_condition_… and operator_termination_… without a kind, with
// labels group and kind instead, are Karpenter's older ones, which it still serves.
type conditionMetrics struct {
	classes []string // keys of the labels that name a node class, one for each kind that the provider serves
	kinds   map[string]*conditionFamilies
	all     *conditionFamilies
}

type conditionFamilies struct {
	transitions       *prometheus.CounterVec
	time, termination *prometheus.HistogramVec
	count, status     *prometheus.Desc
	terminating       *prometheus.Desc
}

// conditionKinds are the kinds that have families of their own.
var conditionKinds = []string{"nodeclaim", "node", "nodepool", "ec2nodeclass", "kwoknodeclass", "nodegroupclass", "clusterapinodeclass"}

// objectOf is what the metrics say of an object beside its conditions.
type objectOf struct {
	group, kind, name, pool string // pool is a claim's, which may be known before its labels are
	labels                  model.Labels
	deleting                time.Time
}

func claimObject(c *model.Claim) objectOf {
	return objectOf{group: karpenterGroup, kind: "NodeClaim", name: c.Name, pool: c.Pool, labels: c.Labels, deleting: c.Deleting}
}

func nodeObject(n *model.Node) objectOf {
	return objectOf{kind: "Node", name: n.Name, labels: n.Labels, deleting: n.Deleting}
}

func poolObject(p *model.NodePool) objectOf {
	return objectOf{group: karpenterGroup, kind: "NodePool", name: p.Name}
}

func classObject(c *state.NodeClass) objectOf {
	return objectOf{group: c.Group, kind: c.Kind, name: c.Name, deleting: c.Deleting}
}

func newConditionMetrics(r registrar, classes []cloud.ClassKind) *conditionMetrics {
	m := &conditionMetrics{kinds: map[string]*conditionFamilies{}}
	for _, c := range classes {
		m.classes = append(m.classes, c.Group+"/"+strings.ToLower(c.Kind))
	}
	for _, kind := range conditionKinds {
		var labels []string
		for _, key := range m.labelKeys(kind) {
			labels = append(labels, labelName(key))
		}
		m.kinds[kind] = newConditionFamilies(r, "operator_"+kind+"_", prometheus.ExponentialBuckets(.5, 2, 15), labels...)
	}
	m.all = newConditionFamilies(r, "operator_", prometheus.DefBuckets, "group", "kind")
	return m
}

// labelKeys are the keys of those of an object's own labels that its families bear.
func (m *conditionMetrics) labelKeys(kind string) (out []string) {
	switch kind {
	case "nodeclaim":
		out = append(append(out, m.classes...), model.LabelNodePool)
	case "node":
		out = append(append(out, m.classes...), model.LabelNodePool, model.LabelInitialized)
	}
	return out
}

func newConditionFamilies(r registrar, prefix string, buckets []float64, labels ...string) *conditionFamilies {
	with := func(own ...string) []string { return append(own, labels...) }
	return &conditionFamilies{
		transitions: r.count(prefix+"status_condition_transitions_total", "Changes of a condition's status.", with("type", "status", "reason")...),
		time:        r.hist(prefix+"status_condition_transition_seconds", "How long a condition had its previous status.", buckets, with("type", "status", "to_status")...),
		termination: r.hist(prefix+"termination_duration_seconds", "Time from the deletion of an object until it is gone.", buckets, with()...),
		count:       prometheus.NewDesc(prefix+"status_condition_count", "1 for each condition that an object has.", with("namespace", "name", "type", "status", "reason"), nil),
		status:      prometheus.NewDesc(prefix+"status_condition_current_status_seconds", "Time since the condition's last transition, in seconds.", with("namespace", "name", "type", "status", "reason"), nil),
		terminating: prometheus.NewDesc(prefix+"termination_current_time_seconds", "Time since an object's deletion was requested, in seconds.", with("namespace", "name"), nil),
	}
}

// each hands over the families that an object is counted in, with the values of their labels. Nodes are in their own only.
func (m *conditionMetrics) each(o objectOf, do func(*conditionFamilies, []string)) {
	kind := strings.ToLower(o.kind)
	f := m.kinds[kind]
	if f == nil {
		return
	}
	var values []string
	for _, key := range m.labelKeys(kind) {
		value := o.labels[key]
		if key == model.LabelNodePool {
			value = cmp.Or(value, o.pool)
		}
		values = append(values, value)
	}
	do(f, values)
	if kind != "node" {
		do(m.all, []string{o.group, o.kind})
	}
}

// observe takes in what an object's conditions were and are.
func (m *conditionMetrics) observe(o objectOf, was, is map[string]model.Condition) {
	for of, c := range is {
		old := was[of]
		if old.Status == c.Status {
			continue
		}
		m.each(o, func(f *conditionFamilies, own []string) {
			f.transitions.WithLabelValues(append([]string{of, c.Status, c.Reason}, own...)...).Inc()
			if old.Status != "" && !old.Since.IsZero() && !c.Since.IsZero() {
				f.time.WithLabelValues(append([]string{of, old.Status, c.Status}, own...)...).Observe(max(0, c.Since.Sub(old.Since).Seconds()))
			}
		})
	}
}

// observeEnd takes in an object that is gone; one that nobody had deleted is not counted.
func (m *conditionMetrics) observeEnd(o objectOf, now time.Time) {
	if o.deleting.IsZero() {
		return
	}
	m.each(o, func(f *conditionFamilies, own []string) {
		f.termination.WithLabelValues(own...).Observe(now.Sub(o.deleting).Seconds())
	})
}

// describe hands over what collect measures.
func (m *conditionMetrics) describe(out chan<- *prometheus.Desc) {
	for _, f := range m.kinds {
		out <- f.count
		out <- f.status
		out <- f.terminating
	}
	out <- m.all.count
	out <- m.all.status
	out <- m.all.terminating
}

// collect measures an object as it is now.
func (m *conditionMetrics) collect(out chan<- prometheus.Metric, o objectOf, is map[string]model.Condition, now time.Time) {
	m.each(o, func(f *conditionFamilies, own []string) {
		for of, c := range is {
			labels := append([]string{"", o.name, of, c.Status, c.Reason}, own...)
			out <- prometheus.MustNewConstMetric(f.count, prometheus.GaugeValue, 1, labels...)
			if !c.Since.IsZero() {
				out <- prometheus.MustNewConstMetric(f.status, prometheus.GaugeValue, now.Sub(c.Since).Seconds(), labels...)
			}
		}
		if !o.deleting.IsZero() {
			out <- prometheus.MustNewConstMetric(f.terminating, prometheus.GaugeValue, now.Sub(o.deleting).Seconds(), append([]string{"", o.name}, own...)...)
		}
	})
}
