// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// end takes a claim that is being deleted to its end: taint, drain, detach, terminate, let go. How far it has come is in its conditions.
func end(in *Input, out *Output) {
	c := in.Claim
	w := ending{Input: in, u: plan.UpdateClaim{Claim: c.Name, UID: c.UID, Conditions: map[string]model.Condition{}, Why: plan.Reason{Code: plan.Draining, Pool: c.Pool}}}
	w.deadline, w.forced = Deadline(c)
	if w.forced && c.Annotations[TerminationTime] == "" {
		w.u.Annotations = map[string]string{TerminationTime: w.deadline.UTC().Format(time.RFC3339)}
		w.u.Why.Key, w.u.Why.Want = "terminationGracePeriod", c.TerminationGracePeriod.String()
	}
	if w.done() {
		w.u.Conditions = nil // nobody would read them any more
		w.u.RemoveFinalizer = c.HasFinalizer
		w.u.Why.Code = plan.Deleted
	}
	if len(w.u.Annotations)+len(w.u.Conditions) > 0 || w.u.RemoveFinalizer {
		if w.u.RemoveFinalizer {
			w.act(w.u) // what lets go comes last
		} else {
			out.act(w.u)
		}
	}
	out.act(w.Actions...)
	if !w.Next.IsZero() {
		out.at(w.Next)
	}
}

// ending is the end of one claim.
type ending struct {
	*Input
	Output
	u        plan.UpdateClaim // what is to be written into the claim
	deadline time.Time        // from when on pods and volumes are not waited for, with forced
	forced   bool
}

func (w *ending) is(condition, status, reason, message string) {
	if have := w.Claim.Conditions[condition]; have.Status != status || have.Reason != reason {
		w.u.Conditions[condition] = model.Condition{Status: status, Reason: reason, Message: message}
	}
}

// done says whether nothing is left of the claim's node and machine, and takes them one step on where something is.
func (w *ending) done() bool {
	waiting, stands := false, false
	for _, n := range w.Nodes {
		if machineGone(w.Input) && !n.Ready {
			continue // nothing left to drain
		}
		stands = true
		if !drained(w.Input, n, w.deadline, w.forced, &w.Output) {
			waiting = true
		}
	}
	if waiting {
		w.is(Drained, "Unknown", "Draining", "pods are asked to go")
		return false
	}
	if stands {
		w.is(Drained, "True", Drained, "")
		if !w.detached() {
			return false
		}
	}
	if len(w.Nodes) > 0 && !machineGone(w.Input) {
		if limit := w.Claim.Deleting.Add(w.Policy.MinDrain); w.Now.Before(limit) {
			w.at(limit)
			return false
		}
	}
	if !terminated(w.Input, &w.Output) {
		if len(w.Actions) > 0 {
			w.is(Terminating, "True", Terminating, "")
		}
		return false
	}
	let := true
	for _, n := range w.Nodes {
		if n.Deleting.IsZero() { // its machine went before it was drained, or before it was ours
			w.act(plan.DeleteNode{Node: n.Name, UID: n.UID, Why: plan.Reason{Code: plan.Deleted, Pool: w.Claim.Pool}})
			let = false // without the claim nobody would know that it must go, should that fail
		}
		if n.HasFinalizer {
			w.act(plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveFinalizer: true, Why: plan.Reason{Code: plan.Deleted, Pool: w.Claim.Pool}})
		}
	}
	return let
}

// detached says whether the volumes of the pods that have left are off the node, so that they can be had elsewhere at once. Those of pods
// that stay (static ones, and what tolerates the taint) go with the machine.
func (w *ending) detached() bool {
	var left []string
	for _, n := range w.Nodes {
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
		w.is(Detached, "True", Detached, "")
	case w.forced && !w.Now.Before(w.deadline):
		w.is(Detached, "False", "TerminationGracePeriodElapsed", "still attached: "+strings.Join(left, ", "))
	default:
		w.is(Detached, "Unknown", "AwaitingVolumeDetachment", "still attached: "+strings.Join(left, ", "))
		if w.forced {
			w.at(w.deadline)
		}
		return false
	}
	return true
}

// Deadline is when pods are no longer waited for, and whether there is such a time.
func Deadline(c *model.Claim) (time.Time, bool) {
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

// machineGone says whether the cloud has told that the machine is on its way out.
func machineGone(in *Input) bool {
	for _, i := range in.Instances {
		if !i.Gone {
			return false
		}
	}
	return len(in.Instances) > 0 || listed(in)
}

// listed says whether the last list was asked for late enough to know every machine the claim may have.
func listed(in *Input) bool {
	since := in.Claim.Deleting
	if l := in.Claim.Conditions[Launched]; l.True() {
		since = l.Since
	}
	return in.InstancesAt.After(since.Add(in.Policy.ListDelay + wholeSecond))
}

// terminated ends the claim's machine, and says whether there is none any more. A machine whose id the claim knows is ended by it though no
// list shows it, for lists go by tags and those may have been changed; the cloud's word on the id is what counts.
func terminated(in *Input, out *Output) bool {
	c := in.Claim
	if c.ProviderID == "" && len(in.Instances) == 0 && !listed(in) {
		return false // a launch whose answer was lost may have made one: the next list tells
	}
	done := true
	seen := false
	for _, i := range in.Instances {
		seen = seen || i.ProviderID == c.ProviderID
		if !i.Gone {
			out.act(plan.Terminate{ProviderID: i.ProviderID, Claim: c.Name, Why: plan.Reason{Code: plan.Deleted, Pool: c.Pool}})
			done = false
		}
	}
	if c.ProviderID != "" && !seen && (c.HasFinalizer || !listed(in)) {
		out.act(plan.Terminate{ProviderID: c.ProviderID, Claim: c.Name, Why: plan.Reason{Code: plan.Deleted, Pool: c.Pool}})
		done = false
	}
	return done
}

// drained moves a node's drain on and says whether it is over.
func drained(in *Input, n *model.Node, deadline time.Time, forced bool, out *Output) bool {
	c := in.Claim
	u := plan.UpdateNode{Node: n.Name, UID: n.UID, Labels: map[string]string{}}
	disrupted := model.Taint{Key: model.TaintDisrupted, Effect: model.NoSchedule}
	tainted := has(n.Taints, disrupted)
	if n.Labels[excludeBalancersLabel] == "" {
		u.Labels[excludeBalancersLabel] = "karpenter"
	}
	if !tainted {
		u.AddTaints = append(u.AddTaints, disrupted)
		u.AddFinalizer = !n.HasFinalizer && n.Deleting.IsZero()
	}
	if t := (model.Taint{Key: model.TaintReserved, Value: c.Name, Effect: model.NoSchedule}); tainted && has(n.Taints, t) {
		u.RemoveTaints = append(u.RemoveTaints, t)
	}
	if len(u.AddTaints)+len(u.RemoveTaints)+len(u.Labels) > 0 {
		u.Why = plan.Reason{Code: plan.Draining, Pool: c.Pool}
		out.act(u)
	}
	if !tainted {
		return false // no pod is asked to go before the scheduler knows that none may come
	}
	if n.Deleting.IsZero() && n.HasFinalizer {
		out.act(plan.DeleteNode{Node: n.Name, UID: n.UID, Why: plan.Reason{Code: plan.Draining, Pool: c.Pool}})
	}
	tier, rest := firstTier(n, disrupted, in.Now, in.Policy.StuckPod)
	for _, p := range tier {
		removePod(in, n, p, deadline, forced, out)
	}
	for _, p := range rest { // the deadline is every tier's, whoever is still waited for
		if forced && !in.Now.Before(deadline.Add(-p.GracePeriod)) {
			removePod(in, n, p, deadline, forced, out)
		}
	}
	return len(tier) == 0
}

// firstTier are the pods to wait for now, of the first of the four tiers that still has any, and those after them. Tiers: others
// before critical ones, and in each those of workloads before those of DaemonSets.
func firstTier(n *model.Node, disrupted model.Taint, now time.Time, stuck time.Duration) (first, rest []*model.Pod) {
	var tiers [4][]*model.Pod
	for _, p := range n.Pods {
		if p.Mirror || p.Terminal || model.Tolerated(disrupted, p.Class.Tolerations) {
			continue
		}
		if !p.Deleting.IsZero() && now.Sub(p.Deleting) > stuck {
			continue // its kubelet will not finish the work any more
		}
		i := 0
		if p.Class.Daemon {
			i = 1
		}
		if p.Class.Critical {
			i += 2
		}
		tiers[i] = append(tiers[i], p)
	}
	for _, t := range tiers {
		if len(first) == 0 {
			first = t
		} else {
			rest = append(rest, t...)
		}
	}
	return first, rest
}

func removePod(in *Input, n *model.Node, p *model.Pod, deadline time.Time, forced bool, out *Output) {
	if forced {
		last := deadline.Add(-p.GracePeriod)
		if !in.Now.Before(last) {
			if p.Deleting.IsZero() || p.Deleting.After(deadline) {
				out.act(plan.DeletePod{Namespace: p.Namespace, Pod: p.Name, UID: p.UID, Node: n.Name, Grace: max(deadline.Sub(in.Now), time.Second),
					Why: plan.Reason{Code: plan.Draining, Pool: in.Claim.Pool, Key: "terminationGracePeriod"}})
			}
			if !p.Deleting.IsZero() {
				out.at(p.Deleting.Add(in.Policy.StuckPod + time.Second))
			}
			return
		}
		out.at(last)
	}
	if !p.Deleting.IsZero() {
		out.at(p.Deleting.Add(in.Policy.StuckPod + time.Second))
		return
	}
	if held, until := p.Held(in.Now); held {
		if !until.IsZero() {
			out.at(until)
		}
		return // the drain waits; only the node's termination grace period ends that
	}
	why := plan.Reason{Code: plan.Draining, Pool: in.Claim.Pool}
	if r, ok := in.Rolls[p.UID]; ok {
		if why = r.Refused; why.Code == "" {
			if roll(in, n, p, r, out) {
				return
			}
			why = plan.Reason{Code: plan.NoSurge, Subject: "pod/" + p.Key(), Key: "time", Want: r.limit(in).Sub(in.Claim.Deleting).String(), Have: "its successor has not come in time"}
		}
		why.Pool = in.Claim.Pool
	}
	out.act(plan.Evict{Namespace: p.Namespace, Pod: p.Name, UID: p.UID, Node: n.Name, Why: why})
}

// roll waits for a pod's successor, having asked its Deployment for one, and says whether there is time left to.
func roll(in *Input, n *model.Node, p *model.Pod, r Roll, out *Output) bool {
	limit := r.limit(in)
	if !in.Now.Before(limit) {
		return false
	}
	out.at(limit)
	if !r.Begun {
		d := r.Deployment
		out.act(plan.Restart{Namespace: d.Namespace, Deployment: d.Name, UID: d.UID, From: d.RestartedAt, To: in.Now.UTC().Format(time.RFC3339Nano),
			Pod: p.Name, Node: n.Name, Why: plan.Reason{Code: plan.Draining, Pool: in.Claim.Pool, Subject: "pod/" + p.Key()}})
	}
	return true
}

// limit is until when a pod's successor is waited for.
func (r *Roll) limit(in *Input) time.Time {
	limit := in.Claim.Deleting.Add(in.Policy.SurgeTimeout)
	if !r.By.IsZero() && r.By.Before(limit) {
		return r.By
	}
	return limit
}
