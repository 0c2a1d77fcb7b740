// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// reservation is a claim whose slots still hold room for pods (contract 9): it is coming, or its reservation is not
// over.
type reservation struct {
	claim *model.Claim
	node  *model.Node
	slots []openSlot
	at    map[cluster.SlotKey]int
	pods  []*model.Pod // pending pods that the slots are for

	matched model.Resources // what these pods ask for, and the pods of DaemonSets that are still to come

	ending bool // pods that some of its open slots are for are still ending elsewhere
}

type openSlot struct {
	model.Slot
	bound   int // pods on the node
	matched int // pending pods that will come
	refused int // of these, pods that neither we may bind nor a toleration lets in
}

// awaitedPods is how many reserved pods are not on the node yet.
func (h *reservation) awaitedPods() int {
	if h == nil {
		return 0
	}
	n := 0
	for _, s := range h.slots {
		if !s.Loose {
			n += max(0, s.Count-s.bound-s.refused)
		}
	}
	return n
}

// began returns the condition Initialized of a reservation's claim, since when its pods may come: of a standing node that
// hosts a disruption command, since it was reserved.
func (h *reservation) began() model.Condition {
	c := h.claim.Conditions[lifecycle.Initialized]
	if r, hosts := readHostRecord(h.claim); hosts {
		c.Since = r.Since
	}
	return c
}

// isContested reports whether kube-scheduler may bind one of these pods to the node at any moment. Then all that comes
// there is left to it: who binds beside it may overfill the node.
func (h *reservation) isContested(intruders []*model.Class) bool {
	if h.node == nil || len(intruders) == 0 {
		return false
	}
	free := h.node.Allocatable.Sub(h.node.Used)
	return slices.ContainsFunc(intruders, func(c *model.Class) bool { return c.Requests.Fits(free) })
}

// hasCapacityFor reports whether the node has capacity left for a pod of a class beside the pods on it and those that come, those of
// DaemonSets included, which kube-scheduler and verify.BindingCheck do not count before they are there. A node that is not Ready does not say yet, and none says at once what its devices are.
func (h *reservation) hasCapacityFor(c *model.Class) bool {
	n := h.node
	if n == nil || !n.Ready || !isRegistered(n) {
		return true
	}
	for d, want := range c.Requests[:min(len(c.Requests), int(model.FirstExtended))] {
		d := model.Dim(d)
		if want > 0 && want > n.Allocatable.At(d)-n.Used.At(d)-h.matched.At(d) {
			return false
		}
	}
	return true
}

// slotIsLoose reports whether the pods of a slot tolerate every taint.
func (h *reservation) slotIsLoose(k cluster.SlotKey) bool {
	i, ok := h.at[k]
	return ok && h.slots[i].Loose
}

// isUsable reports whether a claim's node would take pods now, but for its reservation.
func (h *reservation) isUsable() bool {
	n := h.node
	if !n.Ready {
		return false
	}
	for _, t := range n.Taints {
		if t.Key != model.TaintReserved && t.Effect != model.PreferNoSchedule && !slices.Contains(h.claim.Taints, t) {
			return false
		}
	}
	return true
}

// distanceToReady says how far a claim's machine is from taking pods that wait: whoever has waited longest is to run
// first, and kube-scheduler looks at the oldest pods first, without success if these are of a machine that is not bought yet.
func (h *reservation) distanceToReady() int {
	switch c := h.claim; {
	case c.Is(lifecycle.Initialized) && !(h.node != nil && h.isUsable()):
		return 3
	case !c.Is(lifecycle.Launched):
		return 2
	case !c.Is(lifecycle.Initialized):
		return 1
	}
	return 0
}

// isRegistered reports whether there is a node and it has been registered.
func isRegistered(n *model.Node) bool { return n != nil && n.Labels[model.LabelRegistered] == "true" }

// hasReservedTaint reports whether a node bears the taint that reserves it for a claim's pods.
func hasReservedTaint(n *model.Node, c *model.Claim) bool {
	for _, t := range n.Taints {
		if t.Key == model.TaintReserved && t.Value == c.Name {
			return true
		}
	}
	return false
}
