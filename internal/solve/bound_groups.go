// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

// boundGroup is classes, and the sizes and prices of the machines that they may go to. Groups have no offer in
// common, so that their bounds add up.
type boundGroup struct {
	sizes []vec            // of machines
	cost  []int64          // by size: the least price, micro-dollars an hour
	total [maxDims]float64 // of what the pods ask for, less free capacity where it is the only group
	sum   vec              // of what the pods ask for
	level level

	classes []*class
	prices  [maxDims]int64 // of resources, micro-dollars << priceShift
}

// groupClasses parts what the plan places into groups: by level, where the weight rule decides the level of each
// class, and by offers.
func (s *bounder) groupClasses() (groups []*boundGroup) {
	s.boundClasses = s.classesToBound()
	joined := len(s.levels) < 2
	for i := range s.limits {
		joined = joined || s.limits[i].limited || len(s.minValuesOf(i)) > 0
	}
	for _, b := range s.bins { // whatever else sent a pod further down, ports or volumes for instance
		for _, it := range b.items {
			c := s.classes[it.class]
			level, _ := s.cheapestLevel(c.offers, &c.req)
			lo, _ := s.poolOfferRange(b.pool)
			joined = joined || level >= len(s.levels) || lo < s.levels[level].lo || lo >= s.levels[level].hi
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
		if level, _ := s.cheapestLevel(c.offers, &c.req); c.assigned > 0 && level < len(s.levels) {
			joined = joined || first >= 0 && level != first
			first = level
		}
	}
	for _, c := range s.classes { // topology may send pods to a pool of less weight that has the domain
		joined = joined || (len(c.topology.keys) > 0 || c.topology.hostAffinity) && s.spansLevels(c.offers)
	}
	levels := s.levels
	if joined {
		levels = []level{{lo: 0, hi: len(s.offers)}}
	}
	classes := make([][]*class, len(levels))
	for _, c := range s.boundClasses {
		if c.assigned == 0 || !s.someOfferHolds(c.filter.offers, &c.req) {
			continue
		}
		level := 0
		if !joined {
			level, _ = s.cheapestLevel(c.offers, &c.req)
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

// classesToBound lists the classes as a bound counts them: what is placed of a co-located group is one pod, however
// it was placed.
func (s *bounder) classesToBound() []*class {
	if len(s.colocatedGroups) == 0 {
		return s.classes
	}
	var out []*class
	for _, c := range s.classes {
		if c.group == nil {
			out = append(out, c)
		}
	}
	for i, x := range s.colocatedGroups {
		taken, all := 0, true
		for _, c := range x.members {
			taken, all = taken+c.assigned, all && c.assigned == len(c.pods)
		}
		if taken == 0 {
			continue
		}
		one := x.asPod
		if !all { // not the pod whose worth may be known
			one = s.groupAsPod(x, len(s.classes)+len(s.colocatedGroups)+i, func(c *class) int64 { return int64(c.assigned) })
		}
		one.assigned, one.offers = 1, one.filter.offers
		out = append(out, one)
	}
	return out
}

// independentClasses splits classes so that those of different parts have no offer in common.
func (s *bounder) independentClasses(l level, classes []*class) [][]*class {
	number := map[int]int{}
	var masks []*offerSet
	for _, c := range classes {
		if _, ok := number[c.filter.offers.id]; !ok {
			number[c.filter.offers.id] = len(masks)
			masks = append(masks, c.filter.offers)
		}
	}
	of, n := s.independentParts(l, masks, false)
	out := make([][]*class, n)
	for _, c := range classes {
		at := of[number[c.filter.offers.id]]
		out[at] = append(out[at], c)
	}
	return out
}

// newBoundGroup is the group of some classes and the offers of one level.
func (s *bounder) newBoundGroup(l level, classes []*class) *boundGroup {
	g := &boundGroup{level: l, classes: classes}
	used := offerSet{bits: make([]uint64, (len(s.offers)+63)/64)}
	seen := make([]bool, len(s.offerSets))
	for _, c := range classes {
		for k := range s.numDims {
			g.sum[k] += c.req[k] * int64(c.assigned)
			g.total[k] += float64(c.req[k]) * float64(c.assigned)
		}
		id := c.filter.offers.id
		if seen[id] {
			continue
		}
		seen[id] = true
		for i, w := range c.filter.offers.bits {
			used.bits[i] |= w
		}
	}
	at := make([]int32, len(s.sizes)) // by size: its place in the group, counted from 1
	used.forEach(l, func(i int) {
		o := &s.offers[i]
		if o.quantity >= 0 {
			return // too few to set prices; see addQuantitySavings
		}
		if n := at[o.size]; n > 0 {
			g.cost[n-1] = min(g.cost[n-1], o.price)
			return
		}
		g.sizes, g.cost = append(g.sizes, *s.sizes[o.size]), append(g.cost, o.price)
		at[o.size] = int32(len(g.cost))
	})
	return g
}

// cheapestMachine is the price of the cheapest machine of the group that holds a request, -1 where none does.
func (g *boundGroup) cheapestMachine(req *vec, nd int) int64 {
	least := int64(-1)
	for i := range g.sizes {
		if fitsIn(req, &g.sizes[i], nd) && (least < 0 || g.cost[i] < least) {
			least = g.cost[i]
		}
	}
	return least
}

// usefulNodes are the existing nodes that could hold some pod placed: only their free capacity can save anything.
func (s *bounder) usefulNodes() (out []int) {
	for i, x := range s.nodes.list {
		if x.Closed || x.Drained {
			continue
		}
		free := s.initialFree[i*s.numDims : i*s.numDims+s.numDims]
		for _, c := range s.boundClasses {
			if c.assigned > 0 && fitsSlice(&c.req, free) && s.nodeAdmits(c.filter, i) {
				out = append(out, i)
				break
			}
		}
	}
	return out
}

// podsNodesHold is at least how many pods of a class the useful nodes can hold.
func (s *bounder) podsNodesHold(c *class) (n int64) {
	for _, node := range s.useful {
		free := s.initialFree[node*s.numDims : node*s.numDims+s.numDims]
		if !fitsSlice(&c.req, free) || !s.nodeAdmits(c.filter, node) {
			continue
		}
		most := int64(c.assigned)
		for k, r := range c.req[:s.numDims] {
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
func (s *bounder) addQuantitySavings(prices *[maxDims]int64, sum *sum128) {
	best := make([]sum128, len(s.initialQuantities))
	for i := range s.offers {
		o := &s.offers[i]
		if o.quantity < 0 {
			continue
		}
		var v sum128
		for k := range s.numDims {
			if o.allocatable[k] > 0 {
				v.addProduct(prices[k], o.allocatable[k])
			}
		}
		if p := priceSum(o.price); p.less(v) {
			if v = v.sub(p); best[o.quantity].less(v) {
				best[o.quantity] = v
			}
		}
	}
	for i, v := range best {
		sum.add(v.times(min(s.initialQuantities[i], int64(len(s.input.Demand)))))
	}
}

// newProofPacking is a packing of classes for a bound, with how many pods of each are placed. minValues is left out:
// another plan might keep it.
func (s *purchases) newProofPacking(l level, classes []*class) (*packing, []int64) {
	all, demands := make([]demand, len(classes)), make([]*demand, len(classes))
	whole := make([]int64, len(classes))
	for i, c := range classes {
		all[i] = demand{class: c, offers: c.filter.offers, unbought: int64(c.assigned)} // also where this plan could not keep minValues: another might
		demands[i], whole[i] = &all[i], int64(c.assigned)
	}
	p := s.newPackingFor(l, demands, false)
	p.relaxed = true
	return p, whole
}
