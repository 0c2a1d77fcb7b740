// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Sentence says a reason to a person, without naming the pool: whoever prints it has that already.
func Sentence(r plan.Reason) string {
	if s := sentence(r); s != "" {
		return s
	}
	if s := kept(r); s != "" {
		return s
	}
	if s := waiting(r); s != "" {
		return s
	}
	if s := action(r); s != "" {
		return s
	}
	// A code without words of its own: all that the reason holds.
	s := string(r.Code)
	for _, part := range []struct{ before, text string }{{" ", r.Key}, {" on ", r.Subject}, {"; want ", r.Want}, {"; have ", r.Have}} {
		if part.text != "" {
			s += part.before + part.text
		}
	}
	return s
}

// mostReasons is how many pools' reasons an event names.
const mostReasons = 3

// Refusal says in one line why a pod is unschedulable, with the codes for programs: what an event and a log line say.
func Refusal(reasons []plan.Reason) string {
	var parts []string
	for i, r := range reasons {
		if i == mostReasons {
			parts = append(parts, "and "+strconv.Itoa(len(reasons)-i)+" more")
			break
		}
		parts = append(parts, with("NodePool ", r.Pool, ": ")+string(r.Code)+": "+Sentence(r))
	}
	return "No NodePool can provide a node for this pod: " + strings.Join(parts, "; ")
}

func sentence(r plan.Reason) string {
	switch r.Code {
	case plan.NoPools:
		return "there is no NodePool that could launch a node; create one"
	case plan.PoolNotReady:
		return "the NodePool is not Ready: " + or(r.Have, "its status doesn't say why")
	case plan.Taint:
		return "the pod doesn't tolerate the NodePool's taint " + or(r.Have, r.Key)
	case plan.Requirement:
		want := requirementText(r.Key, r.Want)
		if strings.Contains(r.Have, "does not define") {
			return "the pod requires " + want + "; the NodePool doesn't set this label, so its nodes won't have it"
		}
		return "the pod requires " + want + "; the NodePool has " + requirementText(r.Key, r.Have)
	case plan.NoInstanceType:
		if r.Key == "" {
			return "the NodePool's requirements leave no instance type"
		}
		have := "the instance types that the NodePool and the pod allow don't have this label"
		if r.Have != "" {
			have = "the instance types that the NodePool and the pod allow have " + listText(r.Have)
		}
		return "no instance type has " + requirementText(r.Key, r.Want) + "; " + have
	case plan.Resource:
		want, have := amountPair(r.Key, r.Want, r.Have)
		need := "the pod and the node's DaemonSets need " + want
		if r.Have == "0" {
			return need + "; no allowed instance type has any"
		}
		return need + "; the closest allowed instance type" + with(", ", r.Subject, ",") + " has " + have
	case plan.CameShort:
		want, have := amountPair(r.Key, r.Want, r.Have)
		return "the pod and the node's DaemonSets need " + want + "; nodes of type " + r.Subject + " have repeatedly come up with only " + have +
			". The type is tried again when its catalog entry, its image or the NodePool changes"
	case plan.ShortAgain:
		said := "two nodes launched for the pod came up smaller than their instance types promise"
		if r.Key != "" {
			want, have := amountPair(r.Key, r.Want, r.Have)
			said += "; the last, type " + r.Subject + ", has " + have + " where the pod needs " + want
		}
		return said + ". No third is launched until the pod, the NodePool or its node class changes"
	case plan.Offering:
		if r.Want == "" {
			return "no instance type that fits is available where the pod may run" + with(" (", labelName(r.Key), ")")
		}
		if r.Have == "" {
			return "no instance type that fits is available in " + requirementText(r.Key, r.Want)
		}
		return "no instance type that fits is available in " + requirementText(r.Key, r.Want) + "; available: " + listText(r.Have)
	case plan.GroupMaximum:
		return objectName(r.Subject) + " is at its maximum size (" + r.Have + "); no other group fits the pod"
	case plan.OutOfCapacity:
		if r.Subject != "" { // a quota
			return r.Subject + " (no other offering fits: " + strings.TrimSuffix(r.Have, " set aside") + " tried; each is tried again after some minutes)"
		}
		if strings.HasSuffix(r.Have, "set aside") {
			return "the cloud has no capacity now for any offering that fits (" + strings.TrimSuffix(r.Have, " set aside") + " tried; each is tried again after some minutes)"
		}
		return "no offering that fits is left; other pods took the last"
	case plan.UnusedLaunches:
		said := unusedCause(r)
		if r.Subject != "" {
			said = "no pod like this ran on " + objectName(r.Subject) + ", which was launched for it" + with(" (", said, ")")
		}
		switch {
		case r.Want != "" && r.Key == string(plan.ClaimRefused):
			return said + ". The NodePool is tried again at " + r.Want + ", or when its template or node class changes. A removed admission policy is not noticed sooner"
		case r.Want != "":
			return said + ". The next node is launched at " + r.Want + ", or when the cause is gone"
		}
		return said + ". One node at a time is tried until a pod runs"
	case plan.ClaimRefused:
		return "the API server refuses the NodeClaim: " + r.Have
	case plan.Limit:
		switch {
		case r.Key == "":
			return "other pods took what the NodePool's limits left"
		case r.Key == "nodes" && strings.HasPrefix(r.Subject, "nodepool/"): // of a node to be replaced, not of a pod
			return objectName(r.Subject) + " has no place for a replacement beside the nodes that it has: its limit (spec.limits.nodes) is " + r.Have + ", and " + r.Want + " are needed"
		case r.Key == "nodes":
			return "the NodePool's limit on nodes is reached"
		}
		want, have := amountPair(r.Key, r.Want, r.Have)
		return "the NodePool's limits leave " + have + " " + r.Key + "; the smallest instance type that fits" + with(", ", r.Subject, ",") + " has " + strings.TrimSuffix(want, " "+r.Key)
	case plan.SharedLimit:
		return sharedLimit(r)
	case plan.MinValues:
		if _, err := strconv.Atoi(r.Have); err != nil {
			return "the NodePool requires a choice of " + r.Want + " values of " + labelName(r.Key) + "; " + r.Have
		}
		return "the NodePool requires a choice of " + r.Want + " values of " + labelName(r.Key) + "; only " + r.Have + " fit the pod"
	case plan.PlanRefused:
		if r.Key == "panic" {
			return "planning failed (" + r.Have + "), a bug in Dovetail; tried again at " + r.Want
		}
		return "the plan failed verification (" + r.Key + ": " + r.Have + "), a bug in Dovetail, and is not carried out; tried again at " + r.Want
	case plan.TopologySpread:
		if strings.HasSuffix(r.Want, "of pods that count this one") {
			return "other pods' topology spread over " + labelName(r.Key) + " counts this pod, and every " + labelName(r.Key) + " with room would exceed it until those pods are scheduled"
		}
		return "the pod's topology spread over " + labelName(r.Key) + " (" + r.Want + ") would be broken in every domain"
	case plan.PodAffinity:
		if r.Subject != "" { // a DaemonSet's pods match, and stand elsewhere
			return "the pod's affinity needs a " + labelName(r.Key) + " with a pod of " + objectName(r.Subject) + "; the NodePool's nodes get none"
		}
		return "the pod's affinity needs a " + labelName(r.Key) + " with a matching pod; none has room"
	case plan.PodAntiAffinity:
		s := "the pod's anti-affinity allows no " + labelName(r.Key) + " with a matching pod; every " + labelName(r.Key) + " with room has one"
		if strings.Contains(r.Want, "selects this one") {
			s = "other pods' anti-affinity keeps the pod out of every " + labelName(r.Key) + " with room"
		}
		return s + with(" (", objectName(r.Subject), ")")
	case plan.HostPortConflict:
		what := "host port "
		if strings.Contains(r.Key, "/") && (r.Key[0] < '0' || r.Key[0] > '9') {
			what = "volume " // that the pod names itself
		}
		return what + r.Key + ": " + r.Have + with(" (", r.Subject, ")")
	case plan.VolumeTopology:
		if strings.Contains(r.Want, "will be made") {
			return "the " + labelName(r.Key) + " in which the pod's volume will be created has no room"
		}
		label, _, _ := strings.Cut(r.Want, " ")
		return "the volume of PVC " + r.Key + " requires " + requirementText(label, r.Want) + "; " + r.Have
	case plan.VolumeLimit:
		return "the pod mounts " + r.Want + " volumes of driver " + r.Key + "; a node of type " + r.Subject + " can attach " + r.Have
	case plan.VolumeExclusive:
		return "PVC " + r.Key + " is ReadWriteOncePod and in use by another pod"
	case plan.VolumeClaim:
		return claimProblem(r)
	case plan.VolumeStorage:
		return storageShort(r)
	case plan.Unsupported:
		return r.Have
	case plan.TooComplex:
		if r.Want == "0" {
			return "the pod requests " + r.Have + " " + r.Key
		}
		return "the pod asks for more than is looked at: " + r.Have + " " + r.Key + " (at most " + r.Want + ")"
	case plan.WorkShare:
		return "not looked at in this step: deciding on the pods of its namespace costs more than the namespace's share (" + r.Have + " of " + r.Want +
			" units of work). It is looked at again in a later step"
	case plan.ResourceShare:
		return "not looked at in this step: the pod requests " + r.Have + " of the extended resources that nodes have, and all pending pods together request more than the " +
			r.Want + " that one step looks at. It is looked at again in a later step"
	case plan.NodeName:
		if r.Subject != "" {
			return "the pod runs only on " + objectName(r.Subject) + " (" + r.Want + "), which " + r.Have
		}
		return "the pod requires " + r.Want + ", one particular node; a new node has another name"
	case plan.Mismatch:
		return "kube-scheduler doesn't place the pod on " + objectName(r.Subject) + ", though it fits there by every check Dovetail makes"
	case plan.BindingUnfit:
		return objectName(r.Subject) + " can't take the pod: kube-scheduler's filter " + r.Key + with(" requires ", r.Want, ",") + " finds " + r.Have
	case plan.BindingRefused:
		return "the API server refused the binding by Dovetail, so kube-scheduler binds the pod" + with(": ", r.Have, "")
	case plan.EvictionRefused:
		return "the API server refuses to evict " + objectName(r.Subject) + with(": ", r.Have, "")
	case plan.NotBindable:
		return "kube-scheduler binds the pod, because of " + r.Key + with(" (", r.Have, ")")
	case plan.NotSchedulable:
		return notSchedulable(r)
	}
	return ""
}

func notSchedulable(r plan.Reason) string {
	switch r.Key {
	case "nominatedNodeName":
		return "kube-scheduler has nominated node " + r.Have + " for the pod"
	case "schedulerName":
		return "scheduler " + r.Have + " is responsible for the pod and hasn't reported it unschedulable"
	case "priority":
		return "the pod's priority is " + r.Have + "; the NodeGroupClasses launch nodes for pods of priority " + r.Want + " and above"
	case "scaleUpDelay":
		return "a node is launched for the pod not before " + strings.TrimPrefix(r.Want, "past ")
	}
	return or(r.Have, "the pod is not to be scheduled now")
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func with(before, s, after string) string {
	if s == "" {
		return ""
	}
	return before + s + after
}

// sharedLimit says that a limit over several pools allows no more: which, its value, what is used, what would be needed.
func sharedLimit(r plan.Reason) string {
	limit, over := objectName(r.Subject), "the nodes that it selects"
	if r.Subject == model.ClusterLimits {
		_, limit = plan.LimitField(r.Subject, r.Key)
		over = "the cluster"
	}
	if r.Key == "" {
		if r.Subject == model.ClusterLimits {
			limit = "the limits over the cluster"
		}
		return "other pods took what " + limit + " left"
	}
	used, most, _ := strings.Cut(r.Have, " of ")
	switch r.Key {
	case "nodes":
		return limit + " allows " + or(most, r.Have) + " nodes in " + over + "; " + used + " exist or are being launched"
	case model.DollarsPerHour:
		return limit + " allows $" + or(most, r.Have) + "/h for " + over + "; $" + used + "/h is spent, and the cheapest node that fits costs $" + r.Want + "/h"
	}
	need, most := amountPair(r.Key, r.Want, or(most, r.Have))
	_, used = amountPair(r.Key, r.Want, used)
	return limit + " allows " + most + " " + r.Key + " for " + over + "; " + used + " is used, and the smallest node that fits has " + strings.TrimSuffix(need, " "+r.Key)
}
