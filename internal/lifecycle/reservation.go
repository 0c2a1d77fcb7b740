// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// reservationTaint returns the taint that reserves a claim's node.
func reservationTaint(c *model.Claim) model.Taint {
	return model.Taint{Key: model.TaintReserved, Value: c.Name, Effect: model.NoSchedule}
}

// isCordoned reports whether somebody has cordoned a node. A reservation that is written as a cordon is none: see model.Node.
func isCordoned(n *model.Node) bool {
	return hasTaint(n.Taints, model.Taint{Key: taintUnschedulable, Effect: model.NoSchedule})
}

// advanceReservation takes a node through its reservation. First come the pods of DaemonSets, and the pods that we bind; while the
// DaemonSet controller would make no pod for a node with the reservation's taint, the node is reserved by a cordon, which all pods of
// DaemonSets tolerate. Then come the pods that kube-scheduler binds, which tolerate the taint. When all are there, or their time is up,
// the reservation ends.
func advanceReservation(in *Input, n *model.Node, ready bool, u *plan.UpdateNode, out *Output) {
	t := reservationTaint(in.Claim)
	if !hasTaint(n.Taints, t) || isYielding(in) {
		return
	}
	usable := ready && in.Claim.Is(Initialized) // else something else keeps pods out, and no time runs
	daemons := in.Daemons.Pods > 0 && awaitsArrival(in, usable, false, in.Daemons.Since, plan.Reason{Code: plan.DaemonSets, Subject: plan.ObjectOf("node", n.Name), Detail: plan.OfPods{Count: in.Daemons.Pods}}, out)
	pods := in.Awaited > 0 && awaitsArrival(in, usable, in.Coming, in.Landed, plan.Reason{Code: plan.AwaitsPods, Subject: plan.ObjectOf("node", n.Name), Detail: plan.OfPods{Count: in.Awaited}}, out)
	if !daemons && !pods {
		endReservation(in, n, t, u, out)
		return
	}
	if only := daemons && in.Daemons.KeptOff; only != n.DaemonsOnly && !(only && isCordoned(n)) {
		u.AddTaints, u.DaemonsOnly = append(u.AddTaints, t), only
		u.Why = plan.Reason{Code: plan.DaemonSets, Pool: in.Claim.Pool, Detail: plan.OfPods{Count: in.Daemons.Pods}}
	}
}

// awaitsArrival reports whether a node still waits for pods: they are sure to come, or their time is not up, which runs once the node
// is usable and begins anew when some of them land.
func awaitsArrival(in *Input, usable, coming bool, landed time.Time, why plan.Reason, out *Output) bool {
	if !usable || coming {
		out.hold(in, plan.Landed, time.Time{}, why)
		return true
	}
	since := in.Claim.Conditions[Initialized].Since
	if landed.After(since) {
		since = landed
	}
	limit := since.Add(in.Policy.LandingTimeout)
	if in.Now.Before(limit) {
		out.hold(in, plan.Landed, limit, why)
		out.lookAgainAt(limit)
		return true
	}
	return false
}

// endReservation opens a node to all pods, once no pod is being bound there. Bound pods are given Policy.SchedulerLag first: if kube-scheduler saw the node open before
// it saw them there, it would fill the capacity that they take with others, which the kubelet then rejects.
func endReservation(in *Input, n *model.Node, t model.Taint, u *plan.UpdateNode, out *Output) {
	if in.Binding {
		out.lookAgainAt(in.Now.Add(in.Policy.SchedulerLag))
		return
	}
	if p := lastBound(n); p != nil {
		if known := BindingKnown(p, in.Policy); in.Now.Before(known) {
			out.lookAgainAt(known)
			return
		}
	}
	why := plan.Reason{Code: plan.Landed, Pool: in.Claim.Pool}
	if in.Awaited > 0 {
		why.Code, why.Detail = plan.LandingTimeout, plan.OfTimeout{Within: in.Policy.LandingTimeout}
	}
	u.RemoveTaints, u.Why = append(u.RemoveTaints, t), why
}

// lastBound returns the pod that was bound last of a node's pods that may have been bound by us; nil: there is none.
func lastBound(n *model.Node) (last *model.Pod) {
	for _, p := range n.Pods {
		if p.IsWorkload() && !p.Bound.IsZero() && (last == nil || p.Bound.After(last.Bound)) {
			last = p
		}
	}
	return last
}

// BindingKnown returns the time from which kube-scheduler certainly knows that a pod is bound.
func BindingKnown(p *model.Pod, policy Policy) time.Time {
	return p.Bound.Add(policy.SchedulerLag + wholeSecond)
}

// LabelsWithoutReservation returns the labels to change on a NodeClaim and its node because the instance's capacity
// reservation has ended; nil: none.
func LabelsWithoutReservation(c *model.Claim, n *model.Node, i *model.Instance) model.Labels {
	if i.Unreserved == nil || i.Gone || i.ProviderID == "" || i.ProviderID != c.ProviderID || !c.Deleting.IsZero() {
		return nil
	}
	if c.Labels[model.LabelCapacityType] == model.Reserved || n.Labels[model.LabelCapacityType] == model.Reserved {
		return i.Unreserved
	}
	return nil
}

// applyEndedReservation writes into claim and node what they are once their capacity reservation has ended: capacity
// that is paid for like any other.
func applyEndedReservation(in *Input, n *model.Node, out *Output) {
	c := in.Claim
	if n.Labels[model.LabelRegistered] != trueValue {
		return // it is given its claim's labels first
	}
	for _, i := range in.Instances {
		now := LabelsWithoutReservation(c, n, i)
		if now == nil {
			continue
		}
		why := plan.Reason{Code: plan.ReservationEnded, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name), Detail: plan.OfReservationEnded{CapacityType: now[model.LabelCapacityType]}}
		differs := func(have model.Labels) map[string]string {
			change := map[string]string{}
			for k, v := range now {
				switch h, ok := have[k]; {
				case v == "" && ok: // see model.Instance
					change[k] = plan.Unset
				case v != "" && h != v:
					change[k] = v
				}
			}
			return change
		}
		if c.Labels[model.LabelCapacityType] == model.Reserved {
			out.addActions(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Labels: differs(c.Labels), Why: why})
		}
		if n.Labels[model.LabelCapacityType] == model.Reserved {
			out.addActions(plan.UpdateNode{Node: n.Name, UID: n.UID, Labels: differs(n.Labels), Why: why})
		}
		return
	}
}
