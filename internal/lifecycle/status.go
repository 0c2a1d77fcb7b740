// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// updateConditions writes what has come true of a registered node into the claim's status.
func updateConditions(in *Input, n *model.Node, ready bool, why model.Condition, out *Output) {
	c := in.Claim
	u := plan.UpdateClaim{Claim: c.Name, UID: c.UID, Conditions: map[string]model.Condition{}}
	if !c.Is(Registered) || c.NodeName != n.Name {
		u.NodeName = n.Name
		u.Conditions[Registered] = model.Condition{Status: "True", Reason: Registered}
		u.Why = plan.Reason{Code: plan.Registering, Pool: c.Pool}
	}
	switch {
	case ready && !c.Is(Initialized):
		u.Conditions[Initialized] = model.Condition{Status: "True", Reason: Initialized}
		u.Capacity, u.Allocatable = n.Capacity, n.Allocatable
		u.Why = plan.Reason{Code: plan.Initializing, Pool: c.Pool}
	case !ready && !c.Is(Initialized):
		have := c.Conditions[Initialized]
		if have.Reason != why.Reason && why.Reason != "NodeNotReady" {
			u.Conditions[Initialized] = why
			u.Why = plan.Reason{Code: plan.Initializing, Pool: c.Pool, Detail: plan.OfInitializing{Said: plan.Words(why.Message)}}
		}
	}
	checkConsistency(in, n, &u)
	updatePodEvents(in, n, &u, out)
	if len(u.Conditions) > 0 || !u.LastPodEvent.IsZero() {
		out.addActions(u)
	}
}

// checkConsistency compares a node with the instance type that was bought: of each resource that the claim requests
// it must have at least nine tenths.
func checkConsistency(in *Input, n *model.Node, u *plan.UpdateClaim) {
	c := in.Claim
	if in.Type == nil || !c.Is(Initialized) && u.Conditions[Initialized].Status != "True" {
		return
	}
	want := model.Condition{Status: "True", Reason: Consistent}
	for d := range c.Requests {
		if bought, have := in.Type.Capacity.At(model.Dim(d)), n.Capacity.At(model.Dim(d)); c.Requests[d] > 0 && have < bought/10*9 {
			want = model.Condition{Status: "False", Reason: "ConsistencyCheckFailed", Message: "node " + n.Name + " has " + model.ShortAmount(model.Dim(d), have, 1) +
				" " + resourceName(model.Dim(d)) + ", instance type " + in.Type.Name + " should have " + model.ShortAmount(model.Dim(d), bought, 1)}
			break
		}
	}
	if have := c.Conditions[Consistent]; have.Status == want.Status && have.Message == want.Message {
		return
	}
	u.Conditions[Consistent] = want
	if u.Why.Code == "" {
		u.Why = plan.Reason{Code: plan.Initializing, Pool: c.Pool, Detail: plan.OfInitializing{Field: Consistent, Said: plan.Words(want.Message)}}
	}
}

// resourceName is how a message names a resource. Extended resources are not known by name here.
func resourceName(d model.Dim) string {
	if names := model.FixedNames(); int(d) < len(names) {
		return names[d]
	}
	return "an extended resource"
}

// updatePodEvents keeps status.lastPodEventTime, from which consolidateAfter counts, and the condition Consolidatable.
func updatePodEvents(in *Input, n *model.Node, u *plan.UpdateClaim, out *Output) {
	c := in.Claim
	if in.Pool == nil || in.Pool.ConsolidateAfter < 0 || !c.Is(Initialized) {
		return
	}
	if n.LastPodEvent.Sub(model.LaterOf(c.LastPodEvent, c.Conditions[Initialized].Since)) >= in.Policy.EventDedup {
		u.LastPodEvent = n.LastPodEvent
		if u.Why.Code == "" {
			u.Why = plan.Reason{Code: plan.Initializing, Pool: c.Pool, Detail: plan.OfInitializing{Field: "lastPodEventTime"}}
		}
	}
	at := QuietSince(c, n).Add(in.Pool.ConsolidateAfter)
	switch is := c.Is(Consolidable); {
	case is && in.Now.Before(at):
		u.Conditions[Consolidable] = model.Condition{Status: "False", Reason: "PodEvent", Message: "pods were added or removed within consolidateAfter"}
	case !is && !in.Now.Before(at):
		u.Conditions[Consolidable] = model.Condition{Status: "True", Reason: Consolidable}
	case !is:
		out.lookAgainAt(at)
		return
	default:
		return
	}
	if u.Why.Code == "" {
		u.Why = plan.Reason{Code: plan.Initializing, Pool: c.Pool, Detail: plan.OfInitializing{Field: Consolidable}}
	}
}

// QuietSince returns the time from which consolidateAfter counts: the later of the initialization and the last addition or
// removal of a pod.
func QuietSince(c *model.Claim, n *model.Node) time.Time {
	t := c.Conditions[Initialized].Since
	for _, o := range []time.Time{c.LastPodEvent, n.LastPodEvent} {
		if o.After(t) {
			t = o
		}
	}
	return t
}
