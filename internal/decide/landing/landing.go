// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package landing makes pods run on the nodes that were launched for them (contract 9): it binds the pods that Dovetail may bind,
// and adds a toleration of the node's reservation taint to the others.
//
// It never chooses a node: slots are assigned before. It reserves nothing: it only decides whether a NodeClaim can be reserved
// for its pods (ReservationRefusal), and which pods Dovetail binds (BindRefusal). Every function is pure.
//
// Invariants: a pod is bound only if its constraints concern no other node (verify.BindingCheck checks this independently), and
// only to a node that no pod without a slot can get meanwhile, or that has capacity for all of those pods (Contest).
//
// Start reading at AdmitPods.
package landing

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// taintCordoned is the taint of spec.unschedulable.
var taintCordoned = model.Taint{Key: "node.kubernetes.io/unschedulable", Effect: model.NoSchedule}

// In is the input of AdmitPods.
type In struct {
	Policy
	Reservations []*cluster.Reservation // by NodeClaim name
	Actions      []plan.Action          // actions that this step has planned
	Closed       Closed                 // the reservations whose nodes are closed
	SchedulerLag time.Duration          // see lifecycle.Policy
	BindingDelay time.Duration          // see lifecycle.Policy
}

// awaitedPod is a pod that has a slot on a reserved node and is not on it yet.
type awaitedPod struct {
	pod  *model.Pod
	held *cluster.Reservation
}

// AdmitPods brings pods with a slot onto their nodes, oldest first: it binds the pods that Dovetail may bind as soon as the node
// accepts them, and adds a toleration of the reservation to the others as soon as the node is launched, so that kube-scheduler can
// place them.
func AdmitPods(v *cluster.View, in In) (out plan.Part) {
	freed := freedClaims(in.Actions)
	var pods []awaitedPod
	for _, h := range in.Reservations {
		name := h.Claim.Name
		if !h.Claim.Reserved || h.Claim.UID == "" || !h.Claim.Is(lifecycle.Launched) || freed[name] {
			continue
		}
		if h.Node != nil && cluster.IsRegistered(h.Node) && !cluster.HasReservedTaint(h.Node, h.Claim) {
			continue // not reserved yet, or no more: kube-scheduler uses it too
		}
		for _, p := range h.Pods {
			if p.Node == "" && !p.Expected && !p.Placeholder {
				pods = append(pods, awaitedPod{p, h})
			}
		}
	}
	if len(pods) == 0 {
		return out
	}
	slices.SortStableFunc(pods, func(a, b awaitedPod) int { return model.ComparePodAge(a.pod, b.pod) })
	others, contests := findRivals(v), map[*cluster.Reservation]Contest{}
	for _, a := range pods {
		c := a.held.Claim
		contest, known := contests[a.held]
		if !known {
			var until time.Time
			contest, until = in.contestOf(a.held, others, v.Now)
			contests[a.held] = contest
			out.WakeAt(until)
		}
		switch {
		case in.BindRefusal(a.pod, v.Snapshot.ResourceNames).Code == "" && contest == Uncontested:
			if n := a.held.Node; n != nil && accepts(n, c, a.pod.Class) && !isChanging(v, n) {
				if from := in.bindableFrom(a.held, others, v.Now); v.Now.Before(from) {
					out.WakeAt(from)
					continue
				}
				out.Add(plan.Bind{Namespace: a.pod.Namespace, Pod: a.pod.Name, UID: a.pod.UID, Node: n.Name, Claim: c.Name,
					Why: plan.Reason{Code: plan.Demand, Pool: c.Pool, Subject: plan.ObjectOf("", c.Name)}})
			}
		case !a.pod.Unreservable && !slices.Contains(a.pod.Reservations, c.Name) && !a.held.SlotIsLoose(v.SlotKeyOf(a.pod)):
			out.Add(plan.Tolerate{Namespace: a.pod.Namespace, Pod: a.pod.Name, UID: a.pod.UID, Claim: c.Name,
				Why: plan.Reason{Code: plan.Demand, Pool: c.Pool, Subject: plan.ObjectOf("", c.Name)}})
		}
	}
	return out
}

// isChanging reports whether a write to a node is under way, or not shown yet: it may be the one that ends the node's reservation.
func isChanging(v *cluster.View, n *model.Node) bool {
	_, is := v.Snapshot.InFlight[plan.UpdateNode{UID: n.UID}.Key()]
	return is
}

// freedClaims returns the claims, by name, whose reservation these actions end: from then on kube-scheduler may use their nodes.
func freedClaims(actions []plan.Action) map[string]bool {
	freed := map[string]bool{}
	for _, a := range actions {
		if u, ok := a.(plan.UpdateNode); ok {
			for _, t := range u.RemoveTaints {
				freed[t.Value] = freed[t.Value] || t.Key == model.TaintReserved
			}
		}
	}
	return freed
}

// accepts reports whether a claim's node takes pods of a class now: it is Ready and ours, its start-up taints are
// gone, the class tolerates what else it bears, and the CSI drivers of the class's volumes have registered and labelled it as far as kube-scheduler
// requires. kube-controller-manager takes the taint not-ready off a moment
// after the node has become Ready; a pod that may run on a node with the NoExecute form of it need not wait for that.
func accepts(n *model.Node, c *model.Claim, class *model.Class) bool {
	if !n.Ready || !n.Deleting.IsZero() || !cluster.IsRegistered(n) {
		return false
	}
	early := model.Tolerated(model.Taint{Key: taintNotReady, Effect: model.NoExecute}, class.Tolerations)
	for _, t := range n.Taints {
		switch {
		case t.Effect == model.PreferNoSchedule, t.Key == model.TaintReserved && t.Value == c.Name:
		case t.Key == taintNotReady && early:
		case !model.Tolerated(t, class.Tolerations):
			return false
		}
	}
	unusable, _ := class.UnusableVolume(n)
	return unusable == nil
}
