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

// Reasons of the condition Rebooting.
const (
	RebootRequested = "RebootRequested" // True: the node is drained
	RebootIssued    = "RebootIssued"    // True: the cloud was asked, and the node has to come back
	RebootSucceeded = "RebootSucceeded" // False
	RebootFailed    = "RebootFailed"    // False
)

const (
	// rebootHistory is for how long a reboot counts.
	rebootHistory = 24 * time.Hour
	// mostReboots is how often a node is rebooted within rebootHistory at most.
	mostReboots = 2
)

// RebootingTaint keeps pods off a node from before it is drained for a reboot until it is back.
var RebootingTaint = model.Taint{Key: model.TaintRebooting, Effect: model.NoSchedule}

// IsRebooting reports whether a NodeClaim's node is being rebooted, or drained for a reboot.
func IsRebooting(c *model.Claim) bool { return c.Is(Rebooting) }

// WasRebooted reports whether a NodeClaim's node is being or has been rebooted, which evicted its pods.
func WasRebooted(c *model.Claim) bool {
	_, ok := c.Conditions[Rebooting]
	return ok
}

// IsDrainedForReboot reports whether a NodeClaim's node is being drained for a reboot that has not been requested yet.
func IsDrainedForReboot(c *model.Claim) bool { return IsRebooting(c) && !isRebootIssued(c) }

// isRebootIssued reports whether the cloud has been asked to reboot a claim's node, or the controller that wrote the boot ID is about to ask.
// It is not asked again.
func isRebootIssued(c *model.Claim) bool {
	return c.Annotations[model.AnnotationBootID] != "" || c.Conditions[Rebooting].Reason == RebootIssued
}

// rebootDrain returns how long pods are evicted from a claim's node before it is rebooted; 0: none is evicted.
func rebootDrain(c *model.Claim) time.Duration {
	drain, err := time.ParseDuration(c.Annotations[model.AnnotationRebootDrain])
	if err != nil || drain < 0 {
		return 0
	}
	return drain
}

// StaysThroughReboot reports whether a pod of a node that is drained for a reboot will be there after the reboot, because it is not evicted, and until
// when that is the answer (zero: until something changes). Pods behind such a pod in the order of the drain are taken for ones that leave. minDrain is Policy.MinDrain.
func StaysThroughReboot(c *model.Claim, p *model.Pod, minDrain time.Duration, now time.Time) (stays bool, until time.Time) {
	drain := rebootDrain(c)
	end := c.Conditions[Rebooting].Since.Add(max(drain, minDrain))
	if drain == 0 || !now.Before(end) || model.Tolerated(RebootingTaint, p.Class.Tolerations) {
		return true, time.Time{}
	}
	if held, until := p.Held(now); held && (until.IsZero() || !until.Before(end)) {
		return true, time.Time{}
	}
	return false, end
}

// reboots are when the last reboots of a claim's node were asked for, the earliest first.
func reboots(c *model.Claim) (out []time.Time) {
	for _, text := range strings.Split(c.Annotations[model.AnnotationReboots], ",") {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			out = append(out, t)
		}
	}
	return out
}

// LastReboot returns when the last reboot of a NodeClaim's node was requested or, without that annotation, when the current
// one began.
func LastReboot(c *model.Claim) time.Time {
	if all := reboots(c); len(all) > 0 {
		return all[len(all)-1]
	}
	return c.Conditions[Rebooting].Since
}

// MayReboot reports whether an unhealthy node may be rebooted instead of replaced: it was usable, its boot ID shows when a reboot
// has finished, it belongs to no node group (whose server repairs its nodes itself), it was not rebooted too often, and no reboot
// of it failed.
func MayReboot(c *model.Claim, n *model.Node, now time.Time) bool {
	recent := slices.DeleteFunc(reboots(c), func(t time.Time) bool { return !now.Before(t.Add(rebootHistory)) })
	return c.Is(Initialized) && n.BootID != "" && c.ProviderID != "" && c.NodeGroup() == "" && len(recent) < mostReboots && c.Conditions[Rebooting].Reason != RebootFailed
}

// RequestReboot returns the write that has a claim's node rebooted after a drain of this length at most; why is what it is repaired for, said its condition
// and that one's reason.
func RequestReboot(c *model.Claim, drain time.Duration, said string, why plan.Reason) plan.UpdateClaim {
	if c.TerminationGracePeriod >= 0 {
		drain = min(drain, c.TerminationGracePeriod)
	}
	return plan.UpdateClaim{Claim: c.Name, UID: c.UID, Why: why, Given: unsetIfEmpty(map[string]string{model.AnnotationReboots: c.Annotations[model.AnnotationReboots]}),
		Annotations: map[string]string{model.AnnotationRebootDrain: drain.String()},
		Conditions:  map[string]model.Condition{Rebooting: {Status: "True", Reason: RebootRequested, Message: "rebooting for " + said}}}
}

// unsetIfEmpty has empty values stand for no value.
func unsetIfEmpty(m map[string]string) map[string]string {
	for k, v := range m {
		if v == "" {
			m[k] = plan.Unset
		}
	}
	return m
}

// stepReboot moves the reboot of a claim's node on: taint, drain, ask the cloud, wait for another boot ID and a node that is usable, take the taint off.
// One that is not back in time has failed.
func stepReboot(in *Input, n *model.Node, out *Output) {
	c := in.Claim
	if isRebootIssued(c) {
		awaitReboot(in, n, out)
		return
	}
	requested, drain := c.Conditions[Rebooting].Since, rebootDrain(c)
	end := requested.Add(max(drain, in.Policy.MinDrain))
	due := end.Add(in.Policy.RebootIssueTimeout)
	if !in.Now.Before(due) {
		endReboot(in, n, RebootFailed, "the reboot was not issued within "+in.Policy.RebootIssueTimeout.String()+" of the drain", out)
		return
	}
	out.lookAgainAt(due)
	if !hasTaint(n.Taints, RebootingTaint) {
		out.addActions(plan.UpdateNode{Node: n.Name, UID: n.UID, AddTaints: []model.Taint{RebootingTaint}, Why: rebootReason(in, n, due)})
		return // no pod is asked to go before the scheduler knows that none may come
	}
	if drain > 0 && in.Now.Before(end) {
		tier, rest := splitByDrainTier(in, n, RebootingTaint)
		for _, p := range tier {
			removePod(in, n, p, time.Time{}, false, out) // those that have not gone by then stay where they are
		}
		for _, p := range rest {
			if p.Deleting.IsZero() {
				out.holdPod(in, p, len(tier))
			}
		}
		if settled := requested.Add(in.Policy.MinDrain); len(tier) > 0 || in.Now.Before(settled) {
			if len(tier) > 0 {
				settled = end
			}
			out.hold(in, plan.Rebooting, settled, rebootReason(in, n, due))
			out.lookAgainAt(settled)
			return
		}
	}
	at := in.Now.UTC().Format(time.RFC3339)
	history := []string{at}
	if last := reboots(c); len(last) > 0 {
		history = []string{last[len(last)-1].UTC().Format(time.RFC3339), at}
	}
	out.addActions(plan.Reboot{Claim: c.Name, UID: c.UID, Node: n.Name, ProviderID: c.ProviderID, BootID: n.BootID, Why: rebootReason(in, n, due), Note: plan.UpdateClaim{
		Claim: c.Name, UID: c.UID, Why: rebootReason(in, n, due),
		Annotations: map[string]string{model.AnnotationBootID: n.BootID, model.AnnotationReboots: strings.Join(history, ",")},
		Given:       unsetIfEmpty(map[string]string{model.AnnotationBootID: "", model.AnnotationReboots: c.Annotations[model.AnnotationReboots]}),
	}})
}

// awaitReboot waits for a node that the cloud was asked to reboot. The claim speaks of it first: what is taken off it at the end says no more then that
// the cloud was asked.
func awaitReboot(in *Input, n *model.Node, out *Output) {
	c := in.Claim
	due := LastReboot(c).Add(in.Policy.RebootTimeout)
	if c.Conditions[Rebooting].Reason != RebootIssued {
		out.addActions(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Why: rebootReason(in, n, due), Conditions: map[string]model.Condition{
			Rebooting: {Status: "True", Reason: RebootIssued, Message: c.Conditions[Rebooting].Message}}})
		return
	}
	switch {
	case n.BootID != c.Annotations[model.AnnotationBootID] && isUsableAgain(in, n):
		endReboot(in, n, RebootSucceeded, "the node was rebooted and is back", out)
	case !in.Now.Before(due):
		endReboot(in, n, RebootFailed, "the node was not Ready again within "+in.Policy.RebootTimeout.String(), out)
	default:
		out.hold(in, plan.Rebooting, due, rebootReason(in, n, due))
		out.lookAgainAt(due)
	}
}

// isUsableAgain reports whether a node that was rebooted is Ready, with all that its claim asks of it.
func isUsableAgain(in *Input, n *model.Node) bool {
	if _, missing := missingResource(in.Claim, n); missing {
		return false
	}
	return n.Ready && !slices.ContainsFunc(n.Taints, func(t model.Taint) bool { return IsEphemeral(t) || isStartupTaint(in.Claim, t) })
}

// endReboot takes the taint off a node and, when that is off, ends the reboot. A node that has failed is repaired as one that can't be rebooted.
func endReboot(in *Input, n *model.Node, reason, message string, out *Output) {
	c := in.Claim
	why := rebootReason(in, n, time.Time{})
	if hasTaint(n.Taints, RebootingTaint) {
		out.addActions(plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveTaints: []model.Taint{RebootingTaint}, Why: why})
		return
	}
	out.addActions(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Why: why, Annotations: map[string]string{model.AnnotationBootID: plan.Unset, model.AnnotationRebootDrain: plan.Unset},
		Conditions: map[string]model.Condition{Rebooting: {Status: "False", Reason: reason, Message: message}}})
}

// rebootReason is why something is done for a reboot that must be over at an instant; zero: it is over.
func rebootReason(in *Input, n *model.Node, due time.Time) plan.Reason {
	return plan.Reason{Code: plan.Rebooting, Pool: in.Claim.Pool, Subject: plan.ObjectOf("node", n.Name), Detail: plan.OfRebooting{Until: due}}
}
