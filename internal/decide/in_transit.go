// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// podsInTransit finds the pods that are on their way to standing nodes.
type podsInTransit struct {
	*draft
	evictions    *evictions
	placements   *placements
	pods         *podTable
	reservations *reservations
	slots        *slotAssignment
}

// unboundInTransit returns the pods that are to be bound somewhere and have no slot: which standing node's capacity
// they take is not known before they are there. Expendable pods take none that others need. Pods that have been pending for Policy.InTransitWait take none, unless
// they are expected on a node.
func (it *podsInTransit) unboundInTransit() []*model.Pod {
	var out []*model.Pod
	for _, p := range it.Snapshot.Pending {
		if _, expected := it.placements.mem.byPod[p.UID]; !it.slots.covered[p.UID] && p.IsForScheduler() && !it.Cutoff.IsExpendable(p) && (expected || it.Now.Before(p.Created.Add(it.pol.InTransitWait))) {
			out = append(out, p)
		}
	}
	for _, p := range it.pods.leavingPods() {
		if !it.slots.covered[p.UID] {
			out = append(out, p)
		}
	}
	for _, c := range it.DirtyClaims {
		if n := it.NodeFor(c); n != nil && it.isAboutToBeDeleted(c) {
			out = append(out, it.unreservedPodsOn(n)...)
		}
	}
	return slices.Concat(out, it.slots.terminatingUnreserved(), it.evictions.podsPendingSuccessor())
}

// unreservedPodsOn returns the pods on a node that must be rescheduled when it goes and have no slot.
func (it *podsInTransit) unreservedPodsOn(n *model.Node) (out []*model.Pod) {
	for _, p := range n.Pods {
		if it.IsReschedulable(p) && !it.slots.covered[p.UID] {
			out = append(out, p)
		}
	}
	return out
}

// areInTransit reports whether pods are on their way to standing nodes because of a command or a drain begun within
// Policy.InTransitWait, so that free capacity is not known; and when pods may become demand that are on none. A longer drain is not waited for; its pods are then
// reckoned with instead.
func (it *podsInTransit) areInTransit() (in bool, until time.Time) {
	recent := func(since time.Time) bool { return it.Now.Before(since.Add(it.pol.InTransitWait)) }
	uncovered := func(c *model.Claim) bool {
		n := it.NodeFor(c)
		return n != nil && len(it.unreservedPodsOn(n)) > 0
	}
	for _, id := range it.commands.IDs() {
		for _, c := range it.commands.ByID[id].Candidates {
			if recent(it.commands.ByID[id].Since) && uncovered(c) {
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
		is, due := it.pods.isDemand(p)
		if until = model.EarlierOf(until, due); is && !it.slots.covered[p.UID] && recent(p.Created) {
			return true, until
		}
	}
	for _, a := range it.evictions.mem.byPod { // it may have no successor yet that anybody could see
		if !a.slot && it.Now.Before(a.at.Add(successorTimeout)) {
			return true, until
		}
	}
	for _, name := range slices.Sorted(maps.Keys(it.reservations.byClaim)) { // capacity that other pods may take until its own are there
		if h := it.reservations.byClaim[name]; !h.Claim.Reserved && h.AwaitedPods() > 0 && recent(h.Claim.Created) {
			return true, until
		}
	}
	return false, until
}
