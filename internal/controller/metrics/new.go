// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// New registers the metrics of a process of this version that launches from a provider.
func New(to prometheus.Registerer, version string, provider cloud.Traits) *Metrics {
	m := &Metrics{registerer: to, pools: map[string]bool{}, poolsGone: map[string]time.Time{}}
	r := registrar{to, m}
	m.scheduler = newSchedulerMetrics(r)
	m.nodeClaims = nodeClaimMetrics{
		created:       r.count("karpenter_nodeclaims_created_total", "NodeClaims created.", "reason", "nodepool", "min_values_relaxed"),
		disrupted:     r.count("karpenter_nodeclaims_disrupted_total", "NodeClaims deleted, but those that a person deleted.", "reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"),
		unhealthy:     r.count("karpenter_nodeclaims_unhealthy_disrupted_total", "NodeClaims deleted because their node was broken.", "condition", "nodepool", "capacity_type", "image_id", "termination_mode"),
		podsDisrupted: r.count("karpenter_pods_disruption_initiated_total", "Pods on nodes of NodeClaims deleted, those of DaemonSets left out.", "reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"),
	}
	m.disruption = newDisruptionMetrics(r)
	m.cloud = cloudMetrics{
		provider:            provider.Name,
		duration:            r.hist("karpenter_cloudprovider_duration_seconds", "Time of calls to the cloud.", durationBuckets(), "controller", "method", "provider"),
		errors:              r.count("karpenter_cloudprovider_errors_total", "Calls to the cloud that failed.", "controller", "method", "provider", "error"),
		launchFailures:      r.count("karpenter_cloudprovider_instance_launch_failures_total", "Launches that failed, by offering where the cloud names it.", "zone", "zone_id", "capacity_type", "reason"),
		terminationFailures: r.count("karpenter_cloudprovider_instance_termination_failures_total", "Terminations that failed.", "zone", "zone_id"),
	}
	m.interruptions = interruptionMetrics{
		received: r.count("karpenter_interruption_received_messages_total", "Notices of instances that the cloud takes away.", "message_type"),
		deleted:  prometheus.NewCounter(prometheus.CounterOpts{Name: "karpenter_interruption_deleted_messages_total", Help: "Notices that are written down, and done with at their source."}),
		queued:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "karpenter_interruption_message_queue_duration_seconds", Help: "Time from when a notice was sent until it was written down.", Buckets: durationBuckets()}),
	}
	to.MustRegister(m.interruptions.deleted, m.interruptions.queued)
	m.evictions = r.count("karpenter_pods_eviction_requests_total", "Calls to the eviction API.", "code")
	m.podsDrained = r.count("karpenter_pods_drained_total", "Pods asked to leave a node that is drained.", "reason")
	m.nodeCount = r.gauge("karpenter_cluster_state_node_count", "Nodes known.").WithLabelValues()
	m.synced = r.gauge("karpenter_cluster_state_synced", "1 once the cluster has been read.").WithLabelValues()
	m.poolUsage = r.gauge("karpenter_nodepools_usage", "Capacity in use, in the base unit of the resource.", "resource_type", "nodepool")
	m.poolLimit = r.gauge("karpenter_nodepools_limit", "spec.limits, in the base unit of the resource.", "resource_type", "nodepool")
	m.ours = newOwnMetrics(r)
	m.work = newWorkMetrics(to)
	m.changes = newChanges(r, provider.Classes)
	m.podStarts = newPodStarts(r)
	m.groups = newGroupCounters()
	m.expanderCalls = r.count("dovetail_expander_calls_total", "Calls to the expander of --grpc-expander-url, by result: answered, timeout, error, nonsense (it named no group that it was asked about). But for answered, the optimizer decided alone.", "result")
	info := r.gauge("karpenter_build_info", "1; what was built is in the labels.", "version", "goversion", "goarch", "commit")
	info.WithLabelValues(version, runtime.Version(), runtime.GOARCH, revision()).Set(1)
	return m
}
