// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
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
	return whatIf(s, Memory{}, now, pol, withheld, purchasing)
}

// whatIf is WhatIfWithout with a memory, for a purpose.
func whatIf(s *model.Snapshot, mem Memory, now time.Time, pol Policy, withheld []demand.Withheld, of purpose) Output {
	st := read(s, mem, now, pol, Request{Withhold: withheld, whatIf: true}, of)
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
	for _, p := range s.Pending {
		if !st.slots.Covered[p.UID] && !st.heed(st.pods.IsDemand(p)) {
			st.out.Pods = append(st.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.NotOurs, Reasons: []plan.Reason{st.pods.WhyNotDemand(p)}})
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
