// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// New registers the metrics of a process with a version and a provider.
func New(to prometheus.Registerer, version string, provider cloud.Traits) *Metrics {
	m := &Metrics{registerer: to, pools: map[string]bool{}, poolsGone: map[string]time.Time{}}
	r := registrar{to, m}
	m.scheduler = newSchedulerMetrics(r)
	m.nodeClaims = nodeClaimMetrics{
		created:       r.count("karpenter_nodeclaims_created_total", "NodeClaims created.", "reason", "nodepool", "min_values_relaxed"),
		disrupted:     r.count("karpenter_nodeclaims_disrupted_total", "NodeClaims deleted by Dovetail.", "reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"),
		unhealthy:     r.count("karpenter_nodeclaims_unhealthy_disrupted_total", "NodeClaims deleted because their node was unhealthy.", "condition", "nodepool", "capacity_type", "image_id", "termination_mode"),
		podsDisrupted: r.count("karpenter_pods_disruption_initiated_total", "Pods on nodes of deleted NodeClaims, excluding DaemonSet pods.", "reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"),
	}
	rebootBuckets := prometheus.ExponentialBuckets(10, 2, 8)
	m.nodeClaims.reboots = r.count("karpenter_nodes_reboots_total", "Reboots of nodes for repair, by result: succeeded, provider_error (the request failed or was not sent in time) or recovery_timeout (the node did not recover in time).", "result")
	m.nodeClaims.rebootDuration = r.hist("karpenter_nodes_reboot_duration_seconds", "Time from the decision to reboot a node until the reboot succeeded or failed.", rebootBuckets, "result")
	m.nodeClaims.rebootRecovery = r.hist("karpenter_nodes_reboot_recovery_duration_seconds", "Time from the reboot of a node until it was Ready again.", rebootBuckets).WithLabelValues()
	m.disruption = newDisruptionMetrics(r)
	m.cloud = cloudMetrics{
		provider:            provider.Name,
		duration:            r.hist("karpenter_cloudprovider_duration_seconds", "Duration of calls to the cloud.", durationBuckets(), "controller", "method", "provider"),
		errors:              r.count("karpenter_cloudprovider_errors_total", "Calls to the cloud that failed.", "controller", "method", "provider", "error", "nodepool"),
		launchFailures:      r.count("karpenter_cloudprovider_instance_launch_failures_total", "Failed launches, by offering if the cloud reports it.", "zone", "zone_id", "capacity_type", "reason"),
		terminationFailures: r.count("karpenter_cloudprovider_instance_termination_failures_total", "Failed terminations.", "zone", "zone_id"),
	}
	m.interruptions = interruptionMetrics{
		received: r.count("karpenter_interruption_received_messages_total", "Interruption notices.", "message_type"),
		deleted:  prometheus.NewCounter(prometheus.CounterOpts{Name: "karpenter_interruption_deleted_messages_total", Help: "Interruption notices that were stored and deleted from their queue."}),
		queued:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "karpenter_interruption_message_queue_duration_seconds", Help: "Time from when an interruption notice was sent until it was stored.", Buckets: durationBuckets()}),
	}
	to.MustRegister(m.interruptions.deleted, m.interruptions.queued)
	m.evictions = r.count("karpenter_pods_eviction_requests_total", "Calls to the eviction API.", "code")
	m.podsDrained = r.count("karpenter_pods_drained_total", "Pods evicted from nodes that are drained.", "reason")
	m.nodeCount = r.gauge("karpenter_cluster_state_node_count", "Number of nodes.").WithLabelValues()
	m.synced = r.gauge("karpenter_cluster_state_synced", "1 if the cluster has been read.").WithLabelValues()
	m.poolUsage = r.gauge("karpenter_nodepools_usage", "Total capacity of the nodes of a NodePool, in the base unit of the resource.", "resource_type", "nodepool")
	m.poolLimit = r.gauge("karpenter_nodepools_limit", "spec.limits, in the base unit of the resource.", "resource_type", "nodepool")
	m.ours = newOwnMetrics(r)
	m.work = newWorkMetrics(to)
	m.changes = newChanges(r, provider.Classes)
	m.podStarts = newPodStarts(r)
	m.groups = newGroupCounters()
	m.expanderCalls = r.count("dovetail_expander_calls_total", "Calls to the expander of --grpc-expander-url, by result: answered, timeout, error, nonsense (unknown groups in the answer). Without an answer, the optimizer decides alone.", "result")
	info := r.gauge("karpenter_build_info", "Always 1; the labels describe the build.", "version", "goversion", "goarch", "commit")
	info.WithLabelValues(version, runtime.Version(), runtime.GOARCH, revision()).Set(1)
	return m
}
