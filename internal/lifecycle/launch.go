// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// launchInstance launches the instance of a NodeClaim, or deletes the NodeClaim if the last launch failed permanently or timed
// out. If the cloud lists an instance for the NodeClaim, or may have one since the last list, the launch is repeated, and the
// provider returns the existing instance. That completes the launch of a leader that died, or lost its lease, before it recorded
// the provider ID. A launch that a node group has accepted has the registration timeout instead. In a shortage of capacity, it
// first waits for other launches (Input.Awaits).
func launchInstance(in *Input, out *Output) {
	c := in.Claim
	if in.Barred.Why.Code != "" {
		waitForRest(in, out)
		return
	}
	if in.Now.Before(in.Awaits.Until) {
		out.hold(in, plan.Launching, in.Awaits.Until, plan.Reason{Code: plan.AwaitsLaunch, Subject: plan.ObjectOf("nodeclaim", in.Awaits.Claim), Detail: plan.OfAwaitsLaunch{Failed: in.Failure != nil}})
		out.lookAgainAt(in.Awaits.Until)
		return
	}
	if f := in.Failure; f != nil {
		switch f.Kind {
		case "InsufficientCapacity", "NodeClassNotReady", "NotFound", "NotReady":
			code := plan.InsufficientCap
			switch f.Kind {
			case "NotFound": // its machine was bought and is gone again
				code = plan.InstanceGone
			case "NodeClassNotReady", "NotReady":
				code = plan.NodeClassNotReady
			}
			out.addActions(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: code, Pool: c.Pool, Detail: plan.OfSaid{Said: plan.Words(f.Message)}}})
			return
		}
	}
	timeouts := in.Policy.WithTimeoutsOf(in.Pool, c)
	most := timeouts.LaunchTimeout
	if isComing(in) {
		most = timeouts.RegistrationTimeout
	}
	limit := withoutOutages(model.LaterOf(c.Created, in.Barred.Tried), most, in.Outages)
	rested := c.Conditions[Launched].Reason == string(plan.UnusedLaunches) // until now: it is tried once, however old it is
	if !in.Now.Before(limit) && !rested && !in.InstancesAt.Before(limit) && !isListed(in) {
		late := plan.OfTimeout{Within: most}
		if in.Failure != nil {
			late.Said = plan.Words(in.Failure.Message)
		}
		out.addActions(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: plan.LaunchTimeout, Pool: c.Pool, Detail: late}})
		return
	}
	if in.Now.Before(limit) {
		out.lookAgainAt(limit)
	}
	if f := in.Failure; f != nil {
		out.hold(in, plan.Launching, time.Time{}, plan.Reason{Code: plan.CallFailed, Subject: plan.ObjectOf("nodeclaim", c.Name), Detail: plan.OfCallFailed{Call: "launch", GivenUp: limit, Said: plan.Words(f.Message)}})
		have := c.Conditions[Launched]
		if have.Status != "Unknown" || have.Reason != "LaunchFailed" || have.Message != f.Message {
			out.addActions(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Conditions: map[string]model.Condition{
				Launched: {Status: "Unknown", Reason: "LaunchFailed", Message: f.Message}},
				Why: plan.Reason{Code: plan.Launching, Detail: plan.OfSaid{Said: plan.Words(f.Message)}}})
		}
	}
	out.addActions(plan.LaunchClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: plan.Launching, Pool: c.Pool}})
}

// waitForRest leaves a claim without an instance for now, and says so.
func waitForRest(in *Input, out *Output) {
	const again = time.Minute // what becomes of another launch is no matter of time
	until := in.Barred.Until
	out.hold(in, plan.Launching, until, in.Barred.Why)
	if until.IsZero() {
		until = in.Now.Add(again)
	}
	out.lookAgainAt(until)
	c, said := in.Claim, "no pod ran on the nodes of earlier NodeClaims created by "+in.Claim.Maker
	if !in.Barred.Until.IsZero() {
		said += "; its instance is not launched before " + in.Barred.Until.UTC().Format(time.RFC3339)
	}
	if have := c.Conditions[Launched]; have.Status != "Unknown" || have.Reason != string(plan.UnusedLaunches) || have.Message != said {
		out.addActions(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Conditions: map[string]model.Condition{Launched: {Status: "Unknown", Reason: string(plan.UnusedLaunches), Message: said}}, Why: in.Barred.Why})
	}
}

// isListed reports whether the cloud's last list has an instance of the claim that runs.
func isListed(in *Input) bool {
	return slices.ContainsFunc(in.Instances, func(i *model.Instance) bool { return !i.Gone && !i.Coming })
}

// isComing reports whether a node group was asked for the claim's instance, and none has come.
func isComing(in *Input) bool {
	return slices.ContainsFunc(in.Instances, func(i *model.Instance) bool { return i.Coming })
}

// withoutOutages returns when a time is over that begins at an instant and does not run while the cloud does not answer: what is to come can't come, or
// can't be seen. Of outages at most mostOutage counts.
func withoutOutages(begin time.Time, most time.Duration, outages []model.Outage) time.Time {
	end := begin.Add(most)
	last := end.Add(mostOutage)
	for _, o := range outages {
		if from := model.LaterOf(o.From, begin); from.Before(end) && o.To.After(from) {
			end = end.Add(o.To.Sub(from))
		}
	}
	if end.After(last) {
		return last
	}
	return end
}

// mostOutage is for how long outages of the cloud put off what a claim is given up for.
const mostOutage = time.Hour

// IsListComplete reports whether the cloud's list of instances from an instant, zero: there is none, contains the instance of a launched claim if
// that exists. The cloud lists an instance only some time after its launch.
func IsListComplete(c *model.Claim, listed time.Time, pol Policy) bool {
	return !listed.IsZero() && listed.After(c.Conditions[Launched].Since.Add(pol.ListDelay+wholeSecond))
}

// deleteIfInstanceGone deletes a claim whose instance the cloud no longer lists, unless its node is still Ready or the instance may be unreachable; and
// reports whether it did.
func deleteIfInstanceGone(in *Input, out *Output) bool {
	c := in.Claim
	if c.ProviderID == "" || !IsListComplete(c, in.InstancesAt, in.Policy) {
		return false
	}
	if isListed(in) || mayBeUnreachable(in) {
		return false
	}
	for _, n := range in.Nodes {
		if n.Ready {
			return false
		}
	}
	out.addActions(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: plan.InstanceGone, Pool: c.Pool, Subject: plan.ObjectOf("", c.ProviderID)}})
	return true
}

// mayBeUnreachable reports whether the cloud may leave the claim's instance out of its list though it runs: the cluster is shifted away from its zone,
// which is impaired, or it is not known yet whether it is. Such an instance has ended only if the list says so.
func mayBeUnreachable(in *Input) bool {
	return len(in.Instances) == 0 && (in.Shift != nil || in.ShiftsUnread)
}

// YieldsToShift reports whether a launched claim with a node, or without one yet, holds nothing for its pods while the cluster is shifted away from its
// zone, so that they get a node in another zone. It does until its node is initialized, and also after that while the node is still
// reserved, no pod has come, and it is not kept: no pod is being bound there, and its capacity has not been promised to a ProvisioningRequest. It also
// does not if somebody else has chosen the zone, of which more may come: a node group, or who launched the machine that it adopts.
func YieldsToShift(c *model.Claim, n *model.Node, kept bool) bool {
	if c.NodeGroup() != "" || c.Annotations[model.AnnotationAdopt] != "" {
		return false
	}
	if !c.Is(Initialized) {
		return true
	}
	return c.Reserved && n != nil && !kept && c.Annotations[model.AnnotationBooked] == "" && hasTaint(n.Taints, reservationTaint(c)) && !slices.ContainsFunc(n.Pods, (*model.Pod).IsWorkload)
}

// isYielding reports whether a claim holds nothing for its pods now because of a zonal shift. Its node stays reserved, so that no pod is bound there.
func isYielding(in *Input) bool {
	var n *model.Node
	if len(in.Nodes) == 1 {
		n = in.Nodes[0]
	}
	return in.Shift != nil && YieldsToShift(in.Claim, n, in.Binding || in.Promised)
}

// deleteIfShiftedAway deletes a claim of a NodePool whose node has not joined if the cluster is shifted away from its zone, and reports whether it did.
// A node that has registered stays.
func deleteIfShiftedAway(in *Input, out *Output) bool {
	c := in.Claim
	if in.Pool == nil || c.Is(Registered) || !isYielding(in) || len(in.Nodes) > 0 {
		return false
	}
	out.addActions(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: plan.ZonalShift, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name), Detail: plan.ShiftOf(in.Shift)}})
	return true
}

// awaitNode waits for the one node of a launched claim, and deletes the claim when that does not come, or a
// registered node has been gone for too long. Several nodes with its provider id are a condition of the claim, and
// none of them is taken.
func awaitNode(in *Input, out *Output) {
	c := in.Claim
	if c.Is(Registered) {
		if len(in.Nodes) == 0 {
			// It had one, and somebody took even its finalizer off: its pods are gone, and no kubelet makes it anew
			// as ours. The machine goes as it would have, had the node been deleted in the ordinary way. Not at once:
			// claims and nodes are read apart, and the node may only be late.
			if due := in.NodelessSince.Add(in.Policy.NodeGone); in.Now.Before(due) {
				out.hold(in, plan.Terminating, due, plan.Reason{Code: plan.NodeGone, Subject: plan.ObjectOf("node", c.NodeName)})
				out.lookAgainAt(due)
				return
			}
			out.addActions(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: plan.Deleted, Pool: c.Pool, Subject: plan.ObjectOf("node", c.NodeName)}})
		}
		return
	}
	timeouts := in.Policy.WithTimeoutsOf(in.Pool, c)
	most, limit := timeouts.RegistrationTimeout, registrationLimit(c, timeouts, in.Outages)
	if len(in.Nodes) == 0 { // the API server may have been away for as long, and the node register now
		limit = model.LaterOf(limit, in.NodelessSince.Add(in.Policy.NodeGone))
	}
	// A controller that started during an outage does not know since when it lasts.
	if in.InstancesAt.IsZero() {
		limit = model.LaterOf(limit, bootsSince(c).Add(most+mostOutage))
	}
	if !in.Now.Before(limit) {
		out.addActions(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{
			Code: plan.RegistrationTimeout, Pool: c.Pool, Subject: plan.ObjectOf("", c.ProviderID), Detail: plan.OfTimeout{Within: most}}})
		return
	}
	out.lookAgainAt(limit)
	want := model.Condition{Status: "Unknown", Reason: "NodeNotFound", Message: "the node has not registered yet"}
	if len(in.Nodes) > 1 {
		names := make([]string, len(in.Nodes))
		for i, n := range in.Nodes {
			names[i] = n.Name
		}
		slices.Sort(names)
		out.hold(in, plan.Registering, time.Time{}, plan.Reason{Code: plan.SeveralNodes, Subject: plan.ObjectOf("", c.ProviderID), Detail: plan.OfSeveralNodes{Nodes: plan.ListOf(names)}})
		want = model.Condition{Status: "False", Reason: "MultipleNodesFound", Message: "several nodes have provider ID " + c.ProviderID + ": " + strings.Join(names, ", ")}
	}
	if len(in.Nodes) == 0 {
		out.hold(in, plan.Registering, time.Time{}, plan.Reason{Code: plan.NodeMissing, Subject: plan.ObjectOf("", c.ProviderID), Detail: plan.OfNodeMissing{GivenUp: limit}})
	}
	if have := c.Conditions[Registered]; len(in.Nodes) > 1 && (have.Reason != want.Reason || have.Message != want.Message) {
		out.addActions(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Conditions: map[string]model.Condition{Registered: want},
			Why: plan.Reason{Code: plan.Registering, Detail: plan.OfRegistering{Said: plan.Words(want.Message)}}})
	}
}
