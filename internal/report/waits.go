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
			return "No operation is in progress, and nothing blocks its disruption."
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
	case a.Step.Of == plan.PodTerminating && !ends.IsZero():
		s += "; its grace period ended at " + instant(ends)
	case !ends.IsZero():
		s += " since " + a.Step.Since.UTC().Format(time.RFC3339)
	}
	if len(a.Findings) > 0 {
		return "In progress: " + s + "."
	}
	return "Nothing blocks it: " + s + "."
}

// stepText says what is under way; empty: there is nothing to say.
func stepText(x *plan.Step) string {
	switch x.Of {
	case plan.Demand:
		return "it has been waiting for Dovetail's next decision"
	case plan.Scheduling:
		return "it fits an existing node, and has been waiting for kube-scheduler"
	case plan.PodsEnding:
		return "it has been waiting for the capacity of pods that are being deleted"
	case plan.Launching:
		return "its instance has been launching"
	case plan.Registering:
		return "its instance has been running without a registered node"
	case plan.Initializing:
		return "its node has been initializing"
	case plan.Draining:
		return "its node has been draining"
	case plan.Terminating:
		return "its instance has been terminating"
	case plan.PodTerminating:
		return "it is terminating"
	case plan.Ended:
		return ""
	case plan.Rebooting:
		return "its node has been rebooting"
	case plan.Interrupted:
		return "the cloud has been interrupting its instance"
	}
	cause := causes[x.Of].clause
	switch {
	case cause == "":
		return ""
	case x.Command != "":
		return "it is being disrupted because " + cause + " (disruption command " + string(x.Command) + "),"
	case x.Of == plan.Underutilized:
		return "it has been a candidate for consolidation"
	}
	return "it has been waiting for its removal because " + cause + ","
}

// waiting says what the next step of a NodeClaim waits for; empty: not a reason of that kind.
func waiting(r plan.Reason) string {
	object := objectName(r.Subject)
	switch r.Code {
	case plan.CallFailed:
		d := plan.DetailOf[plan.OfCallFailed](r)
		return "the call to " + or(d.Call, "change") + " " + object + " has failed" + callTimes(d) + ": " + string(d.Said)
	case plan.ChangeUndone:
		d := plan.DetailOf[plan.OfChangeUndone](r)
		return "changes to " + object + " have been undone " + strconv.Itoa(d.Times) + " times since " + instant(d.Since) + ", by another client or an admission policy; they are retried with increasing pauses of up to 30 seconds"
	case plan.NodeMissing:
		return "instance " + string(r.Subject) + " is running, but no node with its provider ID has registered; it is terminated after " + instant(plan.DetailOf[plan.OfNodeMissing](r).GivenUp)
	case plan.SeveralNodes:
		return "several nodes have the provider ID " + string(r.Subject) + ": " + listText(plan.DetailOf[plan.OfSeveralNodes](r).Nodes.Names(), 0) + "; none of them is used until only one is left"
	case plan.NodeNotReady:
		return object + " is not Ready" + with(": ", string(plan.DetailOf[plan.OfNodeNotReady](r).Said), "")
	case plan.EphemeralTaint:
		return object + " still has taint " + plan.DetailOf[plan.OfNodeTaint](r).Taint + ", which the component that set it removes when the node is up"
	case plan.ResourceMissing:
		d := plan.DetailOf[plan.OfResourceMissing](r)
		if model.IsDevice(string(d.Resource)) {
			return object + " has published no device for its pods, which claim " + deviceCount(int64(d.Need), string(d.Resource)) + "; check that the DRA driver runs on the node and publishes ResourceSlices"
		}
		return object + " has no " + string(d.Resource) + " in status.allocatable, and its pods request " + r.Fields().Want + "; check that the device plugin for it runs on the node"
	case plan.NodeGone:
		return object + " no longer exists: it was deleted and its finalizer removed; its instance is terminated unless the node registers again"
	case plan.AwaitsPods:
		return object + " is reserved for " + strconv.Itoa(plan.DetailOf[plan.OfPods](r).Count) + " of its pods, which are not bound to it yet"
	case plan.DaemonSets:
		switch left := strconv.Itoa(plan.DetailOf[plan.OfPods](r).Count); {
		case object != "":
			return object + " is reserved until the pods of " + left + " DaemonSets run on it"
		case left == "0":
			return "the pods of its DaemonSets run; it is reserved for the pods it was launched for"
		default:
			return "it is reserved until the pods of its DaemonSets run; missing: " + left
		}
	case plan.AwaitsLaunch:
		if plan.DetailOf[plan.OfAwaitsLaunch](r).Failed {
			return "none of its offerings has capacity; its pods are planned again together with those of " + object + ", which has no capacity either"
		}
		return "similar offerings have no capacity; waiting for the launch of " + object + ", which tries the same offerings first"
	case plan.AwaitsMachine:
		return "the replacement " + object + " is not initialized yet (" + strings.ToLower(string(plan.DetailOf[plan.OfAwaitsMachine](r).Stage)) + ")"
	case plan.InstancesUnread:
		return "waiting for the cloud's next list of instances, which shows whether an instance was launched for " + object
	case plan.PodTerminating:
		d := plan.DetailOf[plan.OfPodTerminating](r)
		if d.Finalizers != "" {
			return object + " is being deleted, and is held by finalizer " + listText(d.Finalizers.Names(), 0)
		}
		return object + " is terminating: its grace period ends at " + instant(d.End) + ", and the drain waits for its end until one minute after that"
	case plan.EvictedLater:
		return object + " is evicted later in the drain order, after " + model.Count(plan.DetailOf[plan.OfPods](r).Count, "pod")
	case plan.EvictionPace:
		return object + " waits: the number of evicted pods that are not running again yet is at its maximum of " + strconv.Itoa(plan.DetailOf[plan.OfEvictionPace](r).Most)
	case plan.SuccessorFirst:
		return object + " is evicted when its replacement is ready, which " + objectName(plan.DetailOf[plan.OfSuccessorFirst](r).Deployment) + " creates first"
	case plan.VolumeAttached:
		return "volumes are still attached to " + object + ": VolumeAttachment " + holders(r)
	case plan.DeletionDelayed:
		return "annotation " + plan.DetailOf[plan.OfDeletionDelayed](r).Annotation + " of " + object + " delays its deletion"
	case plan.MinimumDrain:
		return "a node is drained for at least " + durationText(plan.DetailOf[plan.OfMinimumDrain](r).Least) + ", so that load balancers stop sending traffic to it"
	case plan.ForeignHold:
		return object + " is held by finalizer " + holders(r) + ", which only its owner may remove"
	case plan.Ended:
		return object + " has terminated"
	}
	return ""
}

// holders lists what holds an object.
func holders(r plan.Reason) string {
	return listText(plan.DetailOf[plan.OfHolders](r).Names.Names(), 0)
}

// callTimes says how often a call has failed, and until when it is retried if that is known.
func callTimes(d plan.OfCallFailed) string {
	switch {
	case !d.GivenUp.IsZero():
		return " and is retried until " + instant(d.GivenUp)
	case d.Times == 1:
		return " (at " + instant(d.FirstTried) + ") and is retried"
	}
	return " " + strconv.Itoa(d.Times) + " times since " + instant(d.FirstTried) + " and is retried"
}
