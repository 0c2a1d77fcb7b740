// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package landing

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Contest is why only kube-scheduler binds pods to a reserved node: if Dovetail did too, both together could overfill it.
type Contest string

// taintUnregistered is on the node of a launched NodeClaim until the node is registered.
var taintUnregistered = model.Taint{Key: model.TaintUnregistered, Effect: model.NoExecute}

// The kinds of Contest.
const (
	Uncontested  Contest = ""
	ByTolerant   Contest = "tolerant"    // the reservation does not repel some pods
	ByUnseenBind Contest = "unseen bind" // kube-scheduler may have chosen the node for pods before it was reserved
)

// rivals are the pending pods that kube-scheduler may bind.
type rivals struct {
	classes  []*model.Class                // in the order of their first pods
	tolerant []*model.Class                // those that no reservation keeps off a node, or none that is written as a cordon
	early    []*model.Class                // those that a node is open to before it is registered
	pods     map[*model.Class][]*model.Pod // of these classes
	letIn    map[string][]*model.Pod       // by claim: pods that tolerate its reservation
}

func findRivals(v *cluster.View) *rivals {
	r := &rivals{pods: map[*model.Class][]*model.Pod{}, letIn: map[string][]*model.Pod{}}
	for _, p := range v.Snapshot.Pending {
		if p.Placeholder || p.Gated || !p.IsWorkload() {
			continue
		}
		if r.pods[p.Class] == nil {
			r.classes = append(r.classes, p.Class)
			if p.Class.ToleratesEverything() || model.Tolerated(taintCordoned, p.Class.Tolerations) {
				r.tolerant = append(r.tolerant, p.Class)
			}
			if model.Tolerated(taintUnregistered, p.Class.Tolerations) {
				r.early = append(r.early, p.Class)
			}
		}
		r.pods[p.Class] = append(r.pods[p.Class], p)
		for _, claim := range p.LetInBy() {
			r.letIn[claim] = append(r.letIn[claim], p)
		}
	}
	return r
}

// contest returns why all pods of a reservation are left to kube-scheduler. unseen are the classes to which the node was open a moment ago:
// kube-scheduler may have chosen it for pods without a slot there, which the API server does not show yet. These pods are counted in full: if they
// all fit in addition to the pods with slots, nothing is contested.
func (r *rivals) contest(h *cluster.Reservation, unseen []*model.Class) Contest {
	n := h.Node
	if n == nil {
		return Uncontested
	}
	free := n.Allocatable.Sub(n.Used)
	hasSlot := func(p *model.Pod) bool { return slices.Contains(h.Pods, p) }
	comes := func(p *model.Pod) bool { return p.Binding == "" && !hasSlot(p) }
	fits := func(c *model.Class) bool { return c.Requests.Fits(free) && c.AllowsStanding(n.Labels, n.Name) }
	if slices.ContainsFunc(r.letIn[h.Claim.Name], func(p *model.Pod) bool { return comes(p) && fits(p.Class) }) {
		return ByTolerant
	}
	for _, c := range r.tolerant {
		if fits(c) && slices.ContainsFunc(r.pods[c], comes) {
			return ByTolerant
		}
	}
	if len(unseen) == 0 {
		return Uncontested
	}
	taints, labels := whenOpen(n, h.Claim)
	left, others := free.Sub(h.Matched), model.Resources(nil)
	for _, c := range unseen {
		if !c.Requests.Fits(free) || model.Untolerated(taints, c.Tolerations) != nil || !c.AllowsStanding(n.Labels, n.Name) && !c.AllowsStanding(labels, n.Name) {
			continue
		}
		for _, p := range r.pods[c] {
			if hasSlot(p) {
				continue
			}
			if others = others.AddInto(c.Requests, 1); len(c.HostPorts) > 0 || !others.Fits(left) {
				return ByUnseenBind
			}
		}
	}
	return Uncontested
}

// whenOpen returns the taints and labels that a node is known to have had while it was open: those of the claim came with the reservation, unless the
// node had them before.
func whenOpen(n *model.Node, c *model.Claim) ([]model.Taint, model.Labels) {
	later := func(t model.Taint) bool {
		return t.Key == model.TaintReserved || t.Key == taintNotReady || slices.Contains(c.Taints, t) || slices.Contains(c.StartupTaints, t)
	}
	labels := maps.Clone(n.Labels)
	maps.DeleteFunc(labels, func(key, value string) bool { return c.Labels[key] == value })
	return slices.DeleteFunc(slices.Clone(n.Taints), later), labels
}

// bindableFrom returns the instant from which kube-scheduler knows that a reservation's node is closed, so that it chooses the node for no more
// pods; zero: it knows.
func (in *In) bindableFrom(h *cluster.Reservation, r *rivals, now time.Time) time.Time {
	x := in.Closed[h.Claim.Name]
	if from := x.all.knownFrom(in.SchedulerLag); !from.IsZero() {
		return from
	}
	from := x.early.knownFrom(in.SchedulerLag)
	if len(r.early) == 0 || !now.Before(from) {
		return time.Time{}
	}
	_, labels := whenOpen(h.Node, h.Claim)
	if slices.ContainsFunc(r.early, func(c *model.Class) bool {
		return c.AllowsStanding(h.Node.Labels, h.Node.Name) || c.AllowsStanding(labels, h.Node.Name)
	}) {
		return from
	}
	return time.Time{}
}

// contestOf returns the Contest of a reservation now, and when it may be another; zero: when something changes.
func (in *In) contestOf(h *cluster.Reservation, r *rivals, now time.Time) (_ Contest, until time.Time) {
	known, unseen := in.Closed[h.Claim.Name].all.knownFrom(in.SchedulerLag+in.BindingDelay), r.classes
	if !now.Before(known) {
		known, unseen = in.Closed[h.Claim.Name].early.knownFrom(in.SchedulerLag+in.BindingDelay), r.early
	}
	if !now.Before(known) {
		unseen = nil
	}
	why := r.contest(h, unseen)
	if why == ByUnseenBind {
		return why, known
	}
	return why, time.Time{}
}

// NewHolds returns a function that reports whether a reserved node is kept for the pods with slots there: kube-scheduler no longer
// selects it for other pods, and pods for which it may have selected it before are bound or fit in addition. The function also
// returns when the result may change; zero: on the next change. It reads the pending pods once, on its first use.
func NewHolds(v *cluster.View, in In) func(*cluster.Reservation) (holds bool, until time.Time) {
	var others *rivals
	return func(h *cluster.Reservation) (bool, time.Time) {
		if !h.Claim.Reserved || h.Node == nil || !cluster.HasReservedTaint(h.Node, h.Claim) {
			return false, time.Time{}
		}
		if others == nil {
			others = findRivals(v)
		}
		if from := in.bindableFrom(h, others, v.Now); v.Now.Before(from) {
			return false, from
		}
		why, until := in.contestOf(h, others, v.Now)
		return why != ByUnseenBind, until
	}
}

// ContestOf returns why all pods of a reservation are currently left to kube-scheduler.
func ContestOf(v *cluster.View, in In, h *cluster.Reservation) Contest {
	why, _ := in.contestOf(h, findRivals(v), v.Now)
	return why
}
