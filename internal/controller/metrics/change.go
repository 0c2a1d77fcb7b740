// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// changes are the metrics of what became of objects between one step and the next. Lists that did not change are the same slice, and
// objects that did not change the same pointer, so the cost follows what changed.
type changes struct {
	last    *model.Snapshot // nil: nothing was seen yet, and what is there now is nothing new
	classes []*state.NodeClass

	claimEnd, machineEnd, nodeLife     *prometheus.HistogramVec
	nodeEnd                            *prometheus.SummaryVec
	claimsEnded, nodesMade, nodesEnded *prometheus.CounterVec
	nodesDrained                       *prometheus.CounterVec
	pods                               *podTimes
	conditions                         *conditionMetrics
}

// lifetimeBuckets are seconds, from a quarter of an hour to thirty days.
func lifetimeBuckets() (out []float64) {
	const hour, day = 3600, 24 * 3600
	for _, minutes := range []float64{15, 30, 45} {
		out = append(out, minutes*60)
	}
	for _, hours := range []float64{1, 2, 4, 6, 8, 10, 12, 16, 20} {
		out = append(out, hours*hour)
	}
	for _, days := range []float64{1, 2, 3, 5, 10, 15, 20, 25, 30} {
		out = append(out, days*day)
	}
	return out
}

func newChanges(r registrar, classes []cloud.ClassKind) *changes {
	return &changes{
		claimEnd:     r.hist("karpenter_nodeclaims_termination_duration_seconds", "Time from the deletion of a NodeClaim until it is gone.", prometheus.ExponentialBuckets(1, 2, 12), "nodepool"),
		machineEnd:   r.hist("karpenter_nodeclaims_instance_termination_duration_seconds", "Time from the request to terminate an instance until its NodeClaim is gone.", prometheus.ExponentialBuckets(1, 2, 11), "nodepool"),
		nodeEnd:      r.summary("karpenter_nodes_termination_duration_seconds", "Time from the deletion of a node until it is gone.", "nodepool"),
		nodeLife:     r.hist("karpenter_nodes_lifetime_duration_seconds", "Lifetime of terminated nodes.", lifetimeBuckets(), "nodepool"),
		claimsEnded:  r.count("karpenter_nodeclaims_terminated_total", "NodeClaims terminated.", "nodepool", "capacity_type", "zone"),
		nodesMade:    r.count("karpenter_nodes_created_total", "Nodes registered.", "nodepool", "zone"),
		nodesEnded:   r.count("karpenter_nodes_terminated_total", "Nodes terminated.", "nodepool", "zone"),
		nodesDrained: r.count("karpenter_nodes_drained_total", "Nodes drained.", "nodepool"),
		conditions:   newConditionMetrics(r, classes),
		pods:         newPodTimes(r),
	}
}

// observeSnapshot takes in a Snapshot.
func (m *changes) observeSnapshot(s *model.Snapshot, classes []*state.NodeClass, now time.Time) {
	last, lastClasses := m.last, m.classes
	m.last, m.classes = s, classes
	if last == nil {
		for _, p := range s.Pending {
			if !p.Placeholder {
				m.pods.notePending(p, now)
			}
		}
		return
	}
	var waited []string // by uid: pods that wait no more
	model.CompareLists(last.Pending, s.Pending, func(p *model.Pod) string { return p.Namespace + "\x00" + p.Name }, func(was, is *model.Pod) {
		if was != nil && (is == nil || is.UID != was.UID) {
			waited = append(waited, was.UID)
		}
		if is != nil && !is.Placeholder && (was == nil || was.UID != is.UID) {
			m.pods.notePending(is, now)
		}
	})
	model.CompareLists(last.Claims, s.Claims, func(c *model.Claim) string { return c.Name }, func(was, is *model.Claim) {
		if was != nil && (is == nil || is.UID != was.UID && was.UID != "") {
			m.observeClaimEnd(was, now)
		}
		if was != nil && is != nil && is.UID == was.UID {
			m.conditions.observe(claimObject(is), was.Conditions, is.Conditions)
			if is.Is(lifecycle.Drained) && !was.Is(lifecycle.Drained) {
				m.nodesDrained.WithLabelValues(is.Pool).Inc()
			}
		}
	})
	model.CompareLists(last.Nodes, s.Nodes, func(n *model.Node) string { return n.Name }, func(was, is *model.Node) {
		switch {
		case is == nil:
			m.observeNodeEnd(was, now)
			for _, p := range was.Pods {
				m.pods.forgetPod(p.UID, false)
			}
		case was == nil || was.UID != is.UID:
			was = nil
		default:
			m.conditions.observe(nodeObject(is), was.Conditions, is.Conditions)
		}
		if is == nil {
			return
		}
		if is.Labels[model.LabelRegistered] == "true" && (was == nil || was.Labels[model.LabelRegistered] != "true") {
			m.nodesMade.WithLabelValues(is.Labels[model.LabelNodePool], is.Labels[model.LabelZone]).Inc()
		}
		var before []*model.Pod
		if was != nil {
			before = was.Pods
		}
		model.CompareLists(before, is.Pods, func(p *model.Pod) string { return p.Namespace + "\x00" + p.Name }, func(was, is *model.Pod) { m.observePod(was, is, now) })
	})
	model.CompareLists(lastClasses, classes, func(c *state.NodeClass) string { return c.Group + "\x00" + c.Kind + "\x00" + c.Name }, func(was, is *state.NodeClass) {
		if was != nil && is != nil && was.UID == is.UID {
			m.conditions.observe(classObject(is), was.Conditions, is.Conditions)
		}
		if was != nil && (is == nil || is.UID != was.UID) {
			m.conditions.observeEnd(classObject(was), now)
		}
	})
	for _, uid := range waited {
		m.pods.forgetPod(uid, true)
	}
	model.CompareLists(last.Pools, s.Pools, func(p *model.NodePool) string { return string(rune(1<<20-int(p.Weight))) + p.Name }, func(was, is *model.NodePool) {
		if was != nil && is != nil {
			m.conditions.observe(poolObject(is), was.Conditions, is.Conditions)
		}
	})
}

// ObservePod takes in a pod that came to a node or changed there.
func (m *changes) observePod(was, is *model.Pod, now time.Time) {
	if was != nil && (is == nil || is.UID != was.UID) {
		m.pods.forgetPod(was.UID, false)
		was = nil
	}
	if is == nil || !is.IsWorkload() {
		return
	}
	m.pods.noteOnNode(is, now)
}

func (m *changes) observeClaimEnd(c *model.Claim, now time.Time) {
	if c.Provisional || c.Deleting.IsZero() {
		return
	}
	m.claimsEnded.WithLabelValues(c.Pool, c.Labels[model.LabelCapacityType], c.Labels[model.LabelZone]).Inc()
	m.claimEnd.WithLabelValues(c.Pool).Observe(now.Sub(c.Deleting).Seconds())
	m.conditions.observeEnd(claimObject(c), now)
	if t := c.Conditions[lifecycle.Terminating]; t.True() && !t.Since.IsZero() {
		m.machineEnd.WithLabelValues(c.Pool).Observe(now.Sub(t.Since).Seconds())
	}
}

func (m *changes) observeNodeEnd(n *model.Node, now time.Time) {
	pool, ours := n.Labels[model.LabelNodePool], n.Labels[model.LabelRegistered] == "true"
	m.conditions.observeEnd(nodeObject(n), now)
	if !ours {
		return
	}
	m.nodesEnded.WithLabelValues(pool, n.Labels[model.LabelZone]).Inc()
	m.nodeLife.WithLabelValues(pool).Observe(now.Sub(n.Created).Seconds())
	if !n.Deleting.IsZero() {
		m.nodeEnd.WithLabelValues(pool).Observe(now.Sub(n.Deleting).Seconds())
	}
}
