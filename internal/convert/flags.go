// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// kinds of values.
const (
	asText = iota
	asBool
	asInt
	asFloat
	asDuration
	asList
)

// caFlag is a flag of Cluster Autoscaler.
type caFlag struct {
	name string
	kind int
	def  string // what it is when it is not given
	// One of the following says what becomes of it.
	outcome, why string                                       // always this; or, where same is set, for values other than that
	same         string                                       // the value that Dovetail behaves as
	convert      func(c *Conversion, v string) (fate, error)  // by its value
	deferred     func(c *Conversion, v string) (outcome fate) // known only once the pools are there
	always       bool                                         // say what becomes of the default too
	pace         string                                       // with outcome: how that compares with Cluster Autoscaler
}

// Comparison of a flag's result with the current behaviour of Cluster Autoscaler. Empty: neither more nor less.
const (
	PaceMore = "more" // more nodes are launched, or more nodes and pods are disrupted, or sooner
	PaceLess = "less" // fewer, or later
)

// forward hands a flag's value over to dovetail controller.
func forward(to string) func(*Conversion, string) (fate, error) {
	return func(c *Conversion, v string) (fate, error) {
		if v == "" {
			return fate{outcome: SameHere, what: "empty"}, nil
		}
		arg := "--" + to + "=" + v
		c.Controller = append(c.Controller, arg)
		return fate{outcome: ToController, what: arg}, nil
	}
}

const (
	whyLog      = "Dovetail writes one log, as JSON or text, to standard error"
	whyOther    = "flag of another cloud provider"
	whyDead     = "Cluster Autoscaler ignores this flag"
	whyWork     = "planning is limited by work, not by time; a plan that reaches the limit reports it"
	whySimilar  = "groups are similar if their labels, taints and options are; their capacity is not compared, because the solver knows the capacity of each"
	whyRequests = "every plan includes ProvisioningRequests; their processing is not configurable"
	whyBuffers  = "capacity is always held for CapacityBuffers; delete a buffer to release its capacity"
	whyUnready  = "nodes that are not Ready do not prevent launches; repair in a NodePool is paused while more than 20 % of its nodes are unhealthy"
	whyBackoff  = "an offering without capacity is not used for 3m, and its pods are planned again at once"
	whyRestart  = "use liveness and readiness probes on /healthz and /readyz instead"
	whyMoves    = "a node that can't be removed is evaluated again when something changes"
)

// caFlags are all flags of Cluster Autoscaler up to 1.36 and its newest core, those of logging included.
var caFlags = []caFlag{
	// The process.
	{name: "cluster-name", convert: forward("cluster-name")},
	{name: "address", def: ":8085", convert: forward("metrics-address")},
	{name: "namespace", def: "kube-system", outcome: NoMatch, why: "Dovetail uses the namespace in which it is installed"},
	{name: "kubeconfig", convert: forward("kubeconfig")},
	{name: "kubernetes", outcome: NoMatch, why: "set the API server in the kubeconfig"},
	{name: "kube-client-qps", kind: asFloat, def: "5", outcome: NoMatch, why: "by default, only the API server's priority and fairness limits requests; to limit them, set --kube-client-qps and --kube-client-burst of dovetail controller"},
	{name: "kube-client-burst", kind: asInt, def: "10", outcome: NoMatch, why: "by default, only the API server's priority and fairness limits requests; to limit them, set --kube-client-qps and --kube-client-burst of dovetail controller"},
	{name: "kube-api-content-type", def: "application/vnd.kubernetes.protobuf", same: "application/vnd.kubernetes.protobuf", outcome: NoMatch, why: "Dovetail uses protobuf for built-in kinds and JSON for others"},
	{name: "user-agent", def: "cluster-autoscaler", outcome: NoMatch, why: "the user agent is dovetail/<version>"},
	{name: "leader-elect", kind: asBool, def: "true", convert: forward("leader-elect")},
	{name: "leader-elect-lease-duration", kind: asDuration, def: "15s", convert: forward("leader-elect-lease-duration")},
	{name: "leader-elect-renew-deadline", kind: asDuration, def: "10s", convert: forward("leader-elect-renew-deadline")},
	{name: "leader-elect-retry-period", kind: asDuration, def: "2s", convert: forward("leader-elect-retry-period")},
	{name: "leader-elect-resource-lock", def: "leases", same: "leases", outcome: NoMatch, why: "Dovetail supports leases only"},
	{name: "leader-elect-resource-name", def: "cluster-autoscaler", outcome: NoMatch, why: "the lease is named dovetail-leader, so that the two autoscalers do not share a lease; --leader-elect-name changes it"},
	{name: "leader-elect-resource-namespace", outcome: NoMatch, why: "the lease is in the namespace in which Dovetail is installed; --leader-elect-namespace changes it"},
	{name: "profiling", kind: asBool, def: "false", convert: forward("profiling")},
	{name: "debugging-snapshot-enabled", kind: asBool, def: "false", same: "false", outcome: NoMatch, why: "/ledger and 'dovetail why' always show decisions and reasons"},
	{name: "max-inactivity", kind: asDuration, def: "10m", outcome: NoMatch, why: whyRestart},
	{name: "max-failing-time", kind: asDuration, def: "15m", outcome: NoMatch, why: whyRestart},
	{name: "max-startup-time", kind: asDuration, def: "20m", outcome: NoMatch, why: whyRestart},
	{name: "write-status-configmap", kind: asBool, def: "true", convert: forward("write-status-configmap")},
	{name: "status-config-map-name", def: "cluster-autoscaler-status", convert: forward("status-config-map-name")},
	{name: "emit-per-nodegroup-metrics", kind: asBool, def: "false", same: "true", outcome: NoMatch, why: "metrics cluster_autoscaler_node_group_* are always served"},
	{name: "record-duplicated-events", kind: asBool, def: "false", same: "false", outcome: NoMatch, why: "equal events are written at most once in 2m"},
	{name: "feature-gates", outcome: NoMatch, why: "Dovetail has none of these feature gates"},
	{name: "regional", kind: asBool, def: "false", outcome: NoEffect, why: whyDead},
	{name: "help", kind: asBool, def: "false", outcome: NoEffect, why: "the flag only prints help"},
	{name: "version", kind: asBool, def: "false", outcome: NoEffect, why: "the flag only prints the version"},

	// Logging.
	{name: "v", kind: asInt, def: "0", convert: func(c *Conversion, v string) (fate, error) {
		level := "info"
		if n, err := strconv.Atoi(v); err == nil && n >= 5 {
			level = "debug"
		}
		return forward("log-level")(c, level)
	}},
	{name: "logging-format", def: "text", convert: forward("log-format")},
	{name: "vmodule", outcome: NoMatch, why: whyLog},
	{name: "logtostderr", kind: asBool, def: "true", same: "true", outcome: NoMatch, why: whyLog},
	{name: "alsologtostderr", kind: asBool, def: "false", outcome: NoMatch, why: whyLog},
	{name: "stderrthreshold", def: "2", outcome: NoMatch, why: whyLog},
	{name: "log-backtrace-at", outcome: NoMatch, why: whyLog},
	{name: "log-dir", outcome: NoMatch, why: whyLog},
	{name: "log-file", outcome: NoMatch, why: whyLog},
	{name: "log-file-max-size", kind: asInt, def: "1800", outcome: NoMatch, why: whyLog},
	{name: "log-flush-frequency", kind: asDuration, def: "5s", outcome: NoMatch, why: whyLog},
	{name: "log-json-info-buffer-size", def: "0", outcome: NoMatch, why: whyLog},
	{name: "log-json-split-stream", kind: asBool, def: "false", outcome: NoMatch, why: whyLog},
	{name: "log-text-info-buffer-size", def: "0", outcome: NoMatch, why: whyLog},
	{name: "log-text-split-stream", kind: asBool, def: "false", outcome: NoMatch, why: whyLog},
	{name: "add-dir-header", kind: asBool, def: "false", outcome: NoMatch, why: whyLog},
	{name: "skip-headers", kind: asBool, def: "false", outcome: NoMatch, why: whyLog},
	{name: "skip-log-headers", kind: asBool, def: "false", outcome: NoMatch, why: whyLog},
	{name: "one-output", kind: asBool, def: "false", outcome: NoMatch, why: whyLog},
	{name: "legacy-stderr-threshold-behavior", kind: asBool, def: "true", outcome: NoMatch, why: whyLog},

	// The provider.
	{name: "cloud-provider", def: "gce", convert: convertProvider},
	{name: "cloud-config", convert: convertCloudConfig},
	{name: "nodes", kind: asList, convert: convertNodes},
	{name: "node-group-auto-discovery", kind: asList, convert: convertDiscovery, deferred: fateOfDiscovery},
	{name: "aws-use-static-instance-list", kind: asBool, def: "false", same: "false", outcome: NoMatch, why: "instance types are read from EC2"},
	{name: "clusterapi-cloud-config-authoritative", kind: asBool, def: "false", outcome: NoEffect, why: whyOther, deferred: func(c *Conversion, _ string) fate {
		if !c.IsClusterAPI {
			return fate{}
		}
		return fate{outcome: SameHere, what: "--kubeconfig is never used instead of --management-kubeconfig"}
	}},
	{name: "gce-concurrent-refreshes", kind: asInt, def: "1", outcome: NoEffect, why: whyOther},
	{name: "gce-mig-instances-min-refresh-wait-time", kind: asDuration, def: "5s", outcome: NoEffect, why: whyOther},
	{name: "bulk-mig-instances-listing-enabled", kind: asBool, def: "false", outcome: NoEffect, why: whyOther},
	{name: "async-node-groups", kind: asBool, def: "false", outcome: NoEffect, why: whyOther},
	{name: "cloud-provider-gce-lb-src-cidrs", outcome: NoEffect, why: whyOther},
	{name: "cloud-provider-gce-l7lb-src-cidrs", outcome: NoEffect, why: whyOther},
	{name: "gce-expander-ephemeral-storage-support", kind: asBool, def: "false", outcome: NoEffect, why: whyOther},
	{name: "gpu-total", kind: asList, outcome: NoEffect, why: "no effect on AWS; to limit a resource, use dovetail controller --gpu-total=nvidia.com/gpu:0:16; to limit one kind of GPU, use a CapacityQuota"},

	// The loop, and which pods count.
	{name: "scan-interval", kind: asDuration, def: "10s", outcome: NoMatch, why: "there is no interval: each change is processed after at most --batch-max-duration"},
	{name: "frequent-loops-enabled", kind: asBool, def: "true", same: "true", outcome: NoMatch, why: "each change is processed when it occurs"},
	{name: "new-pod-scale-up-delay", kind: asDuration, def: "0s", convert: convertDelay("new-pod-scale-up-delay", "newPodDelay", func(s *translate.GroupSettings) *time.Duration { return &s.NewPodDelay })},
	{name: "expendable-pods-priority-cutoff", kind: asInt, def: "-10", always: true, convert: convertPriorityCutoff},
	{name: "bypassed-scheduler-names", outcome: NoMatch, pace: PaceLess, why: "pods that kube-scheduler has not processed for 250ms count as unschedulable; pods of other schedulers count when they are marked Unschedulable"},
	{name: "allowed-scheduler-names", outcome: NoMatch, pace: PaceMore, why: "pods marked Unschedulable count, whatever their scheduler"},
	{name: "scheduler-config-file", outcome: NoMatch, why: "set --scheduler-config of dovetail controller to the same file; only its default topology spread constraints are used"},
	{name: "scheduler-config", outcome: NoMatch, why: "set --scheduler-config of dovetail controller to the same file; only its default topology spread constraints are used"},
	{name: "scheduler-verbosity", kind: asInt, def: "0", outcome: NoMatch, why: "Dovetail does not run the scheduler's code"},
	{name: "predicate-parallelism", kind: asInt, def: "4", outcome: NoMatch, why: "Dovetail does not run the scheduler's code, and plans equal pods together"},
	{name: "cluster-snapshot-parallelism", kind: asInt, def: "16", outcome: NoEffect, why: whyDead},
	{name: "pending-pods-batching-timeout", kind: asDuration, def: "4m", outcome: NoMatch, why: whyWork},
	{name: "enable-graceful-degradation", kind: asBool, def: "false", outcome: NoMatch, why: whyWork},
	{name: "enable-inter-pod-affinity-hostname-fast-path", kind: asBool, def: "false", outcome: NoMatch, why: "not needed: hostname affinity is always fast"},
	{name: "enable-dynamic-resource-allocation", kind: asBool, def: "true", same: "false", outcome: NoMatch, why: "devices of resourceClaims are always counted; pods whose devices can't be counted are refused with a reason (docs/DEVICES.md)"},
	{name: "enable-csi-node-aware-scheduling", kind: asBool, def: "false", same: "true", outcome: NoMatch, why: "attach limits of volumes are always respected"},
	{name: "enable-proactive-scaleup", kind: asBool, def: "false", same: "false", outcome: NoMatch, why: "pods that a ReplicaSet has not created yet always count, once its first pod exists; pods of Jobs and StatefulSets count when they exist"},
	{name: "pod-injection-limit", kind: asInt, def: "5000", outcome: NoMatch, why: "at most 5,000 pods that ReplicaSets have not created yet count; not configurable"},

	// Scale up.
	{name: "estimator", def: "binpacking", same: "binpacking", outcome: NoMatch, why: "one solver packs all pods over all pools"},
	{name: "expander", def: "least-waste", always: true, convert: convertExpander},
	{name: "grpc-expander-url", convert: forward("grpc-expander-url")},
	{name: "grpc-expander-cert", convert: forward("grpc-expander-cert")},
	{name: "balance-similar-node-groups", kind: asBool, def: "false", convert: func(c *Conversion, v string) (fate, error) {
		c.Settings.Balance = v == "true"
		if !c.Settings.Balance {
			return fate{outcome: SameHere, what: "one NodePool per group"}, nil
		}
		return fate{outcome: InObjects, what: "one NodePool for similar groups; NodeGroupClass spec.options.balanceSimilarGroups: true"}, nil
	}},
	{name: "balancing-ignore-label", kind: asList, convert: func(c *Conversion, v string) (fate, error) {
		c.Settings.BalancingIgnore = append(c.Settings.BalancingIgnore, v)
		return fate{outcome: InObjects, what: "NodeGroupClass spec.options.balancingIgnoreLabels"}, nil
	}, deferred: func(c *Conversion, v string) fate {
		if !c.Settings.Balance {
			return fate{outcome: NoEffect, what: "--balance-similar-node-groups is off"}
		}
		return fate{}
	}},
	{name: "balancing-label", kind: asList, outcome: NoMatch, why: whySimilar},
	{name: "memory-difference-ratio", kind: asFloat, def: "0.015", outcome: NoMatch, why: whySimilar},
	{name: "max-free-difference-ratio", kind: asFloat, def: "0.05", outcome: NoMatch, why: whySimilar},
	{name: "max-allocatable-difference-ratio", kind: asFloat, def: "0.05", outcome: NoMatch, why: whySimilar},
	{name: "max-nodes-total", kind: asInt, def: "0", convert: func(c *Conversion, v string) (fate, error) {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return fate{}, fmt.Errorf("--max-nodes-total=%s: need a count of 0 or more", v)
		}
		c.maxNodes = n
		return fate{outcome: SameHere, what: "no limit"}, nil
	}, deferred: func(c *Conversion, v string) fate {
		if c.maxNodes == 0 {
			return fate{}
		}
		return c.limitFate("max-nodes-total", v)
	}},
	{name: "cores-total", def: "0:320000", convert: func(c *Conversion, v string) (fate, error) {
		return fate{outcome: SameHere, what: "no limit"}, checkRange("cores-total", v)
	}, deferred: func(c *Conversion, v string) fate {
		if v == "0:320000" {
			return fate{}
		}
		return c.limitFate("cores-total", v)
	}},
	{name: "memory-total", def: "0:6400000", convert: func(c *Conversion, v string) (fate, error) {
		return fate{outcome: SameHere, what: "no limit"}, checkRange("memory-total", v)
	}, deferred: func(c *Conversion, v string) fate {
		if v == "0:6400000" {
			return fate{}
		}
		return c.limitFate("memory-total", v)
	}},
	{name: "max-nodes-per-scaleup", kind: asInt, def: "1000", outcome: NoMatch, pace: PaceMore, why: "a plan may launch nodes for all pods at once, without a limit"},
	{name: "max-binpacking-time", kind: asDuration, def: "5m", outcome: NoMatch, why: whyWork},
	{name: "max-nodegroup-binpacking-duration", kind: asDuration, def: "10s", outcome: NoMatch, why: whyWork},
	{name: "fastpath-binpacking-enabled", kind: asBool, def: "false", outcome: NoMatch, why: "equal pods are always packed together"},
	{name: "parallel-scale-up", kind: asBool, def: "false", same: "true", outcome: NoMatch, why: "groups are always scaled in parallel"},
	{name: "salvo-scale-up", kind: asBool, def: "false", same: "true", outcome: NoMatch, why: "a plan always scales as many groups as needed"},
	{name: "salvo-scale-up-budget", kind: asDuration, def: "1m", outcome: NoMatch, why: whyWork},
	{name: "scaleup-simulation-for-skipped-node-groups-enabled", kind: asBool, def: "false", outcome: NoMatch, why: "'dovetail why' shows for each pod why each NodePool is excluded"},
	{name: "enforce-node-group-min-size", kind: asBool, def: "false", convert: convertMinSize},
	{name: "scale-up-from-zero", kind: asBool, def: "true", same: "true", outcome: NoMatch, why: "a cluster without nodes is scaled up, too"},
	{name: "scale-from-unschedulable", kind: asBool, def: "false", outcome: NoMatch, why: "node properties are read from the group, never from an existing node"},
	{name: "force-ds", kind: asBool, def: "false", outcome: NoMatch, why: "DaemonSet pods that fit on a new node are counted; others do not exclude the group"},
	{name: "max-node-provision-time", kind: asDuration, def: "15m", convert: func(c *Conversion, v string) (fate, error) {
		c.Settings.ProvisionTime, _ = time.ParseDuration(v)
		if c.Settings.ProvisionTime == translate.DefaultGroupSettings().ProvisionTime {
			return fate{outcome: SameHere, what: "an instance has 15m to register as a node"}, nil
		}
		return fate{outcome: InObjects, what: "NodeGroupClass spec.options.maxNodeProvisionTime: " + v}, nil
	}},
	{name: "max-node-startup-time", kind: asDuration, def: "15m", outcome: NoMatch, why: "registered nodes are kept, and repaired based on their conditions"},
	{name: "initial-node-group-backoff-duration", kind: asDuration, def: "5m", outcome: NoMatch, pace: PaceMore, why: whyBackoff},
	{name: "max-node-group-backoff-duration", kind: asDuration, def: "30m", outcome: NoMatch, pace: PaceMore, why: whyBackoff},
	{name: "node-group-backoff-reset-timeout", kind: asDuration, def: "3h", outcome: NoMatch, why: whyBackoff},
	{name: "node-info-cache-expire-time", kind: asDuration, def: "87600h", outcome: NoMatch, why: "node properties are read from the group, never from an existing node"},
	{name: "startup-taint", kind: asList, convert: convertStartupTaint, deferred: startupTaintFate},
	{name: "ignore-taint", kind: asList, convert: convertStartupTaint, deferred: startupTaintFate},
	{name: "startup-taint-prefix", kind: asList, convert: func(c *Conversion, v string) (fate, error) {
		c.Settings.StartupPrefixes = append(c.Settings.StartupPrefixes, v)
		return fate{outcome: InObjects, what: "taints with this prefix in tags of the groups go into NodePool spec.template.spec.startupTaints"}, nil
	}},
	{name: "status-taint", kind: asList, convert: func(c *Conversion, v string) (fate, error) {
		c.Settings.Status = append(c.Settings.Status, v)
		return fate{outcome: InObjects, what: "not added to the taints of the NodePools"}, nil
	}},
	{name: "ok-total-unready-count", kind: asInt, def: "3", outcome: NoMatch, pace: PaceMore, why: whyUnready},
	{name: "max-total-unready-percentage", kind: asFloat, def: "45", outcome: NoMatch, pace: PaceMore, why: whyUnready},
	{name: "force-delete-unregistered-nodes", kind: asBool, def: "false", outcome: NoMatch, why: "an instance that does not register within 15m is terminated"},
	{name: "force-delete-failed-nodes", kind: asBool, def: "false", outcome: NoMatch, why: "an instance that does not register within 15m is terminated"},

	// Scale down.
	{name: "scale-down-enabled", kind: asBool, def: "true", convert: func(c *Conversion, v string) (fate, error) {
		c.Settings.ScaleDown = v == "true"
		if c.Settings.ScaleDown {
			return fate{outcome: SameHere, what: "consolidation is on"}, nil
		}
		return fate{outcome: InObjects, what: "NodePool spec.disruption.consolidateAfter: Never"}, nil
	}},
	{name: "scale-down-unready-enabled", kind: asBool, def: "true", same: "true", outcome: NoMatch, pace: PaceMore, why: "nodes that are not Ready are replaced; set a long --scale-down-unready-time to keep them"},
	{name: "scale-down-utilization-threshold", kind: asFloat, def: "0.5", always: true, convert: func(c *Conversion, v string) (fate, error) {
		n, err := share("scale-down-utilization-threshold", v)
		c.Settings.UtilizationPercent = n
		return fate{outcome: InObjects, what: fmt.Sprintf("NodeGroupClass spec.options.utilizationThresholdPercent: %d", n)}, err
	}},
	{name: "scale-down-gpu-utilization-threshold", kind: asFloat, def: "0.5", always: true, convert: func(c *Conversion, v string) (fate, error) {
		n, err := share("scale-down-gpu-utilization-threshold", v)
		c.Settings.GPUPercent = n
		return fate{outcome: InObjects, what: fmt.Sprintf("NodeGroupClass spec.options.gpuUtilizationThresholdPercent: %d", n)}, err
	}},
	{name: "scale-down-unneeded-time", kind: asDuration, def: "10m", always: true, convert: func(c *Conversion, v string) (fate, error) {
		c.Settings.UnneededTime, _ = time.ParseDuration(v)
		return fate{outcome: InObjects, what: "NodePool spec.disruption.consolidateAfter: " + v + ", since pods were last added or removed"}, nil
	}, deferred: func(c *Conversion, v string) fate {
		if !c.Settings.ScaleDown {
			return fate{outcome: NoEffect, what: "--scale-down-enabled is off"}
		}
		return fate{}
	}},
	{name: "scale-down-unready-time", kind: asDuration, def: "20m", always: true, convert: func(c *Conversion, v string) (fate, error) {
		c.Settings.UnreadyTime, _ = time.ParseDuration(v)
		return fate{outcome: InObjects, what: "NodeGroupClass spec.options.unreadyTime: " + v}, nil
	}},
	{name: "scale-down-delay-after-add", kind: asDuration, def: "10m", always: true, convert: convertDelay("scale-down-delay-after-add", "delayAfterAdd", func(s *translate.GroupSettings) *time.Duration { return &s.DelayAfterAdd })},
	{name: "scale-down-delay-after-delete", kind: asDuration, def: "0s", convert: convertDelay("scale-down-delay-after-delete", "delayAfterDelete", func(s *translate.GroupSettings) *time.Duration { return &s.DelayAfterDelete })},
	{name: "scale-down-delay-after-failure", kind: asDuration, def: "3m", always: true, convert: convertDelay("scale-down-delay-after-failure", "delayAfterFailure", func(s *translate.GroupSettings) *time.Duration { return &s.DelayAfterFailure })},
	{name: "scale-down-delay-type-local", kind: asBool, def: "false", convert: convertDelaysPerGroup},
	{name: "scale-down-simulation-timeout", kind: asDuration, def: "30s", outcome: NoMatch, why: whyWork},
	{name: "unremovable-node-recheck-timeout", kind: asDuration, def: "5m", outcome: NoMatch, why: whyMoves},
	{name: "max-scale-down-parallelism", kind: asInt, def: "10", always: true, convert: func(c *Conversion, v string) (fate, error) {
		return c.parallel("max-scale-down-parallelism", v, &c.Settings.MaxScaleDown, "NodePool spec.disruption.budgets: nodes "+v+", per NodePool instead of per cluster")
	}},
	{name: "max-empty-bulk-delete", kind: asInt, def: "10", convert: func(c *Conversion, v string) (fate, error) {
		return c.parallel("max-empty-bulk-delete", v, &c.Settings.MaxScaleDown, "NodePool spec.disruption.budgets: nodes "+v+", per NodePool instead of per cluster")
	}},
	{name: "max-drain-parallelism", kind: asInt, def: "1", always: true, convert: func(c *Conversion, v string) (fate, error) {
		return c.parallel("max-drain-parallelism", v, &c.Settings.MaxDrain, "NodePool spec.disruption.budgets: nodes "+v+" for reason Underutilized, per NodePool instead of per cluster")
	}},
	{name: "max-graceful-termination-sec", kind: asInt, def: "600", always: true, convert: convertGracePeriod},
	{name: "drain-priority-config", convert: convertDrainPriorities},
	{name: "max-pod-eviction-time", kind: asDuration, def: "2m", outcome: NoMatch, why: "refused evictions are retried; a node is drained only if there is capacity for its pods"},
	{name: "node-deletion-delay-timeout", kind: asDuration, def: "2m", always: true, convert: convertDeletionDelay},
	{name: "node-deletion-batcher-interval", kind: asDuration, def: "0s", same: "0s", outcome: NoMatch, why: "each instance is terminated as soon as its pods are gone"},
	{name: "node-delete-delay-after-taint", kind: asDuration, def: "5s", always: true, convert: convertTaintDelay},
	{name: "dynamic-node-delete-delay-after-taint-enabled", kind: asBool, def: "false", same: "false", outcome: NoMatch, why: "the delay is NodeGroupClass spec.options.delayAfterTaint; in addition, Dovetail waits until it sees the taint through its watch"},
	{name: "cordon-node-before-terminating", kind: asBool, def: "true", outcome: NoMatch, why: "nodes to be removed get taint karpenter.sh/disrupted:NoSchedule instead"},
	{name: "daemonset-eviction-for-occupied-nodes", kind: asBool, def: "true", convert: convertOccupiedDaemonSets},
	{name: "daemonset-eviction-for-empty-nodes", kind: asBool, def: "false", convert: convertEmptyDaemonSets},
	{name: "max-bulk-soft-taint-count", kind: asInt, def: "10", outcome: NoMatch, why: "candidates are not tainted; nodes to be removed are marked by a condition of their NodeClaim"},
	{name: "max-bulk-soft-taint-time", kind: asDuration, def: "3s", outcome: NoMatch, why: "candidates are not tainted; nodes to be removed are marked by a condition of their NodeClaim"},
	{name: "node-deletion-candidate-ttl", kind: asDuration, def: "0s", outcome: NoMatch, why: "times are stored in the API server, so they survive restarts"},
	{name: "ignore-daemonsets-utilization", kind: asBool, def: "false", convert: func(c *Conversion, v string) (fate, error) {
		c.Settings.IgnoreDaemonSets = v == "true"
		if !c.Settings.IgnoreDaemonSets {
			return fate{outcome: SameHere, what: "DaemonSet pods count"}, nil
		}
		return fate{outcome: InObjects, what: "NodeGroupClass spec.options.ignoreDaemonSetsUtilization: true"}, nil
	}},
	{name: "ignore-mirror-pods-utilization", kind: asBool, def: "false", convert: func(c *Conversion, v string) (fate, error) {
		if c.Settings.IgnoreMirrorPods = v == "true"; !c.Settings.IgnoreMirrorPods {
			return fate{outcome: SameHere, what: "static pods count"}, nil
		}
		return inOptions("ignoreMirrorPodsUtilization", "true"), nil
	}},
	{name: "skip-nodes-with-system-pods", kind: asBool, def: "true", always: true, convert: convertSystemPods},
	{name: "blocking-system-pod-distruption-timeout", kind: asDuration, def: "1h", convert: convertSystemPodAge},
	{name: "skip-nodes-with-local-storage", kind: asBool, def: "true", always: true, convert: convertLocalStorage},
	{name: "skip-nodes-with-custom-controller-pods", kind: asBool, def: "true", always: true, convert: convertCustomControllers},
	{name: "min-replica-count", kind: asInt, def: "0", convert: convertMinReplicas},
	{name: "node-removal-latency-tracking-enabled", kind: asBool, def: "false", outcome: NoMatch, why: "disruption metrics are always served"},
	{name: "max-node-skip-eval-time-tracker-enabled", kind: asBool, def: "false", outcome: NoMatch, why: "disruption metrics are always served"},
	{name: "scale-down-non-empty-candidates-count", kind: asInt, def: "30", outcome: NoEffect, why: whyDead},
	{name: "scale-down-candidates-pool-ratio", kind: asFloat, def: "0.1", outcome: NoEffect, why: whyDead},
	{name: "scale-down-candidates-pool-min-count", kind: asInt, def: "50", outcome: NoEffect, why: whyDead},

	// Objects of Cluster Autoscaler's own.
	{name: "enable-provisioning-requests", kind: asBool, def: "false", same: "true", outcome: NoMatch, why: "ProvisioningRequests are served if their CustomResourceDefinition is installed"},
	{name: "check-capacity-batch-processing", kind: asBool, def: "false", same: "false", outcome: NoMatch, why: whyRequests},
	{name: "check-capacity-provisioning-request-max-batch-size", kind: asInt, def: "10", outcome: NoMatch, why: whyRequests},
	{name: "check-capacity-provisioning-request-batch-timebox", kind: asDuration, def: "10s", outcome: NoMatch, why: whyRequests},
	{name: "check-capacity-processor-instance", outcome: NoMatch, why: "ProvisioningRequests with parameter processorInstance are ignored"},
	{name: "provisioning-request-initial-backoff-time", kind: asDuration, def: "1m", outcome: NoMatch, why: whyRequests},
	{name: "provisioning-request-max-backoff-time", kind: asDuration, def: "10m", outcome: NoMatch, why: whyRequests},
	{name: "provisioning-request-max-backoff-cache-size", kind: asInt, def: "1000", outcome: NoMatch, why: whyRequests},
	{name: "capacity-buffer-controller-enabled", kind: asBool, def: "false", same: "true", outcome: NoMatch, pace: PaceMore, why: whyBuffers},
	{name: "capacity-buffer-pod-injection-enabled", kind: asBool, def: "false", same: "true", outcome: NoMatch, pace: PaceMore, why: whyBuffers},
	{name: "capacity-buffer-pod-dry-run-enabled", kind: asBool, def: "true", outcome: NoMatch, why: "a PodTemplate is used as is, with the defaults of the namespace's LimitRanges; webhooks are not called"},
	{name: "capacity-quotas-enabled", kind: asBool, def: "false", same: "true", outcome: NoMatch, why: "CapacityQuotas are always enforced"},

	// Gone from Cluster Autoscaler, still on many command lines.
	{name: "node-autoprovisioning-enabled", kind: asBool, def: "false", outcome: NoEffect, why: whyOther},
	{name: "max-autoprovisioned-node-group-count", kind: asInt, def: "15", outcome: NoEffect, why: whyOther},
	{name: "unremovable-node-recheck", kind: asDuration, def: "5m", outcome: NoMatch, why: whyMoves},
	{name: "parallel-drain", kind: asBool, def: "false", outcome: NoMatch, why: "nodes are drained in parallel, within the budgets of their NodePools"},
}

func convertStartupTaint(c *Conversion, v string) (fate, error) {
	c.Settings.StartupTaints = append(c.Settings.StartupTaints, v)
	return fate{}, nil
}

// startupTaintFate reports whether a group has the taint: one that no tag tells of can't be added, for nobody would take it off.
func startupTaintFate(c *Conversion, v string) fate {
	for _, g := range c.groups {
		for _, t := range g.Pool.Spec.Template.Spec.StartupTaints {
			if t.Key == v {
				return fate{outcome: InObjects, what: "NodePool spec.template.spec.startupTaints, if the group's tags have the taint"}
			}
		}
	}
	return fate{outcome: SameHere, what: "no group's tags have this taint, so no NodePool sets it; Dovetail waits until it is removed from a new node"}
}

func convertExpander(c *Conversion, v string) (fate, error) {
	if !c.given["expander"] {
		return fate{outcome: NoMatch, what: "not set: the cheapest group is used (price); set --expander=least-waste to keep Cluster Autoscaler's default"}, nil
	}
	c.Settings.Expanders = nil
	what := fate{outcome: InObjects}
	var left []string
	for _, name := range strings.Split(v, ",") {
		e := dovetailv1alpha1.Expander(strings.TrimSpace(name))
		switch e {
		case dovetailv1alpha1.ExpanderPrice, dovetailv1alpha1.ExpanderLeastWaste, dovetailv1alpha1.ExpanderMostPods, dovetailv1alpha1.ExpanderLeastNodes,
			dovetailv1alpha1.ExpanderPriority, dovetailv1alpha1.ExpanderRandom, dovetailv1alpha1.ExpanderGRPC:
		default:
			return fate{}, fmt.Errorf("--expander=%s: unknown expander %q; use price, least-waste, most-pods, least-nodes, priority, random, grpc", v, name)
		}
		if slices.Contains(c.Settings.Expanders, e) {
			return fate{}, fmt.Errorf("--expander=%s: duplicate %s", v, e)
		}
		c.Settings.Expanders = append(c.Settings.Expanders, e)
		if e == dovetailv1alpha1.ExpanderGRPC && !c.given["grpc-expander-url"] {
			left = append(left, "grpc also requires --grpc-expander-url of dovetail controller")
		}
		if e == dovetailv1alpha1.ExpanderPriority {
			if len(c.Settings.Priorities) == 0 {
				left = append(left, "priority requires ConfigMap cluster-autoscaler-priority-expander: add it with -f; without it, no NodePool has a weight")
			} else {
				left = append(left, "priority becomes NodePool spec.weight, which applies before the other expanders; groups without a priority are used last")
			}
		}
	}
	if rest := slices.DeleteFunc(slices.Clone(c.Settings.Expanders), func(e dovetailv1alpha1.Expander) bool { return e == dovetailv1alpha1.ExpanderPriority }); len(rest) > 0 {
		var names []string
		for _, e := range rest {
			names = append(names, string(e))
		}
		left = append([]string{"NodeGroupClass spec.options.expanders: " + strings.Join(names, ", ")}, left...)
	} else if len(c.Settings.Expanders) == 0 {
		what.outcome = NoMatch
	}
	what.what = strings.Join(left, "; ")
	return what, nil
}

// share reads a threshold.
func share(flag, v string) (int32, error) {
	n, err := dovetailv1alpha1.SharePercent(v)
	if err != nil {
		return 0, fmt.Errorf("--%s=%s: %w", flag, v, err)
	}
	return n, nil
}

// checkRange reports whether a value is <min>:<max>.
func checkRange(flag, v string) error {
	lo, hi, ok := strings.Cut(v, ":")
	a, err1 := strconv.ParseInt(lo, 10, 64)
	b, err2 := strconv.ParseInt(hi, 10, 64)
	if !ok || err1 != nil || err2 != nil || a < 0 || b < a {
		return fmt.Errorf("--%s=%s: need <min>:<max>, such as 0:1000", flag, v)
	}
	return nil
}

// parallel turns a limit on what goes at once into a budget, where it was asked for.
func (c *Conversion) parallel(flag, v string, into *int, what string) (fate, error) {
	if !c.given[flag] {
		one := fate{outcome: NoMatch, what: "not set: empty nodes are removed all at once; set the flag for a fixed number", pace: PaceMore}
		if flag == "max-drain-parallelism" {
			one.what = "not set: up to 10 % of a NodePool's nodes are drained at once; set the flag for a fixed number"
		}
		return one, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return fate{}, fmt.Errorf("--%s=%s: need a count of 1 or more", flag, v)
	}
	*into = n
	return fate{outcome: InObjects, what: what}, nil
}

// limitFate is that of a limit over the whole cluster: the controller has the same flag.
func (c *Conversion) limitFate(flag, v string) fate {
	arg := "--" + flag + "=" + v
	c.Controller = append(c.Controller, arg)
	return fate{outcome: ToController, what: arg}
}

// IsFlag reports whether Cluster Autoscaler has a flag of that name.
func IsFlag(name string) bool {
	return slices.ContainsFunc(caFlags, func(d caFlag) bool { return d.name == name })
}

// rawValue keeps what a flag was given as, once it can be read.
type rawValue struct {
	kind  int
	given []string
}

var _ pflag.Value = (*rawValue)(nil)

func (r *rawValue) String() string { return strings.Join(r.given, " ") }
func (r *rawValue) Type() string   { return "value" }

func (r *rawValue) Set(v string) error {
	var err error
	switch r.kind {
	case asBool:
		var b bool
		if b, err = strconv.ParseBool(v); err != nil {
			return fmt.Errorf("%q: need true or false", v)
		}
		v = strconv.FormatBool(b)
	case asInt:
		if _, err = strconv.ParseInt(v, 10, 64); err != nil {
			return fmt.Errorf("%q: need a whole number", v)
		}
	case asFloat:
		if _, err = strconv.ParseFloat(v, 64); err != nil {
			return fmt.Errorf("%q: need a number", v)
		}
	case asDuration:
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return fmt.Errorf("%q: need a duration such as 10m", v)
		}
	}
	if r.kind == asList {
		r.given = append(r.given, v)
	} else {
		r.given = []string{v}
	}
	return nil
}
