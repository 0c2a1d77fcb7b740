// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// reboots has broken nodes rebooted. A reboot begins with the condition Rebooting on the node's claim, which lifecycle takes on.
type reboots struct {
	*draft
	mem    *rebootMemory
	health *claims.Health
}

// rebootMemory is what is remembered of reboots from step to step: those that began and that no claim is seen to speak of yet.
type rebootMemory struct{ begun []string } // by uid of a claim, sorted

// isUnderWay reports whether a claim's node is rebooted, or is to be, though its claim may not say so yet.
func (rb *reboots) isUnderWay(c *model.Claim) bool {
	return lifecycle.IsRebooting(c) || slices.Contains(rb.mem.begun, c.UID)
}

// begin begins the reboot of a claim's node.
func (rb *reboots) begin(c *model.Claim) {
	rb.mem.begun = slices.Sorted(slices.Values(append(slices.Clone(rb.mem.begun), c.UID)))
	rb.request(c)
}

// request writes into a claim that its node is rebooted.
func (rb *reboots) request(c *model.Claim) {
	x := rb.health.Of(c)
	said := plan.DetailOf[plan.OfUnhealthy](x.Cause).Condition
	if n := rb.NodeFor(c); n != nil && n.Conditions[said].Reason != "" {
		said += "/" + n.Conditions[said].Reason
	}
	rb.addAction(lifecycle.RequestReboot(c, x.Drain, said, x.Cause))
}

// requestAgain writes again what was not written, or is not known to have been, and forgets the reboots that claims speak of. A node that is not broken any
// more, or that goes, is not rebooted.
func (rb *reboots) requestAgain() {
	if len(rb.mem.begun) == 0 {
		return
	}
	var left []string
	for _, uid := range rb.mem.begun {
		c := rb.ClaimWithUID(uid)
		switch {
		case c == nil || lifecycle.IsRebooting(c) || !rb.isStaying(c):
		case rb.IsUpdating(c):
			left = append(left, uid)
			rb.wakeAt(rb.Now.Add(rb.pol.SearchInterval))
		case rb.health.IsBroken(c, rb.Now) && rb.health.Of(c).Reboot:
			left = append(left, uid)
			rb.request(c)
		}
	}
	rb.mem.begun = left
}
