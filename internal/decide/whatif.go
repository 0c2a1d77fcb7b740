// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
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
	return whatIf(read(s, Memory{}, now, pol, Request{Withhold: withheld, whatIf: true, unseen: true}, purchasing))
}

// next answers the pending pods as the next step that looks at demand does, by what is remembered. Those that kube-scheduler has not looked
// at yet are answered as though it had just refused them, beside the others.
func next(s *model.Snapshot, mem Memory, now time.Time, pol Policy) Output {
	st := read(s, mem, now, pol, Request{whatIf: true}, purchasing|remembering)
	unseen := map[string]bool{}
	for _, p := range s.Pending {
		if st.pods.IsUnseen(p) && !st.slots.Covered[p.UID] {
			unseen[p.UID] = true
		}
	}
	out := whatIf(st)
	if len(unseen) == 0 {
		return out
	}
	all := whatIf(read(s, mem, now, pol, Request{whatIf: true, unseen: true}, purchasing|remembering))
	isUnseen := func(p *model.Pod) bool { return unseen[p.UID] }
	out.Pods = slices.DeleteFunc(out.Pods, func(d plan.PodDecision) bool { return isUnseen(d.Pod) })
	for _, d := range all.Pods {
		if isUnseen(d.Pod) {
			out.Pods = append(out.Pods, d)
		}
	}
	for _, a := range all.Actions {
		if slices.ContainsFunc(a.(plan.CreateClaim).Pods, isUnseen) {
			out.Actions = append(out.Actions, a)
		}
	}
	sortDecisions(out.Pods)
	return out
}

// whatIf answers every pending pod by a step that has read how everything stands.
func whatIf(st *step) Output {
	st.run(st.decisions(), purchasing)
	kept := st.out.Actions[:0]
	for _, a := range st.out.Actions {
		if c, ok := a.(plan.CreateClaim); ok {
			kept = append(kept, c)
		}
	}
	st.out.Actions = kept
	for _, h := range st.reservations.All {
		for _, p := range h.Pods {
			if p.Node == "" {
				st.out.Pods = append(st.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnClaim, Target: h.Claim.Name})
			}
		}
	}
	for _, p := range st.Snapshot.Pending {
		if !st.slots.Covered[p.UID] && !st.heed(st.pods.IsDemand(p)) {
			st.out.Pods = append(st.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.NotOurs, Reasons: []plan.Reason{st.pods.WhyNotDemand(p)}})
		}
	}
	sortDecisions(st.out.Pods)
	if st.out.Problem == nil {
		st.out.Cost.ProvenBy = "lp" // nothing for nothing
	}
	return st.out
}

// sortDecisions sorts decisions by their pods' namespace and name.
func sortDecisions(of []plan.PodDecision) {
	slices.SortStableFunc(of, func(a, b plan.PodDecision) int { return model.ComparePodKeys(a.Pod, b.Pod) })
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
