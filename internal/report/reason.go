// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Sentence says a reason to a person, without naming the pool: whoever prints it has that already.
func Sentence(r plan.Reason) string {
	if _, unread := r.Detail.(plan.Unread); !unread || r.Code == plan.BindingUnfit {
		for _, words := range []func(plan.Reason) string{sentence, kept, waiting, action} {
			if s := words(r); s != "" {
				return s
			}
		}
	}
	// A code without words of its own: all that the reason holds.
	s, f := string(r.Code), r.Fields()
	for _, part := range []struct{ before, text string }{{" ", f.Key}, {" on ", f.Subject}, {"; want ", f.Want}, {"; have ", f.Have}} {
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

// nearestOf says that a pod's node affinity has so many terms, of which the one that comes nearest is told; nothing of one or none.
func nearestOf(terms int) string {
	if terms < 2 {
		return ""
	}
	return " (the nearest of " + strconv.Itoa(terms) + " node affinity terms)"
}

// sentence says why a pod has no node; empty: not a reason of that kind.
func sentence(r plan.Reason) string {
	switch r.Code {
	case plan.NoPools:
		switch names := plan.DetailOf[plan.OfNoPools](r).Static.Names(); len(names) {
		case 0:
			return "no NodePool exists that could launch a node; create one ('dovetail manifests --nodepool aws' prints an example)"
		case 1:
			return "NodePool " + names[0] + " is static (spec.replicas), so it launches no node for a pending pod; raise spec.replicas, or create a NodePool without it"
		default:
			return "NodePools " + listText(names, 0) + " are static (spec.replicas), so they launch no node for a pending pod; raise spec.replicas, or create a NodePool without it"
		}
	case plan.PoolNotReady:
		return "the NodePool is not Ready: " + or(string(plan.DetailOf[plan.OfPoolNotReady](r).Said), "its status doesn't say why")
	case plan.Taint:
		return "the pod doesn't tolerate the NodePool's taint " + plan.DetailOf[plan.OfTaint](r).String()
	case plan.Requirement:
		d := plan.DetailOf[plan.OfRequirement](r)
		if d.Empty {
			return "the pod's node affinity has an empty term, which matches no node"
		}
		if isContradiction(d.Want) {
			return contradiction(d.Want)
		}
		if d.Undefined {
			return "the pod requires " + ruleText(d.Want) + nearestOf(d.Terms) + "; the NodePool doesn't set this label, so its nodes won't have it"
		}
		return "the pod requires " + ruleText(d.Want) + nearestOf(d.Terms) + "; the NodePool has " + ruleText(d.Have)
	case plan.NoInstanceType:
		d := plan.DetailOf[plan.OfNoInstanceType](r)
		if d.Label == "" {
			return "the NodePool's requirements leave no instance type"
		}
		if isContradiction(d.Want) {
			return contradiction(d.Want)
		}
		if d.ExcludedBy != "" {
			if d.With != "" {
				return "the NodePool's requirements " + rulesText(d.With) + " and " + ruleText(d.ExcludedBy) + " exclude every instance type with " + ruleText(d.Want) + nearestOf(d.Terms)
			}
			return "the NodePool's requirement " + ruleText(d.ExcludedBy) + " excludes every instance type with " + ruleText(d.Want) + nearestOf(d.Terms)
		}
		of, types, required := " that the NodePool allows", "the instance types that it allows", ""
		if d.OfPool {
			of, types, required = "", "instance types", ", which the NodePool requires"
		}
		if d.With != "" {
			return "no instance type" + of + " has " + rulesText(d.With) + " and " + ruleText(d.Want) + " together" + required + nearestOf(d.Terms)
		}
		have := types + " don't have this label"
		if d.Have != "" {
			have = types + " have " + listText(d.Have.Names(), d.More)
		}
		return "no instance type" + of + " has " + ruleText(d.Want) + required + nearestOf(d.Terms) + "; " + have
	case plan.Resource:
		d := plan.DetailOf[plan.OfSize](r)
		need, have := amountPair(d.Resource, d.Need, d.Have)
		need = "the pod and the node's DaemonSets need " + need + with(" (most of it for ", objectName(d.DaemonSet), ")")
		if d.DaemonSet != "" {
			return need + "; the largest allowed instance type" + with(", ", d.InstanceType, ",") + " has " + have
		}
		if d.Have == 0 {
			return need + "; no allowed instance type has any"
		}
		return need + "; the closest allowed instance type" + with(", ", d.InstanceType, ",") + " has " + have
	case plan.CameShort:
		d := plan.DetailOf[plan.OfSize](r)
		need, have := amountPair(d.Resource, d.Need, d.Have)
		return "the pod and the node's DaemonSets need " + need + "; nodes of type " + d.InstanceType + " have repeatedly had only " + have +
			". The type is tried again when the provider's data for it, its image or the NodePool changes"
	case plan.ShortAgain:
		d := plan.DetailOf[plan.OfSize](r)
		said := "two nodes launched for the pod were smaller than their instance types specify"
		if d.Resource != "" {
			need, have := amountPair(d.Resource, d.Need, d.Have)
			said += "; the last one, of type " + d.InstanceType + ", has " + have + ", and the pod needs " + need
		}
		return said + ". No third node is launched until the pod, the NodePool or its node class changes"
	case plan.Offering:
		d := plan.DetailOf[plan.OfOffering](r)
		if d.Want == "" {
			if d.Apart {
				return "no offering meets the NodePool's requirements and the pod's together"
			}
			return "no instance type that fits is available where the pod may run" + with(" (", labelName(d.Label), ")")
		}
		if d.OfPool {
			return "the NodePool requires " + ruleText(d.Want) + "; the instance types that it and the pod allow are available only in " + listText(d.Have.Names(), 0)
		}
		if isContradiction(d.Want) {
			return contradiction(d.Want)
		}
		if key, _, _, rest := d.Want.Split(); rest == string(model.OpDoesNotExist) {
			return "the pod requires a node without label " + key + "; every available offering has one" + with(": ", listText(d.Have.Names(), 0), "")
		}
		if d.Have == "" {
			return "no instance type that fits is available in " + ruleText(d.Want)
		}
		return "no instance type that fits is available in " + ruleText(d.Want) + "; available: " + listText(d.Have.Names(), 0)
	case plan.GroupMaximum:
		d := plan.DetailOf[plan.OfGroupMaximum](r)
		return objectName(d.Group) + " is at its maximum size (" + strconv.FormatInt(d.Most, 10) + "); no other group fits the pod"
	case plan.ZonalShift:
		d := plan.DetailOf[plan.OfZonalShift](r)
		shift := shiftText(d.Shift, d.Until)
		if r.Subject.Kind() == "nodeclaim" {
			return "its node had not joined when the cluster was shifted away from zone " + d.Zone + " (" + shift + ")"
		}
		if r.Subject != "" {
			return "the cluster is shifted away from zone " + d.Zone + " (" + shift + "); nodes there are left unchanged"
		}
		return "the cluster is shifted away from zone " + d.Zone + " (" + shift + "); nothing is launched there, and no offering that fits is in another zone"
	case plan.OutOfCapacity:
		d := plan.DetailOf[plan.OfOutOfCapacity](r)
		tried := " (" + model.Count(d.SetAside, "offering") + " tried; each is retried after 3m)"
		if d.Quota != "" {
			return string(d.Quota) + " (no other offering fits: " + tried[2:]
		}
		if d.SetAside > 0 {
			return "the cloud has no capacity now for any offering that fits" + tried
		}
		return "no offering that fits is left, because other pending pods use the last one"
	case plan.UnusedLaunches:
		d := plan.DetailOf[plan.OfUnusedLaunches](r)
		said := unusedCause(d)
		if r.Subject != "" {
			said = "no pod ran on " + objectName(r.Subject) + " as planned" + with(" (", said, ")")
		}
		switch {
		case !d.Until.IsZero() && d.Cause == plan.ClaimRefused:
			return said + ". The NodePool is tried again at " + instant(d.Until) + ", or when its template or node class changes. Removing an admission policy does not shorten the wait"
		case !d.Until.IsZero() && slices.Contains([]plan.Code{plan.InstanceGone, plan.NodeGone, plan.Deleted}, d.Cause):
			return said + ". The next node is launched at " + instant(d.Until) + ", or when the template or node class of the NodePool changes"
		case !d.Until.IsZero():
			return said + ". The next node is launched at " + instant(d.Until) + ", or when the cause is fixed"
		}
		return said + ". One node at a time is tried until a pod runs"
	case plan.ClaimRefused:
		return "the API server refuses the NodeClaim: " + said(r)
	case plan.Limit:
		return ownLimit(plan.DetailOf[plan.OfLimit](r))
	case plan.SharedLimit:
		return sharedLimit(plan.DetailOf[plan.OfSharedLimit](r))
	case plan.MinValues:
		d := plan.DetailOf[plan.OfMinValues](r)
		said := "minValues of the NodePool requires at least " + strconv.Itoa(d.Want) + " values of " + labelName(d.Label) + "; "
		if d.Together {
			return said + "fewer fit the pods together in one zone and capacity type"
		}
		switch {
		case d.Bound:
			return said + "a node for the pod can have only " + strconv.Itoa(d.Have) + ", because of the pod's topology spread, affinity or shared volume"
		case d.OneNode && d.Label == model.LabelCapacityType:
			return said + "a NodeClaim has only one"
		case d.OneNode:
			return said + "a node for the pod can have only " + strconv.Itoa(d.Have)
		}
		return said + "only " + howManyFit(d.Have) + " the pod"
	case plan.PlanRefused:
		d := plan.DetailOf[plan.OfPlanRefused](r)
		if d.Rule == plan.Panic {
			return "planning failed (" + string(d.Said) + "), a bug in Dovetail" + with("; tried again at ", instant(d.Until), "")
		}
		return "the plan failed verification (" + d.Rule + ": " + string(d.Said) + "), a bug in Dovetail, and is not carried out" + with("; tried again at ", instant(d.Until), "")
	case plan.TopologySpread:
		d := plan.DetailOf[plan.OfTopologySpread](r)
		if d.OfOthers {
			return "other pods' topology spread over " + labelName(d.TopologyKey) + " counts this pod, and would be violated in every " + labelName(d.TopologyKey) + " with free capacity until those pods are scheduled"
		}
		if d.Undefined {
			return "the pod's topology spread is over label " + d.TopologyKey + "; the NodePool doesn't set this label, so its nodes won't have it"
		}
		if d.MinDomains > 0 {
			return "the pod's topology spread requires at least " + strconv.Itoa(d.MinDomains) + " values of " + labelName(d.TopologyKey) + " (minDomains), but its pods can run in " +
				strconv.Itoa(d.Domains) + ". Each then accepts at most " + strconv.FormatInt(d.MaxSkew, 10) + " (maxSkew)"
		}
		said := "the pod's topology spread over " + labelName(d.TopologyKey) + " (skew at most " + strconv.FormatInt(d.MaxSkew, 10) + ") would be violated in every domain"
		if names := d.Fewest.Names(); len(names) == 1 {
			said += "; " + names[0] + " has the fewest matching pods, but the NodePool can't launch a node there"
		} else if len(names) > 1 {
			said += "; " + listText(names, 0) + " have the fewest matching pods, but the NodePool can't launch a node there"
		}
		if d.Shifted != "" {
			said += ": the cluster is shifted away from zone " + d.Shifted + " (" + shiftText(d.Shift, d.Until) + ")"
		}
		return said
	case plan.PodAffinity:
		d := plan.DetailOf[plan.OfPodAffinity](r)
		if d.Daemons {
			return "the pod's affinity needs a " + labelName(d.TopologyKey) + " with a pod of " + objectName(d.DaemonSet) + "; the NodePool's nodes get none"
		}
		if d.OfGang {
			return "all pods of the gang must run in one " + labelName(d.TopologyKey) + "; none has free capacity for the pod"
		}
		if d.Undefined {
			return "the pod's affinity is over label " + d.TopologyKey + "; the NodePool doesn't set this label, so its nodes won't have it"
		}
		if d.Nowhere {
			return "the pod's affinity needs a " + labelName(d.TopologyKey) + " with a matching pod; no " + labelName(d.TopologyKey) + " has one"
		}
		return "the pod's affinity needs a " + labelName(d.TopologyKey) + " with a matching pod; none has free capacity"
	case plan.PodAntiAffinity:
		d := plan.DetailOf[plan.OfPodAntiAffinity](r)
		domain := labelName(d.TopologyKey)
		s := "the pod's anti-affinity allows no " + domain + " with a matching pod; every " + domain + " where the pod could otherwise run has one"
		switch {
		case d.OfDevices:
			s = "every " + domain + " with free capacity has pods with a different request for some of the same devices"
		case d.OfOthers:
			s = "other pods' anti-affinity excludes the pod from every " + domain + " with free capacity"
		}
		return s + with(" (", objectName(d.DaemonSet), ")")
	case plan.HostPortConflict:
		d := plan.DetailOf[plan.OfHostPort](r)
		what := "host port "
		if d.Port.IsDisk() {
			what = "volume " // that the pod names itself
		}
		return what + string(d.Port) + " is used by a pod of a DaemonSet on every node" + with(" (", d.DaemonSet, ")")
	case plan.VolumeTopology:
		d := plan.DetailOf[plan.OfVolumeTopology](r)
		if d.ToCreate {
			return "the volume that the pod shares will be created in the " + labelName(d.Name) + " of another pod that uses it; no node there can run this pod"
		}
		return "the volume of PVC " + d.Name + " requires " + rulesText(d.Want) + "; " + volumeConflict(d)
	case plan.VolumeLimit:
		d := plan.DetailOf[plan.OfVolumeLimit](r)
		return "the pod mounts " + strconv.Itoa(d.Want) + " volumes of driver " + d.Driver + "; a node of type " + d.InstanceType + " can attach " + strconv.Itoa(d.Have)
	case plan.VolumeExclusive:
		return "PVC " + plan.DetailOf[plan.OfVolumeExclusive](r).Claim + " is ReadWriteOncePod and in use by another pod"
	case plan.VolumeClaim:
		return claimProblem(plan.DetailOf[plan.OfVolumeClaim](r))
	case plan.VolumeStorage:
		return storageShort(plan.DetailOf[plan.OfVolumeStorage](r))
	case plan.Unsupported:
		return plan.DetailOf[plan.OfUnsupported](r).Field
	case plan.TooComplex:
		d := plan.DetailOf[plan.OfTooComplex](r)
		if d.Most == 0 {
			return "the pod requests " + strconv.FormatInt(d.Have, 10) + " " + d.What
		}
		return "the pod is too complex: it has " + strconv.FormatInt(d.Have, 10) + " " + d.What + " (at most " + strconv.FormatInt(d.Most, 10) + ")"
	case plan.WorkShare:
		d := plan.DetailOf[plan.OfWorkShare](r)
		work := strconv.FormatInt(d.Work, 10)
		if d.More {
			work = "more than " + work
		}
		return "not considered in this step: the pods of its namespace need " + work + " units of work, and the namespace's share is " +
			strconv.FormatInt(d.Share, 10) + ". Retried in a later step"
	case plan.ResourceShare:
		d := plan.DetailOf[plan.OfResourceShare](r)
		return "not considered in this step: the pod requests " + strconv.Itoa(d.Have) + " extended resources, and all pending pods request more than " +
			strconv.Itoa(d.Most) + " different ones (maximum per step). Retried in a later step"
	case plan.NodeName:
		d := plan.DetailOf[plan.OfNodeName](r)
		if d.Node != "" {
			return "the pod runs only on node " + d.Node + " (" + string(d.Want) + "), which " + string(d.Said)
		}
		return "the pod requires " + string(d.Want) + ", which selects a node by name; a new node can't match"
	case plan.Mismatch:
		return "kube-scheduler doesn't place the pod on " + with("node ", plan.DetailOf[plan.OfMismatch](r).Node, "") + ", although the pod passes all of Dovetail's checks there"
	case plan.BindingUnfit:
		f := r.Fields()
		return objectName(r.Subject) + " can't run the pod (kube-scheduler filter " + f.Key + "): " + with("required ", f.Want, ", ") + "found " + f.Have
	case plan.BindingRefused:
		return "the API server refused the binding by Dovetail, so kube-scheduler binds the pod" + with(": ", said(r), "")
	case plan.EvictionRefused:
		return "the API server refuses to evict " + objectName(r.Subject) + with(": ", string(plan.DetailOf[plan.OfCallFailed](r).Said), "")
	case plan.PodsNotCreated:
		d := plan.DetailOf[plan.OfPodsNotCreated](r)
		return objectName(r.Subject) + " can't create " + model.Count(d.Count, "pod") + with(": ", string(d.Said), "")
	case plan.OldRevision:
		d := plan.DetailOf[plan.OfOldRevision](r)
		return "the pod is of an older revision (ReplicaSet " + d.ReplicaSet + "), and the rollout of " + objectName(d.Deployment) + " removes it; no change is needed"
	case plan.NotBindable:
		return "kube-scheduler binds the pod, because of " + plan.DetailOf[plan.OfNotBindable](r).Field + with(" (", r.Fields().Have, ")")
	case plan.GangIncomplete:
		d := plan.DetailOf[plan.OfGangIncomplete](r)
		return "waiting for more pods of " + objectName(d.Gang) + ": " + strconv.Itoa(d.Have) + " of at least " + strconv.Itoa(d.Least) + " exist"
	case plan.CapacityChecked:
		return "no node is launched: " + objectName(r.Subject) + " only checks for free capacity"
	case plan.GangTooLarge:
		return gangTooLarge(plan.DetailOf[plan.OfGangTooLarge](r))
	case plan.NotSchedulable:
		return notSchedulable(plan.DetailOf[plan.OfNotSchedulable](r))
	}
	return ""
}

// volumeConflict says what keeps the pod from where its volume can be used.
func volumeConflict(d plan.OfVolumeTopology) string {
	switch {
	case d.Pool != "":
		return "the NodePool requires " + ruleText(d.Pool)
	case d.Pod != "":
		return "the pod requires " + ruleText(d.Pod)
	case d.Other != "":
		return "the volume of PVC " + d.Other + " requires " + rulesText(d.OtherWant)
	case d.Unfit:
		return "no instance type that fits and that the NodePool and the pod allow is available there"
	case d.Together:
		return "no offering meets the requirements of the volume and of the pod together"
	}
	return "no offering is available there"
}

func notSchedulable(d plan.OfNotSchedulable) string {
	switch d.Because {
	case plan.IsDaemon:
		return "the pod belongs to a DaemonSet"
	case plan.OwnerCause:
		return "the pod is a DaemonSet pod or static pod, which is bound to one node"
	case plan.GatesCause:
		return "the pod has scheduling gates"
	case plan.NominatedCause:
		return "kube-scheduler has nominated node " + d.Name + " for the pod"
	case plan.SchedulerCause:
		return "scheduler " + d.Name + " is responsible for the pod and hasn't reported it unschedulable"
	case plan.PriorityCause:
		return "the pod's priority is " + strconv.Itoa(int(d.Priority)) + "; the NodeGroupClasses launch nodes for pods of priority " + strconv.Itoa(int(d.Least)) + " and above"
	case plan.DelayCause:
		return "no node is launched for the pod before " + instant(d.Until)
	}
	return "the pod cannot be scheduled now"
}

// ownLimit says that a limit of the NodePool allows no more. The smallest instance type is the one with the fewest CPUs, then the cheapest.
func ownLimit(d plan.OfLimit) string {
	switch {
	case d.Resource == "":
		return "other pending pods use what the NodePool's spec.limits leave"
	case d.Replacing != "": // of a node to be replaced, not of a pod
		return "the limit of NodePool " + d.Replacing + " leaves no node for a replacement: spec.limits.nodes is " +
			strconv.FormatInt(int64(d.Left), 10) + ", and " + strconv.FormatInt(int64(d.Need), 10) + " are needed"
	case d.Resource == "nodes":
		return "spec.limits.nodes of the NodePool is reached"
	}
	need, left := amountPair(d.Resource, d.Need, d.Left)
	return "the NodePool's limits leave " + left + " " + string(d.Resource) + "; the smallest instance type that fits" + with(", ", d.InstanceType, ",") +
		" has " + strings.TrimSuffix(need, " "+string(d.Resource))
}

// sharedLimit says that a limit over several pools allows no more: which, its value, what is used, what would be needed.
func sharedLimit(d plan.OfSharedLimit) string {
	limit, over := objectName(plan.Object(d.Limit)), "the nodes that it selects"
	if d.Limit == model.ClusterLimits {
		_, limit = plan.LimitField(d.Limit, string(d.Resource))
		over = "the cluster"
	}
	if d.Resource == "" {
		if d.Limit == model.ClusterLimits {
			limit = "the limits over the cluster"
		}
		return "other pods use up " + limit
	}
	used, most := plan.FormatAmount(d.Resource, int64(d.Used)), plan.FormatAmount(d.Resource, int64(d.Most))
	switch d.Resource {
	case "nodes":
		return limit + " allows " + most + " nodes in " + over + "; " + used + " exist or are being launched"
	case model.DollarsPerHour:
		return limit + " allows $" + most + "/h for " + over + "; $" + used + "/h is spent, and the cheapest node that fits costs $" + plan.FormatAmount(d.Resource, int64(d.Need)) + "/h"
	}
	need, most := amountPair(d.Resource, d.Need, d.Most)
	_, used = amountPair(d.Resource, d.Need, d.Used)
	return limit + " allows " + most + " " + string(d.Resource) + " for " + over + "; " + used + " is used, and the smallest node that fits has " +
		strings.TrimSuffix(need, " "+string(d.Resource))
}

// gangTooLarge says how many pods of a gang can be placed, and where most can be if they must share a domain.
func gangTooLarge(d plan.OfGangTooLarge) string {
	key, _, values, _ := d.Domain.Split()
	s := objectName(d.Gang) + " needs capacity for " + strconv.Itoa(d.Least) + " pods at once" + with(" in one ", labelName(key), "") + "; "
	if d.Have == 0 {
		return s + "none of them fits" + with(" (such as pod ", d.Member, ")") + ", so no node is launched"
	}
	most := howManyFit(d.Have)
	if len(values) == 1 {
		return s + "at most " + most + " (in " + labelName(key) + " " + values[0] + with("; pod ", d.Member, " doesn't") + "), so no node is launched"
	}
	return s + "only " + most + with(" (pod ", d.Member, " doesn't)") + ", so no node is launched"
}

// howManyFit returns "1 fits" or "2 fit".
func howManyFit(n int) string {
	if n == 1 {
		return "1 fits"
	}
	return strconv.Itoa(n) + " fit"
}
