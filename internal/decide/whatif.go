// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// WhatIf answers every pending pod at once, as Step would had kube-scheduler just looked at each of them and found no
// node. It buys what Step would buy, from the same nodes and the same pools; nothing else that a Step does is in it.
// Every pending pod is in Plan.Pods, by namespace and name: those that Step leaves alone as NotOurs with the reason.
func WhatIf(s *model.Snapshot, now time.Time, pol Policy) Output {
	return WhatIfWithout(s, now, pol, nil)
}

// WhatIfWithout is WhatIf with parts of the demand left out, whose pods are refused.
func WhatIfWithout(s *model.Snapshot, now time.Time, pol Policy, withheld []demand.Withheld) Output {
	st := read(s, Memory{}, now, pol, Request{Withhold: withheld, whatIf: true}, purchasing)
	st.run(st.decisions(), purchasing)
	kept := st.out.Actions[:0]
	for _, a := range st.out.Actions {
		if c, ok := a.(plan.CreateClaim); ok {
			kept = append(kept, c)
		}
	}
	st.out.Actions = kept
	for _, name := range slices.Sorted(maps.Keys(st.reservations.byClaim)) {
		h := st.reservations.byClaim[name]
		for _, p := range h.Pods {
			if p.Node == "" {
				st.out.Pods = append(st.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnClaim, Target: name})
			}
		}
	}
	for _, p := range s.Pending {
		if !st.slots.covered[p.UID] && !st.heed(st.pods.isDemand(p)) {
			st.out.Pods = append(st.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.NotOurs, Reasons: []plan.Reason{st.pods.notDemandReason(p)}})
		}
	}
	sort.SliceStable(st.out.Pods, func(i, j int) bool {
		a, b := st.out.Pods[i].Pod, st.out.Pods[j].Pod
		return a.Namespace < b.Namespace || a.Namespace == b.Namespace && a.Name < b.Name
	})
	if st.out.Problem == nil {
		st.out.Cost.ProvenBy = "lp" // nothing for nothing
	}
	return st.out
}

// StaticClaims returns the claims that Step would make for pools with a fixed number of nodes that have too few of them.
func StaticClaims(s *model.Snapshot, now time.Time, pol Policy) []plan.CreateClaim {
	st := read(s, Memory{}, now, pol, Request{whatIf: true}, purchasing)
	st.scaleStatic()
	var out []plan.CreateClaim
	for _, a := range st.out.Actions {
		if c, ok := a.(plan.CreateClaim); ok {
			out = append(out, c)
		}
	}
	return out
}

// notDemandReason says why a pending pod is no demand.
func (pt *podTable) notDemandReason(p *model.Pod) plan.Reason {
	why := plan.OfNotSchedulable{Because: plan.SchedulerCause, Name: p.Class.Scheduler}
	switch {
	case !p.IsWorkload():
		why = plan.OfNotSchedulable{Because: plan.OwnerCause}
	case p.Gated:
		why = plan.OfNotSchedulable{Because: plan.GatesCause}
	case p.Nominated != "":
		why = plan.OfNotSchedulable{Because: plan.NominatedCause, Name: p.Nominated}
	case pt.Cutoff.IsExpendable(p):
		why = plan.OfNotSchedulable{Because: plan.PriorityCause, Priority: p.Class.Priority, Least: pt.Cutoff.Below}
	case pt.Now.Before(pt.groups.LaunchDue(p)):
		why = plan.OfNotSchedulable{Because: plan.DelayCause, Until: pt.groups.LaunchDue(p)}
	}
	return plan.Reason{Code: plan.NotSchedulable, Detail: why}
}
