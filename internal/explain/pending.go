// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Waiting is pending pods of one workload that wait for the same.
type Waiting struct {
	Pods   []*model.Pod // in the order of the Snapshot
	Answer plan.Answer  // of the first of them, without changes that would help: Why has those
}

// Pending returns what all pending pods wait for. It decides once, however many there are.
func Pending(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy) (out []Waiting) {
	ex := newExplanation(s, mem, now, pol)
	decided := ex.planned()
	type fate struct {
		outcome plan.Outcome
		reason  plan.Reason
	}
	fates := make(map[string]fate, len(decided.Pods))
	for _, d := range decided.Pods {
		f := fate{outcome: d.Outcome}
		if len(d.Reasons) > 0 {
			f.reason = d.Reasons[0]
		}
		fates[d.Pod.UID] = f
	}
	type group struct {
		owner string
		class *model.Class
		fate  fate
	}
	at := map[group]int{}
	for _, p := range s.Pending {
		g := group{p.Owner.UID, p.Class, fates[p.UID]}
		i, known := at[g]
		if !known {
			i = len(out)
			at[g] = i
			a := newAnswer("pod/"+p.Key(), now)
			for _, r := range ex.explainWaiting(&a, p) {
				a.Findings = append(a.Findings, ex.demandFinding(r))
			}
			out = append(out, Waiting{Answer: a})
		}
		out[i].Pods = append(out[i].Pods, p)
	}
	return out
}
