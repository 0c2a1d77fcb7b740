// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
)

// completeCost completes the price of the plan with a lower bound on that of any plan for the same pods.
//
// The certificate: resource prices under which no machine that the demand may go to is worth more than it costs. What a machine
// holds is then worth at most its price, so the pods are worth at most what their machines cost, less what free capacity is worth.
// A pod belongs to the first level of weight that offers it a machine, as the weight rule has it. Where limits bind that rule may drive it
// further down, and where pods of several weights are bought for some may find room on the others' machines: the levels are priced together.
func (s *solver) completeCost(res *Result) {
	res.Cost.ProvenBy = "lp"
	if res.Cost.NewMicroPerHour == 0 {
		return
	}
	res.Cost.Unpriced = s.unpricedConstraints()
	groups, ls := s.boundGroups()
	useful := s.usefulNodes()
	var total, rooms sum128
	var most [maxDims]int64
	var free [maxDims]float64
	for _, i := range useful {
		for k := range s.numDims {
			free[k] += float64(max(0, s.initial.free[i*s.numDims+k]))
		}
	}
	for _, g := range groups {
		if len(groups) == 1 { // prices that make the most of the demand less the free capacity
			for k := range s.numDims {
				g.total[k] = max(0, g.total[k]-free[k])
			}
		}
		g.prices = resourcePrices(g.sizes, g.cost, g.total[:s.numDims], s.numDims)
		for k := range s.numDims {
			total.addProduct(g.prices[k], g.sum[k])
			most[k] = max(most[k], g.prices[k])
		}
	}
	for _, i := range useful {
		for k := range s.numDims {
			if v := s.initial.free[i*s.numDims+k]; v > 0 {
				rooms.addProduct(most[k], v)
			}
		}
	}
	s.addQuantitySavings(&most, &rooms)
	if rooms.less(total) {
		res.Cost.BoundMicroPerHour = total.sub(rooms).micro()
	}
	res.Cost.BoundMicroPerHour = max(res.Cost.BoundMicroPerHour, s.boundByFeasibilityClasses(groups, ls, useful))
	if len(s.quantities) == 0 {
		res.Cost.BoundMicroPerHour = max(res.Cost.BoundMicroPerHour, s.boundByDearestPod(groups, useful), s.boundByExclusivity(groups, useful))
	}
	if gapExceeds(res, max(fractionalGapPPM, s.policy.MaxGapPPM)) && s.policy.Work > 0 && !s.isMostlyConstrained() {
		res.Cost.BoundMicroPerHour = max(res.Cost.BoundMicroPerHour, s.boundByFractionalClasses(groups, ls, useful, &most))
	}
	if s.columnDuals != nil {
		if by := s.boundByColumns(groups, ls, useful, &most); by > res.Cost.BoundMicroPerHour {
			res.Cost.BoundMicroPerHour, res.Cost.ProvenBy = by, "columns"
		}
	}
	if gapExceeds(res, s.policy.MaxGapPPM) {
		if by := s.boundByEnumeration(groups, ls, useful); by > res.Cost.BoundMicroPerHour {
			res.Cost.BoundMicroPerHour, res.Cost.ProvenBy = by, "enumeration"
		}
	}
	if gapExceeds(res, max(fractionalGapPPM, s.policy.MaxGapPPM)) {
		if by := s.boundBesideFreeCapacity(groups, ls, useful); by > res.Cost.BoundMicroPerHour {
			res.Cost.BoundMicroPerHour, res.Cost.ProvenBy = by, "lp"
		}
	}
}

// isMostlyConstrained says whether most pods have rules over where others are, which no bound knows: then it is not for want of trying that the gap is wide.
func (s *solver) isMostlyConstrained() bool {
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

// fractionalGapPPM is the gap below which fractional classes are not tried: what prices of resources leave is then what is left over between pods.
const fractionalGapPPM = 20_000

// gapExceeds says whether the gap is wider than so many parts per million of the bound.
func gapExceeds(res *Result, ppm int64) bool {
	return res.Cost.NewMicroPerHour-res.Cost.BoundMicroPerHour > mulDiv(res.Cost.BoundMicroPerHour, ppm, 1_000_000)
}

// boundByFeasibilityClasses is the bound from prices by who may go where.
func (s *solver) boundByFeasibilityClasses(groups []*boundGroup, ls []level, useful []int) int64 {
	free := make([]float64, s.numDims)
	for _, i := range useful {
		for k := range s.numDims {
			free[k] += float64(max(0, s.initial.free[i*s.numDims+k]))
		}
	}
	var total, rooms sum128
	var most [maxDims]int64
	var all []*feasibilityClasses
	for gi, g := range groups {
		if len(g.classes) == 0 {
			continue
		}
		firsts, whole := groupByRequest(g.classes)
		p, _ := s.newProofPacking(ls[gi], firsts)
		x := p.feasibilityClassesOf(whole)
		x.solvePrices(free, nil)
		total.add(x.totalWorth())
		for k := range s.numDims {
			most[k] = max(most[k], x.highestPrice(k, func(*feasibilityClass) bool { return true }))
		}
		all = append(all, x)
	}
	for _, i := range useful {
		rooms.add(freeCapacityWorth(all, s.initial.free[i*s.numDims:i*s.numDims+s.numDims]))
	}
	s.addQuantitySavings(&most, &rooms)
	if !rooms.less(total) {
		return 0
	}
	return total.sub(rooms).micro()
}

// unpricedConstraints names, sorted, what the problem has and the bound knows nothing of. Leaving it out keeps the bound valid: it can only make plans
// dearer.
func (s *solver) unpricedConstraints() (out []string) {
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

// addQuantitySavings adds what machines of limited quantity can save: as many as there are, each worth its room and costing its price.
func (s *solver) addQuantitySavings(u *[maxDims]int64, sum *sum128) {
	best := make([]sum128, len(s.initial.quantities))
	for i := range s.offers {
		o := &s.offers[i]
		if o.quantity < 0 {
			continue
		}
		var v sum128
		for k := range s.numDims {
			if o.allocatable[k] > 0 {
				v.addProduct(u[k], o.allocatable[k])
			}
		}
		if p := priceSum(o.price); p.less(v) {
			if v = v.sub(p); best[o.quantity].less(v) {
				best[o.quantity] = v
			}
		}
	}
	for i, v := range best {
		sum.add(v.times(min(s.initial.quantities[i], int64(len(s.input.Demand)))))
	}
}

// boundByDearestPod is the price of the cheapest machine that holds one pod of a class that no node takes, for the class where that is most. It
// matters where little is bought.
func (s *solver) boundByDearestPod(groups []*boundGroup, useful []int) (most int64) {
	if len(s.bins) > 4 {
		return 0
	}
	for _, g := range groups {
		for _, c := range g.classes {
			if slices.ContainsFunc(useful, func(i int) bool {
				return fitsSlice(&c.req, s.initial.free[i*s.numDims:i*s.numDims+s.numDims]) && s.nodeAdmits(c.filter, i)
			}) {
				continue
			}
			most = max(most, g.cheapestMachine(&c.req, s.numDims))
		}
	}
	return most
}

// boundByExclusivity is what machines cost at least for pods no two of which may share a host, where that is most: the cheapest that holds it for
// each, but as many of the dearest pods as there are nodes may go to those.
func (s *solver) boundByExclusivity(groups []*boundGroup, useful []int) (most int64) {
	type pods struct{ n, price int64 }
	for k := len(s.dims); k < s.numDims; k++ {
		var all []pods
		for _, g := range groups {
			for _, c := range g.classes {
				if c.req[k] > 0 {
					s.steps += int64(len(g.sizes))
					all = append(all, pods{int64(c.assigned), g.cheapestMachine(&c.req, s.numDims)})
				}
			}
		}
		slices.SortFunc(all, func(a, b pods) int { return cmp.Compare(b.price, a.price) })
		sum, rooms := int64(0), int64(len(useful))
		for _, x := range all {
			n := min(x.n, rooms)
			rooms -= n
			sum += max(0, x.price) * (x.n - n)
		}
		most = max(most, sum)
	}
	return most
}

// cheapestMachine is the price of the cheapest machine of the group that holds a pod, -1 where none does.
func (g *boundGroup) cheapestMachine(req *vec, nd int) int64 {
	least := int64(-1)
	for i := range g.sizes {
		if fitsIn(req, &g.sizes[i], nd) && (least < 0 || g.cost[i] < least) {
			least = g.cost[i]
		}
	}
	return least
}

// boundByColumns is the bound from what pods are worth in the program over columns, where that knows them, and else by their
// resources. Pods worth nothing, those that free capacity holds anyway, are left out of the proof.
func (s *solver) boundByColumns(groups []*boundGroup, ls []level, useful []int, u *[maxDims]int64) int64 {
	if len(useful)*len(s.boundClasses) > maxNodeClassPairs {
		return 0
	}
	kinds := 0
	classes, worths := make([][]*class, len(groups)), make([][]int64, len(groups))
	for gi, g := range groups {
		for _, c := range g.classes {
			worth, ok := s.columnDuals[c.id]
			if !ok {
				worth = s.resourceCost(c, &g.prices)
			}
			if worth > 0 {
				classes[gi], worths[gi] = append(classes[gi], c), append(worths[gi], worth)
			}
		}
		kinds += len(groupEquivalentClasses(classes[gi], make([]int64, len(classes[gi]))))
	}
	if kinds > maxBoundRows {
		return 0
	}
	saved := int64(0)
	by := map[int]int64{} // by class
	for gi := range groups {
		if len(classes[gi]) == 0 {
			continue
		}
		scaled, stocked := s.certifyDuals(ls[gi], classes[gi], worths[gi])
		saved += stocked
		for i, v := range scaled {
			by[classes[gi][i].id] = v
		}
	}
	return max(0, s.lessFreeCapacity(by, useful, u)-saved) >> dualShift
}

// resourceCost is what the resources of a pod cost at u, rounded down, micro-dollars << worthShift.
func (s *solver) resourceCost(c *class, u *[maxDims]int64) int64 {
	var v sum128
	for k := range s.numDims {
		v.addProduct(u[k], c.req[k])
	}
	return int64(v.hi<<(64-priceShift+dualShift) | v.lo>>(priceShift-dualShift))
}

// lessFreeCapacity is what pods worth so much prove, micro-dollars << worthShift, less what those are worth that free capacity could hold. With what is
// free at prices of resources, it holds that, and of each class as many as fit alone, at what a pod is worth beyond its resources. Dual prices may
// be lower than they are: of each class the one that proves most counts, all of it, its resources or nothing. Prices of 0 do as well, and better
// where much is free.
func (s *solver) lessFreeCapacity(worth map[int]int64, useful []int, u *[maxDims]int64) int64 {
	var free sum128
	for _, node := range useful {
		for k, v := range s.initial.free[node*s.numDims : node*s.numDims+s.numDims] {
			if v > 0 {
				free.addProduct(u[k], v)
			}
		}
	}
	plain, atPrices := int64(0), -(int64(free.hi<<(64-priceShift+dualShift)|free.lo>>(priceShift-dualShift)) + 1)
	for _, c := range s.boundClasses {
		y := worth[c.id]
		if y <= 0 {
			continue
		}
		n, in := int64(c.assigned), s.podsNodesHold(c, useful)
		q := min(y, s.resourceCost(c, u))
		plain += y * max(0, n-in)
		atPrices += max(q*n, y*n-(y-q)*in)
	}
	return max(plain, atPrices)
}

// usefulNodes are those that could hold some pod of the demand: only their free capacity can save anything.
func (s *solver) usefulNodes() (out []int) {
	for i, x := range s.nodes.list {
		if x.Closed || x.Drained {
			continue
		}
		free := s.initial.free[i*s.numDims : i*s.numDims+s.numDims]
		for _, c := range s.boundClasses {
			if c.assigned > 0 && fitsSlice(&c.req, free) && s.nodeAdmits(c.filter, i) {
				out = append(out, i)
				break
			}
		}
	}
	return out
}

// boundGroup is demand and the offers it may go to.
type boundGroup struct {
	sizes []vec
	cost  []int64
	total [maxDims]float64
	sum   vec

	classes []*class
	prices  [maxDims]int64
}

func (s *solver) boundGroups() ([]*boundGroup, []level) {
	s.boundClasses = s.classesToBound()
	joined := len(s.levels) < 2
	for i := range s.limits {
		joined = joined || s.limits[i].limited || len(s.minValuesOf(i)) > 0
	}
	for _, b := range s.bins { // whatever else sent a pod further down, ports or volumes for instance
		for _, it := range b.items {
			c := s.classes[it.class]
			g, _ := s.cheapestLevel(c.offers, &c.req)
			lo, _ := s.poolOfferRange(b.pool)
			joined = joined || g >= len(s.levels) || lo < s.levels[g].lo || lo >= s.levels[g].hi
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
	ls := s.levels
	if joined {
		ls = []level{{lo: 0, hi: len(s.offers)}}
	}
	classes := make([][]*class, len(ls))
	for _, c := range s.boundClasses {
		if c.assigned == 0 || !s.someOfferHolds(c.filter.offers, &c.req) {
			continue
		}
		g := 0
		if !joined {
			g, _ = s.cheapestLevel(c.offers, &c.req)
		}
		classes[g] = append(classes[g], c)
	}
	var groups []*boundGroup
	var of []level
	for i, l := range ls {
		for _, part := range s.independentClasses(l, classes[i]) {
			groups, of = append(groups, s.newBoundGroup(l, part)), append(of, l)
		}
	}
	return groups, of
}

// independentClasses splits classes so that those of different parts have no offer in common: their bounds add up.
func (s *solver) independentClasses(l level, classes []*class) [][]*class {
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

// newBoundGroup is the group of classes that go to offers of one level.
func (s *solver) newBoundGroup(l level, classes []*class) *boundGroup {
	g := &boundGroup{classes: classes}
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

func (s *solver) spansLevels(set *offerSet) bool {
	n := 0
	for _, l := range s.levels {
		if s.hasOfferIn(set, l) {
			n++
		}
	}
	return n > 1
}
