// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

// cost completes the price of the plan with a lower bound on that of any plan for the same pods.
//
// The certificate: resource prices under which no machine that the demand may go to is worth more than it costs. What a machine
// holds is then worth at most its price, so the pods are worth at most what their machines cost, less what free room is worth.
// A pod belongs to the first level of weight that offers it a machine, as the weight rule has it; where limits bind, that rule may
// drive it further down, and the levels are priced together.
func (s *solver) cost(res *Result) {
	res.Cost.ProvenBy = "none"
	if res.Cost.NewMicroPerHour == 0 {
		res.Cost.ProvenBy = "lp"
		return
	}
	groups := s.boundGroups()
	var total, rooms wide
	var most [maxDims]int64
	for _, g := range groups {
		u := prices(g.sizes, g.cost, g.total[:s.nd], s.nd)
		for k := range s.nd {
			total.addMul(u[k], g.sum[k])
			most[k] = max(most[k], u[k])
		}
	}
	for i, x := range s.rooms.in {
		if x.Closed || x.Drained {
			continue
		}
		for k := range s.nd {
			if v := s.start.free[i*s.nd+k]; v > 0 {
				rooms.addMul(most[k], v)
			}
		}
	}
	res.Cost.ProvenBy = "lp"
	if rooms.less(total) {
		res.Cost.BoundMicroPerHour = total.sub(rooms).micro()
	}
}

// boundGroup is demand and the offers it may go to.
type boundGroup struct {
	sizes []vec
	cost  []int64
	total [maxDims]float64
	sum   vec
}

func (s *solver) boundGroups() []*boundGroup {
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
	for _, c := range s.classes { // topology may send pods to a pool of less weight that has the domain
		joined = joined || (len(c.topo.keys) > 0 || c.topo.nearHost) && s.spansLevels(c.mask)
	}
	n := len(s.levels)
	if joined {
		n = 1
	}
	groups := make([]*boundGroup, n)
	usedBy := make([][]uint64, n)
	for i := range groups {
		groups[i] = &boundGroup{}
		usedBy[i] = make([]uint64, (len(s.offers)+63)/64)
	}
	for _, c := range s.classes {
		if c.taken == 0 || !s.holds(c.mask, &c.req) {
			continue
		}
		g := 0
		if !joined {
			g, _ = s.cheapest(c.mask, &c.req)
		}
		for k := range s.nd {
			groups[g].sum[k] += c.req[k] * int64(c.taken)
			groups[g].total[k] += float64(c.req[k]) * float64(c.taken)
		}
		for i, w := range c.mask.bits {
			usedBy[g][i] |= w
		}
	}
	for gi, g := range groups {
		least := map[int]int64{}
		var order []int
		for i := range s.offers {
			if usedBy[gi][i>>6]>>(i&63)&1 == 0 {
				continue
			}
			o := &s.offers[i]
			if !joined && (i < s.levels[gi].lo || i >= s.levels[gi].hi) {
				continue
			}
			if p, ok := least[o.size]; !ok {
				order = append(order, o.size)
				least[o.size] = o.price
			} else {
				least[o.size] = min(p, o.price)
			}
		}
		for _, id := range order {
			g.sizes = append(g.sizes, s.sizes[id])
			g.cost = append(g.cost, least[id])
		}
	}
	return groups
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
