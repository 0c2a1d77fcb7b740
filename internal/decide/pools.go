// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"github.com/dovetail-sh/dovetail/internal/decide/pools"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Here is what the stages of decide/pools are given, and where what they return goes.

// writePoolStatus writes what has changed in the status of NodePools.
func (st *step) writePoolStatus() {
	out, next := pools.Status(st.View, pools.StatusIn{Interval: st.pol.PoolStatusInterval, Registrations: st.mem.registrations,
		Conditions: func(p *model.NodePool) map[string]model.Condition {
			return map[string]model.Condition{unused.ConditionType: st.unused.Bars.Condition(p), ConditionDriftBackOff: st.driftBackOff.condition(p)}
		}}, st.mem.status)
	st.merge(out)
	st.mem.status = next
}

// scaleStatic keeps pools with spec.replicas at that number. It reports whether it launches a node.
func (st *step) scaleStatic() bool {
	allowed := map[string]int{}
	for _, p := range pools.LackingNodes(st.View, st.isStaying) {
		allowed[p.Name] = st.unused.StaticAllowance(p)
	}
	in := st.surplusInput()
	in.MaxTypes, in.Uses, in.Decided, in.Allowed = st.pol.Solve.MaxTypes, st.purchases.limitUses(), st.Decided, allowed
	out := pools.ScaleStatic(st.View, in)
	st.merge(out.Part)
	for _, uid := range out.ScaledDown {
		st.unused.MarkScaledDown(uid)
	}
	return out.Launches
}

// surplusInput returns the input of pools.Surplus.
func (st *step) surplusInput() pools.StaticIn {
	return pools.StaticIn{IsStaying: st.isStaying, CandidateOf: st.candidates.ofClaim, HasDrifted: st.candidates.hasDrifted, HavePlaces: st.search.placesAsked()}
}

// staticRefusal returns why a static pool can't launch one more machine beside those it has; an empty code: it can.
func (pu *purchases) staticRefusal(p *model.NodePool) plan.Reason {
	return pools.StaticRefusal(pu.View, p, pu.pol.Solve.MaxTypes, pu.Decided, pu.limitUses())
}

// staticReplacement returns the command that replaces a static pool's machine by another like it; nil and the reason if none can be
// launched beside it.
func (pu *purchases) staticReplacement(u *disrupt.Candidate, cause plan.Code) (*disrupt.Command, plan.Reason) {
	if why := pu.staticRefusal(u.Pool); why.Code != "" {
		return nil, why
	}
	return &disrupt.Command{Cause: cause, Candidates: []*disrupt.Candidate{u}, OneForOne: true}, plan.Reason{}
}
