// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// outcomeOf returns where a plan places a pending pod, or the reasons why it does not.
func outcomeOf(out *decide.Output, p *model.Pod) (*plan.Alternative, []plan.Reason) {
	for _, d := range out.Pods {
		if d.Pod.UID != p.UID {
			continue
		}
		if d.Outcome == plan.Refused || d.Outcome == plan.NotOurs {
			return nil, d.Reasons
		}
		alt := plan.Alternative{Kind: plan.Fit, Of: plan.Demand, On: d.Target, Pods: 1, Machines: []plan.Machine{}}
		if d.Outcome == plan.OnNew {
			alt.Kind, alt.On = plan.Buy, ""
		}
		for _, x := range out.Actions {
			if c, ok := x.(plan.CreateClaim); ok && d.Outcome == plan.OnNew && c.Name == d.Target {
				alt.Pool, alt.NewMicro, alt.Pods = c.Pool.Name, c.PriceMicro, len(c.Pods)
				alt.Machines = append(alt.Machines, machineOf(c))
			}
		}
		return &alt, nil
	}
	return nil, nil
}

// machineOf returns the machine that a NodeClaim launches.
func machineOf(c plan.CreateClaim) plan.Machine {
	return plan.Machine{Pool: c.Pool.Name, Type: c.Type, Zone: c.Zone, CapacityType: c.CapacityType, PriceMicro: c.PriceMicro, PriceOverlay: priceOverlayOf(c), Count: 1}
}

// launchesFor returns the combined outcome of the pods in of: the new nodes for them, with equal machines grouped, and
// their total price. one is the outcome of one of these pods. It is returned if none of them needs a new node.
func launchesFor(out *decide.Output, of map[string]bool, one plan.Alternative) plan.Alternative {
	all := plan.Alternative{Kind: plan.Buy, Of: one.Of, Pool: one.Pool, Pods: countPlaced(out, of), Machines: []plan.Machine{}}
	at := map[plan.Machine]int{}
	targets := map[string]bool{}
	for _, d := range out.Pods {
		if of[d.Pod.UID] && d.Outcome == plan.OnNew {
			targets[d.Target] = true
		}
	}
	for _, x := range out.Actions {
		c, ok := x.(plan.CreateClaim)
		if !ok || !targets[c.Name] {
			continue
		}
		m := machineOf(c)
		i, known := at[m]
		if !known {
			i = len(all.Machines)
			at[m] = i
			m.Count = 0
			all.Machines = append(all.Machines, m)
		}
		all.Machines[i].Count++
		all.NewMicro += c.PriceMicro
	}
	if len(all.Machines) == 0 {
		return one
	}
	if all.Pool == "" {
		all.Pool = all.Machines[0].Pool
	}
	return all
}

// priceOverlayOf returns the name of the NodeOverlay that sets the price of a NodeClaim, or an empty string if there is
// none.
func priceOverlayOf(c plan.CreateClaim) string {
	o := disrupt.NodeOffering(c.Pool, model.Labels{model.LabelInstanceType: c.Type, model.LabelZone: c.Zone, model.LabelCapacityType: c.CapacityType})
	if o == nil {
		return ""
	}
	return o.PriceOverlay
}

// outcomeFor returns where a pending pod is placed by the decisions in of, or the reasons why it is not.
func outcomeFor(of *decide.Answers, p *model.Pod) (*plan.Alternative, []plan.Reason) {
	return outcomeOf(of.For(p), p)
}

// countPlaced returns the number of pods in of that are placed.
func countPlaced(out *decide.Output, of map[string]bool) (n int) {
	for _, d := range out.Pods {
		if of[d.Pod.UID] && d.Outcome != plan.Refused && d.Outcome != plan.NotOurs {
			n++
		}
	}
	return n
}
