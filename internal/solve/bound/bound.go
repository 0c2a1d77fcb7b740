// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package bound

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// lowerBound is a method to compute a lower bound on the cost of a plan.
type lowerBound struct {
	Name, Doc string
	provenBy  string // as plan.Cost has it, where this bound is the highest
	// applies reports whether it is worth trying, after those before it; nil: always.
	applies func(*bounder, *plan.Cost) bool
	// prove returns what any plan costs at least, in micro-dollars an hour, rounded down; 0 where it can prove nothing.
	prove func(*bounder) int64
}

// LowerBounds lists the lower bounds in the order in which they are computed, fastest first. The highest bound is used.
// If several are equal, the first of them is used.
var LowerBounds = []lowerBound{
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
	{"enumeration", "the cheapest machines for few pods, by dynamic programming over all patterns", "enumeration",
		(*bounder).exceedsPolicyGap, (*bounder).boundByEnumeration},
	{"free capacity", "feasibility classes by how much of the free capacity is open to them", "lp",
		(*bounder).isFarFromBound, (*bounder).boundBesideFreeCapacity},
}

// CompleteCost sets the lower bound in the cost of a plan: the highest lower bound on the cost of any plan for the same
// pods.
//
// The certificate consists of resource prices at which the resources of each machine that the demand may use are worth
// at most its price. Then the pods are worth at most the cost of their machines minus the value of free capacity. By
// the weight rule, a pod belongs to the first weight level with a machine for it. The levels are priced together if a
// limit may move a pod to a lower level, or if pods of one level may fit on machines of another.
func CompleteCost(s *pack.Planner, cost *plan.Cost) {
	cost.ProvenBy = "lp"
	if cost.NewMicroPerHour == 0 {
		return
	}
	b := NewBounder(s)
	cost.Unpriced = b.unpricedConstraints()
	for i := range LowerBounds {
		x := &LowerBounds[i]
		if !s.In.Runs(x.Name) || x.applies != nil && !x.applies(b, cost) {
			continue
		}
		if by := x.prove(b); by > cost.BoundMicroPerHour {
			cost.BoundMicroPerHour, cost.ProvenBy = by, x.provenBy
		}
	}
}

// NewBounder groups the pods that the plan places, and computes resource prices for each group.
func NewBounder(s *pack.Planner) *bounder {
	b := &bounder{Compiled: s.Compiled, plan: s}
	b.Groups = b.GroupClasses()
	b.useful = b.usefulNodes()
	var free [problem.MaxDims]float64
	for _, i := range b.useful {
		for k := range s.In.NumDims {
			free[k] += float64(max(0, s.Inst.InitialFree[i*s.In.NumDims+k]))
		}
	}
	for _, g := range b.Groups {
		if len(b.Groups) == 1 { // prices that make the most of the demand less the free capacity
			for k := range s.In.NumDims {
				g.Total[k] = max(0, g.Total[k]-free[k])
			}
		}
		g.prices = pack.ResourcePrices(g.Sizes, g.Cost, g.Total[:s.In.NumDims], s.In.NumDims)
		for k := range s.In.NumDims {
			b.prices[k] = max(b.prices[k], g.prices[k])
		}
	}
	return b
}

// boundByResourcePrices returns the value of the demand at resource prices, minus that of free capacity.
func (s *bounder) boundByResourcePrices() int64 {
	var total, free problem.Sum128
	for _, g := range s.Groups {
		for k := range s.In.NumDims {
			total.AddProduct(g.prices[k], g.Sum[k])
		}
	}
	for _, i := range s.useful {
		for k := range s.In.NumDims {
			if v := s.Inst.InitialFree[i*s.In.NumDims+k]; v > 0 {
				free.AddProduct(s.prices[k], v)
			}
		}
	}
	s.addQuantitySavings(&s.prices, &free)
	if !free.Less(total) {
		return 0
	}
	return total.Sub(free).Micro()
}

// hasNoQuantities reports whether no offer is limited in number: bounds that ask for the cheapest machine don't know how
// many there are.
func (s *bounder) hasNoQuantities(*plan.Cost) bool { return len(s.plan.Purchases.Quantities) == 0 }

// hasColumnDuals reports whether columns were generated for some of the demand.
func (s *bounder) hasColumnDuals(*plan.Cost) bool { return s.plan.Purchases.ColumnDuals != nil }

// exceedsPolicyGap reports whether the plan is further from the bound than the policy asks.
func (s *bounder) exceedsPolicyGap(cost *plan.Cost) bool {
	return gapExceeds(cost, s.In.Policy.MaxGapPPM)
}

// fractionalGapPPM is the gap below which fractional classes are not tried, because the rest of the gap of resource
// prices is unused capacity between pods.
const fractionalGapPPM = 20_000

// isFarFromBound reports whether the gap is wider than unused capacity between pods explains.
func (s *bounder) isFarFromBound(cost *plan.Cost) bool {
	return gapExceeds(cost, max(fractionalGapPPM, s.In.Policy.MaxGapPPM))
}

// needsFractionalClasses reports whether the gap is wide and not for rules between pods, which no bound knows.
func (s *bounder) needsFractionalClasses(cost *plan.Cost) bool {
	return s.isFarFromBound(cost) && s.In.Policy.Work > 0 && !s.isMostlyConstrained()
}

// isMostlyConstrained reports whether most pods have rules over where others are, which no bound knows: then it is not
// for want of trying that the gap is wide.
func (s *bounder) isMostlyConstrained() bool {
	n := 0
	for _, c := range s.boundClasses {
		if len(c.Topology.HostRules) > 0 || len(c.Topology.DomainRules) > 0 {
			n += c.Assigned
		} else {
			n -= c.Assigned
		}
	}
	return n > 0
}

// gapExceeds reports whether the gap exceeds ppm parts per million of the bound.
func gapExceeds(cost *plan.Cost, ppm int64) bool {
	return cost.NewMicroPerHour-cost.BoundMicroPerHour > problem.MulDiv(cost.BoundMicroPerHour, ppm, 1_000_000)
}

// unpricedConstraints returns the sorted names of constraints that the bound ignores. Ignoring them keeps the bound
// valid, because they can only make plans more expensive.
func (s *bounder) unpricedConstraints() (out []string) {
	found := map[string]bool{}
	for _, c := range s.Inst.Classes {
		for _, x := range problem.NodeConstraints {
			if x.Concerns(s.In, c) {
				found[x.Name] = true
			}
		}
		for _, rules := range [][]problem.Rule{c.Topology.DomainRules, c.Topology.HostRules} {
			for i := range rules {
				found[topology.Unpriced(c, &rules[i])] = true
			}
		}
	}
	for i := range s.plan.Purchases.Limits {
		found["limits"] = found["limits"] || s.plan.Purchases.Limits[i].Limited
		found["minValues"] = found["minValues"] || len(s.Catalog.MinValuesOf(i)) > 0
	}
	for name, is := range found {
		if is && name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
