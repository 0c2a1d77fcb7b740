// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// Planner is the plan for a problem as far as it has grown.
type Planner struct {
	topology.Compiled
	Purchases  *Purchases
	Choices    *Choices
	Placement  *Placement
	colocation *colocation

	// LimitRate is limitPricing.rate if pods went to other pools because a limit left no room for one more machine like those bought below it; nil: no limit
	// did. Fewer pods may have to with limit prices, which an Alternative tries.
	LimitRate []int64
}

// NewPlanner compiles a problem. Nothing is placed yet. columns are those of the last solve, nil: none;
// leaveOut is one of stages or LowerBounds, empty: none. heeded is Input.Heeded.
func NewPlanner(p *problem.Problem, pol problem.Policy, columns *RememberedColumns, leaveOut string, heeded problem.Preferences) *Planner {
	c := topology.Compile(&problem.Input{Given: p, Policy: pol, LeaveOut: leaveOut, Heeded: heeded})
	s := &Planner{Compiled: c}
	s.Purchases = &Purchases{Compiled: c, Tier: 1, previousColumns: columns,
		Quantities: slices.Clone(c.Inst.InitialQuantities), Limits: problem.CloneLimits(c.Inst.InitialLimits)}
	s.Choices = &Choices{Compiled: c, Purchases: s.Purchases}
	s.Placement = &Placement{Compiled: c, Purchases: s.Purchases, Choices: s.Choices}
	s.colocation = &colocation{Compiled: c, Purchases: s.Purchases, Choices: s.Choices, Placement: s.Placement}
	return s
}

// reset takes back everything placed.
func (s *Planner) reset() {
	s.Usage.Reset()
	copy(s.Purchases.Quantities, s.Inst.InitialQuantities)
	problem.RestoreLimits(s.Purchases.Limits, s.Inst.InitialLimits)
	s.Topo.Reset()
	s.Placement.SeparationPremium = 0
	s.Placement.OnNodes, s.Placement.Bins, s.Placement.Demands, s.Purchases.NextColumns.Columns = s.Placement.OnNodes[:0], nil, nil, nil
}

// IsBetterThan reports whether this plan places more pods, or as many for less.
func (s *Planner) IsBetterThan(o *Planner) bool {
	refused := func(s *Planner) (n int) {
		for _, c := range s.Inst.Classes {
			n += c.Unplaced()
		}
		return n
	}
	return cmp.Or(cmp.Compare(refused(s), refused(o)), cmp.Compare(s.AdjustedCost(), o.AdjustedCost())) < 0
}

// CostsNoMoreThan reports whether this plan places as many pods as another, for no more money.
func (s *Planner) CostsNoMoreThan(o *Planner) bool {
	return s.PlacesAsManyAs(o) && s.totalCost() <= o.totalCost()
}

// KeepsNodePreferences reports whether this plan, which heeds preferences for nodes, is to be taken rather than one that
// heeds none: it costs no more, or it has no more machines, all pods prefer the same offers, and no machine costs more than
// the least of their preferences is worth to its pods. Pods that prefer different nodes would else have machines of their own,
// and consolidation would put them together, or replace a machine by a cheaper one.
func (s *Planner) KeepsNodePreferences(free *Planner) bool {
	if s.CostsNoMoreThan(free) {
		return true
	}
	if !s.PlacesAsManyAs(free) || s.Placement.CountMachines() > free.Placement.CountMachines() {
		return false
	}
	least := int64(math.MaxInt64)
	for _, c := range s.Inst.Classes {
		if s.Inst.PreferredOffersOf(c) != s.Inst.PreferredOffersOf(s.Inst.Classes[0]) {
			return false
		}
		least = min(least, c.PreferenceGain)
	}
	return s.totalCost() <= s.In.AddPreferenceCost(free.totalCost(), least) && !slices.ContainsFunc(s.Placement.Bins, func(b *Bin) bool {
		return s.Purchases.leastBinPrice(b) > s.In.AddPreferenceCost(s.leastPriceWithoutPreferences(b), least)
	})
}

// leastPriceWithoutPreferences is the price of the cheapest machine of a bin's pool that holds its pods, whatever they prefer.
func (s *Planner) leastPriceWithoutPreferences(b *Bin) int64 {
	allowed := b.offers
	for i, it := range b.Items {
		if offers := s.Inst.Classes[it.Class].Offers; i == 0 {
			allowed = offers
		} else {
			allowed = s.Catalog.Intersect(allowed, offers)
		}
	}
	return s.Purchases.leastPriceAmong(b, allowed)
}

// totalCost is what the machines to buy cost, micro-dollars an hour.
func (s *Planner) totalCost() (sum int64) {
	for _, b := range s.Placement.Bins {
		sum += s.Purchases.leastBinPrice(b) * b.Copies
	}
	return sum
}

// PlacesAsManyAs reports whether this plan places as many pods as another.
func (s *Planner) PlacesAsManyAs(o *Planner) bool {
	placed := func(s *Planner) (n int) {
		for _, c := range s.Inst.Classes {
			n += c.Assigned
		}
		return n
	}
	return placed(s) >= placed(o)
}

// AdjustedCost is what the machines to buy cost together, what each costs beside its price included; see AdjustPrice.
func (s *Planner) AdjustedCost() (sum int64) {
	for _, b := range s.Placement.Bins {
		sum += s.In.AdjustPrice(s.Purchases.leastBinPrice(b)) * b.Copies
	}
	return sum
}

// assume prepares an attempt.
func (s *Planner) assume(a Assumptions) {
	s.Purchases.Assumptions, s.Placement.purchaseCaps = a, a.purchaseCaps
	for id, set := range a.allowedOffers {
		if c := s.Inst.Classes[id]; c.Offers != set {
			c.Offers, c.PreferredOffers = set, nil
		}
	}
	for k, x := range a.spreads {
		r := &s.Inst.Classes[k.class].Topology.DomainRules[k.rule]
		r.Domains, r.FilledByOthers, r.ClosedDomains = x.domains, x.filledByOthers, x.closedDomains
	}
}
