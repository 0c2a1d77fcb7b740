// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pods

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// In is the input of the classification of pods.
type In struct {
	Commands      *cluster.Commands
	Rollouts      *Rollouts
	LaunchDue     func(*model.Pod) time.Time // when the rules of node groups let nodes be launched for a pod
	SchedulerWait time.Duration              // how long to wait for kube-scheduler's result for a new pod
	MinDrain      time.Duration              // from the lifecycle's Policy
	Unseen        bool                       // pods that kube-scheduler has not considered yet count as unschedulable
}

// Table says of each pod which of these classes it is in; a stage asks for a class by its name.
//
//	demand             pending, and kube-scheduler found no node (IsDemand)
//	leaving            on a node that is drained or about to be taken away, and it will have a successor (Leaving)
//	to replace         on a candidate of a disruption command that has replacements or hosts (ToReplace)
//	to reschedule      on a candidate of a command that has not begun to delete it (ToReschedule)
//	terminating        evicted and ending, and it will have a successor (terminating)
//
// The stages after it add to these:
//
//	successor pending  gone a moment ago, and its successor has not been seen (Evictions)
//	anticipated        a ReplicaSet is about to make it (Anticipate)
//	covered            it has a slot: on a machine that is coming, or on a reserved node (Slots.Covered)
//	unbound in transit any of these or pending, without a slot: it will take free capacity (Transit.Unbound)
//
// Machines are bought for demand, leaving and anticipated pods that are not covered (Slots.WithoutMachine).
// Slots go to demand first, then to leaving pods, pods to replace and anticipated ones (Slots.notPendingYet).
type Table struct {
	*cluster.View
	In

	unschedulable      map[*model.Class]bool // of which kube-scheduler has refused a pod that is still pending
	demandClasses      map[classOwner]bool   // nil before it is asked for
	demandClassesUntil time.Time
	leaving            []*model.Pod
	gangs              map[string]*Gang // see findGangs
}

// Classify returns the Table of a cluster's pods.
func Classify(v *cluster.View, in In) *Table {
	pt := &Table{View: v, In: in, unschedulable: map[*model.Class]bool{}}
	for _, p := range v.Snapshot.Pending {
		if !p.Unschedulable.IsZero() {
			pt.unschedulable[p.Class] = true
		}
	}
	pt.leaving = pt.findLeaving()
	pt.gangs = findGangs(v, pt.leaving)
	return pt
}

// demandHasClass reports whether pods of a class and an owner are demand, and until when.
func (pt *Table) demandHasClass(p *model.Pod) (bool, time.Time) {
	if pt.demandClasses == nil {
		pt.demandClasses = map[classOwner]bool{}
		for _, q := range pt.Snapshot.Pending {
			is, until := pt.IsDemand(q)
			if pt.demandClassesUntil = model.EarlierOf(pt.demandClassesUntil, until); is {
				pt.demandClasses[classOwner{q.Class, q.Owner.UID}] = true
			}
		}
	}
	return pt.demandClasses[classOwner{p.Class, p.Owner.UID}], pt.demandClassesUntil
}

// terminating returns the pods that are ending on nodes being emptied and will have a successor that needs a place.
func (pt *Table) terminating() (out []*model.Pod) {
	for _, c := range pt.DirtyClaims {
		n := pt.NodeFor(c)
		if n == nil || c.Deleting.IsZero() && !slices.Contains(n.Taints, disrupt.DisruptedTaint) && !lifecycle.IsDrainedForReboot(c) {
			continue
		}
		for _, p := range n.Pods {
			if !p.Deleting.IsZero() && !p.Terminal && p.IsWorkload() && p.Owner.UID != "" && pt.HasSuccessor(p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// IsDemand reports whether a pending pod is demand, and when the result may change. A pod is demand if it needs a place and, if it
// has a gang, enough pods of the gang exist.
func (pt *Table) IsDemand(p *model.Pod) (bool, time.Time) {
	if pt.awaitsPods(p) {
		return false, time.Time{}
	}
	return pt.NeedsPlace(p)
}

// NeedsPlace reports whether a pending pod needs a place, and when the result may change. A pod needs a place if kube-scheduler has
// reported it, or another pod of its class or gang, as unschedulable (so that a batch of equal pods need not be reported one by
// one), or if kube-scheduler has not reported on it for In.SchedulerWait; then the solver finds free capacity first. Pods that
// others handle need none: see IsForScheduler.
func (pt *Table) NeedsPlace(p *model.Pod) (bool, time.Time) { return pt.needsPlace(p, pt.Unseen) }

// needsPlace is NeedsPlace with Table.Unseen given.
func (pt *Table) needsPlace(p *model.Pod, unseen bool) (bool, time.Time) {
	if p.Gated || p.Nominated != "" || !p.IsWorkload() {
		return false, time.Time{}
	}
	if may, until := pt.mayLaunchFor(p); !may {
		return false, until
	}
	g := pt.GangOf(p)
	if !p.Unschedulable.IsZero() || pt.unschedulable[p.Class] || g != nil && g.refused {
		return true, time.Time{}
	}
	if unseen {
		return p.Class.Scheduler == model.DefaultScheduler, time.Time{}
	}
	if p.Class.Scheduler != model.DefaultScheduler || p.Class.Priority > 0 {
		return false, time.Time{} // for another scheduler, or kube-scheduler may place it by preemption
	}
	if due := p.Created.Add(pt.SchedulerWait); pt.Now.Before(due) {
		return false, due
	}
	return true, time.Time{}
}

// IsUnseen reports whether a pending pod is demand only if pods that kube-scheduler has not considered count.
func (pt *Table) IsUnseen(p *model.Pod) bool {
	if pt.awaitsPods(p) {
		return false
	}
	would, _ := pt.needsPlace(p, true)
	is, _ := pt.needsPlace(p, false)
	return would && !is
}

// mayLaunchFor reports whether the rules of node groups let nodes be launched for a pod now: it is not expendable, and is
// old enough. If not yet, it is so at an instant.
func (pt *Table) mayLaunchFor(p *model.Pod) (bool, time.Time) {
	if pt.Cutoff.IsExpendable(p) {
		return false, time.Time{}
	}
	if due := pt.LaunchDue(p); pt.Now.Before(due) {
		return false, due
	}
	return true, time.Time{}
}

// Leaving returns the pods of nodes that are being drained, or will be removed, that will be recreated elsewhere.
func (pt *Table) Leaving() []*model.Pod { return pt.leaving }

func (pt *Table) findLeaving() (out []*model.Pod) {
	for _, c := range pt.DirtyClaims {
		stays := c.Deleting.IsZero() && pt.Interruptions[c.Name] == nil
		if stays && !lifecycle.IsDrainedForReboot(c) {
			continue
		}
		n := pt.NodeFor(c)
		if n == nil {
			continue
		}
		for _, p := range n.Pods {
			if stays {
				if there, _ := lifecycle.StaysThroughReboot(c, p, pt.MinDrain, pt.Now); there {
					continue
				}
			}
			if p.Deleting.IsZero() && p.IsWorkload() && pt.HasSuccessor(p) && p.Owner.UID != "" && p.Owner.Kind != "Node" && !pt.Rollouts.hasSuccessor(p) {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, model.ComparePodKeys)
	return slices.Clip(out)
}

// withReplacements returns the pods on candidates of all commands that have replacements or hosts: slots are kept
// for them before they are evicted.
func (pt *Table) withReplacements() []*model.Pod {
	var out []*model.Pod
	for _, id := range pt.Commands.IDs() {
		out = append(out, pt.ToReplace(pt.Commands.ByID[id])...)
	}
	return out
}

// ToReplace returns the pods on a command's candidates that need slots; none if the command has neither replacements nor
// hosts.
func (pt *Table) ToReplace(m *cluster.Command) []*model.Pod {
	if len(m.Replacements)+len(m.HostedOn) == 0 {
		return nil
	}
	return pt.Evicted(m)
}

// Evicted returns the pods on a command's candidates that must be rescheduled.
func (pt *Table) Evicted(m *cluster.Command) (out []*model.Pod) {
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

// ToReschedule returns the pods on candidates of running commands that are not being deleted yet.
func (pt *Table) ToReschedule() []*model.Pod {
	var out []*model.Pod
	for _, id := range pt.Commands.IDs() {
		out = append(out, pt.Evicted(pt.Commands.ByID[id])...)
	}
	return out
}

// classOwner are the pods of a class that have one owner.
type classOwner struct {
	class *model.Class
	owner string
}

// WhyNotDemand returns why a pending pod is not demand.
func (pt *Table) WhyNotDemand(p *model.Pod) plan.Reason {
	if pt.awaitsPods(p) && !p.Gated && p.Nominated == "" {
		return gangIncomplete(pt.GangOf(p))
	}
	why := plan.OfNotSchedulable{Because: plan.SchedulerCause, Name: p.Class.Scheduler}
	switch {
	case !p.IsWorkload():
		why = plan.OfNotSchedulable{Because: plan.OwnerCause}
	case p.Gated:
		why = plan.OfNotSchedulable{Because: plan.GatesCause}
	case p.Nominated != "":
		why = plan.OfNotSchedulable{Because: plan.NominatedCause, Name: p.Nominated}
	case pt.Cutoff.IsExpendable(p):
		why = plan.OfNotSchedulable{Because: plan.PriorityCause, Priority: p.Class.Priority, Least: pt.Cutoff.Below}
	case pt.Now.Before(pt.LaunchDue(p)):
		why = plan.OfNotSchedulable{Because: plan.DelayCause, Until: pt.LaunchDue(p)}
	}
	return plan.Reason{Code: plan.NotSchedulable, Detail: why}
}
