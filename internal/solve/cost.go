// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
)

// cost completes the price of the plan with a lower bound on that of any plan for the same pods.
//
// The certificate: resource prices under which no machine that the demand may go to is worth more than it costs. What a machine
// holds is then worth at most its price, so the pods are worth at most what their machines cost, less what free room is worth.
// A pod belongs to the first level of weight that offers it a machine, as the weight rule has it. Where limits bind that rule may drive it
// further down, and where pods of several weights are bought for some may find room on the others' machines: the levels are priced together.
func (s *solver) cost(res *Result) {
	res.Cost.ProvenBy = "lp"
	if res.Cost.NewMicroPerHour == 0 {
		return
	}
	res.Cost.Unpriced = s.unpriced()
	groups, ls := s.boundGroups()
	useful := s.usefulRooms()
	var total, rooms wide
	var most [maxDims]int64
	var free [maxDims]float64
	for _, i := range useful {
		for k := range s.nd {
			free[k] += float64(max(0, s.start.free[i*s.nd+k]))
		}
	}
	for _, g := range groups {
		if len(groups) == 1 { // prices that make the most of the demand less the free room
			for k := range s.nd {
				g.total[k] = max(0, g.total[k]-free[k])
			}
		}
		g.u = prices(g.sizes, g.cost, g.total[:s.nd], s.nd)
		for k := range s.nd {
			total.addMul(g.u[k], g.sum[k])
			most[k] = max(most[k], g.u[k])
		}
	}
	for _, i := range useful {
		for k := range s.nd {
			if v := s.start.free[i*s.nd+k]; v > 0 {
				rooms.addMul(most[k], v)
			}
		}
	}
	s.stockWorth(&most, &rooms)
	if rooms.less(total) {
		res.Cost.BoundMicroPerHour = total.sub(rooms).micro()
	}
	res.Cost.BoundMicroPerHour = max(res.Cost.BoundMicroPerHour, s.boundByStrata(groups, ls, useful))
	if len(s.stock) == 0 {
		res.Cost.BoundMicroPerHour = max(res.Cost.BoundMicroPerHour, s.dearestPod(groups, useful), s.dearestClique(groups, useful))
	}
	if wider(res, max(blendGapPPM, s.pol.MaxGapPPM)) && s.pol.Work > 0 && !s.tied() {
		res.Cost.BoundMicroPerHour = max(res.Cost.BoundMicroPerHour, s.boundByBlends(groups, ls, useful, &most))
	}
	if s.bare != nil {
		if by := s.boundByColumns(groups, ls, useful, &most); by > res.Cost.BoundMicroPerHour {
			res.Cost.BoundMicroPerHour, res.Cost.ProvenBy = by, "columns"
		}
	}
	if wider(res, s.pol.MaxGapPPM) {
		if by := s.boundByEnumeration(groups, ls, useful); by > res.Cost.BoundMicroPerHour {
			res.Cost.BoundMicroPerHour, res.Cost.ProvenBy = by, "enumeration"
		}
	}
	if wider(res, max(blendGapPPM, s.pol.MaxGapPPM)) {
		if by := s.boundBesideRooms(groups, ls, useful); by > res.Cost.BoundMicroPerHour {
			res.Cost.BoundMicroPerHour, res.Cost.ProvenBy = by, "lp"
		}
	}
}

// tied says whether most pods have rules over where others are, which no bound knows: then it is not for want of trying that the gap is wide.
func (s *solver) tied() bool {
	n := 0
	for _, c := range s.proven {
		if len(c.topo.host) > 0 || len(c.topo.wide) > 0 {
			n += c.taken
		} else {
			n -= c.taken
		}
	}
	return n > 0
}

// blendGapPPM is the gap below which mixtures are not tried: what prices of resources leave is then what is left over between pods.
const blendGapPPM = 20_000

// wider says whether the gap is wider than so many parts per million of the bound.
func wider(res *Result, ppm int64) bool {
	return res.Cost.NewMicroPerHour-res.Cost.BoundMicroPerHour > mulDiv(res.Cost.BoundMicroPerHour, ppm, 1_000_000)
}

// boundByStrata is the bound from prices by who may go where.
func (s *solver) boundByStrata(groups []*boundGroup, ls []level, useful []int) int64 {
	free := make([]float64, s.nd)
	for _, i := range useful {
		for k := range s.nd {
			free[k] += float64(max(0, s.start.free[i*s.nd+k]))
		}
	}
	var total, rooms wide
	var most [maxDims]int64
	var all []*strata
	for gi, g := range groups {
		if len(g.classes) == 0 {
			continue
		}
		firsts, whole := kindsOf(g.classes)
		p, _ := s.provingOf(ls[gi], firsts)
		x := p.strataOf(whole)
		x.price(free, nil)
		total.add(x.worth())
		for k := range s.nd {
			most[k] = max(most[k], x.most(k, func(*stratum) bool { return true }))
		}
		all = append(all, x)
	}
	for _, i := range useful {
		rooms.add(roomWorth(all, s.start.free[i*s.nd:i*s.nd+s.nd]))
	}
	s.stockWorth(&most, &rooms)
	if !rooms.less(total) {
		return 0
	}
	return total.sub(rooms).micro()
}

// unpriced names, sorted, what the problem has and the bound knows nothing of. Leaving it out keeps the bound valid: it can only make plans
// dearer.
func (s *solver) unpriced() (out []string) {
	var ports, volumes, spread, affinity, limits, values bool
	for _, c := range s.classes {
		ports = ports || len(c.ports) > 0
		volumes = volumes || len(c.attach) > 0
		for _, rules := range [][]rule{c.topo.wide, c.topo.host} {
			for i := range rules {
				switch rules[i].kind {
				case ruleSpread:
					spread = spread || rules[i].hard
				case ruleAffinity:
					affinity = affinity || rules[i].key != hostKey || c.lump == nil
				case ruleAnti, ruleOthers:
					affinity = true
				}
			}
		}
	}
	for i := range s.left {
		limits = limits || s.left[i].limited
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

// stockWorth adds what machines of limited stock can save: as many as there are, each worth its room and costing its price.
func (s *solver) stockWorth(u *[maxDims]int64, sum *wide) {
	best := make([]wide, len(s.start.stock))
	for i := range s.offers {
		o := &s.offers[i]
		if o.stock < 0 {
			continue
		}
		var v wide
		for k := range s.nd {
			if o.avail[k] > 0 {
				v.addMul(u[k], o.avail[k])
			}
		}
		if p := priceWide(o.price); p.less(v) {
			if v = v.sub(p); best[o.stock].less(v) {
				best[o.stock] = v
			}
		}
	}
	for i, v := range best {
		sum.add(v.times(min(s.start.stock[i], int64(len(s.in.Demand)))))
	}
}

// dearestPod is the price of the cheapest machine that holds one pod of a class that no room takes, for the class where that is most. It
// matters where little is bought.
func (s *solver) dearestPod(groups []*boundGroup, useful []int) (most int64) {
	if len(s.bins) > 4 {
		return 0
	}
	for _, g := range groups {
		for _, c := range g.classes {
			if slices.ContainsFunc(useful, func(i int) bool {
				return fitsSlice(&c.req, s.start.free[i*s.nd:i*s.nd+s.nd]) && s.admits(c.filter, i)
			}) {
				continue
			}
			most = max(most, g.cheapest(&c.req, s.nd))
		}
	}
	return most
}

// dearestClique is what machines cost at least for pods no two of which may share a host, where that is most: the cheapest that holds it for
// each, but as many of the dearest pods as there are rooms may go to those.
func (s *solver) dearestClique(groups []*boundGroup, useful []int) (most int64) {
	type pods struct{ n, price int64 }
	for k := len(s.dims); k < s.nd; k++ {
		var all []pods
		for _, g := range groups {
			for _, c := range g.classes {
				if c.req[k] > 0 {
					s.work += int64(len(g.sizes))
					all = append(all, pods{int64(c.taken), g.cheapest(&c.req, s.nd)})
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

// cheapest is the price of the cheapest machine of the group that holds a pod, -1 where none does.
func (g *boundGroup) cheapest(req *vec, nd int) int64 {
	least := int64(-1)
	for i := range g.sizes {
		if fitsIn(req, &g.sizes[i], nd) && (least < 0 || g.cost[i] < least) {
			least = g.cost[i]
		}
	}
	return least
}

// boundByColumns is the bound from what pods are worth in the program over columns, where that knows them, and else by their
// resources. Pods worth nothing, those that free room holds anyway, are left out of the proof.
func (s *solver) boundByColumns(groups []*boundGroup, ls []level, useful []int, u *[maxDims]int64) int64 {
	if len(useful)*len(s.proven) > maxAsked {
		return 0
	}
	kinds := 0
	classes, worths := make([][]*class, len(groups)), make([][]int64, len(groups))
	for gi, g := range groups {
		for _, c := range g.classes {
			worth, ok := s.bare[c.id]
			if !ok {
				worth = s.roomOf(c, &g.u)
			}
			if worth > 0 {
				classes[gi], worths[gi] = append(classes[gi], c), append(worths[gi], worth)
			}
		}
		kinds += len(classLots(classes[gi], make([]int64, len(classes[gi]))))
	}
	if kinds > maxProofRows {
		return 0
	}
	saved := int64(0)
	by := map[int]int64{} // by class
	for gi := range groups {
		if len(classes[gi]) == 0 {
			continue
		}
		scaled, stocked := s.prove(ls[gi], classes[gi], worths[gi])
		saved += stocked
		for i, v := range scaled {
			by[classes[gi][i].id] = v
		}
	}
	return max(0, s.lessRooms(by, useful, u)-saved) >> worthShift
}

// roomOf is what the resources of a pod cost at u, rounded down, micro-dollars << worthShift.
func (s *solver) roomOf(c *class, u *[maxDims]int64) int64 {
	var v wide
	for k := range s.nd {
		v.addMul(u[k], c.req[k])
	}
	return int64(v.hi<<(64-weightShift+worthShift) | v.lo>>(weightShift-worthShift))
}

// lessRooms is what pods worth so much prove, micro-dollars << worthShift, less what those are worth that free room could hold. With what is
// free at prices of resources, it holds that, and of each class as many as fit alone, at what a pod is worth beyond its resources. Worths may
// be lower than they are: of each class the one that proves most counts, all of it, its resources or nothing. Prices of 0 do as well, and better
// where much is free.
func (s *solver) lessRooms(worth map[int]int64, useful []int, u *[maxDims]int64) int64 {
	var free wide
	for _, room := range useful {
		for k, v := range s.start.free[room*s.nd : room*s.nd+s.nd] {
			if v > 0 {
				free.addMul(u[k], v)
			}
		}
	}
	plain, atPrices := int64(0), -(int64(free.hi<<(64-weightShift+worthShift)|free.lo>>(weightShift-worthShift)) + 1)
	for _, c := range s.proven {
		y := worth[c.id]
		if y <= 0 {
			continue
		}
		n, in := int64(c.taken), s.inRooms(c, useful)
		q := min(y, s.roomOf(c, u))
		plain += y * max(0, n-in)
		atPrices += max(q*n, y*n-(y-q)*in)
	}
	return max(plain, atPrices)
}

// usefulRooms are those that could hold some pod of the demand: only their free room can save anything.
func (s *solver) usefulRooms() (out []int) {
	for i, x := range s.rooms.in {
		if x.Closed || x.Drained {
			continue
		}
		free := s.start.free[i*s.nd : i*s.nd+s.nd]
		for _, c := range s.proven {
			if c.taken > 0 && fitsSlice(&c.req, free) && s.admits(c.filter, i) {
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
	u       [maxDims]int64
}

func (s *solver) boundGroups() ([]*boundGroup, []level) {
	s.proven = s.priced()
	joined := len(s.levels) < 2
	for i := range s.left {
		joined = joined || s.left[i].limited || len(s.minValuesOf(i)) > 0
	}
	for _, b := range s.bins { // whatever else sent a pod further down, ports or volumes for instance
		for _, it := range b.items {
			c := s.classes[it.class]
			g, _ := s.cheapest(c.mask, &c.req)
			lo, _ := s.poolRange(b.pool)
			joined = joined || g >= len(s.levels) || lo < s.levels[g].lo || lo >= s.levels[g].hi
		}
		if joined {
			break
		}
	}
	first := -1
	for _, c := range s.proven { // pods of one weight may find room on machines that pods of another need anyway
		if joined {
			break
		}
		if li, _ := s.cheapest(c.mask, &c.req); c.taken > 0 && li < len(s.levels) {
			joined = joined || first >= 0 && li != first
			first = li
		}
	}
	for _, c := range s.classes { // topology may send pods to a pool of less weight that has the domain
		joined = joined || (len(c.topo.keys) > 0 || c.topo.nearHost) && s.spansLevels(c.mask)
	}
	ls := s.levels
	if joined {
		ls = []level{{lo: 0, hi: len(s.offers)}}
	}
	classes := make([][]*class, len(ls))
	for _, c := range s.proven {
		if c.taken == 0 || !s.holds(c.filter.mask, &c.req) {
			continue
		}
		g := 0
		if !joined {
			g, _ = s.cheapest(c.mask, &c.req)
		}
		classes[g] = append(classes[g], c)
	}
	var groups []*boundGroup
	var of []level
	for i, l := range ls {
		for _, part := range s.classParts(l, classes[i]) {
			groups, of = append(groups, s.boundGroupOf(l, part)), append(of, l)
		}
	}
	return groups, of
}

// classParts splits classes so that those of different parts have no offer in common: their bounds add up.
func (s *solver) classParts(l level, classes []*class) [][]*class {
	number := map[int]int{}
	var masks []*mask
	for _, c := range classes {
		if _, ok := number[c.filter.mask.id]; !ok {
			number[c.filter.mask.id] = len(masks)
			masks = append(masks, c.filter.mask)
		}
	}
	of, n := s.parts(l, masks, false)
	out := make([][]*class, n)
	for _, c := range classes {
		at := of[number[c.filter.mask.id]]
		out[at] = append(out[at], c)
	}
	return out
}

// boundGroupOf is the group of classes that go to offers of one level.
func (s *solver) boundGroupOf(l level, classes []*class) *boundGroup {
	g := &boundGroup{classes: classes}
	used := mask{bits: make([]uint64, (len(s.offers)+63)/64)}
	seen := make([]bool, len(s.masks))
	for _, c := range classes {
		for k := range s.nd {
			g.sum[k] += c.req[k] * int64(c.taken)
			g.total[k] += float64(c.req[k]) * float64(c.taken)
		}
		id := c.filter.mask.id
		if seen[id] {
			continue
		}
		seen[id] = true
		for i, w := range c.filter.mask.bits {
			used.bits[i] |= w
		}
	}
	at := make([]int32, len(s.sizes)) // by size: its place in the group, counted from 1
	used.each(l, func(i int) {
		o := &s.offers[i]
		if o.stock >= 0 {
			return // too few to set prices; see stockWorth
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

func (s *solver) spansLevels(m *mask) bool {
	n := 0
	for _, l := range s.levels {
		if s.inLevel(m, l) {
			n++
		}
	}
	return n > 1
}
