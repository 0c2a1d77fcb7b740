// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "slices"

// colocate places what must share a host with other pods and found none standing: onto machines being bought, which may have to
// become larger for it, or onto one bought to begin the group. Repeated until nothing moves, for one group may wait for another.
func (s *solver) colocate() {
	waiting := false
	for _, c := range s.classes {
		waiting = waiting || c.topo.nearHost && s.wanted(c) > 0
	}
	if !waiting {
		return
	}
	s.separate()
	for moved := true; moved; {
		moved = false
		for _, c := range s.classes {
			if !c.topo.nearHost || s.wanted(c) == 0 {
				continue
			}
			before := c.taken
			s.work += int64(len(s.bins))
			s.placeClass(c, nil) // on rooms only: nothing is bought for a class that must share a host
			for _, b := range s.bins {
				if s.wanted(c) > 0 {
					s.joinBin(c, b)
				}
			}
			if s.wanted(c) > 0 && s.starts(c) {
				s.startBin(c)
			}
			moved = moved || c.taken > before
		}
	}
}

// seed opens machines for what must share a host and is no lump, before anything else is packed: later there may be no room left beside what
// it wants to be near. A machine begins with one pod of that, or, where there is none, with the group itself. It says whether any was placed.
func (s *solver) seed() (any bool) {
	any = s.takeLumps()
	for moved := true; moved; any = any || moved {
		moved = false
		for _, c := range s.classes {
			if !c.topo.nearHost || s.wanted(c) == 0 {
				continue
			}
			before := c.taken
			s.work += int64(len(s.bins) + len(s.demands))
			for _, b := range s.bins {
				if s.wanted(c) > 0 {
					s.joinBin(c, b)
				}
			}
			for _, d := range s.demands {
				for s.wanted(c) > 0 && d.n > 0 && s.anchors(d.c, c) && s.seedBin(c, d) {
				}
			}
			if s.wanted(c) > 0 && s.starts(c) {
				s.startBin(c)
			}
			moved = moved || c.taken > before
		}
	}
	return any
}

// anchors says whether pods of a are what pods of c want to share a host with.
func (s *solver) anchors(a, c *class) bool {
	for i := range c.topo.host {
		if r := &c.topo.host[i]; r.kind == ruleAffinity && !slices.Contains(a.topo.bumpHost, r.counter) {
			return false
		}
	}
	return true
}

// seedBin opens a machine with one pod of the demand and as many of the class as it can hold.
func (s *solver) seedBin(c *class, d *demand) bool {
	for pool := range s.in.Pools {
		if !s.sells(pool) {
			continue
		}
		b := &bin{pool: pool, mask: s.and(s.poolMask(pool), d.mask), copies: 1, stock: -1, host: s.slots}
		b.add(d.c, d.mask, 1, s.nd)
		s.bumpHost(d.c, b.host, 1)
		if s.holds(b.mask, &b.req) && s.joinBin(c, b) {
			s.slots++
			d.n--
			s.bins = append(s.bins, b)
			return true
		}
		s.bumpHost(d.c, b.host, -1)
	}
	return false
}

// separate makes every copy a bin of its own, with a number among the hosts.
func (s *solver) separate() {
	out := make([]*bin, 0, s.machines())
	for _, b := range s.bins {
		if b.host >= 0 {
			out = append(out, b)
			continue
		}
		for n := b.copies; n > 0; n-- {
			one := b
			if n > 1 {
				x := *b
				one, x.items = &x, slices.Clone(b.items)
			}
			one.copies, one.host, one.guests = 1, s.slots, guests{}
			s.slots++
			for _, it := range one.items {
				c := s.classes[it.class]
				s.bumpHost(c, one.host, it.n)
				if len(c.ports) > 0 || len(c.attach) > 0 {
					one.guests.add(c.c)
				}
			}
			out = append(out, one)
		}
	}
	s.bins = out
}

// joinBin adds as many pods as a bin takes, over the first site of the class that allows it. A group that begins beside others begins whole:
// those left over could go nowhere.
func (s *solver) joinBin(c *class, b *bin) bool {
	n, least := min(s.hostAllows(c, b.host), portsFit(c, b.guests.ports), int64(s.wanted(c))), int64(1)
	if len(b.items) > 0 && c.topo.nearHost && s.starts(c) {
		least = int64(s.wanted(c))
	}
	if n < least {
		return false
	}
	if len(c.topo.keys) == 0 {
		return s.grow(c, b, c.mask, n, least, nil)
	}
	for _, at := range s.sitesOf(c) {
		if m, _ := s.wideAllows(c, at.vals); m >= least && at.offers != nil && s.grow(c, b, at.offers, min(n, m), least, at) {
			return true
		}
	}
	return false
}

// grow puts up to n pods, and no fewer than least, into a bin, which from then on may only be an offer of the mask.
func (s *solver) grow(c *class, b *bin, m *mask, n, least int64, at *site) bool {
	m = s.and(b.mask, m)
	if !s.holds(m, &b.req) {
		return false
	}
	most := int64(0)
	for i := range m.tops {
		rem := m.tops[i]
		for k := range s.nd {
			rem[k] -= b.req[k]
		}
		if fitsIn(&c.req, &rem, s.nd) {
			most = max(most, timesIn(&c.req, &rem, s.nd))
		}
	}
	for n = min(n, most); n >= least; n-- {
		s.work++
		next := *b
		next.items = append([]binItem(nil), b.items...)
		next.guests = guests{}
		for _, it := range next.items {
			if x := s.classes[it.class]; len(x.ports) > 0 || len(x.attach) > 0 {
				next.guests.add(x.c)
			}
		}
		next.mask = m
		next.add(c, m, n, s.nd)
		if !s.recharge(&next) {
			continue
		}
		if whole := least == n && least == int64(s.wanted(c)) && len(b.items) > 0; whole && s.dearer(c, m, n, b, &next) {
			s.left[b.pool].take(next.charged, -1)
			if b.charged != nil {
				s.left[b.pool].take(b.charged, 1)
			}
			return false
		}
		*b = next
		c.taken += int(n)
		s.bumpHost(c, b.host, n)
		if at != nil {
			s.bumpWide(c, at.vals, at.in, n)
		}
		s.takeExclusive(c)
		return true
	}
	return false
}

// dearer says whether a group costs less on a machine of its own than a bin grows dearer by with it.
func (s *solver) dearer(c *class, m *mask, n int64, b, with *bin) bool {
	alone := &bin{pool: b.pool, mask: m}
	alone.add(c, m, n, s.nd)
	price := s.leastPrice(alone)
	return price >= 0 && s.effortOf(s.leastPrice(with))-s.effortOf(s.leastPrice(b)) > s.effortOf(price)
}

// recharge charges the pool for the cheapest machine that holds the bin within the limits, in place of what was charged before.
func (s *solver) recharge(b *bin) bool {
	left := &s.left[b.pool]
	if b.charged != nil {
		left.take(b.charged, -1)
	}
	best := -1
	for _, i := range s.byPrice(b.pool) {
		s.work++
		o := &s.offers[i]
		if b.mask.has(i) && (best < 0 || o.price < s.offers[best].price) && s.binFits(b, o) && left.copies(o.t.Capacity) > 0 {
			best = i
		}
	}
	if best < 0 {
		if b.charged != nil {
			left.take(b.charged, 1)
		}
		return false
	}
	was := b.charged
	b.charged = s.offers[best].t.Capacity
	left.take(b.charged, 1)
	if need := s.minValuesOf(b.pool); len(need) > 0 { // charge what the choice that must be kept may cost
		ch := s.choose(b)
		if b.charged = ch.charged; need.lacking(ch.types) != nil {
			left.take(b.charged, -1)
			if b.charged = was; was != nil {
				left.take(was, 1)
			}
			return false
		}
	}
	return true
}

// startBin buys a machine to begin a group: of the first pool, by weight and name, that has one, for as many pods as it can hold.
func (s *solver) startBin(c *class) {
	for pool := range s.in.Pools {
		if !s.sells(pool) {
			continue
		}
		b := &bin{pool: pool, mask: s.poolMask(pool), copies: 1, stock: -1, host: s.slots}
		if s.joinBin(c, b) {
			s.slots++
			s.bins = append(s.bins, b)
			return
		}
	}
}
