// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// podTable says of each pod which of these classes it is in; a stage asks for a class by its name.
//
//	demand             pending, and kube-scheduler found no node (isDemand)
//	leaving            on a node that is drained or about to be taken away, and it will have a successor (leavingPods)
//	to replace         on a candidate of a disruption command that has replacements or hosts (podsToReplace)
//	to reschedule      on a candidate of a command that has not begun to delete it (podsToReschedule)
//	terminating        evicted and ending, and it will have a successor (terminatingPods)
//
// The stages after it add to these:
//
//	successor pending  gone a moment ago, and its successor has not been seen (evictions.podsPendingSuccessor)
//	anticipated        a ReplicaSet is about to make it (anticipation.pods)
//	covered            it has a slot: on a machine that is coming, or on a reserved node (slotAssignment.covered)
//	unbound in transit any of these or pending, without a slot: it will take free capacity (podsInTransit)
//
// Machines are bought for demand, leaving and anticipated pods that are not covered (slotAssignment.withoutMachine).
// Slots go to demand first, then to leaving pods, pods to replace and anticipated ones (slotAssignment.notPendingYet).
type podTable struct {
	*draft
	rollouts *rollouts
	groups   nodegroups.PodRules

	unschedulable      map[*model.Class]bool // classes of which kube-scheduler has refused a pod that is still pending
	demandClasses      map[classOwner]bool   // nil before it is asked for
	demandClassesUntil time.Time
	leavers            []*model.Pod // valid where leaversKnown
	leaversKnown       bool
}

// readUnschedulable finds the classes of which kube-scheduler has refused a pod that is still pending.
func (pt *podTable) readUnschedulable() {
	pt.unschedulable = map[*model.Class]bool{}
	for _, p := range pt.Snapshot.Pending {
		if !p.Unschedulable.IsZero() {
			pt.unschedulable[p.Class] = true
		}
	}
}

// demandHasClass reports whether pods of a class and an owner are demand, and until when.
func (pt *podTable) demandHasClass(p *model.Pod) (bool, time.Time) {
	if pt.demandClasses == nil {
		pt.demandClasses = map[classOwner]bool{}
		for _, q := range pt.Snapshot.Pending {
			is, until := pt.isDemand(q)
			if pt.demandClassesUntil = model.EarlierOf(pt.demandClassesUntil, until); is {
				pt.demandClasses[classOwner{q.Class, q.Owner.UID}] = true
			}
		}
	}
	return pt.demandClasses[classOwner{p.Class, p.Owner.UID}], pt.demandClassesUntil
}

// terminatingPods returns the pods that are ending on nodes being emptied and will have a successor that needs a place.
func (pt *podTable) terminatingPods() (out []*model.Pod) {
	for _, c := range pt.DirtyClaims {
		n := pt.NodeFor(c)
		if n == nil || c.Deleting.IsZero() && !slices.Contains(n.Taints, disrupt.DisruptedTaint) {
			continue
		}
		for _, p := range n.Pods {
			if !p.Deleting.IsZero() && !p.Terminal && p.IsWorkload() && p.Owner.UID != "" && !pt.Cutoff.IsExpendable(p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// isDemand reports whether a pending pod is demand, and when that may become another answer: kube-scheduler has said that it, or another pod of its class, fits
// nowhere (a batch of a thousand alike is not waited for one by one), or has said nothing for Policy.SchedulerWait;
// then the solver finds free capacity first. Pods that somebody else sees to are no demand: see IsForScheduler.
func (pt *podTable) isDemand(p *model.Pod) (bool, time.Time) {
	if p.Gated || p.Nominated != "" || !p.IsWorkload() {
		return false, time.Time{}
	}
	if may, until := pt.mayLaunchFor(p); !may {
		return false, until
	}
	if !p.Unschedulable.IsZero() || pt.unschedulable[p.Class] {
		return true, time.Time{}
	}
	if pt.req.whatIf {
		return p.Class.Scheduler == model.DefaultScheduler, time.Time{}
	}
	if p.Class.Scheduler != model.DefaultScheduler || p.Class.Priority > 0 {
		return false, time.Time{} // for another scheduler, or kube-scheduler may place it by preemption
	}
	if due := p.Created.Add(pt.pol.SchedulerWait); pt.Now.Before(due) {
		return false, due
	}
	return true, time.Time{}
}

// mayLaunchFor reports whether the rules of node groups let nodes be launched for a pod now: it is not expendable, and is
// old enough. If not yet, it is so at an instant.
func (pt *podTable) mayLaunchFor(p *model.Pod) (bool, time.Time) {
	if pt.Cutoff.IsExpendable(p) {
		return false, time.Time{}
	}
	if due := pt.groups.LaunchDue(p); pt.Now.Before(due) {
		return false, due
	}
	return true, time.Time{}
}

// leavingPods are the pods of nodes being drained, or about to be taken away, that will have a successor somewhere
// else.
func (pt *podTable) leavingPods() []*model.Pod {
	if pt.leaversKnown {
		return pt.leavers
	}
	var out []*model.Pod
	for _, c := range pt.DirtyClaims {
		if c.Deleting.IsZero() && pt.Interruptions[c.Name] == nil {
			continue
		}
		n := pt.NodeFor(c)
		if n == nil {
			continue
		}
		for _, p := range n.Pods {
			if p.Deleting.IsZero() && p.IsWorkload() && !pt.Cutoff.IsExpendable(p) && p.Owner.UID != "" && p.Owner.Kind != "Node" && !pt.rollouts.hasSuccessor(p) {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, func(a, b *model.Pod) int { return strings.Compare(a.Key(), b.Key()) })
	pt.leavers, pt.leaversKnown = slices.Clip(out), true
	return pt.leavers
}

// podsWithReplacements returns the pods on candidates of all commands that have replacements or hosts: slots are kept
// for them before they are evicted.
func (pt *podTable) podsWithReplacements() []*model.Pod {
	var out []*model.Pod
	for _, id := range pt.commands.IDs() {
		out = append(out, pt.podsToReplace(pt.commands.ByID[id])...)
	}
	return out
}

// podsToReplace returns the pods on a command's candidates that need slots; none where it has neither replacements nor
// hosts.
func (pt *podTable) podsToReplace(m *cluster.Command) (out []*model.Pod) {
	if len(m.Replacements)+len(m.HostedOn) == 0 {
		return nil
	}
	for _, c := range m.Candidates {
		if n := pt.NodeFor(c); n != nil {
			for _, p := range n.Pods {
				if pt.IsReschedulable(p) {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

// podsToReschedule returns the pods on candidates of commands under way that are not being deleted yet.
func (pt *podTable) podsToReschedule() []*model.Pod {
	var out []*model.Pod
	for _, id := range pt.commands.IDs() {
		for _, c := range pt.commands.ByID[id].Candidates {
			if n := pt.NodeFor(c); n != nil {
				for _, p := range n.Pods {
					if pt.IsReschedulable(p) {
						out = append(out, p)
					}
				}
			}
		}
	}
	return out
}

// classOwner are the pods of a class that have one owner.
type classOwner struct {
	class *model.Class
	owner string
}
