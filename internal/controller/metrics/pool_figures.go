// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// poolFigures is how a NodePool stands.
type poolFigures struct {
	Name       string
	PriceMicro int64               // of its machines, an hour
	Total      int64               // machines that its budgets count
	Down       int64               // and how many of them are down or going
	Allowed    map[plan.Code]int64 // how many its budgets let be down or going at once, by reason
	DriftRest  time.Duration       // how long it must not have changed before its nodes are replaced for drift
}

// figuresOf returns how the pools stand, and how many machines might go for each reason now but for the budgets. They are for
// whoever measures: nothing is decided.
func figuresOf(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy) ([]poolFigures, map[plan.Code]int64) {
	st := decide.Stand(s, mem, now, pol)
	guard := disrupt.NewEligibility(s.PDBs, now) // neither rollouts nor node groups are reckoned with in figures
	guard.Shifts = s.Shifts
	guard.Cutoff, guard.DriftBackOff = st.Cutoff(), st.Eligibility().DriftBackOff
	price := map[string]int64{}
	eligible := map[plan.Code]int64{}
	for _, u := range st.Candidates() {
		price[u.Pool.Name] += max(u.PriceMicro, 0)
		occupied := u.Occupied
		for _, why := range disrupt.Budgeted {
			if why == plan.Empty && occupied || why == plan.Underutilized && !occupied || why == plan.Drifted && !u.Claim.Is(lifecycle.Drifted) {
				continue
			}
			if len(guard.Blockers(u, why, true)) == 0 {
				eligible[why]++
			}
		}
	}
	out := make([]poolFigures, 0, len(s.Pools))
	for _, p := range s.Pools {
		k := st.NodeCount(p.Name)
		f := poolFigures{Name: p.Name, PriceMicro: price[p.Name], Total: k.Total, Down: k.Unavailable, Allowed: map[plan.Code]int64{}, DriftRest: st.DriftRest(p)}
		for _, why := range disrupt.Budgeted {
			left, _ := st.BudgetLeft(p, why)
			f.Allowed[why] = left + f.Down
		}
		out = append(out, f)
	}
	return out, eligible
}
