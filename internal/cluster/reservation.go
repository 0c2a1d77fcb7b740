// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cluster

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Reservation is a claim whose slots still hold room for pods (contract 9): it is coming, or its reservation is not
// over.
type Reservation struct {
	Claim *model.Claim
	Node  *model.Node  // nil: there is none, or there are several
	Slots []OpenSlot   // in the order of the claim's slots
	Pods  []*model.Pod // pending pods that the slots are for, in the order in which they were matched
	at    map[SlotKey]int

	Matched model.Resources // what these pods ask for, and the pods of DaemonSets that are still to come

	Ending bool // pods that some of its open slots are for are still ending elsewhere
}

// OpenSlot is a slot of a claim, and the pods that take it.
type OpenSlot struct {
	model.Slot
	Bound   int  // pods on the node
	Matched int  // pending pods that will come
	Refused int  // of these, pods that neither we may bind nor a toleration lets in
	Ending  bool // pods that it is for are still ending elsewhere
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

// Expected returns the slots of the claim with as many pods as are on the node or Awaited.
func (h *Reservation) Expected() (slots []model.Slot) {
	for i := range h.Slots {
		s := h.Slots[i].Slot
		if s.Count = h.Slots[i].Bound + h.Awaited(&h.Slots[i]); s.Count > 0 {
			slots = append(slots, s)
		}
	}
	return slots
}

// NewReservation returns what a claim with slots holds for pods, none of which is matched to a slot yet. n is its node; nil: it
// has none.
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

// HasSlot reports whether the claim has a slot of a kind, filled or not.
func (h *Reservation) HasSlot(k SlotKey) bool {
	_, ok := h.at[k]
	return ok
}

// AwaitedPods returns how many pods that slots are kept for are not on the node yet; 0 for nil.
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

// Began returns the condition Initialized of a reservation's claim, since when its pods may come: of a node that was reserved
// when it was standing, since then.
func (h *Reservation) Began() model.Condition {
	c := h.Claim.Conditions[lifecycle.Initialized]
	if since, ok := ReservedSince(h.Claim); ok {
		c.Since = since
	}
	return c
}

// IsForRequest reports whether pods of ProvisioningRequests that do not exist yet have slots on the claim; false for nil.
func (h *Reservation) IsForRequest() bool {
	return h != nil && slices.ContainsFunc(h.Pods, func(p *model.Pod) bool { return p.Placeholder })
}

// IsPromised reports whether slots of a claim are for a ProvisioningRequest that is provisioned.
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

// IsUsable reports whether a claim's node would take pods now, but for its reservation.
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

// IsShut reports whether a node that was reserved when it was standing takes no pods now, because somebody cordoned or tainted it. Taints that
// Kubernetes sets on a node that is not Ready do not count: they may go by themselves.
func (h *Reservation) IsShut() bool {
	if h.Node == nil || h.Claim.Annotations[model.AnnotationBooked] == "" || !h.Node.Ready {
		return false
	}
	return !h.IsUsable()
}

// DistanceToReady returns how far a claim's machine is from taking pods that wait, 0 the nearest. The oldest pods
// should run first: kube-scheduler tries them first, in vain if their machine is not launched yet.
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

// IsRegistered reports whether there is a node and it has been registered.
func IsRegistered(n *model.Node) bool { return n != nil && n.Labels[model.LabelRegistered] == "true" }

// HasReservedTaint reports whether a node bears the taint that reserves it for a claim's pods.
func HasReservedTaint(n *model.Node, c *model.Claim) bool {
	for _, t := range n.Taints {
		if t.Key == model.TaintReserved && t.Value == c.Name {
			return true
		}
	}
	return false
}
