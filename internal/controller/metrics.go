// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Metrics are the loop's figures, by the reference's names where the reference has one (karpenter_…), else dovetail_….
type Metrics struct {
	schedulingDuration                                                                prometheus.Histogram
	queueDepth                                                                        prometheus.Gauge
	unschedulablePods                                                                 prometheus.Gauge
	claimsCreated                                                                     *prometheus.CounterVec
	claimsDisrupted                                                                   *prometheus.CounterVec
	cloudDuration                                                                     *prometheus.HistogramVec
	cloudErrors                                                                       *prometheus.CounterVec
	evictions                                                                         *prometheus.CounterVec
	nodeCount                                                                         prometheus.Gauge
	poolUsage                                                                         *prometheus.GaugeVec
	poolLimit                                                                         *prometheus.GaugeVec
	synced                                                                            prometheus.Gauge
	interruptions                                                                     *prometheus.CounterVec
	interruptionsKept                                                                 prometheus.Counter
	interruptionTime                                                                  prometheus.Histogram
	unhealthy, decisions, decisionsByPool, queueFailures, podsDrained, launchFailures *prometheus.CounterVec
	podsDisrupted, balanced                                                           *prometheus.CounterVec
	balancedScore                                                                     *prometheus.HistogramVec
	endFailures                                                                       prometheus.Counter
	changes                                                                           *changes
	plansRefused, decisionsFailed                                                     prometheus.Counter
	movesRefused                                                                      *prometheus.CounterVec
	bindings                                                                          *prometheus.CounterVec
	planCost, standingDown                                                            prometheus.Gauge
	planBound                                                                         prometheus.Gauge
	planGap                                                                           prometheus.Histogram

	lastUsage map[string]bool
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer, version string) *Metrics {
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 18)
	m := &Metrics{
		schedulingDuration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "karpenter_scheduler_scheduling_duration_seconds", Help: "Time of one decision over pending pods.", Buckets: buckets}),
		queueDepth:         prometheus.NewGauge(prometheus.GaugeOpts{Name: "karpenter_scheduler_queue_depth", Help: "Pods looked at by the last decision."}),
		unschedulablePods:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "karpenter_scheduler_unschedulable_pods_count", Help: "Pods that the last decision could not place."}),
		claimsCreated:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_nodeclaims_created_total", Help: "NodeClaims created."}, []string{"nodepool", "reason", "capacity_type"}),
		claimsDisrupted:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_nodeclaims_disrupted_total", Help: "NodeClaims deleted, by reason."}, []string{"nodepool", "reason", "capacity_type", "consolidation_policy", "termination_mode"}),
		unhealthy:          prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_nodeclaims_unhealthy_disrupted_total", Help: "NodeClaims deleted because their node was broken."}, []string{"condition", "nodepool", "capacity_type", "image_id"}),
		decisions:          prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_voluntary_disruption_decisions_total", Help: "Moves begun."}, []string{"decision", "reason", "consolidation_type"}),
		decisionsByPool:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_voluntary_disruption_decisions_by_nodepool_total", Help: "Machines in moves begun, by pool."}, []string{"nodepool", "decision", "reason", "consolidation_type"}),
		queueFailures:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_voluntary_disruption_queue_failures_total", Help: "Machines whose move was taken back."}, []string{"reason"}),
		podsDrained:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_pods_drained_total", Help: "Pods asked to leave a node that is drained."}, []string{"reason"}),
		launchFailures:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_cloudprovider_instance_launch_failures_total", Help: "Launches that failed, by kind of error."}, []string{"error"}),
		podsDisrupted:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_pods_disruption_initiated_total", Help: "Pods on nodes of NodeClaims deleted, those of DaemonSets left out."}, []string{"reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"}),
		balanced:           prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_consolidation_moves_total", Help: "Moves held against policy Balanced."}, []string{"decision", "nodepool", "policy"}),
		balancedScore:      prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "karpenter_consolidation_score", Help: "Score of moves held against policy Balanced; from 0.5 on they are allowed.", Buckets: []float64{.1, .25, .5, .75, 1, 1.5, 2, 5, 10}}, []string{"decision", "nodepool", "policy"}),
		endFailures:        prometheus.NewCounter(prometheus.CounterOpts{Name: "karpenter_cloudprovider_instance_termination_failures_total", Help: "Terminations that failed."}),
		changes:            newChanges(r),
		cloudDuration:      prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "karpenter_cloudprovider_duration_seconds", Help: "Time of calls to the cloud.", Buckets: buckets}, []string{"method"}),
		cloudErrors:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_cloudprovider_errors_total", Help: "Calls to the cloud that failed, by kind of error."}, []string{"method", "error"}),
		evictions:          prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_pods_eviction_requests_total", Help: "Calls to the eviction API."}, []string{"code"}),
		nodeCount:          prometheus.NewGauge(prometheus.GaugeOpts{Name: "karpenter_cluster_state_node_count", Help: "Nodes known."}),
		poolUsage:          prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "karpenter_nodepools_usage", Help: "Capacity in use, in the base unit of the resource."}, []string{"nodepool", "resource_type"}),
		poolLimit:          prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "karpenter_nodepools_limit", Help: "spec.limits, in the base unit of the resource."}, []string{"nodepool", "resource_type"}),
		synced:             prometheus.NewGauge(prometheus.GaugeOpts{Name: "karpenter_cluster_state_synced", Help: "1 once the cluster has been read."}),
		interruptions:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_interruption_received_messages_total", Help: "Notices of machines that the cloud takes away, by kind."}, []string{"message_type"}),
		interruptionsKept:  prometheus.NewCounter(prometheus.CounterOpts{Name: "karpenter_interruption_deleted_messages_total", Help: "Notices that are written down, and done with at their source."}),
		interruptionTime:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "karpenter_interruption_message_queue_duration_seconds", Help: "Time from when a notice was sent until it was written down.", Buckets: buckets}),
		plansRefused:       prometheus.NewCounter(prometheus.CounterOpts{Name: "dovetail_plans_refused_total", Help: "Plans that verify refused; nothing of them was done."}),
		decisionsFailed:    prometheus.NewCounter(prometheus.CounterOpts{Name: "dovetail_decisions_failed_total", Help: "Decisions that a fault of dovetail ended; nothing was bought or moved."}),
		movesRefused:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dovetail_moves_refused_total", Help: "Moves that verify refused; nothing of them was done."}, []string{"reason"}),
		bindings:           prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dovetail_bindings_total", Help: "Pods bound to nodes, by result: bound, conflict (bound already or being deleted), gone, refused (by admission), error, unfit (a filter of kube-scheduler was against it, so it was not tried)."}, []string{"result"}),
		planCost:           prometheus.NewGauge(prometheus.GaugeOpts{Name: "dovetail_plan_cost_usd_per_hour", Help: "Price of the machines of the last plan that bought any."}),
		standingDown:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "dovetail_standing_down", Help: "Other autoscalers that are live; above 0 nothing is bought or moved."}),
		planBound:          prometheus.NewGauge(prometheus.GaugeOpts{Name: "dovetail_plan_lower_bound_usd_per_hour", Help: "Proven lower bound on that price."}),
		planGap:            prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dovetail_plan_gap_ratio", Help: "Cost over bound, less one, of plans that bought.", Buckets: []float64{.001, .003, .01, .02, .05, .1, .2, .5, 1, 2}}),
		lastUsage:          map[string]bool{},
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "karpenter_build_info", Help: "1; the version is the label."}, []string{"version"})
	info.WithLabelValues(version).Set(1)
	r.MustRegister(m.standingDown, m.schedulingDuration, m.queueDepth, m.unschedulablePods, m.claimsCreated, m.claimsDisrupted, m.cloudDuration,
		m.cloudErrors, m.evictions, m.nodeCount, m.poolUsage, m.poolLimit, m.synced, m.interruptions, m.interruptionsKept, m.interruptionTime, m.unhealthy, m.decisions, m.decisionsByPool, m.queueFailures, m.podsDrained, m.launchFailures, m.endFailures, m.podsDisrupted, m.balanced, m.balancedScore, m.plansRefused, m.decisionsFailed, m.movesRefused, m.bindings, m.planCost, m.planBound, m.planGap, info)
	return m
}

func (m *Metrics) recordDecision(d time.Duration, out *decide.Output) {
	m.schedulingDuration.Observe(d.Seconds())
	m.queueDepth.Set(float64(out.Stats.Pods))
	if out.Cost.NewMicroPerHour > 0 {
		m.planCost.Set(float64(out.Cost.NewMicroPerHour) / 1e6)
		m.planBound.Set(float64(out.Cost.BoundMicroPerHour) / 1e6)
		m.planGap.Observe(float64(out.Cost.Gap()) / 1e6)
	}
}

func (m *Metrics) countRefusedPlan()    { m.plansRefused.Inc() }
func (m *Metrics) countFailedDecision() { m.decisionsFailed.Inc() }
func (m *Metrics) countRefusedCommand(cause plan.Code) {
	m.movesRefused.WithLabelValues(string(cause)).Inc()
}

// countBinding counts the answer to a binding.
func (m *Metrics) countBinding(err error) {
	result := "error"
	switch {
	case err == nil:
		result = "bound"
	case errors.Is(err, plan.ErrConflict):
		result = "conflict"
	case errors.Is(err, plan.ErrGone):
		result = "gone"
	case errors.Is(err, plan.ErrInvalid):
		result = "refused"
	}
	m.bindings.WithLabelValues(result).Inc()
}

// countUnfitBinding counts a binding that verify was against.
func (m *Metrics) countUnfitBinding() { m.bindings.WithLabelValues("unfit").Inc() }

func (m *Metrics) setUnschedulable(n int) { m.unschedulablePods.Set(float64(n)) }

func (m *Metrics) countCreatedClaim(a plan.CreateClaim) {
	reason := "provisioned"
	if a.Why.Code != plan.Demand {
		reason = strings.ToLower(string(a.Why.Code))
	}
	m.claimsCreated.WithLabelValues(a.Pool.Name, reason, a.CapacityType).Inc()
}

func (m *Metrics) countDisruptedClaim(c *model.Claim, pool *model.NodePool, a plan.DeleteClaim, condition string, pods int) {
	capacityType, policy, image := "", "", ""
	if c != nil {
		capacityType, image = c.Labels[model.LabelCapacityType], c.ImageID
	}
	if pool != nil {
		policy = pool.ConsolidationPolicy
	}
	m.claimsDisrupted.WithLabelValues(a.Why.Pool, string(a.Why.Code), capacityType, policy, terminationKind(a.Why)).Inc()
	m.podsDisrupted.WithLabelValues(string(a.Why.Code), a.Why.Pool, capacityType, policy, terminationKind(a.Why)).Add(float64(pods))
	if a.Why.Code == plan.Unhealthy {
		m.unhealthy.WithLabelValues(condition, a.Why.Pool, capacityType, image).Inc()
	}
}

// countDisruptionCommand counts a move that was begun.
func (m *Metrics) countDisruptionCommand(x *decide.StartedCommand) {
	decision, kind := "delete", "single"
	if len(x.Replacements) > 0 || x.OneForOne {
		decision = "replace"
	}
	switch {
	case x.Cause == plan.Empty:
		kind = "empty"
	case x.Cause != plan.Underutilized:
		kind = ""
	case len(x.Candidates) > 1:
		kind = "multi"
	}
	m.decisions.WithLabelValues(decision, string(x.Cause), kind).Inc()
	for _, u := range x.Candidates {
		m.decisionsByPool.WithLabelValues(u.Pool.Name, decision, string(x.Cause), kind).Inc()
	}
	for pool, score := range x.BalancedScores {
		m.countBalancedScore("approved", pool, score)
	}
}

// countBalancedScore counts a move that was held against policy Balanced for one of its pools.
func (m *Metrics) countBalancedScore(decision, pool string, score float64) {
	m.balanced.WithLabelValues(decision, pool, disrupt.Balanced).Inc()
	m.balancedScore.WithLabelValues(decision, pool, disrupt.Balanced).Observe(score)
}

func (m *Metrics) countCall(method string, d time.Duration, err error) {
	m.cloudDuration.WithLabelValues(method).Observe(d.Seconds())
	if kind := cloud.KindOf(err); kind != cloud.None {
		m.cloudErrors.WithLabelValues(method, string(kind)).Inc()
	}
}

func (m *Metrics) countInterruption(i cloud.Interruption) {
	m.interruptions.WithLabelValues(i.Kind).Inc()
}

func (m *Metrics) countKeptInterruption(i cloud.Interruption) {
	m.interruptionsKept.Inc()
	if !i.Sent.IsZero() {
		m.interruptionTime.Observe(time.Since(i.Sent).Seconds())
	}
}

func (m *Metrics) countEviction(err error) {
	code := 200
	switch {
	case err == nil:
	case isBlocked(err):
		code = 429
	case isGone(err):
		code = 404
	default:
		code = 500
	}
	m.evictions.WithLabelValues(strconv.Itoa(code)).Inc()
}

// setClusterGauges sets the gauges that follow the Snapshot.
func (m *Metrics) setClusterGauges(s *model.Snapshot) {
	m.synced.Set(1)
	m.nodeCount.Set(float64(len(s.Nodes)))
	seen := map[string]bool{}
	for _, p := range s.Pools {
		seen[p.Name] = true
		for i, name := range s.ResourceNames {
			d := model.Dim(i)
			if v := p.StatusResources.At(d); v != 0 {
				m.poolUsage.WithLabelValues(p.Name, name).Set(inBaseUnit(d, v))
			}
			if i < len(p.HasLimit) && p.HasLimit[i] {
				m.poolLimit.WithLabelValues(p.Name, name).Set(inBaseUnit(d, p.Limits.At(d)))
			}
		}
	}
	for name := range m.lastUsage {
		if !seen[name] {
			m.poolUsage.DeletePartialMatch(prometheus.Labels{"nodepool": name})
			m.poolLimit.DeletePartialMatch(prometheus.Labels{"nodepool": name})
		}
	}
	m.lastUsage = seen
}

// inBaseUnit is an amount in the base unit: cores, bytes, counts.
func inBaseUnit(d model.Dim, v int64) float64 {
	if d == model.CPU {
		return float64(v) / 1000
	}
	return float64(v)
}
