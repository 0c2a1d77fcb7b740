// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// revision is an assumption that may be refuted. It returns the assumptions for the next attempt, and whether one is
// necessary. It may change its argument, which is a copy.
type revision struct {
	name, doc string
	revise    func(*Reviser, Assumptions) (Assumptions, bool)
}

// purchaseRevisions are checked in this order after machines are planned, up to the first that requires another attempt.
var purchaseRevisions = []revision{
	{"priorities", "limits left a pod without a machine that one of lower priority got", (*Reviser).respectPriorities},
	{"limit prices", "limits were spent on machines that hold little", (*Reviser).raiseLimitPrices},
	{"purchase caps", "pods counted in a domain found no machine there", (*Reviser).lowerPurchaseCaps},
}

// placementRevisions are checked in this order after groups that share a host are placed.
var placementRevisions = []revision{
	{"minValues", "a machine leaves its pool fewer values of a label than it asks for", (*Reviser).banPoolsWithoutChoice},
	{"new domains", "machines stand in domains that a spread did not expect", (*Reviser).expectNewDomains},
	{"order", "a spread is kept only if its pods come before others", (*Reviser).DeferCrowdedClasses},
	{"empty domains", "a spread counts domains in which nothing stands", (*Reviser).dropEmptyDomains},
}

// revise checks revisions, and returns the new assumptions and whether the attempt must be repeated.
func (s *Reviser) revise(list []revision, a Assumptions) (next Assumptions, again bool) {
	for _, r := range list {
		if a, again = r.revise(s, a); again {
			return a, true
		}
	}
	return a, false
}

// respectPriorities makes further attempts pack priorities one after another, if a pod has no machine although one of
// lower priority has.
func (s *Reviser) respectPriorities(a Assumptions) (Assumptions, bool) {
	if a.byPriority {
		return a, false
	}
	for _, d := range s.unbought {
		for _, b := range s.plan.Placement.Bins {
			for _, it := range b.Items {
				a.byPriority = a.byPriority || s.Inst.Classes[it.Class].Spec.Priority < d.Class.Spec.Priority
			}
		}
	}
	return a, a.byPriority
}

// maxRestarts bounds how often purchase caps are lowered one by one; after that all go to zero at once.
const maxRestarts = 32

// lowerPurchaseCaps lowers how many pods may be bought for in domains where some found no machine, so that they are
// not counted against others that spread with them or want to be near them.
func (s *Reviser) lowerPurchaseCaps(a Assumptions) (Assumptions, bool) {
	all := s.attempts >= maxRestarts || s.Work.OutOfSteps()
	changed := false
	for _, d := range s.unbought {
		if d.assignment == nil {
			continue
		}
		if !changed {
			changed = true
			if a.purchaseCaps = maps.Clone(a.purchaseCaps); a.purchaseCaps == nil {
				a.purchaseCaps = map[topology.ClassAssignment]int64{}
			}
		}
		a.purchaseCaps[topology.ClassAssignment{Class: d.Class.ID, Assignment: d.assignment.ID}] = d.total - d.Unbought
	}
	if changed && all {
		for _, d := range s.plan.Placement.Demands {
			if d.assignment != nil {
				a.purchaseCaps[topology.ClassAssignment{Class: d.Class.ID, Assignment: d.assignment.ID}] = 0
			}
		}
	}
	return a, changed
}

// banPoolsWithoutChoice takes a pool from the classes of the first bin that leaves the pool fewer values than its
// MinValues ask for.
func (s *Reviser) banPoolsWithoutChoice(a Assumptions) (Assumptions, bool) {
	b := s.plan.Placement.binLackingMinValues()
	if b == nil {
		return a, false
	}
	a.allowedOffers, a.BannedPools = maps.Clone(a.allowedOffers), maps.Clone(a.BannedPools)
	if a.allowedOffers == nil {
		a.allowedOffers, a.BannedPools = map[int]*problem.OfferSet{}, map[ClassPool]bool{}
	}
	for _, it := range b.Items {
		c := s.Inst.Classes[it.Class]
		bits := slices.Clone(c.Offers.Bits)
		lo, hi := s.Catalog.PoolOfferRange(b.Pool)
		for i := lo; i < hi; i++ { // those of limited quantity too, or the next attempt would be this one again
			bits[i>>6] &^= 1 << (i & 63)
		}
		a.allowedOffers[c.ID], a.BannedPools[ClassPool{c.ID, b.Pool}] = s.Catalog.InternOfferSet(bits), true
	}
	return a, true
}
