// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// AddStaticClaims shows the claims that pools with spec.replicas lack as under way, so that pending pods are planned onto them as a
// controller would do, and returns them.
func AddStaticClaims(s *state.State, now time.Time, pol decide.Policy) []plan.CreateClaim {
	claims := decide.StaticClaims(s.Snapshot(now), now, pol)
	for _, a := range claims {
		s.Overlay.AddProvisionalClaim(provisionalClaim(a, now))
	}
	return claims
}
