// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Provisional returns how a claim that is being created looks until the API server shows it.
func (a CreateClaim) Provisional(now time.Time) *model.Claim {
	return &model.Claim{
		Name: a.Name, Pool: a.Pool.Name, Requirements: a.Requirements, Labels: a.Pool.Labels, Annotations: a.Annotations, Taints: a.Pool.Taints,
		StartupTaints: a.Pool.StartupTaints, Requests: a.Requests, ExpireAfter: -1, TerminationGracePeriod: -1, Created: now,
		Reserved: a.Reserved, Slots: a.Slots, NoReserve: string(a.NoReserve.Code), Provisional: true,
	}
}
