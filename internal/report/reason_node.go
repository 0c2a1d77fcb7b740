// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"fmt"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// kept says what keeps a node from being disrupted; empty: not a reason of that kind.
func kept(r plan.Reason) string {
	object := objectName(r.Subject)
	switch r.Code {
	case plan.NotInitialized:
		return object + " is not initialized yet"
	case plan.Moving:
		return object + " is already being disrupted" + with(" (", string(plan.DetailOf[plan.OfMoving](r).Command), ")")
	case plan.NoPrice:
		d := plan.DetailOf[plan.OfNoPrice](r)
		return "the cloud provider no longer lists the offering of " + object + " (" + d.InstanceType + " " + d.Zone + " " + d.CapacityType + "), so its price is unknown"
	case plan.DriftBackOff:
		d := plan.DetailOf[plan.OfDriftBackOff](r)
		return "nodes of " + object + " drifted soon after they were launched, " + model.Count(d.Times, "time") + " so far; drifted nodes are replaced when the NodePool and its node class have been unchanged for " +
			durationText(d.Rest) + " (last change: " + instant(d.Changed) + ")"
	case plan.NodeDoNotDisrupt:
		d := plan.DetailOf[plan.OfNodeHeld](r)
		if d.Unreadable {
			return object + " has metadata.annotations[" + d.Annotation + "]: " + strconv.Quote(d.Value) + ", which is ignored; it must be true or false"
		}
		return object + " is annotated " + d.Annotation + "=true"
	case plan.PodDoNotDisrupt:
		d := plan.DetailOf[plan.OfPodHeld](r)
		return object + " is annotated " + d.Annotation + "=" + d.Value
	case plan.SafeToEvict:
		d := plan.DetailOf[plan.OfSafeToEvict](r)
		return object + " is annotated " + d.Annotation + "=" + d.Value
	case plan.Nominated:
		return object + " is kept for pods that are about to be scheduled on it"
	case plan.ConsolidationOff:
		return object + " has spec.disruption.consolidationPolicy: " + or(plan.DetailOf[plan.OfConsolidationOff](r).Policy, "not set") + ", so only empty nodes are removed"
	case plan.Static:
		if r.Detail == nil {
			return "not reserved: a static NodePool does not launch its nodes for specific pods"
		}
		return object + " keeps a fixed number of nodes (spec.replicas: " + strconv.FormatInt(plan.DetailOf[plan.OfStatic](r).Replicas, 10) + "). A lower spec.replicas removes the nodes whose removal disrupts least"
	case plan.ClusterMinimum:
		_, flag := plan.LimitField(model.ClusterLimits, string(plan.DetailOf[plan.OfClusterMinimum](r).Resource))
		d := plan.DetailOf[plan.OfClusterMinimum](r)
		want, have := amountPair(d.Resource, d.Least, d.Have)
		return "without the node, the cluster would be below the minimum of " + flag + " (minimum " + want + ", now " + have + ")"
	case plan.GroupMinimum:
		return object + " is at its minimum size (" + strconv.FormatInt(plan.DetailOf[plan.OfGroupMinimum](r).Least, 10) + ")"
	case plan.GroupNotChosen:
		return "the node class no longer selects " + object + ", so its nodes are left unchanged; see its selector and its condition GroupsResolved"
	case plan.GroupUnread:
		return "the node class of " + object + " has no status yet, so its minimum size is unknown; Dovetail writes it within a minute"
	case plan.GroupRefresh:
		return "the cloud is replacing the nodes of " + object + " itself (" + plan.DetailOf[plan.OfGroupRefresh](r).Status + ")"
	case plan.WellUsed:
		d := plan.DetailOf[plan.OfWellUsed](r)
		return fmt.Sprintf("pods request %d %% of the %s of %s; its node group removes nodes at or below %d %%", d.Used, d.Resource, object, d.Most)
	case plan.Quiet:
		d := plan.DetailOf[plan.OfQuiet](r)
		if d.Never {
			return object + " has spec.disruption.consolidateAfter: Never"
		}
		return "pods were added or removed " + lengthText(d.Since) + " ago; spec.disruption.consolidateAfter is " + lengthText(d.After)
	case plan.DelayAfterAdd, plan.DelayAfterDelete, plan.DelayAfterFailure:
		what := map[plan.Code]string{plan.DelayAfterAdd: "a node was launched", plan.DelayAfterDelete: "the removal of a node began",
			plan.DelayAfterFailure: "the removal of a node failed"}[r.Code]
		d := plan.DetailOf[plan.OfDelay](r)
		return what + " " + lengthText(d.Since) + " ago; the NodeGroupClass of " + object + " then delays removals for " + lengthText(d.Delay) + " (" + d.Field + ")"
	case plan.Payback:
		return object + " was launched to save money and pays off only after " + instant(plan.DetailOf[plan.OfPayback](r).Until)
	case plan.BadRestartCost:
		return object + " has metadata.annotations[" + model.AnnotationRestartCost + "]: " + strconv.Quote(plan.DetailOf[plan.OfBadRestartCost](r).Value) +
			", which is ignored; it must be dollars from 0 to 1000000, such as 0.05"
	case plan.NoController:
		return object + " has no controller that would recreate it"
	case plan.LocalStorage:
		return object + " would lose its local volume " + plan.DetailOf[plan.OfLocalStorage](r).Volume + ", and its NodeGroupClass keeps nodes with such pods"
	case plan.SystemPod:
		return object + " is in kube-system without a PodDisruptionBudget; its NodeGroupClass keeps its node until the pod is " + lengthText(plan.DetailOf[plan.OfSystemPod](r).After) + " old (now " +
			lengthText(plan.DetailOf[plan.OfSystemPod](r).Age) + ")"
	case plan.CustomController:
		return object + " is controlled by a " + plan.DetailOf[plan.OfCustomController](r).Kind + ", and its NodeGroupClass keeps nodes with pods of controllers that are not built into Kubernetes"
	case plan.FewReplicas:
		d := plan.DetailOf[plan.OfFewReplicas](r)
		return fmt.Sprintf("the controller of %s has %s; its NodeGroupClass keeps nodes with pods of controllers that have fewer than %d", object, model.Count(d.Have, "pod"), d.Least)
	case plan.DisruptionBudgetPDB:
		return "PodDisruptionBudget " + plan.DetailOf[plan.OfPDB](r).Name + " allows no disruption of " + object + " now"
	case plan.SeveralPDBs:
		d := plan.DetailOf[plan.OfSeveralPDBs](r)
		return object + " is covered by " + strconv.Itoa(d.Count) + " PodDisruptionBudgets (" + listText(d.Names.Names(), 0) + "); the eviction API rejects every eviction of it"
	case plan.GangApart:
		d := plan.DetailOf[plan.OfGangApart](r)
		if d.Nodes < 2 {
			return object + " belongs to " + objectName(d.Gang) + ", which waits for nodes for " + model.Count(d.Waiting, "pod") + "; the pods of a gang are moved together or not at all"
		}
		return object + " belongs to " + objectName(d.Gang) + ", whose pods run on " + strconv.Itoa(d.Nodes) + " nodes; the pods of a gang are moved together or not at all"
	case plan.Budget:
		return budgetReached(object, plan.DetailOf[plan.OfBudget](r))
	case plan.NoHome:
		s := object + " fits no other node, and none can be launched for it"
		if code := plan.DetailOf[plan.OfNoHome](r).Code; code != "" && code != plan.NoPools {
			f := r.Fields()
			s += " (" + f.Key + with(": requires ", f.Want, "") + with(", available: ", f.Have, "") + ")"
		}
		return s
	case plan.NotCheaper:
		d := plan.DetailOf[plan.OfNotCheaper](r)
		least := ""
		if d.AtLeast {
			least = "at least "
		}
		return "no cheaper node fits its pods: the node costs " + money(d.Now) + "/h, the cheapest alternative costs " + least + money(d.Elsewhere) + "/h"
	case plan.DoesNotPay:
		d := plan.DetailOf[plan.OfDoesNotPay](r)
		if d.OverTime {
			return "the saving is too small for the disruption: at most " + money(d.Saving) + " in total, and the disruption costs " + money(d.Least) + " once"
		}
		any := ""
		if d.AnyType {
			any = ", whichever of the possible types is launched"
		}
		return "the saving is too small: " + money(d.Saving) + "/h, at least " + money(d.Least) + "/h is required" + any
	case plan.ShortLived:
		d := plan.DetailOf[plan.OfShortLived](r)
		return object + " is expected to scale again in " + lengthText(d.After) + ", as it has before; until then the saving is at most " + money(d.Saving) +
			" in total, and the disruption costs " + money(d.Cost) + " once"
	case plan.LaunchesPaused:
		return "consolidation recently removed nodes of " + object + "; it launches no replacements in it until " + instant(plan.DetailOf[plan.OfLaunchesPaused](r).Until)
	case plan.NotKept:
		return "the replacement can't be reserved: " + string(plan.DetailOf[plan.OfNotKept](r).Because) + "; " + object + " might not fit on it"
	case plan.SpotToSpot:
		return "only another spot node is cheaper, and feature gate " + plan.DetailOf[plan.OfSpotToSpot](r).Gate + " is off"
	case plan.NotBalanced:
		return "policy Balanced requires a score of at least 0.5; the best command scores " + strconv.FormatFloat(plan.DetailOf[plan.OfNotBalanced](r).Score, 'f', 2, 64)
	case plan.RepairBlocked:
		d := plan.DetailOf[plan.OfRepairBlocked](r)
		return fmt.Sprintf("repair of %s is paused: %d of %s are unhealthy, at most %d may be", object, d.Unhealthy, model.Count(d.Total, "node"), d.Most)
	case plan.NoSurge:
		d := plan.DetailOf[plan.OfNoSurge](r)
		return object + " can't be replaced before it is evicted: " + or(noSurge(d), d.Field) + with(" (", d.Field, ")")
	case plan.StartupTaints:
		d := plan.DetailOf[plan.OfNodeTaint](r)
		return or(object, "the NodePool") + " has startup taint " + or(d.Taint, d.Key)
	case plan.NoReplacementFound:
		d := plan.DetailOf[plan.OfNoReplacementFound](r)
		return model.Count(d.Times, "search") + " found no way to remove " + object + "; the next search is after " + instant(d.Until)
	case plan.CommandFailed:
		return "the last disruption failed and was cancelled" + with(": ", string(plan.DetailOf[plan.OfAborted](r).Said), "")
	case plan.Aborted:
		d := plan.DetailOf[plan.OfAborted](r)
		if !d.Until.IsZero() {
			return "the last disruption was cancelled" + with(" (", string(d.Last), ")") + ", " + model.Count(d.Times, "time") + " so far; the next attempt is after " + instant(d.Until)
		}
		return "the last disruption was cancelled" + with(": ", string(d.Said), "")
	}
	return ""
}

// budgetReached says that a disruption budget allows no further disruption.
func budgetReached(object string, d plan.OfBudget) string {
	s := "the disruption budget of " + object + with(" (", d.Field(), ")")
	switch {
	case d.Budget == 0:
		return s + fmt.Sprintf(" is reached: %d of %s are unavailable", d.Unavailable, model.Count(int(d.Total), "node"))
	case d.Allows == 0:
		s += " allows no disruption"
	default:
		s += fmt.Sprintf(" is reached: %d unavailable, at most %d allowed", d.Unavailable, d.Allows)
	}
	switch {
	case d.Unreadable:
		s += ": its schedule " + strconv.Quote(d.Schedule) + " is not a valid cron expression"
	case d.Schedule != "":
		s += ", schedule " + strconv.Quote(d.Schedule)
	}
	return s
}

// action says why something is done; empty: not a reason of that kind.
func action(r plan.Reason) string {
	object := objectName(r.Subject)
	switch r.Code {
	case plan.Demand:
		return "pods need it"
	case plan.Scheduling:
		return "waiting for kube-scheduler to bind the pod"
	case plan.PodsEnding:
		return "waiting for pods that are being deleted on its node"
	case plan.Launching:
		return "the NodeClaim has no instance yet"
	case plan.Registering:
		return "its node has joined the cluster"
	case plan.Initializing:
		return "its node is ready"
	case plan.Landed:
		return "all its pods are bound"
	case plan.NoAnswer:
		return "the last write got no response and is retried"
	case plan.LandingTimeout:
		return "its pods were not bound within " + timeAllowed(r) + ", so the node is no longer reserved"
	case plan.ReservationEnded:
		return "its capacity reservation ended; it is " + or(plan.DetailOf[plan.OfReservationEnded](r).CapacityType, "on-demand") + " now"
	case plan.Empty:
		return "the node is empty"
	case plan.Underutilized:
		d, ok := r.Detail.(plan.OfUnderutilized)
		if !ok {
			return "its pods can run on other nodes at lower cost"
		}
		return "its pods can run on other nodes at lower cost: saves " + money(d.Saving) + "/h, the disruption costs " + money(d.Cost) + " once"
	case plan.Expired:
		if d, ok := r.Detail.(plan.OfExpired); ok {
			return "the node has expired (expireAfter: " + lengthText(d.After) + ")"
		}
		return "the node has expired (expireAfter)"
	case plan.Drifted:
		return "the node has drifted" + with(" (", driftKey(plan.DetailOf[plan.OfDrifted](r).Kind), ")")
	case plan.Unhealthy:
		return "the node is unhealthy" + unhealthyCondition(r)
	case plan.Rebooting:
		if until := plan.DetailOf[plan.OfRebooting](r).Until; !until.IsZero() {
			return objectName(r.Subject) + " is being rebooted for repair, and is replaced if it is not back by " + instant(until)
		}
		return objectName(r.Subject) + " has been rebooted to repair it"
	case plan.Interrupted:
		return "the cloud is interrupting the instance" + with(" (", plan.DetailOf[plan.OfInterrupted](r).Kind, ")")
	case plan.ScaledDown, plan.Replicas:
		d := plan.DetailOf[plan.OfReplicas](r)
		return fmt.Sprintf("the static NodePool has %d nodes, spec.replicas is %d", d.Have, d.Want)
	case plan.Leftover:
		return "Cluster Autoscaler left taint " + plan.DetailOf[plan.OfLeftover](r).Taint + " on " + objectName(r.Subject) + " and no longer removes it"
	case plan.Adopted:
		return "a member of a node group had no NodeClaim" + with(" (", string(r.Subject), ")")
	case plan.LaunchTimeout:
		return "no instance within " + timeAllowed(r) + with(": ", string(plan.DetailOf[plan.OfTimeout](r).Said), "")
	case plan.RegistrationTimeout:
		return "no node registered within " + timeAllowed(r)
	case plan.InsufficientCap:
		return "the cloud has no capacity for it" + with(": ", said(r), "")
	case plan.NodeClassNotReady:
		return "the node class is not Ready" + with(": ", said(r), "")
	case plan.InstanceGone:
		return "its instance is gone"
	case plan.Orphan:
		return "the instance has no NodeClaim"
	case plan.Draining:
		return "its pods are being evicted"
	case plan.Terminating:
		return "its instance and its objects are being removed"
	case plan.Reclaimed:
		return "its NodePool was deleted and recreated, and owns it again"
	case plan.CreatedByOthers:
		return "the NodeClaim was not created by Dovetail"
	case plan.Deleted:
		return or(object, "it") + " was deleted"
	case plan.TolerateAll:
		return "not reserved: all its pods tolerate every taint" + with(" (", object, ")")
	case plan.PreemptsOthers:
		return "not reserved: kube-scheduler would preempt other pods for " + object + " while the node is reserved"
	case plan.ExtendedResource:
		if r := plan.DetailOf[plan.OfExtendedResource](r).Resource; model.IsDevice(r) {
			return "not reserved: its pods claim devices, which a DRA driver must publish"
		}
		return "not reserved: it needs " + plan.DetailOf[plan.OfExtendedResource](r).Resource + ", which a device plugin must register"
	case plan.SpreadTaints:
		return "not reserved: " + object + " spreads over " + labelName(plan.DetailOf[plan.OfSpreadTaints](r).TopologyKey) + " with nodeTaintsPolicy Honor and minDomains"
	case plan.PatchRefused:
		return "not reserved: the API server refused to add a toleration to " + object
	case plan.LandingOff:
		return "not reserved: --landing=off"
	case plan.HeldForBuffer:
		return "capacity is held for " + or(string(plan.DetailOf[plan.OfHeldForBuffer](r).Held), or(objectName(r.Subject), "a CapacityBuffer"))
	}
	return ""
}

// noSurge returns why a pod can't be replaced before it is evicted.
func noSurge(d plan.OfNoSurge) string {
	switch {
	case d.Late:
		return "its replacement was not Ready in time"
	case d.Expendable:
		return "the pod is expendable, so no node is launched for its replacement"
	case d.NoController:
		return "it has no controller that would recreate it"
	case d.NoRights:
		return "Dovetail is not allowed to restart Deployments"
	case d.Recreate:
		return "strategy Recreate deletes the old pod first"
	case d.ZeroSurge:
		return "with maxSurge 0, the old pod is deleted first"
	case d.Paused:
		return "the Deployment is paused"
	case d.OneNode:
		return "its volume can be used on one node at a time"
	case d.Kind != "":
		return "only a Deployment creates the replacement first, and the pod belongs to a " + d.Kind
	case d.Missing != "":
		return "Deployment " + d.Missing + " does not exist"
	}
	return ""
}

// unhealthyCondition says which condition of a node is bad, where the reason holds it.
func unhealthyCondition(r plan.Reason) string {
	d := plan.DetailOf[plan.OfUnhealthy](r)
	if d.Status == "" || driftKey(d.Condition) == "" {
		return ""
	}
	return ": condition " + d.Condition + " is " + d.State()
}

// timeAllowed writes how long something may take.
func timeAllowed(r plan.Reason) string {
	return or(durationText(plan.DetailOf[plan.OfTimeout](r).Within), "the time allowed")
}

// driftKey is the kind of drift; empty for the id of a disruption command, which says nothing to people. Reasons that an
// older version kept have it there.
func driftKey(key string) string {
	if _, ok := plan.ReadCommand(key); ok {
		return ""
	}
	return key
}
