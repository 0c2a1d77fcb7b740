// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import "github.com/dovetail-sh/dovetail/internal/plan"

// unusedCause says why no pod came to a node that was launched for it: the cause of a UnusedLaunches reason.
func unusedCause(d plan.OfUnusedLaunches) string {
	said := string(d.Said)
	switch d.Cause {
	case plan.Taint:
		return "the pod doesn't tolerate node taint " + said + ", which the NodePool doesn't declare"
	case plan.Mismatch:
		return "kube-scheduler: " + said
	case plan.ClaimRefused:
		return "the API server refuses the NodeClaim: " + said
	case plan.LaunchTimeout:
		return "no instance was launched: " + or(said, "no answer")
	case plan.RegistrationTimeout:
		return "its node didn't register within " + said
	case plan.Expired:
		return "expireAfter of " + said + " passed before the node was ready"
	case plan.Initializing:
		return "its node didn't become ready" + with(": ", said, "")
	case plan.LandingTimeout:
		return "its node is ready, and no pod was scheduled to it"
	case plan.InstanceGone:
		return "its instance is gone" + with(": ", said, "")
	case plan.NodeGone:
		return "its Node was deleted before a pod ran on it"
	case plan.Deleted:
		return "it was deleted before a pod ran on it"
	}
	return said
}
