// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Waiting is a group of pending pods of one workload that are pending for the same reason.
type Waiting struct {
	Pods   []*model.Pod // in the order of the Snapshot
	Answer plan.Answer  // of the first pod, without changes that would help

	ex *explanation
}

// Why is like the function Why, for the first of the pods. It reuses the decisions that Pending made.
func (w *Waiting) Why() (plan.Answer, error) {
	return w.ex.explain("pod/" + w.Pods[0].Key())
}

// Pending explains all pending pods, in groups. For any number of pods, it decides at most three times: like the next
// step, with the pods that kube-scheduler has not evaluated yet, and without the memory of earlier launches.
func Pending(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy) []Waiting {
	return newExplanation(s, mem, now, pol).pending()
}

func (ex *explanation) pending() (out []Waiting) {
	decisions := ex.answers().Decisions()
	type fate struct {
		outcome plan.Outcome
		reason  plan.Reason
	}
	fates := make(map[string]fate, len(decisions))
	for _, d := range decisions {
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
	for _, p := range ex.s.Pending {
		g := group{p.Owner.UID, p.Class, fates[p.UID]}
		i, known := at[g]
		if !known {
			i = len(out)
			at[g] = i
			a := newAnswer("pod/"+p.Key(), ex.now)
			reasons := ex.explainWaiting(&a, p)
			if old, is := ex.oldRevision(p); is && len(reasons) > 0 {
				a.Findings = append(a.Findings, old)
			}
			for _, r := range reasons {
				a.Findings = append(a.Findings, ex.demandFinding(p.Class, r))
			}
			out = append(out, Waiting{Answer: a, ex: ex})
		}
		out[i].Pods = append(out[i].Pods, p)
	}
	return out
}
