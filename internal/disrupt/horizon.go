// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// horizonValue is what a saving comes to over the horizon.
type horizonValue struct {
	micro    int64
	workload string        // the one whose forecast ends the saving, or some of it, first; empty: none does
	after    time.Duration // and when; 0 where none does
}

// forecastLoss is an expected change that ends a saving or some of it.
type forecastLoss struct {
	after        time.Duration
	workload     string
	microPerHour int64    // of a scale-down
	scaleUp      *ScaleUp // nil: a scale-down
	pods         float64  // of the scale-up that are expected
}

// expectScaleUps weighs irregular scale-ups against each other, see ScaleUp.Irregular, by what their pods are worth.
func expectScaleUps(list []ScaleUp, duals dualPrices) []forecastLoss {
	sum, squares := 0.0, 0.0
	for _, up := range list {
		if up.Irregular {
			v := float64(duals.valueOf(up.Requests)) * float64(up.Pods)
			sum, squares = sum+v, squares+v*v
		}
	}
	out := make([]forecastLoss, len(list))
	for i := range list {
		up := &list[i]
		out[i] = forecastLoss{after: up.After, workload: up.Workload, scaleUp: up, pods: float64(up.Pods)}
		if up.Irregular && sum > 0 {
			out[i].pods *= math.Sqrt(squares) / sum
		}
	}
	return out
}

// valueOverHorizon returns what a saving per hour is worth over the horizon if the pods of these candidates move.
//
// Pods that are forecast to come back first take the remaining free capacity. From the time at which nodes must be launched for
// them, the price of these nodes is no longer saved, and the pods wait while the nodes boot, at Policy.WaitMicroPerMinute. For
// pods that move and are forecast to end, nothing is saved from then on, because their capacity would become free anyway. The
// saving begins after the grace period of the candidates' pods.
func (p *pricing) valueOverHorizon(savingMicroPerHour int64, candidates []*Candidate) (v horizonValue) {
	saving := savingMicroPerHour
	freeValue := max(0, p.freeValue-saving)
	type purchase struct {
		pods         float64 // that find no free capacity
		microPerHour int64   // price of nodes for them
	}
	purchases := map[string]purchase{} // by workload
	leaving := longestGracePeriod(candidates)
	for _, l := range p.forecastLosses(saving, candidates) {
		if l.after >= p.policy.Horizon || saving == 0 {
			break
		}
		waiting := 0.0 // pods
		if up := l.scaleUp; up != nil {
			value := int64(float64(p.duals.valueOf(up.Requests)) * l.pods)
			fits := min(freeValue, value)
			freeValue -= fits
			waiting = l.pods * float64(value-fits) / float64(max(1, value))
			b := purchases[l.workload]
			b.pods += waiting
			price := p.launchPrice(up.Requests, int64(math.Ceil(b.pods)))
			l.microPerHour, b.microPerHour = price-b.microPerHour, price
			purchases[l.workload] = b
		}
		lost := min(saving, l.microPerHour)
		if lost <= 0 {
			continue
		}
		if v.workload == "" {
			v.workload, v.after = l.workload, l.after
		}
		v.micro += costOfTime(lost, max(0, l.after-leaving)) - int64(float64(p.policy.WaitMicroPerMinute)*waiting*p.bootTime().Minutes())
		saving -= lost
	}
	v.micro += costOfTime(saving, p.policy.Horizon)
	return v
}

// longestGracePeriod is that of the candidates' pods; 0 where there are none.
func longestGracePeriod(candidates []*Candidate) (d time.Duration) {
	for _, c := range candidates {
		for _, pod := range c.Pods {
			d = max(d, pod.GracePeriod)
		}
	}
	return d
}

// forecastLosses are all scale-ups, and the scale-downs of the candidates' workloads, soonest first.
func (p *pricing) forecastLosses(savingMicroPerHour int64, candidates []*Candidate) (losses []forecastLoss) {
	downs := p.scaleDownSteps(candidates)
	if len(downs) == 0 {
		return p.scaleUps
	}
	losses = slices.Clone(p.scaleUps)
	for _, down := range downs {
		losses = append(losses, forecastLoss{after: down.After, workload: down.Workload,
			microPerHour: int64(float64(savingMicroPerHour) * down.Share)})
	}
	slices.SortStableFunc(losses, func(a, b forecastLoss) int { return cmp.Compare(a.after, b.after) })
	return losses
}

// scaleDownSteps are the scale-downs of the workloads whose pods run on the candidates, workload by workload. Their
// shares are of the value of all pods of the candidates, and each is by how much it is more than the one before.
func (p *pricing) scaleDownSteps(candidates []*Candidate) (steps []ScaleDown) {
	if p.in.ScaleDowns == nil {
		return nil
	}
	total := 0.0
	value := map[*ScaleDown]float64{} // by the first of the workload
	var workloads [][]ScaleDown
	for _, c := range candidates {
		for _, pod := range c.Pods {
			v := float64(p.duals.valueOf(pod.Class.Requests))
			total += v
			if list := p.in.ScaleDowns(pod); len(list) > 0 {
				if _, known := value[&list[0]]; !known {
					workloads = append(workloads, list)
				}
				value[&list[0]] += v
			}
		}
	}
	for _, list := range workloads {
		before := 0.0
		for _, step := range list {
			step.Share, before = (step.Share-before)*value[&list[0]]/max(1, total), step.Share
			steps = append(steps, step)
		}
	}
	return steps
}

// launchPrice is what nodes of one instance type for so many pods with the same requests cost an hour at least. What no
// single type on sale holds counts as what its resources are worth; no pods cost nothing.
func (p *pricing) launchPrice(requests model.Resources, pods int64) int64 {
	if pods <= 0 {
		return 0
	}
	key := fmt.Sprint(requests.Key(), pods)
	if micro, ok := p.launchPrices[key]; ok {
		return micro
	}
	least := int64(-1)
	for _, pool := range p.in.Pools {
		for _, t := range pool.Types {
			if !requests.Fits(t.Allocatable) || !pool.MayBuyType(t) {
				continue
			}
			price := cheapestOfferingMicro(pool.NodePool, t)
			if price < 0 {
				continue
			}
			fit := pods
			for d, r := range requests {
				if r > 0 {
					fit = min(fit, t.Allocatable.At(model.Dim(d))/r)
				}
			}
			if fit > 0 {
				if micro := price * ((pods + fit - 1) / fit); least < 0 || micro < least {
					least = micro
				}
			}
		}
	}
	if least < 0 {
		least = p.duals.valueOf(requests) * pods
	}
	p.launchPrices[key] = least
	return least
}

// doesNotPay is the reason that a saving comes to no more over the horizon than it costs once. Where it would pay but
// for a forecast, the reason names the workload.
func (p *pricing) doesNotPay(savingMicroPerHour, costMicro int64, v horizonValue) plan.Reason {
	if v.workload != "" && costOfTime(savingMicroPerHour, p.policy.Horizon) > costMicro {
		return plan.Reason{Code: plan.ShortLived, Subject: plan.ObjectOf("", v.workload), Detail: plan.OfShortLived{
			After: v.after.Round(time.Second), Cost: plan.Micro(costMicro), Saving: plan.Micro(v.micro)}}
	}
	return plan.Reason{Code: plan.DoesNotPay, Detail: plan.OfDoesNotPay{Least: plan.Micro(costMicro), Saving: plan.Micro(v.micro), OverTime: true}}
}
