// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// hold adds a hold where holds are asked for.
func (o *Output) hold(in *Input, of plan.Code, until time.Time, why plan.Reason) {
	if in.Explain {
		why.Pool = in.Claim.Pool
		o.Holds = append(o.Holds, Hold{Of: of, Why: why, Until: until})
	}
}

// Stage returns the current step of a NodeClaim and when it began. For an initialized NodeClaim, it is Initializing or
// Rebooting.
func Stage(c *model.Claim) (plan.Code, time.Time) {
	switch {
	case c.Is(Terminating) && !c.Deleting.IsZero():
		return plan.Terminating, c.Conditions[Terminating].Since
	case c.Is(Drained) && !c.Deleting.IsZero():
		return plan.Terminating, c.Conditions[Drained].Since
	case !c.Deleting.IsZero():
		return plan.Draining, c.Deleting
	case !c.Is(Launched):
		return plan.Launching, c.Created
	case !c.Is(Registered):
		return plan.Registering, c.Conditions[Launched].Since
	case IsRebooting(c):
		return plan.Rebooting, c.Conditions[Rebooting].Since
	}
	return plan.Initializing, c.Conditions[Registered].Since
}

// holdInitialization adds what an uninitialized node waits for.
func holdInitialization(in *Input, n *model.Node, out *Output) {
	if !in.Explain || n.Labels[model.LabelInitialized] == trueValue {
		return
	}
	node := plan.ObjectOf("node", n.Name)
	if !n.Ready {
		said := n.Conditions["Ready"]
		out.hold(in, plan.Initializing, time.Time{}, plan.Reason{Code: plan.NodeNotReady, Subject: node, Detail: plan.OfNodeNotReady{Said: plan.Words(strings.Trim(said.Reason+": "+said.Message, ": "))}})
	}
	for _, t := range n.Taints {
		switch {
		case isStartupTaint(in.Claim, t):
			out.hold(in, plan.Initializing, time.Time{}, plan.Reason{Code: plan.StartupTaints, Subject: node, Detail: plan.NodeTaintOf(t)})
		case IsEphemeral(t) && t.Key != model.TaintUnregistered && n.Ready:
			out.hold(in, plan.Initializing, time.Time{}, plan.Reason{Code: plan.EphemeralTaint, Subject: node, Detail: plan.NodeTaintOf(t)})
		}
	}
	if d, missing := missingResource(in.Claim, n); missing && n.Ready {
		out.hold(in, plan.Initializing, time.Time{}, plan.Reason{Code: plan.ResourceMissing, Subject: node,
			Detail: plan.OfResourceMissing{Resource: plan.ResourceName(in.resourceName(d)), Need: plan.Amount(in.Claim.Requests[d])}})
	}
}

// holdPod adds what a pod waits for that is on a node being drained and has not been asked to go: pods before it.
func (o *Output) holdPod(in *Input, p *model.Pod, before int) {
	o.hold(in, plan.Draining, time.Time{}, plan.Reason{Code: plan.EvictedLater, Subject: plan.ObjectOf("pod", p.Key()), Detail: plan.OfPods{Count: before}})
}

// holdTerminating adds a pod that is ending. A node is not held by one for longer than until.
func (o *Output) holdTerminating(in *Input, p *model.Pod, until time.Time) {
	o.hold(in, plan.Draining, until, plan.Reason{Code: plan.PodTerminating, Subject: plan.ObjectOf("pod", p.Key()), Detail: plan.OfPodTerminating{Finalizers: plan.ListOf(p.Finalizers), End: p.Deleting}})
}
