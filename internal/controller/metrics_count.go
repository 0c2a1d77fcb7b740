// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"cmp"
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

// evaluated are the kinds of disruption that each decision looks for.
var evaluated = []struct{ reason, consolidationType string }{{"drifted", ""}, {"empty", "empty"}, {"underutilized", "multi"}, {"underutilized", "single"}}

// beginDecision takes in that a decision begins, with so many pending pods where it is to place them. What it returns takes
// in what was decided.
func (m *Metrics) beginDecision(x *decision, pending int) (end func(*decide.Output)) {
	item := m.work.add(x.kind)
	item.start()
	m.scheduler.queueDepth.DeletePartialMatch(prometheus.Labels{"controller": x.kind}) // there is one at a time
	depth := m.scheduler.queueDepth.WithLabelValues(x.kind, x.id)
	depth.Set(float64(pending))
	return func(out *decide.Output) {
		d := time.Since(x.began).Seconds()
		depth.Set(0)
		item.end(nil, true)
		m.scheduler.duration.WithLabelValues(x.kind).Observe(d)
		for _, e := range evaluated {
			m.disruption.evaluation.WithLabelValues(e.reason, e.consolidationType).Observe(d)
		}
		if out.Solved {
			m.groups.duration.WithLabelValues("scaleUp").Observe(d)
			m.recordDemand(d, out)
		}
	}
}

// recordDemand takes in a decision that placed pending pods.
func (m *Metrics) recordDemand(seconds float64, out *decide.Output) {
	pools := map[string]bool{}
	for _, a := range out.Actions {
		if c, ok := a.(plan.CreateClaim); ok && !pools[c.Pool.Name] {
			pools[c.Pool.Name] = true
			m.scheduler.binpacking.WithLabelValues(c.Pool.Name).Observe(seconds)
			m.scheduler.scheduling.WithLabelValues(c.Pool.Name).Observe(seconds)
		}
	}
	if out.Cost.NewMicroPerHour > 0 {
		m.ours.planCost.Set(float64(out.Cost.NewMicroPerHour) / 1e6)
		m.ours.planBound.Set(float64(out.Cost.BoundMicroPerHour) / 1e6)
		m.ours.planGap.Observe(float64(out.Cost.Gap()) / 1e6)
	}
}

func (m *Metrics) countRefusedPlan() {
	m.ours.plansRefused.Inc()
	m.work.errors.WithLabelValues(workProvisioner).Inc()
}

// countRefusedPart counts a part of a plan that was left out, because verify refused it or deciding on it failed.
func (m *Metrics) countRefusedPart(unit, pool string) {
	m.ours.partsRefused.WithLabelValues(unit, pool).Inc()
}

func (m *Metrics) countFailedDecision() {
	m.ours.decisionsFailed.Inc()
	m.groups.errors.WithLabelValues(groupInternalError).Inc()
	m.work.panics.WithLabelValues(workDisruption).Inc()
}

// countRefusedCommand counts a disruption command that verify refused.
func (m *Metrics) countRefusedCommand(x *decide.StartedCommand) {
	m.ours.movesRefused.WithLabelValues(string(x.Cause)).Inc()
	m.disruption.notValid.WithLabelValues(consolidationType(x.Cause, len(x.Candidates))).Add(float64(len(x.Candidates)))
}

// countAbortedCommand counts a node whose disruption command was taken back. Karpenter counts replacements that failed, and
// gives both labels the decision.
func (m *Metrics) countAbortedCommand(cause plan.Code) {
	m.disruption.queueFailures.WithLabelValues("replace", snakeCase(string(cause)), "replace").Inc()
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
	m.ours.bindings.WithLabelValues(result).Inc()
}

// countUnfitBinding counts a binding that verify was against.
func (m *Metrics) countUnfitBinding() { m.ours.bindings.WithLabelValues("unfit").Inc() }

func (m *Metrics) setUnschedulable(n int) {
	m.scheduler.unplaceable.WithLabelValues(workProvisioner).Set(float64(n))
}

func (m *Metrics) countCreatedClaim(a plan.CreateClaim) {
	m.nodeClaims.created.WithLabelValues(creationReason(a.Why), a.Pool.Name, strconv.FormatBool(a.MinValuesRelaxed)).Inc()
}

func (m *Metrics) countDisruptedClaim(c *model.Claim, pool *model.NodePool, a plan.DeleteClaim, condition string, pods int) {
	reason := disruptionReason(a.Why)
	if reason == "" {
		return
	}
	poolName, capacityType, policy, image := a.Why.Pool, "", "", ""
	if c != nil {
		poolName, capacityType, image = cmp.Or(poolName, c.Pool), c.Labels[model.LabelCapacityType], c.ImageID
	}
	if pool != nil {
		policy = pool.ConsolidationPolicy
	}
	m.nodeClaims.disrupted.WithLabelValues(reason, poolName, capacityType).Inc()
	m.nodeClaims.podsDisrupted.WithLabelValues(reason, poolName, capacityType, policy, terminationKind(a.Why)).Add(float64(pods))
	if a.Why.Code == plan.Unhealthy {
		m.nodeClaims.unhealthy.WithLabelValues(snakeCase(condition), poolName, capacityType, image).Inc()
	}
}

// terminationKind reports whether a deletion waits for budgets and for pods.
func terminationKind(why plan.Reason) string {
	if why.OfCommand() || why.Code == plan.ScaledDown {
		return "graceful"
	}
	return "forceful"
}

// countDisruptionCommand counts a disruption command that was begun.
func (m *Metrics) countDisruptionCommand(x *decide.StartedCommand) {
	decision, kind, reason := "delete", consolidationType(x.Cause, len(x.Candidates)), strings.ToLower(string(x.Cause))
	if len(x.Replacements) > 0 || x.OneForOne {
		decision = "replace"
	}
	m.disruption.decisions.WithLabelValues(decision, reason, kind).Inc()
	policies := map[string]string{}
	for _, u := range x.Candidates {
		policies[u.Pool.Name] = u.Pool.ConsolidationPolicy
	}
	for pool, policy := range policies {
		m.disruption.decisionsByPool.WithLabelValues(pool, decision, reason, kind).Inc()
		if _, balanced := x.BalancedScores[pool]; x.Cause == plan.Underutilized && !balanced {
			m.disruption.moves.WithLabelValues("approved", pool, policy).Inc()
		}
	}
	for pool, score := range x.BalancedScores {
		m.countBalancedScore("approved", pool, score)
	}
}

// countBalancedScore counts a consolidation that was held against policy Balanced for one of its pools.
func (m *Metrics) countBalancedScore(decision, pool string, score float64) {
	m.disruption.moves.WithLabelValues(decision, pool, disrupt.Balanced).Inc()
	m.disruption.score.WithLabelValues(decision, pool, disrupt.Balanced).Observe(score)
}

// workOfMethod is the kind of work that calls the cloud by a method.
var workOfMethod = map[string]string{
	"Create": workClaims, "Delete": workClaims, "List": workInstances, "GetInstanceTypes": workOfferings, "IsDrifted": workDrift, "EndClass": workClassEnd,
}

// countCall counts a call to the cloud. Create and Delete are part of work that is counted where it is done.
func (m *Metrics) countCall(method string, d time.Duration, err error) {
	work := workOfMethod[method]
	m.cloud.duration.WithLabelValues(work, method, m.cloud.provider).Observe(d.Seconds())
	if kind := cloud.KindOf(err); kind != cloud.None {
		m.cloud.errors.WithLabelValues(work, method, m.cloud.provider, cloudErrorLabel(kind)).Inc()
		m.groups.errors.WithLabelValues(groupCloudError).Inc()
	}
	if work != workClaims {
		m.work.countDone(work, d, err)
	}
}

// countLaunchFailure counts a launch that failed, once for each offering that had no capacity.
func (m *Metrics) countLaunchFailure(c *model.Claim, err error) {
	reason := string(cloud.KindOf(err))
	var e *cloud.Error
	if errors.As(err, &e) && len(e.Offerings) > 0 {
		for _, o := range e.Offerings {
			m.cloud.launchFailures.WithLabelValues(o.Zone, "", o.CapacityType, reason).Inc()
		}
		return
	}
	capacityType, zone := "", ""
	if c != nil {
		capacityType, zone = c.Labels[model.LabelCapacityType], c.Labels[model.LabelZone]
	}
	m.cloud.launchFailures.WithLabelValues(zone, "", capacityType, reason).Inc()
}

// countTerminationFailure counts an instance that could not be terminated.
func (m *Metrics) countTerminationFailure(c *model.Claim) {
	zone := ""
	if c != nil {
		zone = c.Labels[model.LabelZone]
	}
	m.cloud.terminationFailures.WithLabelValues(zone, "").Inc()
}

func (m *Metrics) countInterruption(i cloud.Interruption) {
	m.interruptions.received.WithLabelValues(messageType(i)).Inc()
}

func (m *Metrics) countKeptInterruption(i cloud.Interruption) {
	m.interruptions.deleted.Inc()
	if !i.Sent.IsZero() {
		m.interruptions.queued.Observe(time.Since(i.Sent).Seconds())
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
