// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package landing

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Closed contains, by the name of a reserved NodeClaim, whether its node is closed to pods without a slot, and since when.
//
// The node of a launched NodeClaim has the unregistered taint until one write replaces that taint with the reservation: it is closed from its
// registration to pods that do not tolerate NoExecute taints. The reservation of a node that joins through a node group, or that existed before
// (cluster.ReservedSince), is written after the node exists. Until kube-scheduler has observed it, it may bind other pods there.
type Closed map[string]closure

// closure is when a node was closed, for two kinds of pods.
type closure struct {
	all   gap // pods that tolerate no taint of an unregistered node
	early gap // pods that tolerate its NoExecute taints: the node is open to these as soon as it is Ready and has no NoSchedule taint for not being so
}

// gap is the time in which a node took pods before it was reserved.
type gap struct {
	bare  bool      // it was not closed when it was last seen: it is open as soon as it is Ready
	open  bool      // it was, when it was last seen, and has been Ready since it is
	since time.Time // first seen closed after it was open; zero: it never was open while it could take pods
}

// next returns the gap after the node is seen again. bare: it is not closed. takesPods: it is Ready. unknown: another process may have
// closed it just now.
func (g gap) next(now time.Time, bare, takesPods, unknown bool) gap {
	switch {
	case bare:
		return gap{bare: true, open: g.open || takesPods}
	case g.bare && !g.open && !takesPods: // it is reserved: whoever hears that it takes pods has heard of that before
		return gap{}
	case g.bare, // it was open, or has become Ready and been reserved meanwhile, in whichever order
		unknown:
		return gap{since: now}
	}
	return g
}

// knownFrom returns an instant that comes after the gap has ended; zero: there was none.
func (g gap) knownFrom(after time.Duration) time.Time {
	if g.since.IsZero() {
		return time.Time{}
	}
	return g.since.Add(after)
}

// Note returns k updated with the current nodes of these reservations.
func (k Closed) Note(now time.Time, reservations []*cluster.Reservation) Closed {
	next := Closed{}
	for _, h := range reservations {
		c, n := h.Claim, h.Node
		if n == nil {
			continue
		}
		x, known := k[c.Name]
		_, later := cluster.ReservedSince(c)
		open, takesPods := !cluster.HasReservedTaint(n, c), n.Ready && !n.HasTaint(taintNotReady)
		takesEarly := n.Ready && !slices.Contains(n.Taints, model.Taint{Key: taintNotReady, Effect: model.NoSchedule})
		next[c.Name] = closure{
			all:   x.all.next(now, open && !n.HasTaint(model.TaintUnregistered), takesPods, !known && takesPods && (later || c.Labels[model.LabelNodeGroup] != "")),
			early: x.early.next(now, open, takesEarly, !known && takesEarly),
		}
	}
	return next
}

// taintNotReady is the key of the taints that kube-controller-manager keeps on a node until it has seen that it is
// Ready.
const taintNotReady = "node.kubernetes.io/not-ready"
