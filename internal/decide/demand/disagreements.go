// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demand

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Disagreements are nodes that pass all checks for a pod, but that kube-scheduler or verify rejected.
type Disagreements struct {
	*cluster.View
	after, retry time.Duration
	mem          DisagreementMemory
}

// DisagreementMemory is the state that Disagreements keeps between steps.
type DisagreementMemory struct {
	byPod map[string]disagreement // by pod uid
}

// NewDisagreements returns Disagreements with their memory. A pod that fits an existing node and is still pending after the
// duration after is a disagreement. The node is tried again after retry.
func NewDisagreements(v *cluster.View, after, retry time.Duration, mem DisagreementMemory) *Disagreements {
	return &Disagreements{View: v, after: after, retry: retry, mem: mem}
}

// Result returns the state to keep for the next step.
func (sd *Disagreements) Result() DisagreementMemory { return sd.mem }

// CloseNode closes a node, by name, to a pod, by UID, because verify rejected the binding for this reason.
func (sd *Disagreements) CloseNode(pod, node string, why plan.Reason) {
	m := sd.mem.byPod[pod]
	if m.since.IsZero() {
		m.since = sd.Now
	}
	m.nodes, m.why = append(slices.Clip(m.nodes), node), why
	next := maps.Clone(sd.mem.byPod)
	if next == nil {
		next = map[string]disagreement{}
	}
	next[pod] = m
	sd.mem.byPod = next
}

// IsBarred reports whether a node is closed to a pod, because kube-scheduler did not use it or verify rejected the binding.
func (sd *Disagreements) IsBarred(p *model.Pod, n *model.Node) bool {
	return n != nil && slices.Contains(sd.mem.byPod[p.UID].nodes, n.Name)
}

// disagreement is what is remembered of one pod.
type disagreement struct {
	nodes []string
	since time.Time   // of the first
	why   plan.Reason // what verify had against the last one; an empty code: it was kube-scheduler
}

// maxDisagreements is how many standing nodes kube-scheduler may leave unused for a pod before it is given up on
// without a purchase.
const maxDisagreements = 6

// maxRefusedBindings is the same for nodes that verify is against: each was launched for the pod, or for a command that moves it.
const maxRefusedBindings = 2

// FindRefused finds existing nodes that kube-scheduler has not used for a pod although it passes all checks, and refuses a pod
// after maxDisagreements of them. It returns the remaining demand, the names of the nodes, which are closed to the pod, and the
// refused pods. expected are the existing nodes on which pods were expected after the last step, by pod UID. The state of undecided
// pods is kept.
func (sd *Disagreements) FindRefused(left, undecided []*model.Pod, expected map[string]Placement) (kept []*model.Pod, closed map[string]bool, refused []plan.PodDecision) {
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
		if was, ok := expected[p.UID]; ok && p.Node == "" && !p.Placeholder && !p.Unschedulable.IsZero() && !sd.Now.Before(was.Since.Add(sd.after)) && !slices.Contains(m.nodes, was.Node) {
			m.nodes = append(m.nodes[:len(m.nodes):len(m.nodes)], was.Node)
			if m.since.IsZero() {
				m.since = sd.Now
			}
		}
		seen := m.nodes
		if len(seen) > 0 {
			mismatches[p.UID] = m
		}
		if why, given := sd.refusal(m); given {
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

// of returns what is remembered of a pod; zero where there is nothing, or the nodes are tried again by now.
func (sd *Disagreements) of(p *model.Pod) disagreement {
	m := sd.mem.byPod[p.UID]
	if !m.since.IsZero() && !sd.Now.Before(m.since.Add(sd.retry)) {
		return disagreement{}
	}
	return m
}

// refusal returns why nothing more is launched for a pod, by what is remembered of it; false: something may be.
func (sd *Disagreements) refusal(m disagreement) (plan.Reason, bool) {
	switch {
	case m.why.Code != "" && len(m.nodes) >= maxRefusedBindings:
		return m.why, true
	case len(m.nodes) < maxDisagreements:
		return plan.Reason{}, false
	}
	return plan.Reason{Code: plan.Mismatch, Detail: plan.OfMismatch{Node: m.nodes[len(m.nodes)-1], Twice: true}}, true
}

// WhyRefused returns why nothing more is launched for a pod, and until when; refused is false if a launch is allowed.
func (sd *Disagreements) WhyRefused(p *model.Pod) (why plan.Reason, until time.Time, refused bool) {
	m := sd.of(p)
	why, refused = sd.refusal(m)
	return why, m.since.Add(sd.retry), refused
}

// HasLeftNodes reports whether existing nodes are closed to a pod.
func (sd *Disagreements) HasLeftNodes(p *model.Pod) bool { return len(sd.of(p).nodes) > 0 }

// WhyNotBound returns why verify rejected the last binding of a pod; an empty code: it was not rejected.
func (sd *Disagreements) WhyNotBound(p *model.Pod) plan.Reason {
	return sd.mem.byPod[p.UID].why
}

// Placement is the existing node on which a pod is expected, and since when.
type Placement struct {
	Node  string
	Since time.Time
	Ends  time.Time // when the terminating pods whose capacity it waits for end; zero: the capacity is free
}
