// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// Purchases is what machines are bought from and at what price: limits, limited quantities, what a pattern may become.
type Purchases struct {
	topology.Compiled
	Assumptions Assumptions

	Limits     []problem.PoolLimits // by pool: what is left of them
	Quantities []int64              // by Offer.Quantity: how many are left

	Tier            int                // of refinement, the highest that was used; see plan.Stats
	previousColumns *RememberedColumns // of the last solve; nil: none
	NextColumns     RememberedColumns  // for the next
	ColumnDuals     map[int]int64      // by class: what a pod is worth in the program over columns, by prices alone
}

// Placement is where pods go: onto existing nodes, and into bins to buy.
type Placement struct {
	topology.Compiled
	Purchases *Purchases
	Choices   *Choices

	OnNodes []podsOnNode
	Bins    []*Bin
	Demands []*Demand

	collected []collectedDemands // by class; see demandCollector

	purchaseCaps  map[topology.ClassAssignment]int64 // no more pods of the class can be bought for there; see assumptions
	purchased     map[topology.ClassAssignment]int64 // so many are to be bought for
	StartedGroups []GroupStart

	keepPlaced        bool           // what is placed now must not disturb what was
	spareCapacity     *consolidation // of machines bought, which pods left out may take; nil: no pod may yet
	resourceBound     int64          // what the demands bought for cost at least, by resource prices
	SeparationPremium int64          // paid for pods that would rather be apart, micro-dollars an hour
}

// collectedDemands is the last demand of a class in a list, with those linked behind it by demand.next.
type collectedDemands struct {
	in   *[]*Demand
	last *Demand
}

// podsOnNode is pods of a class put on an existing node.
type podsOnNode struct{ Class, Node, Count int }

// Demand is pods of one class for which machines must be bought, all within one set of offers. Its pods are counted
// in the topology domains already, as if they were there.
type Demand struct {
	Class      *problem.Class
	Offers     *problem.OfferSet            // that a machine for it may be
	permitted  *problem.OfferSet            // where offers is only what the class would rather have: all it may have; else nil
	Unbought   int64                        // pods left to buy for
	total      int64                        // pods that it was made for
	assignment *topology.TopologyAssignment // where its pods are counted; nil where no topology ties the class

	collectedFor *problem.OfferSet // the offer set that it was collected for; see demandCollector
	next         *Demand           // another demand of the class, collected before
}

// GroupStart is a group that must share a domain, where it began and where it could have, by names of assignments.
type GroupStart struct {
	Class    int
	Chosen   string
	Possible []string
}

// Planner is the plan for a problem as far as it has grown.
type Planner struct {
	topology.Compiled
	Purchases  *Purchases
	Choices    *Choices
	Placement  *Placement
	colocation *colocation
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
// heeds none: it costs no more, or it has no more machines and all pods prefer the same offers, so that each machine is
// what its pods pay for. Pods that prefer different nodes would else have machines of their own, and consolidation would
// put them together.
func (s *Planner) KeepsNodePreferences(free *Planner) bool {
	if s.CostsNoMoreThan(free) {
		return true
	}
	if !s.PlacesAsManyAs(free) || s.Placement.CountMachines() > free.Placement.CountMachines() {
		return false
	}
	return !slices.ContainsFunc(s.Inst.Classes, func(c *problem.Class) bool {
		return s.Inst.PreferredOffersOf(c) != s.Inst.PreferredOffersOf(s.Inst.Classes[0])
	})
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
