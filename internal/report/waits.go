// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// underWay says what is under way with an object and since when, and that nothing is known to hold it up where that is so.
func underWay(a *Why) string {
	if a.Step == nil {
		if kind, _, _ := strings.Cut(a.Subject, "/"); len(a.Findings) == 0 && (kind == "pod" || kind == "deployment") {
			return "Nothing is to be done for it, and nothing keeps it where it is."
		}
		return ""
	}
	s := stepText(a.Step)
	if s == "" {
		return ""
	}
	switch ends := a.Step.Since; {
	case a.Step.Of == plan.PodTerminating && ends.After(a.At):
		s += "; its grace period ends at " + instant(ends)
	case a.Step.Of == plan.PodTerminating:
		s += "; its grace period ended at " + instant(ends)
	case !ends.IsZero():
		s += " since " + a.Step.Since.UTC().Format(time.RFC3339)
	}
	if len(a.Findings) > 0 {
		return "Under way: " + s + "."
	}
	return "Nothing blocks it: " + s + "."
}

// stepText says what is under way; empty: there is nothing to say.
func stepText(x *plan.Step) string {
	switch x.Of {
	case plan.Demand:
		return "it has been waiting for Dovetail's next decision"
	case plan.Scheduling:
		return "it has been waiting for kube-scheduler, which has a place for it,"
	case plan.PodsEnding:
		return "it has been waiting for pods that are being deleted on a node, which then has a place for it,"
	case plan.Launching:
		return "its instance has been launching"
	case plan.Registering:
		return "its instance has been running, and its node has yet to join the cluster,"
	case plan.Initializing:
		return "its initialization has been under way"
	case plan.Draining:
		return "its drain has been under way"
	case plan.Terminating:
		return "its instance and its objects have been going"
	case plan.PodTerminating:
		return "it is terminating"
	case plan.Ended:
		return ""
	case plan.Interrupted:
		return "the cloud has been taking its instance away"
	}
	cause := map[plan.Code]string{plan.Empty: "it is empty", plan.Underutilized: "its pods cost less elsewhere", plan.Drifted: "it has drifted",
		plan.Expired: "it has expired", plan.Unhealthy: "it is unhealthy"}[x.Of]
	switch {
	case cause == "":
		return ""
	case x.Command != "":
		return "it has been on its way out because " + cause + " (disruption command " + string(x.Command) + "),"
	case x.Of == plan.Underutilized:
		return "it has been open to consolidation"
	}
	return "its removal has been due because " + cause + ","
}

// waiting says what the next step of a NodeClaim waits for; empty: not a reason of that kind.
func waiting(r plan.Reason) string {
	object := objectName(r.Subject)
	switch r.Code {
	case plan.CallFailed:
		d := plan.DetailOf[plan.OfCallFailed](r)
		return "the call to " + or(d.Call, "change") + " " + object + " fails (" + callTimes(d) + ") and is repeated: " + string(d.Said)
	case plan.NodeMissing:
		return "the instance " + string(r.Subject) + " runs, but no node with its provider ID has joined the cluster; it is given up after " + instant(plan.DetailOf[plan.OfNodeMissing](r).GivenUp)
	case plan.SeveralNodes:
		return "several nodes have the provider ID " + string(r.Subject) + ": " + listText(plan.DetailOf[plan.OfSeveralNodes](r).Nodes.Names(), 0) + "; none of them is used until only one is left"
	case plan.NodeNotReady:
		return object + " is not Ready" + with(": ", string(plan.DetailOf[plan.OfNodeNotReady](r).Said), "")
	case plan.EphemeralTaint:
		return object + " still has taint " + plan.DetailOf[plan.OfNodeTaint](r).Taint + ", which the component that set it removes when the node is up"
	case plan.ResourceMissing:
		d := plan.DetailOf[plan.OfResourceMissing](r)
		return object + " has no " + string(d.Resource) + " in status.allocatable, and its pods request " + r.Fields().Want + "; check that the device plugin for it runs on the node"
	case plan.NodeGone:
		return object + " no longer exists: it was deleted and its finalizer removed; its instance is terminated unless the node registers again"
	case plan.AwaitsPods:
		return object + " is reserved for " + strconv.Itoa(plan.DetailOf[plan.OfPods](r).Count) + " of its pods, which are not bound to it yet"
	case plan.DaemonSets:
		switch left := strconv.Itoa(plan.DetailOf[plan.OfPods](r).Count); {
		case object != "":
			return object + " is kept for the pods of " + left + " DaemonSets, which are not on it yet"
		case left == "0":
			return "the pods of its DaemonSets are there; it is kept for the pods it was launched for"
		default:
			return "it is kept for pods of DaemonSets first; still to come: " + left
		}
	case plan.AwaitsLaunch:
		if plan.DetailOf[plan.OfAwaitsLaunch](r).Failed {
			return "no offering that it allows has capacity; its pods are planned for again together with those of " + object + ", whose offerings have no capacity either"
		}
		return "offerings like those that it allows have no capacity, and the launch of " + object + ", which allows the same, tells whether these have"
	case plan.AwaitsMachine:
		return "the replacement " + object + " is not initialized yet (" + strings.ToLower(string(plan.DetailOf[plan.OfAwaitsMachine](r).Stage)) + ")"
	case plan.InstancesUnread:
		return "whether an instance was launched for " + object + " is known with the cloud's next list of instances"
	case plan.PodTerminating:
		d := plan.DetailOf[plan.OfPodTerminating](r)
		if d.Finalizers != "" {
			return object + " is being deleted, and is held by finalizer " + listText(d.Finalizers.Names(), 0)
		}
		return object + " is terminating: its grace period ends at " + instant(d.End) + ", and the drain waits for its end until one minute after that"
	case plan.EvictedLater:
		return object + " is evicted later, after " + model.Count(plan.DetailOf[plan.OfPods](r).Count, "pod") + " of lower priority or of workloads"
	case plan.EvictionPace:
		return object + " waits: the maximum number of evicted pods that are not yet running again is " + strconv.Itoa(plan.DetailOf[plan.OfEvictionPace](r).Most)
	case plan.SuccessorFirst:
		return object + " is evicted when its replacement is ready, which " + objectName(plan.DetailOf[plan.OfSuccessorFirst](r).Deployment) + " creates first"
	case plan.VolumeAttached:
		return "volumes are still attached to " + object + ": VolumeAttachment " + holders(r)
	case plan.DeletionDelayed:
		return "annotation " + plan.DetailOf[plan.OfDeletionDelayed](r).Annotation + " of " + object + " delays its deletion"
	case plan.MinimumDrain:
		return "a node is drained for at least " + durationText(plan.DetailOf[plan.OfMinimumDrain](r).Least) + ", so that load balancers stop sending to it"
	case plan.ForeignHold:
		return object + " is held by finalizer " + holders(r) + ", which only its owner may remove"
	case plan.Ended:
		return object + " has ended"
	}
	return ""
}

// holders lists what holds an object.
func holders(r plan.Reason) string {
	return listText(plan.DetailOf[plan.OfHolders](r).Names.Names(), 0)
}

// callTimes says how often a call failed since when, or when it is given up.
func callTimes(d plan.OfCallFailed) string {
	switch {
	case !d.GivenUp.IsZero():
		return "given up after " + instant(d.GivenUp)
	case d.Times == 1:
		return "once, at " + instant(d.FirstTried)
	}
	return strconv.Itoa(d.Times) + " times since " + instant(d.FirstTried)
}
