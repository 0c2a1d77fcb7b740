// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package bound

import (
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// bounder computes lower bounds on the cost of any plan for the same pods. It counts the pods that the plan places, and
// ignores what it cannot price, which keeps a bound valid: see unpricedConstraints.
type bounder struct {
	topology.Compiled
	plan *pack.Planner

	boundClasses []*problem.Class       // what is counted: classes, and co-located groups as one pod each
	Groups       []*boundGroup          // the total bound is the sum of their bounds
	useful       []int                  // existing nodes that could hold some pod of the demand
	prices       [problem.MaxDims]int64 // of resources, the highest of any group's, micro-dollars << PriceShift
}

// boundGroup is classes, and the sizes and prices of the machines that they may go to. Groups have no offer in
// common, so that their bounds add up.
type boundGroup struct {
	Sizes []problem.Vec            // sizes of machines
	Cost  []int64                  // by size: the lowest price in micro-dollars per hour
	Total [problem.MaxDims]float64 // total requests of the pods, minus free capacity if it is the only group
	Sum   problem.Vec              // total requests of the pods
	Level problem.Level

	Classes []*problem.Class
	prices  [problem.MaxDims]int64 // of resources, micro-dollars << PriceShift
}

// GroupClasses divides the pods that the plan places into groups: by level if the weight rule determines the level of
// each class, and by offers.
func (s *bounder) GroupClasses() (groups []*boundGroup) {
	s.boundClasses = s.classesToBound()
	joined := len(s.Catalog.Levels) < 2
	for i := range s.plan.Purchases.Limits {
		joined = joined || s.plan.Purchases.Limits[i].Limited || len(s.Catalog.MinValuesOf(i)) > 0
	}
	for _, b := range s.plan.Placement.Bins { // whatever else sent a pod further down, ports or volumes for instance
		for _, it := range b.Items {
			c := s.Inst.Classes[it.Class]
			level, _ := s.Catalog.CheapestLevel(c.Offers, &c.Req)
			lo, _ := s.Catalog.PoolOfferRange(b.Pool)
			joined = joined || level >= len(s.Catalog.Levels) || lo < s.Catalog.Levels[level].Lo || lo >= s.Catalog.Levels[level].Hi
		}
		if joined {
			break
		}
	}
	first := -1
	for _, c := range s.boundClasses { // pods of one weight may find room on machines that pods of another need anyway
		if joined {
			break
		}
		if level, _ := s.Catalog.CheapestLevel(c.Offers, &c.Req); c.Assigned > 0 && level < len(s.Catalog.Levels) {
			joined = joined || first >= 0 && level != first
			first = level
		}
	}
	for _, c := range s.Inst.Classes { // topology may send pods to a pool of less weight that has the domain
		joined = joined || (len(c.Topology.Keys) > 0 || c.Topology.HostAffinity) && s.Catalog.SpansLevels(c.Offers)
	}
	levels := s.Catalog.Levels
	if joined {
		levels = []problem.Level{{Lo: 0, Hi: len(s.Catalog.Offers)}}
	}
	classes := make([][]*problem.Class, len(levels))
	for _, c := range s.boundClasses {
		if c.Assigned == 0 || !s.Catalog.SomeOfferHolds(c.Filter.Offers, &c.Req) {
			continue
		}
		level := 0
		if !joined {
			level, _ = s.Catalog.CheapestLevel(c.Offers, &c.Req)
		}
		classes[level] = append(classes[level], c)
	}
	for i, l := range levels {
		for _, part := range s.independentClasses(l, classes[i]) {
			groups = append(groups, s.newBoundGroup(l, part))
		}
	}
	return groups
}

// classesToBound returns the classes as a bound counts them: placed pods of a co-located group count as one pod, however
// they were placed.
func (s *bounder) classesToBound() []*problem.Class {
	if len(s.Topo.ColocatedGroups) == 0 {
		return s.Inst.Classes
	}
	var out []*problem.Class
	for _, c := range s.Inst.Classes {
		if c.Group == nil {
			out = append(out, c)
		}
	}
	for i, x := range s.Topo.ColocatedGroups {
		taken, all := 0, true
		for _, c := range x.Members {
			taken, all = taken+c.Assigned, all && c.Assigned == len(c.Pods)
		}
		if taken == 0 {
			continue
		}
		one := x.AsPod
		if !all { // not the pod whose worth may be known
			one = s.Topo.GroupAsPod(x, len(s.Inst.Classes)+len(s.Topo.ColocatedGroups)+i, func(c *problem.Class) int64 { return int64(c.Assigned) })
		}
		one.Assigned, one.Offers = 1, one.Filter.Offers
		out = append(out, one)
	}
	return out
}

// independentClasses splits classes so that those of different parts have no offer in common.
func (s *bounder) independentClasses(l problem.Level, classes []*problem.Class) [][]*problem.Class {
	number := map[int]int{}
	var masks []*problem.OfferSet
	for _, c := range classes {
		if _, ok := number[c.Filter.Offers.ID]; !ok {
			number[c.Filter.Offers.ID] = len(masks)
			masks = append(masks, c.Filter.Offers)
		}
	}
	of, n := s.Catalog.IndependentParts(l, masks, false)
	out := make([][]*problem.Class, n)
	for _, c := range classes {
		at := of[number[c.Filter.Offers.ID]]
		out[at] = append(out[at], c)
	}
	return out
}

// newBoundGroup is the group of some classes and the offers of one level.
func (s *bounder) newBoundGroup(l problem.Level, classes []*problem.Class) *boundGroup {
	g := &boundGroup{Level: l, Classes: classes}
	used := problem.OfferSet{Bits: make([]uint64, (len(s.Catalog.Offers)+63)/64)}
	seen := make([]bool, len(s.Catalog.OfferSets))
	for _, c := range classes {
		for k := range s.In.NumDims {
			g.Sum[k] += c.Req[k] * int64(c.Assigned)
			g.Total[k] += float64(c.Req[k]) * float64(c.Assigned)
		}
		id := c.Filter.Offers.ID
		if seen[id] {
			continue
		}
		seen[id] = true
		for i, w := range c.Filter.Offers.Bits {
			used.Bits[i] |= w
		}
	}
	at := make([]int32, len(s.Catalog.Sizes)) // by size: its place in the group, counted from 1
	used.ForEach(l, func(i int) {
		o := &s.Catalog.Offers[i]
		if o.Quantity >= 0 {
			return // too few to set prices; see addQuantitySavings
		}
		if n := at[o.Size]; n > 0 {
			g.Cost[n-1] = min(g.Cost[n-1], o.Price)
			return
		}
		g.Sizes, g.Cost = append(g.Sizes, *s.Catalog.Sizes[o.Size]), append(g.Cost, o.Price)
		at[o.Size] = int32(len(g.Cost))
	})
	return g
}

// cheapestMachine returns the price of the cheapest machine of the group that holds a request, -1 if there is none.
func (g *boundGroup) cheapestMachine(req *problem.Vec, nd int) int64 {
	least := int64(-1)
	for i := range g.Sizes {
		if problem.IsWithin(req, &g.Sizes[i], nd) && (least < 0 || g.Cost[i] < least) {
			least = g.Cost[i]
		}
	}
	return least
}

// usefulNodes are the existing nodes that could hold some pod placed: only their free capacity can save anything.
func (s *bounder) usefulNodes() (out []int) {
	for i, x := range s.Inst.Nodes.List {
		if x.Closed || x.Drained {
			continue
		}
		free := s.Inst.InitialFree[i*s.In.NumDims : i*s.In.NumDims+s.In.NumDims]
		for _, c := range s.boundClasses {
			if c.Assigned > 0 && problem.FitsSlice(&c.Req, free) && s.Inst.NodeAdmits(c.Filter, i) {
				out = append(out, i)
				break
			}
		}
	}
	return out
}

// podsNodesHold is at least how many pods of a class the useful nodes can hold.
func (s *bounder) podsNodesHold(c *problem.Class) (n int64) {
	for _, node := range s.useful {
		free := s.Inst.InitialFree[node*s.In.NumDims : node*s.In.NumDims+s.In.NumDims]
		if !problem.FitsSlice(&c.Req, free) || !s.Inst.NodeAdmits(c.Filter, node) {
			continue
		}
		most := int64(c.Assigned)
		for k, r := range c.Req[:s.In.NumDims] {
			if r > 0 {
				most = min(most, free[k]/r)
			}
		}
		n += most
	}
	return n
}

// addQuantitySavings adds to sum what machines of limited quantity can save at most: as many as there are, each worth
// its capacity at prices and costing its own.
func (s *bounder) addQuantitySavings(prices *[problem.MaxDims]int64, sum *problem.Sum128) {
	best := make([]problem.Sum128, len(s.Inst.InitialQuantities))
	for i := range s.Catalog.Offers {
		o := &s.Catalog.Offers[i]
		if o.Quantity < 0 {
			continue
		}
		var v problem.Sum128
		for k := range s.In.NumDims {
			if o.Allocatable[k] > 0 {
				v.AddProduct(prices[k], o.Allocatable[k])
			}
		}
		if p := problem.PriceSum(o.Price); p.Less(v) {
			if v = v.Sub(p); best[o.Quantity].Less(v) {
				best[o.Quantity] = v
			}
		}
	}
	for i, v := range best {
		sum.Add(v.Times(min(s.Inst.InitialQuantities[i], int64(len(s.In.Given.Demand)))))
	}
}

// newProofPacking is a packing of classes for a bound, with how many pods of each are placed. MinValues is left out:
// another plan might keep it.
func newProofPacking(s *pack.Purchases, l problem.Level, classes []*problem.Class) (*pack.Packing, []int64) {
	all, demands := make([]pack.Demand, len(classes)), make([]*pack.Demand, len(classes))
	whole := make([]int64, len(classes))
	for i, c := range classes {
		all[i] = pack.Demand{Class: c, Offers: c.Filter.Offers, Unbought: int64(c.Assigned)} // also where this plan could not keep MinValues: another might
		demands[i], whole[i] = &all[i], int64(c.Assigned)
	}
	p := s.NewPackingFor(l, demands, false)
	p.Market.Relaxed = true
	return p, whole
}
