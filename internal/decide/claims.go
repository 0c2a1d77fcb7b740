// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Here is what the stages of decide/claims are given, and where what they return goes.

// batchInterruptions finds whether pods of newly interrupted machines are decided on in this step.
func (st *step) batchInterruptions() {
	due, until, next := claims.BatchInterruptions(st.View, st.pol.InterruptionBatchIdle, st.mem.interruptions)
	st.wakeAt(until)
	st.demand.interrupted, st.mem.interruptions = due, next
}

// drainInterrupted takes each interrupted machine one step on.
func (st *step) drainInterrupted() {
	if len(st.Interruptions) == 0 {
		return
	}
	slots := map[string]*model.Claim{}
	for _, name := range slices.Sorted(maps.Keys(st.reservations.byClaim)) {
		h := st.reservations.byClaim[name]
		for _, p := range h.Pods {
			slots[p.UID] = h.Claim
		}
	}
	st.merge(claims.DrainInterrupted(st.View, claims.InterruptionIn{Begun: st.Begun, Slots: slots, Expected: st.placements.isExpected}))
}
