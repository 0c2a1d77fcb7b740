// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// changes are the metrics of what became of objects between one step and the next. Lists that did not change are the same slice, and
// objects that did not change the same pointer, so the cost follows what changed.
type changes struct {
	last    *model.Snapshot // nil: nothing was seen yet, and what is there now is nothing new
	classes []*state.NodeClass

	claimEnd, machineEnd, nodeEnd, nodeLife *prometheus.HistogramVec
	claimsEnded, nodesMade, nodesEnded      *prometheus.CounterVec
	nodesDrained                            *prometheus.CounterVec
	podStart, podBound                      prometheus.Histogram
	pods                                    *podTimes
	transitions                             map[string]*prometheus.CounterVec
	transitionTime, termination             map[string]*prometheus.HistogramVec
}

func newChanges(r prometheus.Registerer) *changes {
	long := prometheus.ExponentialBuckets(0.5, 2, 20)
	days := prometheus.ExponentialBuckets(60, 4, 10)
	hist := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		r.MustRegister(h)
		return h
	}
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	m := &changes{
		claimEnd:     hist("karpenter_nodeclaims_termination_duration_seconds", "Time from a NodeClaim's deletion to its end.", long, "nodepool"),
		machineEnd:   hist("karpenter_nodeclaims_instance_termination_duration_seconds", "Time from when a machine's end was asked for to the end of its NodeClaim.", long, "nodepool"),
		nodeEnd:      hist("karpenter_nodes_termination_duration_seconds", "Time from a node's deletion to its end.", long, "nodepool"),
		nodeLife:     hist("karpenter_nodes_lifetime_duration_seconds", "How long nodes lived that have ended.", days, "nodepool"),
		claimsEnded:  count("karpenter_nodeclaims_terminated_total", "NodeClaims that have ended.", "nodepool", "capacity_type"),
		nodesMade:    count("karpenter_nodes_created_total", "Nodes that were registered.", "nodepool"),
		nodesEnded:   count("karpenter_nodes_terminated_total", "Nodes of ours that have ended.", "nodepool"),
		nodesDrained: count("karpenter_nodes_drained_total", "Nodes that were drained.", "nodepool"),
		transitions:  map[string]*prometheus.CounterVec{}, transitionTime: map[string]*prometheus.HistogramVec{}, termination: map[string]*prometheus.HistogramVec{},
	}
	m.podStart = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "karpenter_pods_startup_duration_seconds", Help: "Time from a pod's creation until it was ready.", Buckets: long})
	m.podBound = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "karpenter_pods_bound_duration_seconds", Help: "Time from a pod's creation until it was bound.", Buckets: long})
	r.MustRegister(m.podStart, m.podBound)
	m.pods = newPodTimes(r, long)
	for _, kind := range slices.Concat([]string{"nodeclaim", "node", "nodepool"}, classKinds) {
		m.transitions[kind] = count("operator_"+kind+"_status_condition_transitions_total", "Changes of a condition's status.", "type", "status", "reason")
		m.transitionTime[kind] = hist("operator_"+kind+"_status_condition_transition_seconds", "How long a condition had the status that it left.", long, "type", "status")
	}
	for _, kind := range []string{"nodeclaim", "node", "nodepool", "ec2nodeclass"} {
		m.termination[kind] = hist("operator_"+kind+"_termination_duration_seconds", "Time from an object's deletion to its end.", long)
	}
	return m
}

// classKinds are the kinds of node classes by which their conditions are counted.
var classKinds = []string{"ec2nodeclass", "kwoknodeclass", "nodegroupclass"}

// nodeClassKind is the one of a node class; empty: none.
func nodeClassKind(c *state.NodeClass) string {
	if c == nil || !slices.Contains(classKinds, strings.ToLower(c.Kind)) {
		return ""
	}
	return strings.ToLower(c.Kind)
}

// compareLists walks two lists in the same order by key and hands over what is not the same in both.
func compareLists[T any](was, is []*T, key func(*T) string, changed func(was, is *T)) {
	if len(was) == len(is) && (len(is) == 0 || &was[0] == &is[0]) {
		return
	}
	i, j := 0, 0
	for i < len(was) || j < len(is) {
		order := 0
		switch {
		case i == len(was):
			order = 1
		case j == len(is):
			order = -1
		case was[i] != is[j]:
			order = strings.Compare(key(was[i]), key(is[j]))
		}
		switch {
		case order < 0:
			changed(was[i], nil)
			i++
		case order > 0:
			changed(nil, is[j])
			j++
		default:
			if was[i] != is[j] {
				changed(was[i], is[j])
			}
			i, j = i+1, j+1
		}
	}
}

// observeSnapshot takes in a Snapshot.
func (m *changes) observeSnapshot(s *model.Snapshot, classes []*state.NodeClass, now time.Time) {
	last, lastClasses := m.last, m.classes
	m.last, m.classes = s, classes
	if last == nil {
		for _, p := range s.Pending {
			m.pods.notePending(p, now)
		}
		return
	}
	var waited []string // by uid: pods that wait no more
	compareLists(last.Pending, s.Pending, func(p *model.Pod) string { return p.Namespace + "\x00" + p.Name }, func(was, is *model.Pod) {
		if was != nil && (is == nil || is.UID != was.UID) {
			waited = append(waited, was.UID)
		}
		if is != nil && (was == nil || was.UID != is.UID) {
			m.pods.notePending(is, now)
		}
	})
	compareLists(last.Claims, s.Claims, func(c *model.Claim) string { return c.Name }, func(was, is *model.Claim) {
		if was != nil && (is == nil || is.UID != was.UID && was.UID != "") {
			m.observeClaimEnd(was, now)
		}
		if was != nil && is != nil && is.UID == was.UID {
			m.observeConditions("nodeclaim", was.Conditions, is.Conditions)
			if is.Is(lifecycle.Drained) && !was.Is(lifecycle.Drained) {
				m.nodesDrained.WithLabelValues(is.Pool).Inc()
			}
		}
	})
	compareLists(last.Nodes, s.Nodes, func(n *model.Node) string { return n.Name }, func(was, is *model.Node) {
		switch {
		case is == nil:
			m.observeNodeEnd(was, now)
			for _, p := range was.Pods {
				m.pods.forgetPod(p.UID, false)
			}
		case was == nil || was.UID != is.UID:
			was = nil
		default:
			m.observeConditions("node", was.Conditions, is.Conditions)
		}
		if is == nil {
			return
		}
		if is.Labels[model.LabelRegistered] == "true" && (was == nil || was.Labels[model.LabelRegistered] != "true") {
			m.nodesMade.WithLabelValues(is.Labels[model.LabelNodePool]).Inc()
		}
		var before []*model.Pod
		if was != nil {
			before = was.Pods
		}
		compareLists(before, is.Pods, func(p *model.Pod) string { return p.Namespace + "\x00" + p.Name }, func(was, is *model.Pod) { m.observePod(was, is, now) })
	})
	compareLists(lastClasses, classes, func(c *state.NodeClass) string { return c.Group + "\x00" + c.Kind + "\x00" + c.Name }, func(was, is *state.NodeClass) {
		if kind := nodeClassKind(is); was != nil && is != nil && was.UID == is.UID && kind != "" {
			m.observeConditions(kind, was.Conditions, is.Conditions)
		}
		if was != nil && (is == nil || is.UID != was.UID) && !was.Deleting.IsZero() && m.termination[nodeClassKind(was)] != nil {
			m.termination[nodeClassKind(was)].WithLabelValues().Observe(now.Sub(was.Deleting).Seconds())
		}
	})
	for _, uid := range waited {
		m.pods.forgetPod(uid, true)
	}
	compareLists(last.Pools, s.Pools, func(p *model.NodePool) string { return string(rune(1<<20-int(p.Weight))) + p.Name }, func(was, is *model.NodePool) {
		if was != nil && is != nil {
			m.observeConditions("nodepool", was.Conditions, is.Conditions)
		}
	})
}

// observePod takes in a pod that came to a node or changed there.
func (m *changes) observePod(was, is *model.Pod, now time.Time) {
	if was != nil && (is == nil || is.UID != was.UID) {
		m.pods.forgetPod(was.UID, false)
		was = nil
	}
	if is == nil || !is.IsWorkload() {
		return
	}
	m.pods.noteOnNode(is, now)
	if was == nil && !is.Bound.IsZero() {
		m.podBound.Observe(max(0, is.Bound.Sub(is.Created).Seconds()))
	}
	if is.Ready && !is.ReadySince.IsZero() && (was == nil || was.ReadySince.IsZero()) {
		m.podStart.Observe(max(0, is.ReadySince.Sub(is.Created).Seconds()))
	}
}

func (m *changes) observeClaimEnd(c *model.Claim, now time.Time) {
	if c.Provisional || c.Deleting.IsZero() {
		return
	}
	m.claimsEnded.WithLabelValues(c.Pool, c.Labels[model.LabelCapacityType]).Inc()
	m.claimEnd.WithLabelValues(c.Pool).Observe(now.Sub(c.Deleting).Seconds())
	m.termination["nodeclaim"].WithLabelValues().Observe(now.Sub(c.Deleting).Seconds())
	if t := c.Conditions[lifecycle.Terminating]; t.True() && !t.Since.IsZero() {
		m.machineEnd.WithLabelValues(c.Pool).Observe(now.Sub(t.Since).Seconds())
	}
}

func (m *changes) observeNodeEnd(n *model.Node, now time.Time) {
	pool, ours := n.Labels[model.LabelNodePool], n.Labels[model.LabelRegistered] == "true"
	if !n.Deleting.IsZero() {
		m.termination["node"].WithLabelValues().Observe(now.Sub(n.Deleting).Seconds())
	}
	if !ours {
		return
	}
	m.nodesEnded.WithLabelValues(pool).Inc()
	m.nodeLife.WithLabelValues(pool).Observe(now.Sub(n.Created).Seconds())
	if !n.Deleting.IsZero() {
		m.nodeEnd.WithLabelValues(pool).Observe(now.Sub(n.Deleting).Seconds())
	}
}

func (m *changes) observeConditions(kind string, was, is map[string]model.Condition) {
	for of, c := range is {
		old := was[of]
		if old.Status == c.Status {
			continue
		}
		m.transitions[kind].WithLabelValues(of, c.Status, c.Reason).Inc()
		if old.Status != "" && !old.Since.IsZero() && !c.Since.IsZero() {
			m.transitionTime[kind].WithLabelValues(of, old.Status).Observe(max(0, c.Since.Sub(old.Since).Seconds()))
		}
	}
}

// terminationKind says whether a deletion waits for budgets and for pods.
func terminationKind(why plan.Reason) string {
	switch {
	case why.OfCommand(), why.Code == plan.Deleted, why.Code == plan.ScaledDown:
		return "graceful"
	}
	return "forceful"
}
