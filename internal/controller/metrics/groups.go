// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/groupstatus"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// groupCounters count what is done to node groups, by Cluster Autoscaler's names. Groups serves them.
type groupCounters struct {
	scaledUp, scaleUpsFailed, launchesFailed, scaledDown, evicted, errors *prometheus.CounterVec
	unregisteredRemoved                                                   prometheus.Counter
	duration                                                              *prometheus.HistogramVec

	lastStep, lastScaleUp, lastScaleDown atomic.Int64 // seconds of Unix time; 0: never
}

// Values of label reason of failed scale-ups, of label type of errors, and of label eviction_result.
const (
	groupCloudError    = "cloudProviderError"
	groupAPIError      = "apiCallError"
	groupTimeout       = "timeout"
	groupInternalError = "internalError"

	evictionSucceeded = "succeeded"
	evictionFailed    = "failed"
)

// newGroupCounters returns counters that stand at 0, for each value of a label that is known: what counts from its first
// event on is not seen to rise.
func newGroupCounters() *groupCounters {
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cluster_autoscaler_" + name, Help: help}, labels)
	}
	g := &groupCounters{
		scaledUp:            count("scaled_up_nodes_total", "Nodes launched in node groups.", "gpu_resource_name", "gpu_name"),
		scaleUpsFailed:      count("failed_scale_ups_total", "Failed launches in node groups, and nodes that did not register in time.", "reason"),
		launchesFailed:      count("failed_node_creations_total", "Nodes of node groups that failed to launch.", "reason"),
		scaledDown:          count("scaled_down_nodes_total", "Nodes of node groups removed because they were empty, underutilized or unready.", "reason", "gpu_resource_name", "gpu_name"),
		evicted:             count("evicted_pods_total", "Evictions of pods from nodes of node groups.", "eviction_result"),
		errors:              count("errors_total", "Calls and decisions that failed.", "type"),
		unregisteredRemoved: prometheus.NewCounter(prometheus.CounterOpts{Name: "cluster_autoscaler_old_unregistered_nodes_removed_count", Help: "Instances of node groups terminated because their node did not register in time."}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cluster_autoscaler_function_duration_seconds",
			Help:    "Duration of a step of the loop (main), and of a decision that placed pending pods (scaleUp).",
			Buckets: []float64{.01, .05, .1, .5, 1, 2.5, 5, 7.5, 10, 12.5, 15, 17.5, 20, 22.5, 25, 27.5, 30, 50, 75, 100, 1000}}, []string{"function"}),
	}
	g.scaledUp.WithLabelValues("", "")
	for _, reason := range []string{"empty", "underutilized", "unready"} {
		g.scaledDown.WithLabelValues(reason, "", "")
	}
	for _, reason := range []string{groupCloudError, groupTimeout} {
		g.scaleUpsFailed.WithLabelValues(reason)
		g.launchesFailed.WithLabelValues(reason)
	}
	for _, kind := range []string{groupCloudError, groupAPIError, groupInternalError} {
		g.errors.WithLabelValues(kind)
	}
	g.evicted.WithLabelValues(evictionSucceeded)
	g.evicted.WithLabelValues(evictionFailed)
	return g
}

// collectors are all of them.
func (g *groupCounters) collectors() []prometheus.Collector {
	return []prometheus.Collector{g.scaledUp, g.scaleUpsFailed, g.launchesFailed, g.scaledDown, g.evicted, g.errors, g.unregisteredRemoved, g.duration}
}

// NoteStep takes in that a step was made.
func (g *groupCounters) noteStep(began time.Time, solved bool) {
	now := time.Now()
	g.lastStep.Store(now.Unix())
	g.lastScaleDown.Store(now.Unix())
	g.duration.WithLabelValues("main").Observe(now.Sub(began).Seconds())
	if solved {
		g.lastScaleUp.Store(now.Unix())
	}
}

// gpuLabels are the GPU resource that a node of this capacity has, and the GPU's name as its labels say it; empty where it
// has none.
func gpuLabels(names []string, capacity model.Resources, labels ...model.Labels) (resource, name string) {
	for i, r := range names {
		if capacity.At(model.Dim(i)) > 0 && slices.Contains([]string{"nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "habana.ai/gaudi"}, r) {
			resource = r
		}
	}
	if resource == "" {
		return "", ""
	}
	for _, l := range labels {
		for _, key := range []string{"k8s.amazonaws.com/accelerator", "karpenter.k8s.aws/instance-gpu-name"} {
			if l[key] != "" {
				return resource, l[key]
			}
		}
	}
	return resource, ""
}

// CountLaunched counts a node that was launched for a claim.
func (g *groupCounters) countLaunched(names []string, c *model.Claim, r cloud.LaunchResult) {
	if (c.NodeGroup() == "" && r.Labels[model.LabelNodeGroup] == "") || c.Annotations[model.AnnotationAdopt] != "" {
		return
	}
	resource, name := gpuLabels(names, r.Capacity, r.Labels, c.Labels)
	g.scaledUp.WithLabelValues(resource, name).Inc()
}

// countLaunchFailed counts a launch that failed.
func (g *groupCounters) countLaunchFailed(c *model.Claim, reason string) {
	if c.NodeGroup() != "" {
		g.scaleUpsFailed.WithLabelValues(reason).Inc()
		g.launchesFailed.WithLabelValues(reason).Inc()
	}
}

// countRemoved counts a claim that is deleted.
func (g *groupCounters) countRemoved(names []string, c *model.Claim, why plan.Reason) {
	if c.NodeGroup() == "" {
		return
	}
	switch {
	case why.Code == plan.LaunchTimeout, why.Code == plan.RegistrationTimeout:
		g.countLaunchFailed(c, groupTimeout)
		if c.ProviderID != "" {
			g.unregisteredRemoved.Inc()
		}
	case groupstatus.ScaleDownReason(why.Code) != "":
		resource, name := gpuLabels(names, c.Capacity, c.Labels)
		g.scaledDown.WithLabelValues(groupstatus.ScaleDownReason(why.Code), resource, name).Inc()
	}
}

// CountEviction counts the answer to an eviction from a claim's node. One that a budget forbids is asked again and counts
// when it is answered.
func (g *groupCounters) countEviction(c *model.Claim, err error) {
	switch {
	case c.NodeGroup() == "" || errors.Is(err, plan.ErrBlocked) || errors.Is(err, plan.ErrGone) || errors.Is(err, plan.ErrConflict):
	case err == nil:
		g.evicted.WithLabelValues(evictionSucceeded).Inc()
	default:
		g.evicted.WithLabelValues(evictionFailed).Inc()
	}
}

// Groups are Cluster Autoscaler's metrics of node groups, for existing dashboards and alerts. They are served only if a
// NodeGroupClass has groups. Gauges are computed on each scrape.
type Groups struct {
	m    *Metrics
	loop Loop
	d    map[string]*prometheus.Desc
}

// NewGroups returns the metrics of a loop, for registration.
func NewGroups(counted *Metrics, loop Loop) *Groups {
	m := &Groups{m: counted, loop: loop, d: map[string]*prometheus.Desc{}}
	add := func(name, help string, labels ...string) {
		m.d[name] = prometheus.NewDesc("cluster_autoscaler_"+name, help, labels, nil)
	}
	add("cluster_safe_to_autoscale", "1 if this process decides and acts; 0 if it is not the leader, has not read the cluster, or another autoscaler is running.")
	add("nodes_count", "Nodes of node groups by state.", "state")
	add("node_groups_count", "Number of node groups that Dovetail scales.", "node_group_type")
	add("max_nodes_count", "Sum of the maximum sizes of all node groups.")
	add("unschedulable_pods_count", "Pending pods, unschedulable or not considered by kube-scheduler yet.", "type")
	add("cluster_cpu_current_cores", "CPUs of all nodes that are not being deleted.")
	add("cluster_memory_current_bytes", "Memory of all nodes that are not being deleted.")
	add("cpu_limits_cores", "Minimum and maximum number of CPUs in the cluster (--cores-total). Absent without a limit.", "direction")
	add("memory_limits_bytes", "Minimum and maximum memory in the cluster (--memory-total). Absent without a limit.", "direction")
	add("node_group_min_count", "Minimum size of a node group.", "node_group")
	add("node_group_max_count", "Maximum size of a node group.", "node_group")
	add("node_group_target_count", "Desired size of a node group in its cloud.", "node_group")
	add("node_group_healthiness", "1 if nodes of a node group can be launched and become usable.", "node_group")
	add("node_group_backoff_status", "1 while a node group has no capacity, or its recent nodes failed, by reason.", "node_group", "reason")
	add("last_activity", "Unix time in seconds of the last loop iteration, placement of pending pods, or search for nodes to remove, by activity.", "activity")
	add("unneeded_nodes_count", "Empty nodes of node groups, and nodes in a disruption command.")
	add("scale_down_in_cooldown", "1 while no node is removed because one was added recently (delayAfterAdd).")
	add("pending_node_deletions", "Nodes of node groups that are being deleted.")
	return m
}

// Describe implements prometheus.Collector.
func (m *Groups) Describe(out chan<- *prometheus.Desc) {
	for _, d := range m.d {
		out <- d
	}
	for _, x := range m.m.groups.collectors() {
		x.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (m *Groups) Collect(out chan<- prometheus.Metric) {
	v := m.loop.LastView()
	if v == nil {
		return // nothing has been decided here: this is not the leader
	}
	groups := v.NodeGroups()
	if len(groups) == 0 {
		return
	}
	put := func(name string, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(m.d[name], prometheus.GaugeValue, v, labels...)
	}
	m.collectActivity(put)
	for _, x := range m.m.groups.collectors() {
		x.Collect(out)
	}
	s := v.ObserveGroups(groups, time.Now())
	for state, n := range map[string]int{"ready": s.Nodes.Ready, "unready": s.Nodes.Unready, "notStarted": s.Nodes.NotStarted, "unregistered": s.Nodes.Unregistered,
		"longUnregistered": s.Nodes.LongUnregistered} {
		put("nodes_count", float64(n), state)
	}
	put("pending_node_deletions", float64(s.Nodes.BeingDeleted))
	put("node_groups_count", float64(len(s.Groups)), "autoscaled")
	put("unschedulable_pods_count", float64(s.UnschedulablePods), "unschedulable")
	put("unschedulable_pods_count", float64(s.UnseenPods), "scheduler_unprocessed")
	put("cluster_cpu_current_cores", float64(s.MilliCPU)/1000)
	put("cluster_memory_current_bytes", float64(s.MemoryBytes))
	for _, l := range v.Snap.Limits {
		if l.Name != model.ClusterLimits {
			continue
		}
		for d, x := range map[model.Dim]struct {
			name string
			unit float64
		}{model.CPU: {"cpu_limits_cores", 1000}, model.Memory: {"memory_limits_bytes", 1}} {
			if l.IsLimited(d) {
				put(x.name, float64(l.Least.At(d))/x.unit, "minimum")
				put(x.name, float64(l.Most.At(d))/x.unit, "maximum")
			}
		}
	}
	put("scale_down_in_cooldown", oneIf(s.ScaleDownWaits))
	most, candidates := int64(0), 0
	for i := range s.Groups {
		g := &s.Groups[i]
		most, candidates = most+g.Max, candidates+g.Candidates
		put("node_group_min_count", float64(g.Min), g.Name)
		put("node_group_max_count", float64(g.Max), g.Name)
		put("node_group_target_count", float64(g.Desired), g.Name)
		put("node_group_healthiness", oneIf(g.IsHealthy()), g.Name)
		switch {
		case g.FailingCode != "":
			put("node_group_backoff_status", 1, g.Name, g.FailingCode)
		case g.Backoff:
			put("node_group_backoff_status", 1, g.Name, groupstatus.CodeNoCapacity)
		default:
			put("node_group_backoff_status", 0, g.Name, "")
		}
	}
	put("max_nodes_count", float64(most))
	put("unneeded_nodes_count", float64(candidates))
}

// collectActivity reports whether the loop acts, and when it last did.
func (m *Groups) collectActivity(put func(string, float64, ...string)) {
	put("cluster_safe_to_autoscale", oneIf(m.loop.IsActing()))
	g := m.m.groups
	for activity, at := range map[string]*atomic.Int64{"main": &g.lastStep, "mainSuccessful": &g.lastStep, "autoscaling": &g.lastStep, "scaleUp": &g.lastScaleUp, "scaleDown": &g.lastScaleDown} {
		if t := at.Load(); t > 0 {
			put("last_activity", float64(t), activity)
		}
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
