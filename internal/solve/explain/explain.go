// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// Class returns why pods of a class that the plan left out could not be placed: for each pool the first failed check,
// nearest miss first. There is at least one reason.
func (s *Explainer) Class(c *problem.Class) []plan.Reason {
	if c.Spec.Daemon {
		return []plan.Reason{{Code: plan.NotSchedulable, Detail: plan.OfNotSchedulable{Because: plan.IsDaemon}}}
	}
	if x := &c.Spec.Excess; x.What != "" {
		return []plan.Reason{{Code: plan.TooComplex, Detail: plan.OfTooComplex{What: x.What, Most: x.Most, Have: x.Have}}}
	}
	if v := c.Spec.VolumeProblem(); v != nil {
		return []plan.Reason{{Code: plan.VolumeClaim, Detail: plan.OfVolumeClaim{
			Object: plan.Object(v.Problem.Object), Claim: v.Claim, Problem: v.Problem.Kind, Said: plan.Words(v.Problem.Words)}}}
	}
	var out []miss
	type shared struct { // by equivalent pools: the first check that fails before limits are looked at
		made      bool
		reason    *plan.Reason // nil: all pass
		onlyTaint bool         // it is a taint, and all other checks pass
	}
	said := make([]shared, len(s.In.Given.Pools))
	for i := range s.In.Given.Pools {
		if s.In.Given.Pools[i].Replicas >= 0 {
			continue // a static pool buys for nobody
		}
		u := s.Catalog.EquivalentPool[i]
		if f := &s.Catalog.Families[u]; len(f.Pools) > 0 && !f.Limited {
			u = f.Pools[len(f.Pools)-1] // the one without a limit
		}
		if !said[u].made {
			said[u].made = true
			said[u].reason, said[u].onlyTaint = s.explainBeforeLimits(c, u)
		}
		var r plan.Reason
		onlyTaint := false
		if x := said[u].reason; x != nil {
			r, onlyTaint = *x, said[u].onlyTaint
		} else if l := s.explainLimit(c, i); l != nil {
			r = *l
		} else {
			r = s.explainRest(c, i)
		}
		r.Pool = s.In.Given.Pools[i].Name
		out = append(out, miss{r, onlyTaint})
	}
	if len(out) == 0 {
		return []plan.Reason{{Code: plan.NoPools, Detail: plan.OfNoPools{Static: plan.ListOf(s.In.Given.Static)}}}
	}
	slices.SortStableFunc(out, func(a, b miss) int { return cmp.Compare(b.progress(), a.progress()) })
	reasons := make([]plan.Reason, 0, len(out))
	seen := map[string]bool{} // of several parts of one NodePool the nearest miss speaks
	for _, m := range out {
		if !seen[m.reason.Pool] {
			reasons = append(reasons, m.reason)
		}
		seen[m.reason.Pool] = true
	}
	return reasons
}

// miss is why a pool refuses a class.
type miss struct {
	reason    plan.Reason
	onlyTaint bool // it is a taint, and no other check before limits fails
}

// progress is how far the pool gets in the checks: the further, the nearer the miss. A taint is checked first, but a toleration of it is the only
// change that a pool needs which passes all other checks: it gets as far as a pool that could launch nodes at another time.
func (m *miss) progress() int {
	if m.onlyTaint {
		return plan.CheckRank(plan.OutOfCapacity) - 1
	}
	return plan.CheckRank(m.reason.Code)
}

// explainBeforeLimits makes the checks for one pool in order, up to its limits; pools that are equivalent but for their
// limits all answer it alike. It returns the first that fails, nil if none does; and whether that is a taint and nothing else is in the way.
func (s *Explainer) explainBeforeLimits(c *problem.Class, pi int) (r *plan.Reason, onlyTaint bool) {
	p := &s.In.Given.Pools[pi]
	if t := model.Untolerated(p.Taints, c.Spec.Tolerations); t != nil {
		return &plan.Reason{Code: plan.Taint, Detail: plan.TaintOf(*t)}, s.explainText(c, p) == nil && s.wouldServe(c, p)
	}
	if r := s.explainText(c, p); r != nil {
		return r, false
	}
	return s.explainOffers(c, pi), false
}

// explainText makes the checks that the pool's own text decides, behind that of its taints.
func (s *Explainer) explainText(c *problem.Class, p *problem.Pool) *plan.Reason {
	if r := s.explainLabels(c, p); r != nil {
		return r
	}
	switch { // last of what the pool's own text decides: a pool that would match but for this is the nearest miss
	case p.Deleting:
		return &plan.Reason{Code: plan.PoolNotReady, Detail: plan.OfPoolNotReady{Said: "the pool is being deleted"}}
	case !p.Ready:
		return &plan.Reason{Code: plan.PoolNotReady, Detail: plan.OfPoolNotReady{Condition: "Ready", Status: "True",
			Said: plan.Words(strings.Trim(p.NotReady.Reason+": "+p.NotReady.Message, ": "))}}
	}
	return nil
}
