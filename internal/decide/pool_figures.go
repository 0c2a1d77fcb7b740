// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Voluntary are the reasons that budgets know.
var Voluntary = []plan.Code{plan.Empty, plan.Drifted, plan.Underutilized}

// PoolFigures is how a pool stands.
type PoolFigures struct {
	Name       string
	PriceMicro int64               // of its machines, an hour
	Total      int64               // machines that its budgets count
	Down       int64               // and how many of them are down or going
	Allowed    map[plan.Code]int64 // how many its budgets let be down or going at once, by reason
}

// Figures are how the pools stand, and how many machines might go for each reason now but for the budgets. They are for
// whoever measures: nothing is decided.
func Figures(s *model.Snapshot, mem Memory, now time.Time, pol Policy) ([]PoolFigures, map[plan.Code]int64) {
	st := Stand(s, mem, now, pol).st
	st.candidates.guard = disrupt.NewEligibility(s.PDBs, now) // neither rollouts nor node groups are reckoned with in figures
	st.candidates.guard.Cutoff = st.Cutoff
	price := map[string]int64{}
	eligible := map[plan.Code]int64{}
	for _, u := range st.candidates.all {
		price[u.Pool.Name] += max(u.PriceMicro, 0)
		occupied := u.Occupied
		for _, why := range Voluntary {
			if why == plan.Empty && occupied || why == plan.Underutilized && !occupied || why == plan.Drifted && !u.Claim.Is(lifecycle.Drifted) {
				continue
			}
			if len(st.candidates.guard.Blockers(u, why, true)) == 0 {
				eligible[why]++
			}
		}
	}
	out := make([]PoolFigures, 0, len(s.Pools))
	for _, p := range s.Pools {
		k := st.candidates.budgetCounts[p.Name]
		f := PoolFigures{Name: p.Name, PriceMicro: price[p.Name], Total: k.Total, Down: k.Unavailable, Allowed: map[plan.Code]int64{}}
		for _, why := range Voluntary {
			left, _ := st.candidates.budgetLeft(p, why)
			f.Allowed[why] = left + f.Down
		}
		out = append(out, f)
	}
	return out, eligible
}
