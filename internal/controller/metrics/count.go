// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

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
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// evaluated are the kinds of disruption that each decision looks for.
var evaluated = []struct{ reason, consolidationType string }{{"drifted", ""}, {"empty", "empty"}, {"underutilized", "multi"}, {"underutilized", "single"}}

// BeginDecision records the begin of a decision. If solves is set, it places the given number of pending pods. The returned
// function records the result.
func (m *Metrics) BeginDecision(solves bool, pending int) (end func(*decide.Output)) {
	m.decisions++
	x := &decision{kind: workDisruption, id: strconv.FormatInt(m.decisions, 10), began: time.Now()}
	if solves {
		x.kind = workProvisioner
	}
	m.deciding.Store(x)
	item := m.work.add(x.kind)
	item.Start()
	m.scheduler.queueDepth.DeletePartialMatch(prometheus.Labels{"controller": x.kind}) // there is one at a time
	depth := m.scheduler.queueDepth.WithLabelValues(x.kind, x.id)
	depth.Set(float64(pending))
	return func(out *decide.Output) {
		m.deciding.Store(nil)
		d := time.Since(x.began).Seconds()
		depth.Set(0)
		item.End(nil, true)
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

func (m *Metrics) CountRefusedPlan() {
	m.ours.plansRefused.Inc()
	m.work.errors.WithLabelValues(workProvisioner).Inc()
}

// CountRefusedPart counts a part of a plan that was left out because verify refused it or its evaluation failed.
func (m *Metrics) CountRefusedPart(unit, pool string) {
	m.ours.partsRefused.WithLabelValues(unit, pool).Inc()
}

func (m *Metrics) CountFailedDecision() {
	m.ours.decisionsFailed.Inc()
	m.groups.errors.WithLabelValues(groupInternalError).Inc()
	m.work.panics.WithLabelValues(workDisruption).Inc()
}

// CountRefusedCommand counts a disruption command that verify refused.
func (m *Metrics) CountRefusedCommand(x *decide.StartedCommand) {
	m.ours.movesRefused.WithLabelValues(string(x.Cause)).Inc()
	m.disruption.notValid.WithLabelValues(consolidationType(x.Cause, len(x.Candidates))).Add(float64(len(x.Candidates)))
}

// CountAbortedCommand increments karpenter_voluntary_disruption_queue_failures_total for a node whose disruption
// command was canceled. As in Karpenter, the labels decision and consolidation_type are both set to the decision.
func (m *Metrics) CountAbortedCommand(cause plan.Code) {
	m.disruption.queueFailures.WithLabelValues("replace", snakeCase(string(cause)), "replace").Inc()
}

// CountBinding counts the result of a binding.
func (m *Metrics) CountBinding(err error) {
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

// CountUnfitBinding counts a binding that verify refused.
func (m *Metrics) CountUnfitBinding() { m.ours.bindings.WithLabelValues("unfit").Inc() }

func (m *Metrics) SetUnschedulable(n int) {
	m.scheduler.unplaceable.WithLabelValues(workProvisioner).Set(float64(n))
}

func (m *Metrics) CountCreatedClaim(a plan.CreateClaim) {
	m.nodeClaims.created.WithLabelValues(creationReason(a.Why), a.Pool.Name, strconv.FormatBool(a.MinValuesRelaxed)).Inc()
}

// CountDisruptedClaim counts a deleted NodeClaim with the number of pods on its node; condition is the condition by which the node
// is broken. names are the resource names.
func (m *Metrics) CountDisruptedClaim(names []string, c *model.Claim, pool *model.NodePool, a plan.DeleteClaim, pods int) {
	m.groups.countRemoved(names, c, a.Why)
	reason := disruptionReason(a.Why)
	if reason == "" {
		return
	}
	poolName, capacityType, policy, image := a.Why.Pool, "", "", ""
	if c != nil {
		poolName, capacityType, image = cmp.Or(poolName, c.Pool), c.Labels[model.LabelCapacityType], c.ImageID
	}
	if pool != nil && a.Why.OfCommand() && (a.Why.Code == plan.Empty || a.Why.Code == plan.Underutilized) {
		policy = snakeCase(pool.ConsolidationPolicy)
	}
	mode := terminationMode(c)
	m.nodeClaims.disrupted.WithLabelValues(reason, poolName, capacityType, policy, mode).Inc()
	m.nodeClaims.podsDisrupted.WithLabelValues(reason, poolName, capacityType, policy, mode).Add(float64(pods))
	if a.Why.Code == plan.Unhealthy {
		if c != nil && c.Annotations[lifecycle.TerminationTime] != "" { // the bound of its repair holds, whatever its grace period
			mode = "eventual"
			if t, err := time.Parse(time.RFC3339, c.Annotations[lifecycle.TerminationTime]); err == nil && !t.After(time.Now()) {
				mode = "forceful"
			}
		}
		m.nodeClaims.unhealthy.WithLabelValues(snakeCase(plan.DetailOf[plan.OfUnhealthy](a.Why).Condition), poolName, capacityType, image, mode).Inc()
	}
}

// terminationMode returns how long the drain of a claim's node waits for its pods, by the claim's termination grace period:
// graceful (as long as it takes), eventual (until the period ends) or forceful (not at all).
func terminationMode(c *model.Claim) string {
	switch {
	case c == nil || c.TerminationGracePeriod < 0:
		return "graceful"
	case c.TerminationGracePeriod == 0:
		return "forceful"
	}
	return "eventual"
}

// CountBegunReboot counts the decision to reboot the node of a NodeClaim.
func (m *Metrics) CountBegunReboot(c *model.Claim, why plan.Reason) {
	reason := strings.ToLower(string(why.Code))
	m.disruption.decisions.WithLabelValues("reboot", reason, "").Inc()
	m.disruption.decisionsByPool.WithLabelValues(c.Pool, "reboot", reason, "").Inc()
}

// CountReboot counts the reboot of a NodeClaim's node. c is the NodeClaim before the end of the reboot.
func (m *Metrics) CountReboot(c *model.Claim, succeeded bool, now time.Time) {
	result := "provider_error"
	switch {
	case succeeded:
		result = "succeeded"
		m.nodeClaims.rebootRecovery.Observe(now.Sub(lifecycle.LastReboot(c)).Seconds())
	case c.Conditions[lifecycle.Rebooting].Reason == lifecycle.RebootIssued:
		result = "recovery_timeout"
	}
	m.nodeClaims.reboots.WithLabelValues(result).Inc()
	m.nodeClaims.rebootDuration.WithLabelValues(result).Observe(now.Sub(c.Conditions[lifecycle.Rebooting].Since).Seconds())
}

// CountDisruptionCommand counts a disruption command that has begun.
func (m *Metrics) CountDisruptionCommand(x *decide.StartedCommand) {
	decision, kind, reason := "delete", consolidationType(x.Cause, len(x.Candidates)), strings.ToLower(string(x.Cause))
	if len(x.Replacements) > 0 || x.OneForOne {
		decision = "replace"
	} else if x.TerminateFirst != "" {
		decision = "terminate-first"
		m.disruption.terminateFirst.WithLabelValues(x.Candidates[0].Pool.Name, reason, string(x.TerminateFirst)).Inc()
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
		m.CountBalancedScore("approved", pool, score)
	}
}

// CountBalancedScore counts a consolidation that was compared with policy Balanced for one of its NodePools.
func (m *Metrics) CountBalancedScore(decision, pool string, score float64) {
	m.disruption.moves.WithLabelValues(decision, pool, disrupt.Balanced).Inc()
	m.disruption.score.WithLabelValues(decision, pool, disrupt.Balanced).Observe(score)
}

// workOfMethod is the kind of work that calls the cloud by a method.
var workOfMethod = map[string]string{
	"Create": workClaims, "Delete": workClaims, "List": workInstances, "GetInstanceTypes": workOfferings, "IsDrifted": workDrift, "EndClass": workClassEnd, "Reboot": workReboot,
}

// CountCall counts a call to the cloud for a NodePool; empty: none, or several. Create and Delete are part of work that is counted
// elsewhere.
func (m *Metrics) CountCall(method, pool string, d time.Duration, err error) {
	work := workOfMethod[method]
	m.cloud.duration.WithLabelValues(work, method, m.cloud.provider).Observe(d.Seconds())
	if kind := cloud.KindOf(err); kind != cloud.None {
		m.cloud.errors.WithLabelValues(work, method, m.cloud.provider, cloudErrorLabel(kind), pool).Inc()
		m.groups.errors.WithLabelValues(groupCloudError).Inc()
	}
	if work != workClaims {
		m.work.countDone(work, d, err)
	}
}

// CountLaunchFailure counts a failed launch, once for each offering without capacity.
func (m *Metrics) CountLaunchFailure(c *model.Claim, err error) {
	m.groups.countLaunchFailed(c, groupCloudError)
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

// CountTerminationFailure counts an instance that could not be terminated.
func (m *Metrics) CountTerminationFailure(c *model.Claim) {
	zone := ""
	if c != nil {
		zone = c.Labels[model.LabelZone]
	}
	m.cloud.terminationFailures.WithLabelValues(zone, "").Inc()
}

func (m *Metrics) CountInterruption(i cloud.Interruption) {
	m.interruptions.received.WithLabelValues(messageType(i)).Inc()
}

func (m *Metrics) CountKeptInterruption(i cloud.Interruption) {
	m.interruptions.deleted.Inc()
	if !i.Sent.IsZero() {
		m.interruptions.queued.Observe(time.Since(i.Sent).Seconds())
	}
}

// CountEviction counts the result of an eviction from the node of a NodeClaim that is drained for a cause.
func (m *Metrics) CountEviction(c *model.Claim, cause plan.Code, err error) {
	code := 200
	switch {
	case err == nil:
		m.podsDrained.WithLabelValues(drainReason(cause)).Inc()
	case errors.Is(err, plan.ErrBlocked):
		code = 429
	case errors.Is(err, plan.ErrGone):
		code = 404
	default:
		code = 500
	}
	m.evictions.WithLabelValues(strconv.Itoa(code)).Inc()
	m.groups.countEviction(c, err)
}

// CountUnusedLaunch counts a launch whose pods never ran on the launched node.
func (m *Metrics) CountUnusedLaunch(pool string, cause plan.Code, micro int64) {
	m.ours.unusedLaunches.WithLabelValues(pool, string(cause)).Inc()
	m.CountUnusedCost(pool, micro)
}

// CountUnusedCost counts the cost of unused launches of a NodePool.
func (m *Metrics) CountUnusedCost(pool string, micro int64) {
	m.ours.unusedDollars.WithLabelValues(pool).Add(float64(micro) / 1e6)
}

// CountExpanderCall counts a call to the external expander by its result.
func (m *Metrics) CountExpanderCall(result string) { m.expanderCalls.WithLabelValues(result).Inc() }

// CountFailedAction counts a failed call of an action.
func (m *Metrics) CountFailedAction() { m.groups.errors.WithLabelValues(groupAPIError).Inc() }

// ObserveBinding records the duration of a call that binds a pod.
func (m *Metrics) ObserveBinding(d time.Duration) { m.scheduler.bind.Observe(d.Seconds()) }

// CountLaunched counts a node launched for a NodeClaim. names are the resource names.
func (m *Metrics) CountLaunched(names []string, c *model.Claim, r cloud.LaunchResult) {
	m.groups.countLaunched(names, c, r)
}

// SetOthersLive sets the number of other live autoscalers.
func (m *Metrics) SetOthersLive(n int) { m.ours.standingBy.Set(float64(n)) }

// NoteDecided records the decisions of a plan about pods.
func (m *Metrics) NoteDecided(pods []plan.PodDecision, now time.Time) {
	m.changes.pods.noteDecided(pods, now)
}

// NoteStep records a completed step.
func (m *Metrics) NoteStep(began time.Time, solved bool) { m.groups.noteStep(began, solved) }

// StartMeasuringPods records that this process is now active. Until then, another replica measures the startup times of pods.
func (m *Metrics) StartMeasuringPods() { m.podStarts.setActing() }

// ObservePod records a change of a pod; nil: it does not exist.
func (m *Metrics) ObservePod(was, is *state.PodFacts) { m.podStarts.observe(was, is) }
