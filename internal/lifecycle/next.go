// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Next returns the next step of a NodeClaim.
func Next(in Input) Output {
	var out Output
	switch {
	case in.Claim.Provisional:
	case !in.Claim.Deleting.IsZero():
		stepDeletion(&in, &out)
	default:
		stepLiveClaim(&in, &out)
	}
	return out
}

// stepLiveClaim moves a claim that is not being deleted on, from its creation to a usable node.
func stepLiveClaim(in *Input, out *Output) {
	c := in.Claim
	if !c.HasFinalizer {
		out.addActions(plan.UpdateClaim{Claim: c.Name, UID: c.UID, AddFinalizer: true, Why: plan.Reason{Code: plan.Launching}})
	}
	if deleteIfExpired(in, out) {
		return
	}
	if !c.Is(Launched) {
		launchInstance(in, out)
		return
	}
	if deleteIfInstanceGone(in, out) || deleteIfShiftedAway(in, out) {
		return
	}
	if len(in.Nodes) != 1 {
		awaitNode(in, out)
		return
	}
	n := in.Nodes[0]
	if !n.Deleting.IsZero() {
		out.addActions(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: plan.Deleted, Subject: plan.ObjectOf("node", n.Name)}})
		return
	}
	stepNode(in, n, out)
	if IsRebooting(c) {
		stepReboot(in, n, out)
	}
	if p := in.Pool; len(out.Actions) == 0 && c.Orphan && p != nil && !p.Deleting && p.UID != "" { // it can wait, and nothing else has to
		out.addActions(plan.UpdateClaim{Claim: c.Name, UID: c.UID, OwnerPool: p.Name, OwnerUID: p.UID, Why: plan.Reason{Code: plan.Reclaimed, Pool: p.Name, Subject: plan.ObjectOf("nodepool", p.Name)}})
	}
}

// deleteIfExpired deletes a claim past its expireAfter, and reports whether it did. A usable node of a pool is left to be
// replaced first, for Policy.ExpireGrace.
func deleteIfExpired(in *Input, out *Output) bool {
	c := in.Claim
	if c.ExpireAfter < 0 {
		return false
	}
	end := c.Created.Add(c.ExpireAfter)
	if !IsExpired(c, in.Now) {
		out.lookAgainAt(end)
		return false
	}
	if last := end.Add(in.Policy.ExpireGrace); in.Pool != nil && c.Is(Initialized) && in.Now.Before(last) {
		out.lookAgainAt(last)
		return false
	}
	out.addActions(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{
		Code: plan.Expired, Pool: c.Pool, Detail: plan.OfExpired{
			After: c.ExpireAfter, Age: in.Now.Sub(c.Created).Round(time.Second)}}})
	return true
}
