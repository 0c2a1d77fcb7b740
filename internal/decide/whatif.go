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

// Answers are what is decided on the pending pods of a Snapshot with what is remembered. Pods that kube-scheduler has looked at are decided on as
// the next step that looks at demand does; with the others next to them, they might get other nodes. Each of the two Outputs is decided once, when it is
// first asked for.
type Answers struct {
	again     func(unseen bool) *step
	unseen    map[string]bool // by uid: pods that kube-scheduler has not looked at yet; nil: one Output answers all pods
	reading   *step           // what all is decided by
	next, all *Output
	decided   *int
}

// newAnswers returns the Answers for a Snapshot. It adds to decided how many Outputs are decided.
func newAnswers(s *model.Snapshot, mem Memory, now time.Time, pol Policy, decided *int) *Answers {
	a := &Answers{decided: decided, again: func(unseen bool) *step {
		return read(s, mem, now, pol, Request{whatIf: true, unseen: unseen}, purchasing|remembering)
	}}
	a.reading = a.again(true)
	unseen, seen := map[string]bool{}, false
	for _, p := range s.Pending {
		switch is, _ := a.reading.pods.IsDemand(p); {
		case is && a.reading.pods.IsUnseen(p):
			unseen[p.UID] = true
		case is:
			seen = true
		}
	}
	if seen && len(unseen) > 0 {
		a.unseen = unseen
	}
	return a
}

// All returns what is decided on all pending pods at once, as though kube-scheduler had just refused those that it has not looked at yet. What pods
// need of nodes and limits is counted in it: next to it, For may launch for the same pods.
func (a *Answers) All() *Output {
	if a.all == nil {
		a.all, a.reading = a.decide(a.reading), nil
	}
	return a.all
}

// For returns the Output that answers a pod: what the next step that looks at demand decides, or All if kube-scheduler has not looked at the pod
// yet.
func (a *Answers) For(p *model.Pod) *Output {
	if a.unseen == nil || a.unseen[p.UID] {
		return a.All()
	}
	return a.nextStep()
}

// nextStep returns what is decided on the pods that kube-scheduler has looked at.
func (a *Answers) nextStep() *Output {
	if a.next == nil {
		a.next = a.decide(a.again(false))
	}
	return a.next
}

// Decisions returns the decision on each pending pod, as For has it, by namespace and name.
func (a *Answers) Decisions() (out []plan.PodDecision) {
	if a.unseen == nil {
		return a.All().Pods
	}
	for _, of := range []*Output{a.All(), a.nextStep()} {
		for _, d := range of.Pods {
			if a.For(d.Pod) == of {
				out = append(out, d)
			}
		}
	}
	sortDecisions(out)
	return out
}

func (a *Answers) decide(st *step) *Output {
	*a.decided++
	out := whatIf(st)
	return &out
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
