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

// Planner is a plan for a problem under construction.
type Planner struct {
	topology.Compiled
	Purchases  *Purchases
	Choices    *Choices
	Placement  *Placement
	colocation *colocation

	// LimitRate is limitPricing.rate if a limit left no room for one more machine, so that pods went to other pools;
	// nil: no limit did. With limit prices, fewer pods may have to, which an Alternative tries.
	LimitRate []int64
}

// NewPlanner compiles a problem and places nothing. columns are those of the last solve, nil: none; leaveOut is the name
// of a stage or of a lower bound to disable, empty: none. heeded is Input.Heeded.
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

// IsBetterThan reports whether this plan places more pods, or as many at a lower cost.
func (s *Planner) IsBetterThan(o *Planner) bool {
	refused := func(s *Planner) (n int) {
		for _, c := range s.Inst.Classes {
			n += c.Unplaced()
		}
		return n
	}
	return cmp.Or(cmp.Compare(refused(s), refused(o)), cmp.Compare(s.AdjustedCost(), o.AdjustedCost())) < 0
}

// CostsNoMoreThan reports whether this plan places as many pods as another, at no higher cost.
func (s *Planner) CostsNoMoreThan(o *Planner) bool {
	return s.PlacesAsManyAs(o) && s.totalCost() <= o.totalCost()
}

// KeepsNodePreferences reports whether this plan, which heeds node preferences, is used instead of one that heeds none:
// it costs no more, or it has no more machines, all pods prefer the same offers, and no machine costs more than the
// value of the least of its pods' preferences. Otherwise pods with different preferences would get separate machines,
// and consolidation would merge them, or replace a machine by a cheaper one.
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

// totalCost returns the total price of the machines to launch, micro-dollars per hour.
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

// AdjustedCost returns the total adjusted cost of the machines to launch, see AdjustPrice.
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
