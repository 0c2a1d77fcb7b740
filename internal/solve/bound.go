// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// bounder proves how little any plan for the same pods could cost. What it counts are the pods that the plan places;
// what it can't price it leaves out, which keeps a bound valid: see unpricedConstraints.
type bounder struct {
	*planner

	boundClasses []*class       // what is counted: classes, and co-located groups as one pod each
	groups       []*boundGroup  // their bounds add up
	useful       []int          // existing nodes that could hold some pod of the demand
	prices       [maxDims]int64 // of resources, the highest of any group's, micro-dollars << priceShift
}

// lowerBound is one way to prove what a plan costs at least.
type lowerBound struct {
	name, doc string
	provenBy  string // as plan.Cost has it, where this bound is the highest
	// applies says whether it is worth trying, after those before it; nil: always.
	applies func(*bounder, *plan.Cost) bool
	// prove returns what any plan costs at least, in micro-dollars an hour, rounded down; 0 where it can prove nothing.
	prove func(*bounder) int64
}

// lowerBounds are tried in this order, the quick before the slow; the highest stands, of equals the first.
var lowerBounds = []lowerBound{
	{"resource prices", "one price for each resource: what machines hold is worth no more than they cost", "lp",
		nil, (*bounder).boundByResourcePrices},
	{"feasibility classes", "prices of resources by who may go where", "lp",
		nil, (*bounder).boundByFeasibilityClasses},
	{"dearest pod", "the cheapest machine for one pod that no existing node takes, where that is most", "lp",
		(*bounder).hasNoQuantities, (*bounder).boundByDearestPod},
	{"exclusivity", "a machine for each pod of a mutual anti-affinity group", "lp",
		(*bounder).hasNoQuantities, (*bounder).boundByExclusivity},
	{"fractional classes", "duals of pods in fractions, grouped by the proportions that they ask for", "lp",
		(*bounder).needsFractionalClasses, (*bounder).boundByFractionalClasses},
	{"columns", "duals of pods from the program over columns, certified machine by machine", "columns",
		(*bounder).hasColumnDuals, (*bounder).boundByColumns},
	{"enumeration", "the cheapest machines for few pods, by dynamic programming over all fills", "enumeration",
		(*bounder).exceedsPolicyGap, (*bounder).boundByEnumeration},
	{"free capacity", "feasibility classes by how much of the free capacity is open to them", "lp",
		(*bounder).isFarFromBound, (*bounder).boundBesideFreeCapacity},
}

// completeCost completes the price of the plan with the highest lower bound on that of any plan for the same pods.
//
// The certificate: resource prices under which no machine that the demand may go to is worth more than it costs. What
// a machine holds is then worth at most its price, so the pods are worth at most what their machines cost, less what
// free capacity is worth. A pod belongs to the first level of weight that offers it a machine, as the weight rule has
// it. Where limits bind that rule may drive it further down, and where pods of several weights are bought for some
// may find room on the others' machines: the levels are priced together.
func (s *planner) completeCost(cost *plan.Cost) {
	cost.ProvenBy = "lp"
	if cost.NewMicroPerHour == 0 {
		return
	}
	b := newBounder(s)
	cost.Unpriced = b.unpricedConstraints()
	for i := range lowerBounds {
		x := &lowerBounds[i]
		if s.policy.leaveOut == x.name || x.applies != nil && !x.applies(b, cost) {
			continue
		}
		if by := x.prove(b); by > cost.BoundMicroPerHour {
			cost.BoundMicroPerHour, cost.ProvenBy = by, x.provenBy
		}
	}
}

// newBounder groups what the plan places, and prices resources for each group.
func newBounder(s *planner) *bounder {
	b := &bounder{planner: s}
	b.groups = b.groupClasses()
	b.useful = b.usefulNodes()
	var free [maxDims]float64
	for _, i := range b.useful {
		for k := range s.numDims {
			free[k] += float64(max(0, s.initialFree[i*s.numDims+k]))
		}
	}
	for _, g := range b.groups {
		if len(b.groups) == 1 { // prices that make the most of the demand less the free capacity
			for k := range s.numDims {
				g.total[k] = max(0, g.total[k]-free[k])
			}
		}
		g.prices = resourcePrices(g.sizes, g.cost, g.total[:s.numDims], s.numDims)
		for k := range s.numDims {
			b.prices[k] = max(b.prices[k], g.prices[k])
		}
	}
	return b
}

// boundByResourcePrices is what the demand is worth at resource prices, less what free capacity is.
func (s *bounder) boundByResourcePrices() int64 {
	var total, free sum128
	for _, g := range s.groups {
		for k := range s.numDims {
			total.addProduct(g.prices[k], g.sum[k])
		}
	}
	for _, i := range s.useful {
		for k := range s.numDims {
			if v := s.initialFree[i*s.numDims+k]; v > 0 {
				free.addProduct(s.prices[k], v)
			}
		}
	}
	s.addQuantitySavings(&s.prices, &free)
	if !free.less(total) {
		return 0
	}
	return total.sub(free).micro()
}

// hasNoQuantities says whether no offer is limited in number: bounds that ask for the cheapest machine don't know how
// many there are.
func (s *bounder) hasNoQuantities(*plan.Cost) bool { return len(s.quantities) == 0 }

// hasColumnDuals says whether columns were generated for some of the demand.
func (s *bounder) hasColumnDuals(*plan.Cost) bool { return s.columnDuals != nil }

// exceedsPolicyGap says whether the plan is further from the bound than the policy asks.
func (s *bounder) exceedsPolicyGap(cost *plan.Cost) bool { return gapExceeds(cost, s.policy.MaxGapPPM) }

// fractionalGapPPM is the gap below which fractions are not tried: what prices of resources leave is then what is
// left over between pods.
const fractionalGapPPM = 20_000

// isFarFromBound says whether the gap is wider than what is left over between pods explains.
func (s *bounder) isFarFromBound(cost *plan.Cost) bool {
	return gapExceeds(cost, max(fractionalGapPPM, s.policy.MaxGapPPM))
}

// needsFractionalClasses says whether the gap is wide and not for rules between pods, which no bound knows.
func (s *bounder) needsFractionalClasses(cost *plan.Cost) bool {
	return s.isFarFromBound(cost) && s.policy.Work > 0 && !s.isMostlyConstrained()
}

// isMostlyConstrained says whether most pods have rules over where others are, which no bound knows: then it is not
// for want of trying that the gap is wide.
func (s *bounder) isMostlyConstrained() bool {
	n := 0
	for _, c := range s.boundClasses {
		if len(c.topology.hostRules) > 0 || len(c.topology.domainRules) > 0 {
			n += c.assigned
		} else {
			n -= c.assigned
		}
	}
	return n > 0
}

// gapExceeds says whether the gap is wider than so many parts per million of the bound.
func gapExceeds(cost *plan.Cost, ppm int64) bool {
	return cost.NewMicroPerHour-cost.BoundMicroPerHour > mulDiv(cost.BoundMicroPerHour, ppm, 1_000_000)
}

// unpricedConstraints names, sorted, what the problem has and the bound knows nothing of. Leaving it out keeps the
// bound valid: it can only make plans dearer.
func (s *bounder) unpricedConstraints() (out []string) {
	var ports, volumes, spread, affinity, limits, values bool
	for _, c := range s.classes {
		ports = ports || len(c.ports) > 0
		volumes = volumes || len(c.csiVolumes) > 0
		for _, rules := range [][]rule{c.topology.domainRules, c.topology.hostRules} {
			for i := range rules {
				switch rules[i].kind {
				case ruleSpread:
					spread = spread || rules[i].hard
				case ruleAffinity:
					affinity = affinity || rules[i].key != hostKey || c.group == nil
				case ruleAnti, ruleAntiOfOthers:
					affinity = true
				}
			}
		}
	}
	for i := range s.limits {
		limits = limits || s.limits[i].limited
		values = values || len(s.minValuesOf(i)) > 0
	}
	for _, x := range []struct {
		is   bool
		name string
	}{{ports, "host ports"}, {limits, "limits"}, {values, "minValues"}, {affinity, "pod affinity and anti-affinity"},
		{spread, "topology spread"}, {volumes, "volume limits"}} {
		if x.is {
			out = append(out, x.name)
		}
	}
	return out
}
