// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// taintNotReady is the key of the taints that kube-controller-manager keeps on a node until it has seen that it is
// Ready.
const taintNotReady = "node.kubernetes.io/not-ready"

// taintCordoned is the taint of spec.unschedulable.
var taintCordoned = model.Taint{Key: "node.kubernetes.io/unschedulable", Effect: model.NoSchedule}

// podBinding brings pods that have a slot to their nodes.
type podBinding struct {
	*draft
	reservations *reservations
	slots        *slotAssignment
}

// awaitedPod is a pod that has a slot on a reserved node and is not on it yet.
type awaitedPod struct {
	pod  *model.Pod
	held *cluster.Reservation
}

// admitPods lets the pods that have a slot come to their nodes, the oldest first: it binds those that may be bound by
// us as soon as the node can take them, and gives the others a toleration of the reservation as soon as the node is
// bought, so that kube-scheduler can place them.
func (pb *podBinding) admitPods() {
	freed := map[string]bool{} // claims whose reservation this step ends: from then on kube-scheduler may use their nodes
	for _, a := range pb.out.Actions {
		if u, ok := a.(plan.UpdateNode); ok {
			for _, t := range u.RemoveTaints {
				freed[t.Value] = freed[t.Value] || t.Key == model.TaintReserved
			}
		}
	}
	var pods []awaitedPod
	for _, name := range slices.Sorted(maps.Keys(pb.reservations.byClaim)) {
		h := pb.reservations.byClaim[name]
		if !h.Claim.Reserved || h.Claim.UID == "" || !h.Claim.Is(lifecycle.Launched) || freed[name] {
			continue
		}
		if h.Node != nil && cluster.IsRegistered(h.Node) && !cluster.HasReservedTaint(h.Node, h.Claim) {
			continue // not reserved yet, or no more: kube-scheduler uses it too
		}
		for _, p := range h.Pods {
			if p.Node == "" && !p.Expected {
				pods = append(pods, awaitedPod{p, h})
			}
		}
	}
	slices.SortStableFunc(pods, func(a, b awaitedPod) int { return model.ComparePodAge(a.pod, b.pod) })
	intruders := pb.unreservedTolerantClasses(len(pods) > 0)
	for _, a := range pods {
		c := a.held.Claim
		switch {
		case pb.bindRefusal(a.pod).Code == "" && !a.held.IsContested(intruders):
			if n := a.held.Node; n != nil && pb.nodeAcceptsClass(n, c, a.pod.Class) {
				pb.addAction(plan.Bind{Namespace: a.pod.Namespace, Pod: a.pod.Name, UID: a.pod.UID, Node: n.Name, Claim: c.Name,
					Why: plan.Reason{Code: plan.Demand, Pool: c.Pool, Subject: plan.ObjectOf("", c.Name)}})
			}
		case !a.pod.Unreservable && !slices.Contains(a.pod.Reservations, c.Name) && !a.held.SlotIsLoose(pb.SlotKeyOf(a.pod)):
			pb.addAction(plan.Tolerate{Namespace: a.pod.Namespace, Pod: a.pod.Name, UID: a.pod.UID, Claim: c.Name,
				Why: plan.Reason{Code: plan.Demand, Pool: c.Pool, Subject: plan.ObjectOf("", c.Name)}})
		}
	}
}

// nodeAcceptsClass reports whether a claim's node takes pods of a class now: it is Ready and ours, its start-up taints are
// gone, and the class tolerates what else it bears. kube-controller-manager takes the taint not-ready off a moment
// after the node has become Ready; a pod that may run on a node with the NoExecute form of it need not wait for that.
func (pb *podBinding) nodeAcceptsClass(n *model.Node, c *model.Claim, class *model.Class) bool {
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
	return true
}

// unreservedTolerantClasses are the classes of pending pods without a slot that tolerate every taint, or cordons: no reservation
// keeps them off a node, or none that is written as a cordon.
func (pb *podBinding) unreservedTolerantClasses(asked bool) (out []*model.Class) {
	if !asked {
		return nil
	}
	for _, p := range pb.Snapshot.Pending {
		if !pb.slots.covered[p.UID] && IsForScheduler(p) && (p.Class.ToleratesEverything() || model.Tolerated(taintCordoned, p.Class.Tolerations)) && !slices.Contains(out, p.Class) {
			out = append(out, p.Class)
		}
	}
	return out
}

// RefusedBinding is a binding that verify is against.
type RefusedBinding struct {
	Pod  string // uid
	Key  string // namespace/name
	Node string
	Why  plan.Reason
}

// KeepsSlot reports whether the pod keeps its slot and is tried again: what is against it passes when others like it have
// come to their nodes.
func (r RefusedBinding) KeepsSlot() bool {
	return plan.DetailOf[plan.OfBindingUnfit](r.Why).Filter == plan.FilterSpread
}
