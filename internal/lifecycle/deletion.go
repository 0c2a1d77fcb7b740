// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// stepDeletion moves a claim that is being deleted on: taint, drain, detach volumes, wait for what delays the deletion,
// terminate, remove the finalizer.
// Its conditions say how far it has come.
func stepDeletion(in *Input, out *Output) {
	c := in.Claim
	w := deletion{Input: in, update: plan.UpdateClaim{Claim: c.Name, UID: c.UID, Conditions: map[string]model.Condition{}, Why: plan.Reason{Code: plan.Draining, Pool: c.Pool}}}
	w.deadline, w.forced = Deadline(c)
	if w.forced && c.Annotations[TerminationTime] == "" {
		w.update.Annotations = map[string]string{TerminationTime: w.deadline.UTC().Format(time.RFC3339)}
		w.update.Why.Detail = plan.OfGracePeriod{Ends: true, After: c.TerminationGracePeriod}
	}
	if w.advance() {
		w.update.Conditions = nil // nobody would read them any more
		w.update.RemoveFinalizer = c.HasFinalizer
		w.update.Why.Code = plan.Deleted
		if len(c.OtherFinalizers) > 0 {
			out.hold(in, plan.Terminating, time.Time{}, plan.Reason{Code: plan.ForeignHold, Subject: plan.ObjectOf("nodeclaim", c.Name), Detail: plan.OfHolders{Names: plan.ListOf(c.OtherFinalizers)}})
		}
	}
	if len(w.update.Annotations)+len(w.update.Conditions) > 0 || w.update.ProviderID != "" || w.update.RemoveFinalizer {
		if w.update.RemoveFinalizer {
			w.addActions(w.update) // what lets go comes last
		} else {
			out.addActions(w.update)
		}
	}
	out.addActions(w.Actions...)
	out.Holds = append(out.Holds, w.Holds...)
	if !w.Next.IsZero() {
		out.lookAgainAt(w.Next)
	}
}

// deletion is one step of the deletion of a claim.
type deletion struct {
	*Input
	Output
	update   plan.UpdateClaim // what is to be written into the claim
	deadline time.Time        // from when on pods and volumes are not waited for, with forced
	forced   bool
}

// setCondition writes a condition where its status or reason differs.
func (w *deletion) setCondition(condition, status, reason, message string) {
	if have := w.Claim.Conditions[condition]; have.Status != status || have.Reason != reason {
		w.update.Conditions[condition] = model.Condition{Status: status, Reason: reason, Message: message}
	}
}

// advance takes the claim's nodes and instances one step towards their end, and reports whether nothing is left of them.
func (w *deletion) advance() bool {
	if i := w.unrecorded(); i != nil {
		w.update.ProviderID = i.ProviderID
		return false
	}
	waiting, stands := false, false
	for _, n := range w.Nodes {
		if InstanceIsGone(w.Input) && !n.Ready {
			continue // nothing left to drain
		}
		stands = true
		if !drainNode(w.Input, n, w.deadline, w.forced, &w.Output) {
			waiting = true
		}
	}
	if waiting {
		w.setCondition(Drained, "Unknown", "Draining", "its pods are being evicted")
		return false
	}
	if stands {
		w.setCondition(Drained, "True", Drained, "")
		if !w.volumesDetached() || w.isDelayed() {
			return false
		}
	}
	if len(w.Nodes) > 0 && !InstanceIsGone(w.Input) {
		if limit := w.Claim.Deleting.Add(w.Policy.MinDrain); w.Now.Before(limit) {
			w.hold(w.Input, plan.Terminating, limit, plan.Reason{Code: plan.MinimumDrain, Detail: plan.OfMinimumDrain{Least: w.Policy.MinDrain}})
			w.lookAgainAt(limit)
			return false
		}
	}
	if !terminateInstances(w.Input, &w.Output) {
		if len(w.Actions) > 0 {
			w.setCondition(Terminating, "True", Terminating, "")
		}
		return false
	}
	let := true
	for _, n := range w.Nodes {
		if n.Deleting.IsZero() { // its machine went before it was drained, or before it was ours
			w.addActions(plan.DeleteNode{Node: n.Name, UID: n.UID, Why: plan.Reason{Code: plan.Deleted, Pool: w.Claim.Pool}})
			let = false // without the claim nobody would know that it must go, should that fail
		}
		if n.HasFinalizer {
			w.addActions(plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveFinalizer: true, Why: plan.Reason{Code: plan.Deleted, Pool: w.Claim.Pool}})
		}
		if len(n.OtherFinalizers) > 0 {
			w.hold(w.Input, plan.Terminating, time.Time{}, plan.Reason{Code: plan.ForeignHold, Subject: plan.ObjectOf("node", n.Name), Detail: plan.OfHolders{Names: plan.ListOf(n.OtherFinalizers)}}) // whoever holds the Node still has something to do with it
			w.setCondition(Terminating, "True", Terminating, "")
			let = false
		}
	}
	return let
}

// unrecorded is the instance that runs for the claim though its launch was never written down; nil: there is none. Its node
// may have joined and have pods, and only with the provider id in the claim is it known to be the claim's, and drained.
func (w *deletion) unrecorded() *model.Instance {
	if w.Claim.ProviderID != "" {
		return nil
	}
	for _, i := range w.Instances {
		if !i.Gone {
			return i
		}
	}
	return nil
}

// volumesDetached reports whether the volumes of the evicted pods are off the node, so that other nodes can attach them.
// Those of pods that stay (static pods, and pods that tolerate the taint) go with the instance. From the deadline on
// it is true.
func (w *deletion) volumesDetached() bool {
	var left, nodes []string
	for _, n := range w.Nodes {
		nodes = append(nodes, n.Name)
		kept := map[string]bool{}
		for _, p := range n.Pods {
			for _, v := range p.Class.Volumes {
				kept[v.Claim] = true
			}
		}
		for _, a := range n.Attached {
			if a.Claim == "" || !kept[a.Claim] {
				left = append(left, a.Name)
			}
		}
	}
	switch {
	case len(left) == 0:
		w.setCondition(Detached, "True", Detached, "")
	case w.forced && !w.Now.Before(w.deadline):
		w.setCondition(Detached, "False", "TerminationGracePeriodElapsed", "still attached: "+strings.Join(left, ", "))
	default:
		w.setCondition(Detached, "Unknown", "AwaitingVolumeDetachment", "still attached: "+strings.Join(left, ", "))
		end := time.Time{}
		if w.forced {
			end = w.deadline
		}
		w.hold(w.Input, plan.Terminating, end, plan.Reason{Code: plan.VolumeAttached, Subject: plan.ObjectOf("node", strings.Join(nodes, " ")), Detail: plan.OfHolders{Names: plan.ListOf(left)}})
		if w.forced {
			w.lookAgainAt(w.deadline)
		}
		return false
	}
	return true
}

// isDelayed reports whether an annotation of a drained node delays its deletion: for Policy.DeletionDelay at most, from when
// the node was drained, and not beyond the deadline.
func (w *deletion) isDelayed() bool {
	node, key := "", ""
	for _, n := range w.Nodes {
		for k := range n.Annotations {
			if strings.HasPrefix(k, model.DelayDeletionPrefix) && (key == "" || n.Name < node || n.Name == node && k < key) {
				node, key = n.Name, k
			}
		}
	}
	if key == "" {
		return false
	}
	until := w.Now
	if have := w.Claim.Conditions[Drained]; have.True() {
		until = have.Since
	}
	until = until.Add(w.Policy.WithTimeoutsOf(w.Pool, w.Claim).DeletionDelay)
	if w.forced && w.deadline.Before(until) {
		until = w.deadline
	}
	if !w.Now.Before(until) {
		return false
	}
	w.hold(w.Input, plan.Terminating, until, plan.Reason{Code: plan.DeletionDelayed, Subject: plan.ObjectOf("node", node), Detail: plan.OfDeletionDelayed{Annotation: key}})
	w.setCondition(Terminating, "False", "DeletionDelayed", "annotation "+key+" of node "+node+" delays its deletion, until "+until.UTC().Format(time.RFC3339)+" at the latest")
	w.lookAgainAt(until)
	return true
}

// Deadline returns the end of the termination grace period of a claim that is being deleted: the time that annotation TerminationTime
// states, otherwise Deleting plus TerminationGracePeriod. From then on the drain no longer waits for pods. ok is false if there is no
// deadline. Grace periods of pods are in model.Pod and model.EvictionRules, grace periods of decisions in decide.Policy.
func Deadline(c *model.Claim) (at time.Time, ok bool) {
	if s := c.Annotations[TerminationTime]; s != "" {
		if t, err := time.Parse(time.RFC3339, s); err == nil {
			return t, true
		}
	}
	if c.TerminationGracePeriod < 0 {
		return time.Time{}, false
	}
	return c.Deleting.Add(c.TerminationGracePeriod), true
}

// InstanceIsGone reports whether the cloud reports that the claim's instance is terminating, or no longer lists it though it would if it ran.
func InstanceIsGone(in *Input) bool {
	if isListed(in) || mayBeUnreachable(in) {
		return false
	}
	return len(in.Instances) > 0 || isListConclusive(in)
}

// isListConclusive reports whether the last list of instances was asked for late enough to have every one of the claim.
func isListConclusive(in *Input) bool {
	since := in.Claim.Deleting
	if l := in.Claim.Conditions[Launched]; l.True() {
		since = l.Since
	}
	return in.InstancesAt.After(since.Add(in.Policy.ListDelay + wholeSecond))
}

// terminateInstances terminates the claim's instances, and reports whether there is none any more. An instance whose id
// the claim knows is terminated by it though no list has it: lists go by tags, and those may have been changed.
func terminateInstances(in *Input, out *Output) bool {
	c := in.Claim
	if c.ProviderID == "" && len(in.Instances) == 0 && !isListConclusive(in) {
		out.hold(in, plan.Terminating, time.Time{}, plan.Reason{Code: plan.InstancesUnread, Subject: plan.ObjectOf("nodeclaim", c.Name)})
		return false // a launch whose answer was lost may have made one: the next list tells
	}
	done := true
	seen := false
	for _, i := range in.Instances {
		seen = seen || i.ProviderID == c.ProviderID
		if !i.Gone {
			out.addActions(plan.Terminate{ProviderID: i.ProviderID, Claim: c.Name, Why: plan.Reason{Code: plan.Deleted, Pool: c.Pool}})
			done = false
		}
	}
	if c.ProviderID != "" && !seen && (c.HasFinalizer || !isListConclusive(in)) {
		out.addActions(plan.Terminate{ProviderID: c.ProviderID, Claim: c.Name, Why: plan.Reason{Code: plan.Deleted, Pool: c.Pool}})
		done = false
	}
	return done
}
