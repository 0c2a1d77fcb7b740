// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pods

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Transit finds the pods that will be bound to existing nodes.
type Transit struct {
	*cluster.View
	Slots     *Slots
	Evictions *Evictions
	Wait      time.Duration           // maximum wait for pods that will be bound
	Expected  func(*model.Pod) bool   // reports whether a pod is expected on an existing node
	IsGoing   func(*model.Claim) bool // reports whether a NodeClaim is about to be deleted, before State shows it
}

// Unbound returns the pods that will be bound and have no slot: it is unknown which existing node's capacity they use. Expendable
// pods use no capacity that others need. Pods that have been pending for Wait use none, unless they are expected on a node.
func (it *Transit) Unbound() []*model.Pod {
	var out []*model.Pod
	for _, p := range it.Snapshot.Pending {
		if !it.Slots.Covered[p.UID] && p.IsForScheduler() && !it.Cutoff.IsExpendable(p) && (it.Expected(p) || it.Now.Before(p.Created.Add(it.Wait))) {
			out = append(out, p)
		}
	}
	for _, p := range it.Slots.Table.Leaving() {
		if !it.Slots.Covered[p.UID] {
			out = append(out, p)
		}
	}
	for _, c := range it.DirtyClaims {
		if n := it.NodeFor(c); n != nil && it.IsGoing(c) {
			out = append(out, it.unreservedPodsOn(n)...)
		}
	}
	return slices.Concat(out, it.Slots.terminatingUnreserved(), it.Evictions.podsPendingSuccessor())
}

// unreservedPodsOn returns the pods on a node that must be rescheduled when it goes and have no slot.
func (it *Transit) unreservedPodsOn(n *model.Node) (out []*model.Pod) {
	for _, p := range n.Pods {
		if it.IsReschedulable(p) && !it.Slots.Covered[p.UID] {
			out = append(out, p)
		}
	}
	return out
}

// AreUnsettled reports whether pods are moving to existing nodes because of a command or drain that began within Wait, so that the
// free capacity is unknown; and when pods on no node may become demand. Longer drains do not delay decisions: Unbound
// contains their pods instead.
func (it *Transit) AreUnsettled() (in bool, until time.Time) {
	recent := func(since time.Time) bool { return it.Now.Before(since.Add(it.Wait)) }
	uncovered := func(c *model.Claim) bool {
		n := it.NodeFor(c)
		return n != nil && len(it.unreservedPodsOn(n)) > 0
	}
	for _, id := range it.Slots.Table.Commands.IDs() {
		for _, c := range it.Slots.Table.Commands.ByID[id].Candidates {
			if recent(it.Slots.Table.Commands.ByID[id].Since) && uncovered(c) {
				return true, until
			}
		}
	}
	for _, c := range it.DirtyClaims {
		if !c.Deleting.IsZero() && recent(c.Deleting) && uncovered(c) {
			return true, until
		}
	}
	for _, p := range it.Snapshot.Pending {
		is, due := it.Slots.Table.IsDemand(p)
		if until = model.EarlierOf(until, due); is && !it.Slots.Covered[p.UID] && recent(p.Created) {
			return true, until
		}
	}
	for _, a := range it.Evictions.mem.byPod { // it may have no successor yet that anybody could see
		if !a.slot && it.Now.Before(a.at.Add(successorTimeout)) {
			return true, until
		}
	}
	for _, h := range it.Slots.Reservations.All { // capacity that other pods may take until its own are there
		if !h.Claim.Reserved && h.AwaitedPods() > 0 && recent(h.Claim.Created) {
			return true, until
		}
	}
	return false, until
}
