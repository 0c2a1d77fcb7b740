// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// releaseReservation takes the reserved taint off a node when its pods are bound or their time is up. Bound pods are
// given Policy.SchedulerLag first: if kube-scheduler saw the node without the taint before it saw them there, it would
// fill the capacity that they take with others, which the kubelet then rejects.
func releaseReservation(in *Input, n *model.Node, ready bool, u *plan.UpdateNode, out *Output) {
	c := in.Claim
	t := model.Taint{Key: model.TaintReserved, Value: c.Name, Effect: model.NoSchedule}
	if !hasTaint(n.Taints, t) {
		return
	}
	if in.Awaited <= 0 {
		if p := lastBound(n); p != nil {
			if known := BindingKnown(p, in.Policy); in.Now.Before(known) {
				out.lookAgainAt(known)
				return
			}
		}
		u.RemoveTaints = append(u.RemoveTaints, t)
		u.Why = plan.Reason{Code: plan.Landed, Pool: c.Pool}
		return
	}
	awaits := plan.Reason{Code: plan.AwaitsPods, Subject: "node/" + n.Name, Have: strconv.Itoa(in.Awaited)}
	if !ready || !c.Is(Initialized) {
		out.hold(in, plan.Landed, time.Time{}, awaits)
		return // the time-out starts when nothing else keeps the pods out
	}
	since := c.Conditions[Initialized].Since
	if in.Landed.After(since) {
		since = in.Landed
	}
	limit := since.Add(in.Policy.LandingTimeout)
	if in.Coming {
		out.hold(in, plan.Landed, time.Time{}, awaits)
		return
	}
	if in.Now.Before(limit) {
		out.hold(in, plan.Landed, limit, awaits)
		out.lookAgainAt(limit)
		return
	}
	u.RemoveTaints = append(u.RemoveTaints, t)
	u.Why = plan.Reason{Code: plan.LandingTimeout, Pool: c.Pool, Want: in.Policy.LandingTimeout.String()}
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

// BindingKnown returns the instant from which on kube-scheduler knows that a pod is bound, whatever it has seen of nodes.
func BindingKnown(p *model.Pod, policy Policy) time.Time {
	return p.Bound.Add(policy.SchedulerLag + wholeSecond)
}

// LabelsWithoutReservation returns what the labels of a claim and its node are to say, once the capacity reservation
// that the instance was launched into has ended and they do not say so yet; nil: nothing.
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
		why := plan.Reason{Code: plan.ReservationEnded, Pool: c.Pool, Subject: "nodeclaim/" + c.Name, Want: now[model.LabelCapacityType], Have: model.Reserved}
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
