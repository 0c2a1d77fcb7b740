// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"maps"
	"slices"
)

// purchases is what machines are bought from and at what price: limits, limited quantities, what a pattern may become.
type purchases struct {
	topology
	assumptions assumptions

	limits     []poolLimits // by pool: what is left of them
	quantities []int64      // by offer.quantity: how many are left

	choiceCache   map[choiceKey]*binChoice
	fittingBuf    []int                // scratch of chooseTypes
	nodeTemplates map[[2]int][]NewNode // by pool and cheapest offer

	tier            int                // of refinement, the highest that was used; see plan.Stats
	previousColumns *rememberedColumns // of the last solve; nil: none
	nextColumns     rememberedColumns  // for the next
	columnDuals     map[int]int64      // by class: what a pod is worth in the program over columns, by prices alone
}

// placement is where pods go: onto existing nodes, and into bins to buy.
type placement struct {
	purchases

	onNodes []podsOnNode
	bins    []*bin
	demands []*demand

	purchaseCaps  map[classAssignment]int64 // no more pods of the class can be bought for there; see assumptions
	purchased     map[classAssignment]int64 // so many are to be bought for
	startedGroups []groupStart

	keepPlaced        bool           // what is placed now must not disturb what was
	spareCapacity     *consolidation // of machines bought, which pods left out may take; nil: no pod may yet
	resourceBound     int64          // what the demands bought for cost at least, by resource prices
	separationPremium int64          // paid for pods that would rather be apart, micro-dollars an hour
}

// podsOnNode is pods of a class put on an existing node.
type podsOnNode struct{ class, node, count int }

// demand is pods of one class for which machines must be bought, all within one set of offers. Its pods are counted
// in the topology domains already, as if they were there.
type demand struct {
	class      *class
	offers     *offerSet           // that a machine for it may be
	permitted  *offerSet           // where offers is only what the class would rather have: all it may have; else nil
	unbought   int64               // pods left to buy for
	total      int64               // pods that it was made for
	assignment *topologyAssignment // where its pods are counted; nil where no topology ties the class

	collectedFor *offerSet // the offer set that it was collected for; see demandCollector
	next         *demand   // another demand of the class, collected before
}

// groupStart is a group that must share a domain, where it began and where it could have, by names of assignments.
type groupStart struct {
	class    int
	chosen   string
	possible []string
}

// planner is the plan for a problem as far as it has grown.
type planner struct {
	placement
}

// newPlanner compiles a problem. Nothing is placed yet.
func newPlanner(p *Problem, mem Memory, pol Policy) *planner {
	s := &planner{}
	s.problem.compile(p, mem, pol)
	s.topology.compile()
	s.stepLimit = 2 * pol.Work // however often it is begun anew
	s.tier, s.previousColumns = 1, mem.columns
	s.quantities = slices.Clone(s.initialQuantities)
	s.limits = slices.Clone(s.initialLimits)
	for i := range s.limits {
		s.limits[i].amounts = s.limits[i].amounts.Clone()
	}
	return s
}

// reset takes back everything placed.
func (s *planner) reset() {
	copy(s.nodes.free, s.initialFree)
	copy(s.quantities, s.initialQuantities)
	clear(s.nodes.daemonsCharged)
	clear(s.nodes.occupancies)
	for i := range s.limits {
		s.limits[i].nodes = s.initialLimits[i].nodes
		copy(s.limits[i].amounts, s.initialLimits[i].amounts)
	}
	if s.volumesInUse != nil {
		clear(s.volumesInUse)
		maps.Copy(s.volumesInUse, s.initialVolumesInUse)
	}
	s.topology.reset()
	for _, c := range s.classes {
		c.assigned = 0
	}
	s.separationPremium = 0
	s.onNodes, s.bins, s.demands, s.nextColumns.columns = s.onNodes[:0], nil, nil, nil
}
