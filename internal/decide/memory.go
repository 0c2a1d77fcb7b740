// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/decide/disruption"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/decide/pods"
	"github.com/dovetail-sh/dovetail/internal/decide/pools"
	"github.com/dovetail-sh/dovetail/internal/decide/requests"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
)

// Memory is what makes the next step cheap or calm: a part for each stage that remembers something, read and written by
// that stage. The zero value is valid. What is in it is replaced and never changed in place, so that a step that is
// dropped leaves no trace.
type Memory struct {
	unchanged     *unchangedNodes // nil: nothing is known, and every machine is looked at
	interruptions claims.InterruptionMemory
	backOffs      disruption.BackOffMemory
	drift         driftMemory
	groupActivity nodegroups.ActivityMemory
	reservations  pods.ReservationMemory
	closed        landing.Closed
	shortfalls    demand.ShortfallMemory
	unused        unused.Memory
	disagreements demand.DisagreementMemory
	lifecycle     claims.LifecycleMemory
	registrations pools.Registrations
	status        pools.StatusMemory
	slots         pods.SlotMemory
	placements    placementMemory
	anticipation  pods.AnticipationMemory
	buffers       bufferMemory
	requests      requests.Memory
	bookings      bookingMemory
	demand        demandMemory
	withholding   demand.WithholdingMemory
	smallNodes    demand.SmallNodeMemory
	purchases     purchaseMemory
	commands      commandMemory
	reboots       rebootMemory
	search        searchMemory
	evictions     pods.EvictionMemory
}

// FailingGroups returns the names of the node groups that are currently tried last.
func (m *Memory) FailingGroups(now time.Time) []unused.FailingGroup {
	return m.unused.FailingGroups(now)
}
