// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cluster

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Reservation is a NodeClaim with slots that still reserve capacity (contract 9): it is being launched, or its reservation
// has not ended.
type Reservation struct {
	Claim *model.Claim
	Node  *model.Node  // nil: none, or several
	Slots []OpenSlot   // in the order of the NodeClaim's slots
	Pods  []*model.Pod // pending pods with these slots, in the order of assignment
	at    map[SlotKey]int

	Matched model.Resources // requests of these pods, and of missing DaemonSet pods

	Ending bool // previous pods of some open slots are still terminating elsewhere
}

// OpenSlot is a slot of a NodeClaim, with the pods that use it.
type OpenSlot struct {
	model.Slot
	Bound   int  // pods on the node
	Matched int  // pending pods assigned to it
	Refused int  // of these, pods that Dovetail may not bind and whose toleration was rejected
	Ending  bool // its previous pods are still terminating elsewhere
}

// Awaited returns how many pods a slot keeps capacity for that are not on the node. A slot on a reserved node waits for the successor of its pod,
// and so does one of a replacement. kube-scheduler fills a node that is not reserved as it likes: only pods that are pending, or
// whose predecessors are ending, can be expected there.
func (h *Reservation) Awaited(s *OpenSlot) int {
	if h.Claim.Reserved || s.Ending || h.Claim.Annotations[AnnotationCommand] != "" {
		return s.Count - s.Bound
	}
	return s.Matched
}

// Expected returns the NodeClaim's slots with the number of pods that are on the node or Awaited.
func (h *Reservation) Expected() (slots []model.Slot) {
	for i := range h.Slots {
		s := h.Slots[i].Slot
		if s.Count = h.Slots[i].Bound + h.Awaited(&h.Slots[i]); s.Count > 0 {
			slots = append(slots, s)
		}
	}
	return slots
}

// NewReservation returns the reservation of a NodeClaim with slots, without any assigned pods. n is its node; nil: none.
func NewReservation(v *View, c *model.Claim, n *model.Node) *Reservation {
	h := &Reservation{Claim: c, Node: n, at: make(map[SlotKey]int, len(c.Slots))}
	for i, s := range c.Slots {
		h.Slots = append(h.Slots, OpenSlot{Slot: s})
		h.at[KeyOf(s)] = i
	}
	if n != nil {
		for _, p := range n.Pods {
			if i, ok := h.at[v.SlotKeyOf(p)]; ok && h.Slots[i].Bound < h.Slots[i].Count {
				h.Slots[i].Bound++
			}
		}
	}
	return h
}

// HasSlot reports whether the NodeClaim has a slot of this kind, filled or not.
func (h *Reservation) HasSlot(k SlotKey) bool {
	_, ok := h.at[k]
	return ok
}

// AwaitedPods returns the number of pods with slots that are not on the node yet; 0 for nil.
func (h *Reservation) AwaitedPods() int {
	if h == nil {
		return 0
	}
	n := 0
	for _, s := range h.Slots {
		if !s.Loose {
			n += max(0, s.Count-s.Bound-s.Refused)
		}
	}
	return n
}

// Began returns the NodeClaim's condition Initialized; for an existing node that was reserved later, since the start of the
// reservation. Pods may use the node since then.
func (h *Reservation) Began() model.Condition {
	c := h.Claim.Conditions[lifecycle.Initialized]
	if since, ok := ReservedSince(h.Claim); ok {
		c.Since = since
	}
	return c
}

// IsForRequest reports whether the NodeClaim has slots for pods of ProvisioningRequests that do not exist yet; false for nil.
func (h *Reservation) IsForRequest() bool {
	return h != nil && slices.ContainsFunc(h.Pods, func(p *model.Pod) bool { return p.Placeholder })
}

// IsPromised reports whether the NodeClaim has slots for a ProvisioningRequest that is Provisioned.
func (v *View) IsPromised(c *model.Claim) bool {
	return slices.ContainsFunc(v.Snapshot.Requests, func(r *model.ProvisioningRequest) bool {
		return r.IsProvisioned() && !r.IsOver() && slices.ContainsFunc(c.Slots, func(s model.Slot) bool { return s.Owner == r.UID })
	})
}

// HasCapacityFor reports whether the node has capacity left for a pod of a class beside the pods on it and those that come, those of
// DaemonSets included, which kube-scheduler and verify.BindingCheck do not count before they are there. A node that is not Ready does not say yet, and none says at once what its devices are.
func (h *Reservation) HasCapacityFor(c *model.Class) bool {
	n := h.Node
	if n == nil || !n.Ready || !IsRegistered(n) {
		return true
	}
	for d, want := range c.Requests[:min(len(c.Requests), int(model.FirstExtended))] {
		d := model.Dim(d)
		if want > 0 && want > n.Allocatable.At(d)-n.Used.At(d)-h.Matched.At(d) {
			return false
		}
	}
	return true
}

// SlotIsLoose reports whether the pods of a slot tolerate every taint.
func (h *Reservation) SlotIsLoose(k SlotKey) bool {
	i, ok := h.at[k]
	return ok && h.Slots[i].Loose
}

// IsUsable reports whether a NodeClaim's node would accept pods now, except for its reservation.
func (h *Reservation) IsUsable() bool {
	n := h.Node
	if !n.Ready {
		return false
	}
	for _, t := range n.Taints {
		if t.Key != model.TaintReserved && t.Effect != model.PreferNoSchedule && !slices.Contains(h.Claim.Taints, t) {
			return false
		}
	}
	return true
}

// IsShut reports whether an existing node that was reserved later accepts no pods now because someone cordoned or tainted it.
// Taints of Kubernetes for nodes that are not Ready do not count: they may be removed automatically.
func (h *Reservation) IsShut() bool {
	if h.Node == nil || h.Claim.Annotations[model.AnnotationBooked] == "" || !h.Node.Ready {
		return false
	}
	return !h.IsUsable()
}

// DistanceToReady returns how far a NodeClaim's machine is from accepting pods; 0 is the nearest. The oldest pods should run
// first, because kube-scheduler tries them first, without success if their machine is not launched yet.
func (h *Reservation) DistanceToReady() int {
	switch c := h.Claim; {
	case c.Is(lifecycle.Initialized) && !(h.Node != nil && h.IsUsable()):
		return 3
	case !c.Is(lifecycle.Launched):
		return 2
	case !c.Is(lifecycle.Initialized):
		return 1
	}
	return 0
}

// IsRegistered reports whether the node exists and is registered.
func IsRegistered(n *model.Node) bool { return n != nil && n.Labels[model.LabelRegistered] == "true" }

// HasReservedTaint reports whether a node has the taint of a NodeClaim's reservation.
func HasReservedTaint(n *model.Node, c *model.Claim) bool {
	for _, t := range n.Taints {
		if t.Key == model.TaintReserved && t.Value == c.Name {
			return true
		}
	}
	return false
}
