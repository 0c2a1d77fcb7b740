// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package landing

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Closed contains, by the name of a reserved NodeClaim, whether its node is closed to pods without a slot, and since when.
//
// The node of a launched NodeClaim is closed from its registration: it has the unregistered taint until one write replaces that
// taint with the reservation. The reservation of a node that joins through a node group, or that existed before
// (cluster.ReservedSince), is written after the node exists. Until kube-scheduler has observed it, it may bind other pods there.
type Closed map[string]closure

// closure is whether a node was open when it was last seen, and when it was first seen closed.
type closure struct {
	bare  bool      // it had no reservation when it was last seen: it is open as soon as it is Ready
	open  bool      // it was, when it was last seen, and has been Ready since it is
	since time.Time // first seen closed after it was open; zero: it never was open while it could take pods
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
		reserved, takesPods := cluster.HasReservedTaint(n, c), n.Ready && !n.HasTaint(taintNotReady)
		switch {
		case !reserved && !n.HasTaint(model.TaintUnregistered):
			x = closure{bare: true, open: x.open || takesPods}
		case x.bare && !x.open && !takesPods: // it is reserved: whoever hears that it takes pods has heard of that before
			x = closure{}
		case x.bare, // it was open, or has become Ready and been reserved meanwhile, in whichever order
			!known && takesPods && (later || c.Labels[model.LabelNodeGroup] != ""): // if not known, another process may have closed it just now
			x = closure{since: now}
		}
		next[c.Name] = x
	}
	return next
}

// bindableFrom returns the instant from which kube-scheduler knows that a claim's node is closed, so that it chooses the node for nothing more; zero:
// it always has.
func (k Closed) bindableFrom(claim string, lag time.Duration) time.Time {
	if since := k[claim].since; !since.IsZero() {
		return since.Add(lag)
	}
	return time.Time{}
}

// bindingsKnownFrom returns the instant from which everything that kube-scheduler chose a claim's node for while the node was open is bound and
// known; zero: there is nothing.
func (k Closed) bindingsKnownFrom(claim string, lag, delay time.Duration) time.Time {
	if since := k[claim].since; !since.IsZero() {
		return since.Add(lag + delay)
	}
	return time.Time{}
}

// taintNotReady is the key of the taints that kube-controller-manager keeps on a node until it has seen that it is
// Ready.
const taintNotReady = "node.kubernetes.io/not-ready"
