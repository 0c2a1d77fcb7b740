// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// schedulerDisagreements are nodes that hold a pod by every check made here and that kube-scheduler, or verify, has not
// let it go to.
type schedulerDisagreements struct {
	*draft
	mem        *disagreementMemory
	placements *placements
}

// disagreementMemory is what schedulerDisagreements remembers from step to step.
type disagreementMemory struct {
	byPod map[string]disagreement // by pod uid
}

// closeRefusedBindings notes the bindings that verify refused: their nodes are closed to those pods, which are decided
// on again.
func (sd *schedulerDisagreements) closeRefusedBindings() {
	refused := sd.req.NotBound
	if len(refused) == 0 {
		return
	}
	next := make(map[string]disagreement, len(sd.mem.byPod)+len(refused))
	for uid, m := range sd.mem.byPod {
		next[uid] = m
	}
	for _, r := range refused {
		m := next[r.Pod]
		if m.since.IsZero() {
			m.since = sd.Now
		}
		m.nodes, m.why = append(slices.Clip(m.nodes), r.Node), r.Why
		next[r.Pod] = m
	}
	sd.mem.byPod = next
}

// isBarred reports whether a pod may not go to a node: kube-scheduler would not use it for the pod, or verify is against
// binding it there.
func (sd *schedulerDisagreements) isBarred(p *model.Pod, n *model.Node) bool {
	return n != nil && slices.Contains(sd.mem.byPod[p.UID].nodes, n.Name)
}

type disagreement struct {
	nodes []string
	since time.Time   // of the first
	why   plan.Reason // what verify had against the last one; an empty code: it was kube-scheduler
}

// maxDisagreements is how many standing nodes kube-scheduler may leave unused for a pod before it is given up on
// without a purchase.
const maxDisagreements = 6

// findRefused finds standing nodes that kube-scheduler has not used for a pod although it fits by every check here, and
// refuses a pod after maxDisagreements of them. It returns the demand that is left, the names of the nodes, which are
// closed to it, and the refused pods. What is known of pods that are not decided on stays known.
func (sd *schedulerDisagreements) findRefused(left, undecided []*model.Pod) (kept []*model.Pod, closed map[string]bool, refused []plan.PodDecision) {
	mismatches := map[string]disagreement{}
	for _, p := range undecided {
		if m := sd.of(p); len(m.nodes) > 0 {
			mismatches[p.UID] = m
		}
	}
	kept = left[:0:0]
	for _, p := range left {
		m := sd.of(p)
		// A pod that kube-scheduler has not looked at yet has not been refused: the scheduler is behind, not of another
		// opinion.
		if was, ok := sd.placements.mem.byPod[p.UID]; ok && p.Node == "" && !p.Unschedulable.IsZero() && !sd.Now.Before(was.since.Add(sd.pol.DisagreementAfter)) && !slices.Contains(m.nodes, was.node) {
			m.nodes = append(m.nodes[:len(m.nodes):len(m.nodes)], was.node)
			if m.since.IsZero() {
				m.since = sd.Now
			}
		}
		seen := m.nodes
		if len(seen) > 0 {
			mismatches[p.UID] = m
		}
		if why, given := sd.refusal(p, m); given {
			refused = append(refused, plan.PodDecision{Pod: p, Outcome: plan.Refused, Reasons: []plan.Reason{why}})
			continue
		}
		kept = append(kept, p)
	}
	closed = map[string]bool{}
	for _, p := range kept {
		for _, name := range mismatches[p.UID].nodes {
			closed[name] = true
		}
	}
	sd.mem.byPod = mismatches
	return kept, closed, refused
}

// of returns what is remembered of a pod; zero where there is nothing, or it is older than Policy.DisagreementRetry.
func (sd *schedulerDisagreements) of(p *model.Pod) disagreement {
	m := sd.mem.byPod[p.UID]
	if !m.since.IsZero() && !sd.Now.Before(m.since.Add(sd.pol.DisagreementRetry)) {
		return disagreement{}
	}
	return m
}

// refusal says why nothing more is bought for a pod, if that is so.
func (sd *schedulerDisagreements) refusal(p *model.Pod, m disagreement) (plan.Reason, bool) {
	if len(m.nodes) == 0 || len(m.nodes) < maxDisagreements {
		return plan.Reason{}, false
	}
	if m.why.Code != "" {
		return m.why, true
	}
	return plan.Reason{Code: plan.Mismatch, Detail: plan.OfMismatch{Node: m.nodes[len(m.nodes)-1], Twice: true}}, true
}

// hasLeftNodes reports whether standing nodes are closed to a pod, because kube-scheduler has not used them for it or verify is
// against binding it there.
func (sd *schedulerDisagreements) hasLeftNodes(p *model.Pod) bool { return len(sd.of(p).nodes) > 0 }

// whyNotBound returns why verify is against binding a pod to the last node that it was to be bound to; an empty code: it is not.
func (sd *schedulerDisagreements) whyNotBound(p *model.Pod) plan.Reason {
	return sd.mem.byPod[p.UID].why
}
