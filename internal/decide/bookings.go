// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Capacity of standing nodes is held for the pods of a ProvisioningRequest as on a node that is launched for them: by slots on the node's claim
// and by the taint. The claim comes first, with AnnotationBooked. From then on the slots hold the capacity in Dovetail's own decisions, and once
// kube-scheduler knows of the taint they hold it against kube-scheduler; only then is the request provisioned. So are nodes that were launched
// for a request and could not be reserved before they were initialized. The reservation ends like any other, when the slots are given
// up or filled; then the annotation goes. All of it is in the API server: a process that starts in between goes on.

// bookings reserve standing nodes for the pods of ProvisioningRequests. One that ended before its pods came, because the taint could not be written or
// because nobody bound them, is tried again ever later.
type bookings struct {
	*draft
	hosts      *commandHosts
	nodes      *solverView
	placements *placements
	mem        *bookingMemory
}

// bookingMemory are the bookings that ended before their pods came, by uid of the claim. The zero value is valid.
type bookingMemory struct {
	failed map[string]failedBooking
}

// failedBooking is how often a claim's booking failed, and when it may be booked again.
type failedBooking struct {
	times int
	until time.Time
}

// rests reports whether a claim may not be booked now because its booking failed before, and until when.
func (m *bookingMemory) rests(c *model.Claim, now time.Time) (rests bool, until time.Time) {
	until = m.failed[c.UID].until
	if c.Annotations[model.AnnotationBooked] != "" || !now.Before(until) {
		return false, time.Time{}
	}
	return true, until
}

// firstRebooking and mostRebooking bound how long a node is not booked after its booking failed.
const (
	firstRebooking = time.Minute
	mostRebooking  = 30 * time.Minute
)

// reserve takes each standing node on that is booked, or is to be.
func (bk *bookings) reserve() {
	bk.mem.failed = bk.stillThere(bk.mem.failed)
	for _, c := range bk.DirtyClaims {
		if c.Annotations[model.AnnotationBooked] != "" && c.Deleting.IsZero() {
			bk.advance(c)
		}
	}
	if !bk.holds() {
		return
	}
	for _, h := range bk.reservations.All {
		if c := h.Claim; h.IsForRequest() && !c.Reserved && h.Node != nil && h.IsUsable() && landing.SpreadRefusal(c.Pool, h.Pods).Code == "" && bk.mayReserve(c, h.Node) {
			bk.book(c, h.Node, c.Slots)
		}
	}
	expected := bk.expected()
	for p, n := range bk.Snapshot.Nodes {
		pods := bk.placements.booked[n.Name]
		if len(pods) == 0 || bk.placements.awaitsEnds[n.Name] {
			continue
		}
		c := bk.ClaimOn(int32(p))
		switch {
		case c == nil || landing.SpreadRefusal(c.Pool, pods).Code != "" || !bk.mayReserve(c, n):
		case bk.reservations.ByClaim[c.Name] == nil:
			bk.book(c, n, bk.hosts.slotsBesidePods(n, slices.Concat(pods, expected[n.Name])))
		case c.Reserved && cluster.HasReservedTaint(n, c): // for a disruption command, or for other pods
			bk.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, SetSlots: true, Slots: bk.hosts.widenSlots(solverTarget{n, c, bk.reservations.ByClaim[c.Name]}, pods), Why: bookedFor(c, pods[0])})
		}
	}
}

// stillThere returns what is remembered of claims that exist.
func (bk *bookings) stillThere(failed map[string]failedBooking) map[string]failedBooking {
	if len(failed) == 0 {
		return nil
	}
	out := map[string]failedBooking{}
	for _, c := range bk.Snapshot.Claims {
		if x, ok := failed[c.UID]; ok {
			out[c.UID] = x
		}
	}
	return out
}

// holds reports whether nodes are reserved for pods at all.
func (dr *draft) holds() bool { return dr.pol.Landing.Mode != landing.Off }

// expected returns the pods that exist and are expected on standing nodes without a slot, by node: they get one there, since kube-scheduler can't
// bind them to a node that is reserved.
func (bk *bookings) expected() map[string][]*model.Pod {
	out := map[string][]*model.Pod{}
	if len(bk.placements.booked) == 0 {
		return out
	}
	for _, p := range bk.Snapshot.Pending {
		if was, ok := bk.placements.mem.byPod[p.UID]; ok && !p.Placeholder && !bk.slots.Covered[p.UID] {
			out[was.Node] = append(out[was.Node], p)
		}
	}
	return out
}

// mayReserve reports whether a claim's node can be reserved now. A reservation would close it to pods that are nominated to it: these would
// preempt others elsewhere.
func (bk *bookings) mayReserve(c *model.Claim, n *model.Node) bool {
	for _, g := range bk.hosts.mem.hosts {
		if _, hosts := g[c.Name]; hosts && !cluster.HasReservedTaint(n, c) {
			return false // its command reserves it
		}
	}
	if rests, _ := bk.mem.rests(c, bk.Now); rests {
		return false
	}
	return bk.canHold(c) && bk.isStaying(c) && !lifecycle.IsRebooting(c) && n.Deleting.IsZero() && c.Is(lifecycle.Initialized) && len(bk.NominatedPods()[n.Name]) == 0
}

// canHold reports whether the node of a claim is one that can be reserved; c may be nil: the node has no claim.
func (dr *draft) canHold(c *model.Claim) bool {
	return dr.holds() && c != nil && c.UID != "" && !dr.isForeign(c)
}

// book writes into a claim that its standing node is reserved for pods with these slots.
func (bk *bookings) book(c *model.Claim, n *model.Node, slots []model.Slot) {
	pods := bk.placements.booked[n.Name]
	if h := bk.reservations.ByClaim[c.Name]; h != nil {
		pods = slices.DeleteFunc(slices.Clone(h.Pods), func(p *model.Pod) bool { return !p.Placeholder })
	}
	bk.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, SetSlots: true, Slots: slots,
		Annotations: map[string]string{model.AnnotationBooked: bk.Now.UTC().Truncate(time.Second).Format(time.RFC3339), model.AnnotationReserved: "true"},
		Why:         bookedFor(c, pods[0])})
}

// bookedFor returns why a claim is reserved for a pod of a ProvisioningRequest.
func bookedFor(c *model.Claim, p *model.Pod) plan.Reason {
	return plan.Reason{Code: plan.Demand, Pool: c.Pool, Subject: plan.ObjectOf("provisioningrequest", p.Class.Request)}
}

// advance writes the taint of a node whose claim is booked, or ends the booking of one whose reservation is over.
func (bk *bookings) advance(c *model.Claim) {
	n := bk.NodeFor(c)
	if n != nil && cluster.HasReservedTaint(n, c) {
		return
	}
	h := bk.reservations.ByClaim[c.Name]
	if due, ok := bk.reservations.BookingDue(c); ok && c.Reserved && n != nil && h.IsForRequest() && bk.Now.Before(due) {
		bk.wakeAt(due)
		if bk.mayReserve(c, n) {
			i := slices.IndexFunc(h.Pods, func(p *model.Pod) bool { return p.Placeholder })
			bk.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, AddTaints: []model.Taint{{Key: model.TaintReserved, Value: c.Name, Effect: model.NoSchedule}}, Why: bookedFor(c, h.Pods[i])})
		}
		return
	}
	why := plan.Reason{Code: plan.Landed, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name)}
	if due, _ := bk.reservations.BookingDue(c); cluster.NewReservation(bk.View, c, n).AwaitedPods() == 0 {
		delete(bk.mem.failed, c.UID)
	} else if !bk.Now.Before(due) {
		why.Code, why.Detail = plan.LandingTimeout, plan.OfTimeout{Within: bk.reservations.Lifecycle.LandingTimeout}
		times := bk.mem.failed[c.UID].times
		if bk.mem.failed == nil {
			bk.mem.failed = map[string]failedBooking{}
		}
		bk.mem.failed[c.UID] = failedBooking{times + 1, bk.Now.Add(model.Backoff(firstRebooking, times, mostRebooking))}
	}
	bk.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, SetSlots: c.Annotations[cluster.AnnotationHost] == "", Annotations: map[string]string{model.AnnotationBooked: plan.Unset}, Why: why})
}

// labelUnheld is the key of the label of nodes that can't be reserved, as the solver takes them. No label of an object can have this key.
const labelUnheld = "(not reserved)"

// markUnheld returns nodes with labelUnheld on those that can't be reserved, if some of the pods must not be placed on such a node: they
// stand for those of a ProvisioningRequest that nodes are launched for. The list given stays as it is.
func (dm *demandStage) markUnheld(nodes []solve.ExistingNode, pods []*model.Pod) []solve.ExistingNode {
	dm.held = nil
	if !dm.holds() {
		return nodes
	}
	launched := map[string]bool{} // by uid of the request
	for _, r := range dm.Snapshot.Requests {
		launched[r.UID] = !r.CheckOnly
	}
	held := func(p *model.Pod) bool {
		return p.Placeholder && launched[p.Consumes.UID] && landing.SpreadRefusal("", []*model.Pod{p}).Code == ""
	}
	if !slices.ContainsFunc(pods, held) {
		return nodes
	}
	nodes = slices.Clone(nodes)
	for i := range nodes {
		p := dm.FindNode(nodes[i].Name)
		if p < 0 {
			continue
		}
		if c := dm.ClaimOn(p); !dm.canHold(c) || dm.heed(dm.bookings.rests(c, dm.Now)) {
			nodes[i].Labels, dm.held = model.MergeLabels(nodes[i].Labels, model.Labels{labelUnheld: "true"}), held
		}
	}
	return nodes
}
