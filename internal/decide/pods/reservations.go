// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pods

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Reservations are the slots that NodeClaims hold for pods.
type Reservations struct {
	*cluster.View
	ReservationPolicy
	mem ReservationMemory

	ByClaim map[string]*cluster.Reservation // by NodeClaim name
	All     []*cluster.Reservation          // sorted by NodeClaim name
	Binding map[string]bool                 // by node: pods are being bound to it

	volumePods []*model.Pod // see withVolumes
}

// ReservationPolicy configures how long NodeClaims hold slots.
type ReservationPolicy struct {
	Lifecycle            lifecycle.Policy
	LandingGrace         time.Duration // time for kube-scheduler to bind the pods of an unreserved node after it became usable
	CommandTimeout       time.Duration // maximum wait of a reservation for the pods of a disruption command
	SlowSchedulerTimeout time.Duration // how long after its initialization a node may stay reserved while kube-scheduler is still binding pods to other nodes
}

// ReservationMemory is the state that Reservations keeps between steps.
type ReservationMemory struct {
	landedAt map[string]time.Time // by claim: when a pod of its slots was last on its way, came, or waited for a CSI driver

	schedulerLandedAt time.Time // when kube-scheduler last bound a pod to a node that is reserved for it
}

// LandingStatus reports whether pods of a reservation are certain to arrive, when this was last the case or one last arrived, and
// when the result may change.
//
// Pods are certain to arrive while their predecessors still run elsewhere, while they are being bound, while their ReplicaSet is
// creating them, and while they wait for a CSI driver to be registered on the node (DriversDue). Replacements of one command become
// Ready at different times, and its pods are evicted when all are Ready. No reservation waits longer than CommandTimeout, except
// for pods of ProvisioningRequests, which are booked for as long as the request defines.
//
// For SlowSchedulerTimeout after its initialization, a reservation with pods that kube-scheduler binds counts the binding of such a
// pod to any node as one of its own: kube-scheduler binds one pod after another, and a slow one reaches this node's pods only after
// the pods before them.
func (rt *Reservations) LandingStatus(h *cluster.Reservation) (coming bool, since, until time.Time) {
	if h.IsForRequest() {
		return true, rt.Now, time.Time{} // as long as capacity is looked for or booked
	}
	began := h.Began()
	if began.True() && (h.Ending || slices.ContainsFunc(h.Pods, func(p *model.Pod) bool { return p.Node != "" || p.Expected || p.Binding != "" })) {
		if due := began.Since.Add(rt.CommandTimeout); rt.Now.Before(due) {
			return true, rt.Now, due
		}
	}
	if due := rt.DriversDue(h, h.Pods); rt.Now.Before(due) {
		return true, rt.Now, due
	}
	if rt.mem.landedAt == nil {
		return false, rt.Now, time.Time{} // nothing is remembered: they may have been on their way a moment ago
	}
	since = rt.mem.landedAt[h.Claim.Name]
	if reserved, later := cluster.ReservedSince(h.Claim); later && since.Before(reserved) {
		since = reserved
	}
	if h.Node != nil {
		for _, p := range h.Node.Pods {
			if h.HasSlot(rt.SlotKeyOf(p)) && p.Bound.After(since) {
				since = p.Bound
			}
		}
	}
	if began.True() && slices.ContainsFunc(h.Pods, func(p *model.Pod) bool { return p.IsLetIn(h.Claim.Name) }) {
		landed := rt.mem.schedulerLandedAt
		if last := began.Since.Add(rt.SlowSchedulerTimeout); landed.After(last) {
			landed = last
		}
		if landed.After(since) {
			since = landed
		}
	}
	return false, since, time.Time{}
}

// DriversDue returns until when a node is held for pods with slots there that cannot use their volumes before a CSI driver is
// registered on it: lifecycle.StartTime after they could have been bound; zero: none.
func (rt *Reservations) DriversDue(h *cluster.Reservation, pods []*model.Pod) time.Time {
	began := h.Began()
	if h.Node == nil || !began.True() || !slices.ContainsFunc(pods, func(p *model.Pod) bool {
		return p.Node == "" && h.HasSlot(rt.SlotKeyOf(p)) && p.Class.AwaitedVolume(h.Node) != nil
	}) {
		return time.Time{}
	}
	return began.Since.Add(lifecycle.StartTime)
}

// ReadReservations returns the NodeClaims that hold capacity for pods, and until when they do.
func ReadReservations(v *cluster.View, pol ReservationPolicy, mem ReservationMemory) (_ *Reservations, next time.Time, _ ReservationMemory) {
	rt := &Reservations{View: v, ReservationPolicy: pol, mem: mem, ByClaim: map[string]*cluster.Reservation{}, Binding: map[string]bool{}}
	for _, p := range v.Snapshot.Pending {
		if p.Binding != "" {
			rt.Binding[p.Binding] = true
		}
	}
	for _, c := range v.DirtyClaims {
		n := v.NodeFor(c)
		holds, until := rt.holdsCapacity(c, n)
		if next = model.EarlierOf(next, until); !holds {
			continue
		}
		h := cluster.NewReservation(v, c, n)
		if n != nil {
			for _, p := range n.Pods {
				if slices.Contains(p.Reservations, c.Name) && p.Bound.After(rt.mem.schedulerLandedAt) {
					rt.mem.schedulerLandedAt = p.Bound
				}
			}
		}
		rt.ByClaim[c.Name] = h
		rt.All = append(rt.All, h)
	}
	slices.SortFunc(rt.All, func(a, b *cluster.Reservation) int { return strings.Compare(a.Claim.Name, b.Claim.Name) })
	return rt, next, rt.mem
}

// WithLanded returns the memory with the times, by NodeClaim, at which a pod of its reservation was last being bound or arrived.
func (m ReservationMemory) WithLanded(at map[string]time.Time) ReservationMemory {
	m.landedAt = at
	return m
}

// RewriteUnsureSlots writes slots again if it is unknown whether they were written. Other writes of this step to the same slots
// come first.
func RewriteUnsureSlots(v *cluster.View) (out plan.Part) {
	for _, c := range v.DirtyClaims {
		if c.SlotsUnsure && c.Deleting.IsZero() {
			out.Add(plan.UpdateClaim{Claim: c.Name, UID: c.UID, SetSlots: true, Slots: c.Slots,
				Why: plan.Reason{Code: plan.NoAnswer, Pool: c.Pool, Subject: plan.ObjectOf("", c.Name)}})
		}
	}
	return out
}

// holdsCapacity reports whether a claim's slots still count, and until when that is the answer. One that is coming without a reservation or slots, for virtual
// pods or because its pods went elsewhere, may still get some.
func (rt *Reservations) holdsCapacity(c *model.Claim, n *model.Node) (holds bool, until time.Time) {
	if !c.Deleting.IsZero() || len(c.Slots) == 0 && (!isUnreserved(c) || c.Is(lifecycle.Initialized)) || rt.Interruptions[c.Name] != nil || lifecycle.IsRebooting(c) {
		return false, time.Time{}
	}
	if n != nil && rt.Snapshot.ShiftFrom(c.Labels[model.LabelZone]) != nil && lifecycle.YieldsToShift(c, n, rt.Binding[n.Name] || rt.IsPromised(c)) {
		return false, time.Time{}
	}
	if !cluster.IsRegistered(n) {
		return !c.Is("Registered"), time.Time{} // not there yet; a node that was there and is gone holds nothing
	}
	stuck, until := lifecycle.IsStuck(c, rt.Pool(c.Pool), rt.Lifecycle, rt.Snapshot.Outages, rt.Now)
	switch {
	case stuck:
		return false, until
	case c.Reserved && cluster.HasReservedTaint(n, c), !c.Is(lifecycle.Initialized):
		return true, until
	case c.Reserved:
		if due, booked := rt.BookingDue(c); booked && rt.Now.Before(due) {
			return true, due // its taint is being written
		}
		return false, until // its reservation is over
	}
	since := c.Conditions[lifecycle.Initialized].Since
	if at := rt.mem.landedAt[c.Name]; at.After(since) {
		since = at
	}
	if over := since.Add(rt.LandingGrace); rt.Now.Before(over) {
		return true, over
	}
	if due := rt.DriversDue(cluster.NewReservation(rt.View, c, n), rt.withVolumes()); rt.Now.Before(due) {
		return true, due
	}
	return false, until
}

// BookingDue returns when the booking of an existing node ends if its taint has not been written: LandingTimeout after it was
// booked. booked is false if its NodeClaim is not booked.
func (rt *Reservations) BookingDue(c *model.Claim) (due time.Time, booked bool) {
	since, booked := cluster.BookedSince(c)
	return since.Add(rt.Lifecycle.LandingTimeout), booked
}

// withVolumes returns the pending pods that have volumes, one of each kind of slot.
func (rt *Reservations) withVolumes() []*model.Pod {
	if rt.volumePods == nil {
		rt.volumePods = []*model.Pod{}
		known := map[cluster.SlotKey]bool{}
		for _, p := range rt.Snapshot.Pending {
			if len(p.Class.Volumes) == 0 {
				continue
			}
			if k := rt.SlotKeyOf(p); !known[k] {
				known[k] = true
				rt.volumePods = append(rt.volumePods, p)
			}
		}
	}
	return rt.volumePods
}

// isUnreserved reports whether Dovetail launched a claim for pods, virtual ones too, without reserving its node for them.
func isUnreserved(c *model.Claim) bool {
	return c.NoReserve != "" && c.NoReserve != string(plan.Static) && c.Annotations[model.AnnotationAdopt] == ""
}

// hasSlotFor reports whether some reservation has slots for the class and owner of a pod.
func (rt *Reservations) hasSlotFor(p *model.Pod) bool {
	k := rt.SlotKeyOf(p)
	for _, h := range rt.ByClaim {
		if h.HasSlot(k) {
			return true
		}
	}
	return false
}

// OfNode returns the NodeClaim and reservation of the node at position p, or nil if it has none.
func (rt *Reservations) OfNode(p int32) (*model.Claim, *cluster.Reservation) {
	if c := rt.ClaimOn(p); c != nil {
		return c, rt.ByClaim[c.Name]
	}
	return nil, nil
}
