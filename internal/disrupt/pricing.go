// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// pricing says what a command costs once and what its saving comes to. All amounts are in micro-dollars.
type pricing struct {
	in     *Input
	policy Policy
	duals  dualPrices

	freeValue    int64            // an hour: all free capacity of existing nodes, before anything is placed
	launchPrices map[string]int64 // found so far, by requests and number of pods; see launchPrice
	scaleUps     []forecastLoss   // soonest first
}

// newPricing prices with the given duals. It must be made before anything is placed in the index.
func newPricing(in *Input, policy Policy, duals dualPrices, capacity *freeCapacity) *pricing {
	p := &pricing{in: in, policy: policy, duals: duals, launchPrices: map[string]int64{}}
	for i := range capacity.nodes {
		p.freeValue += int64(duals.valueOfFree(capacity.freeOf(i)))
	}
	p.scaleUps = expectScaleUps(in.ScaleUps, duals)
	return p
}

// disruptionCost is what taking candidates away costs once: the restarts of their pods, at what people would pay not
// to have them and at what the pods' resources cost while they start; and replacements of so much an hour, which are
// paid for beside the candidates while they boot. Launches are not in it.
func (p *pricing) disruptionCost(candidates []*Candidate, newMicroPerHour int64) int64 {
	sum := int64(0)
	for _, c := range candidates {
		for _, pod := range c.Pods {
			start, ok := p.in.StartTimes[pod.Class]
			if !ok {
				start = p.policy.DefaultStartTime
			}
			starting := costOfTime(p.duals.valueOf(pod.Class.Requests), start)
			sum += restartMicro(p.policy, c.Pool, pod) + starting*EvictionWeight(pod)/1000
		}
	}
	return sum + costOfTime(newMicroPerHour, p.bootTime())
}

// bootTime is how long nodes take from their launch until they are ready, as measured, or Policy.DefaultBootTime.
func (p *pricing) bootTime() time.Duration {
	if p.in.BootTime > 0 {
		return p.in.BootTime
	}
	return p.policy.DefaultBootTime
}

// commandCost is what a command costs once, launches included.
func (p *pricing) commandCost(candidates []*Candidate, newMicroPerHour int64, launches int) int64 {
	return p.disruptionCost(candidates, newMicroPerHour) + int64(launches)*p.policy.LaunchMicro
}

// minSaving is what a command must save an hour at least whose candidates cost so much an hour: nobody is evicted for
// pennies.
func (p *pricing) minSaving(oldMicroPerHour int64) int64 {
	return int64(float64(oldMicroPerHour) / 1e6 * float64(p.policy.MinSavingPPM))
}

// EvictionWeight returns the weight of evicting a pod in thousandths, from 0 to 10,000, by Karpenter's rule: 1000 for a pod
// without priority and disruption cost, more with a higher priority or a higher cost annotation.
func EvictionWeight(p *model.Pod) int64 {
	w := 1000 + int64(p.DisruptionCost)*1000>>27 + int64(p.Class.Priority)*1000>>25
	return min(max(w, 0), 10_000)
}

// restartMicro is what people would pay, in micro-dollars, not to have a pod of a pool's node restarted: what the pod's
// annotation model.AnnotationRestartCost says; else what the pool's says, or Policy.RestartMicro, weighed by
// EvictionWeight. A value that cannot be read counts as none.
func restartMicro(policy Policy, pool *model.NodePool, pod *model.Pod) int64 {
	if micro, ok := model.ParseRestartCost(pod.RestartCost); ok {
		return micro
	}
	base := policy.RestartMicro
	if micro, ok := model.ParseRestartCost(pool.RestartCost); ok {
		base = micro
	}
	return base * EvictionWeight(pod) / 1000
}

// costOfTime is what a price an hour comes to over a time.
func costOfTime(microPerHour int64, d time.Duration) int64 {
	return int64(float64(microPerHour) * d.Hours())
}
