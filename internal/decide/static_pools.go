// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/decide/limits"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// staticPools keeps pools with spec.replicas at that number.
type staticPools struct {
	*draft
	candidates *candidates
	commands   *commandTable
	purchases  *purchases
	unused     *unused.Launches
}

// scale keeps pools with spec.replicas at that number. It reports whether it bought.
func (sp *staticPools) scale() bool {
	bought := false
	for _, p := range sp.Snapshot.Pools {
		if p.Replicas < 0 {
			continue
		}
		var live []*model.Claim
		all := int64(0)
		for _, c := range sp.Snapshot.Claims {
			if c.Pool != p.Name {
				continue
			}
			all++
			if sp.commands.isStaying(c) {
				live = append(live, c)
			}
		}
		want := p.Replicas
		if p.Deleting {
			want = min(want, int64(len(live)))
		}
		allowed := -1
		if p.Ready && int64(len(live)) < want {
			allowed = sp.unused.StaticAllowance(p)
		}
		for n := int64(len(live)); n < want && p.Ready && allowed != 0; n++ {
			allowed--
			if p.NodeLimit >= 0 && all >= p.NodeLimit {
				break
			}
			a, ok := sp.purchases.staticClaim(p, plan.Reason{Code: plan.Replicas, Pool: p.Name, Detail: plan.OfReplicas{Want: want, Have: n}})
			if !ok {
				break
			}
			if _, reached := limits.Reached(sp.View, &a, sp.purchases.limitUses()); reached {
				break
			}
			if _, inFlight := sp.Snapshot.InFlight[a.Key()]; inFlight {
				break // under way, or refused: the other pools go on
			}
			sp.addAction(a)
			sp.purchases.namedClaims[a.Name] = true
			all++
			bought = true
		}
		if n := len(live) - int(want); n > 0 {
			sp.scaleDown(p, live, n)
		}
	}
	return bought
}

// scaleDown deletes what disturbs least: not launched, then empty, then of least weight, what says not to be disrupted
// last.
func (sp *staticPools) scaleDown(p *model.NodePool, live []*model.Claim, n int) {
	weight := func(c *model.Claim) int64 {
		u := sp.candidates.ofClaim(c)
		switch {
		case u == nil:
			return -1
		case len(u.Pods) == 0:
			return 0
		}
		w := u.DisruptionWeight()
		if disrupt.HasDoNotDisrupt(u.Node.Annotations) || disrupt.HasDoNotDisrupt(c.Annotations) || slices.ContainsFunc(u.Node.Pods, func(p *model.Pod) bool {
			held, _ := p.Held(sp.Now)
			return held
		}) {
			w += 1 << 40
		}
		return w
	}
	slices.SortStableFunc(live, func(a, b *model.Claim) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), strings.Compare(a.Name, b.Name))
	})
	for _, c := range live[:n] {
		if c.UID == "" {
			continue
		}
		sp.unused.MarkScaledDown(c.UID)
		sp.addAction(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: plan.ScaledDown, Pool: p.Name, Subject: plan.ObjectOf("nodeclaim", c.Name),
			Detail: plan.OfReplicas{Want: p.Replicas, Have: int64(len(live))}}})
	}
}

// replace returns the command that replaces a static pool's machine by another like it; nil and the reason if none can be
// launched beside it.
func (sp *staticPools) replace(u *disrupt.Candidate, cause plan.Code) (*disrupt.Command, plan.Reason) {
	if why := sp.whyNoReplacement(u.Pool); why.Code != "" {
		return nil, why
	}
	return &disrupt.Command{Cause: cause, Candidates: []*disrupt.Candidate{u}, OneForOne: true}, plan.Reason{}
}

// whyNoReplacement returns why a static pool can't launch one more machine beside those it has; an empty code: it can.
func (sp *staticPools) whyNoReplacement(p *model.NodePool) plan.Reason {
	all := int64(0)
	for _, c := range sp.Snapshot.Claims {
		if c.Pool == p.Name {
			all++
		}
	}
	switch {
	case p.NodeLimit >= 0 && all >= p.NodeLimit:
		return plan.Reason{Code: plan.Limit, Pool: p.Name, Detail: plan.OfLimit{Replacing: p.Name, Resource: "nodes", Need: plan.Amount(all + 1), Left: plan.Amount(p.NodeLimit)}}
	case p.Deleting:
		return plan.Reason{Code: plan.PoolNotReady, Pool: p.Name, Detail: plan.OfPoolNotReady{NodePool: p.Name, Said: "it is being deleted"}}
	case !p.Ready:
		return plan.Reason{Code: plan.PoolNotReady, Pool: p.Name, Detail: plan.OfPoolNotReady{NodePool: p.Name, Condition: "Ready", Status: "True",
			Said: plan.Words(strings.Trim(p.NotReady.Reason+": "+p.NotReady.Message, ": "))}}
	}
	a, ok := sp.purchases.staticClaim(p, plan.Reason{})
	if !ok {
		return plan.Reason{Code: plan.NoInstanceType, Pool: p.Name}
	}
	why, _ := limits.Reached(sp.View, &a, sp.purchases.limitUses())
	return why
}
