// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"slices"
	"strings"
)

// demand is pods of one class for which machines must be bought, all within one set of offers. Its pods are counted in the topology
// domains already, as if they stood.
type demand struct {
	c     *class
	mask  *mask
	full  *mask // where mask is only what the class would rather have: all it may
	n     int64 // left to buy for
	asked int64
	site  *site // nil where no topology ties the class

	offers *mask   // that it was collected for
	next   *demand // another of the class, collected before
}

// site is one combination of topology domains a class could go to: rooms there, and offers there.
type site struct {
	name   string
	id     int // of solver.siteIDs, by name
	vals   []int32
	in     []bool  // which of the class's scopes
	rooms  []int32 // that admit the class, in filling order
	next   int     // the first of them not found full
	offers *mask   // nil: nothing can be bought there
	level  int
	price  int64 // of the cheapest offer that holds one pod, in the first level that has one

	// As the next pod finds it.
	room               int // -1: none has room
	count, unmet, cost int64
	bought             int64 // for the class being placed, not in solver.bought yet
}

// place decides for every pod between free room and a machine to buy. Classes that want to be near others are tried again after
// those have been placed, until nothing moves.
func (s *solver) place(waiting []*class) {
	out, add := s.collector()
	for len(waiting) > 0 {
		moved := false
		var again []*class
		for i, c := range waiting {
			s.fillByPrice(waiting, i)
			before := c.taken
			s.placeClass(c, add)
			moved = moved || c.taken > before
			if c.left() > 0 && c.topo.near {
				again = append(again, c)
			}
		}
		if !moved {
			break
		}
		waiting = again
	}
	s.demands = append(s.demands, *out...)
}

// collector gathers pods to buy for into demands.
func (s *solver) collector() (*[]*demand, func(*class, *mask, int64, *site)) {
	var out []*demand
	var slab []demand
	return &out, func(c *class, m *mask, n int64, at *site) {
		c.taken += int(n)
		if at != nil {
			s.bumpWide(c, at.vals, at.in, n)
		}
		for _, id := range c.topo.bumpHost {
			s.counters[id].promised += n
		}
		s.takeExclusive(c)
		if c.collector != &out {
			c.collector, c.demands = &out, nil
		}
		d := c.demands
		for d != nil && d.offers != m {
			d = d.next
		}
		if d == nil {
			if len(slab) == cap(slab) {
				slab = make([]demand, 0, min(256, 2*len(out)+4))
			}
			slab = append(slab, demand{c: c, mask: m, offers: m, site: at, next: c.demands})
			d = &slab[len(slab)-1]
			if w := s.wished(c, m); w != m && s.holds(w, &c.req) {
				d.mask, d.full = w, m
			}
			c.demands = d
			out = append(out, d)
		}
		d.n += n
		d.asked += n
	}
}

// maxTopUps bounds how many pods are tried again one by one.
const maxTopUps = 200

// topUp tries the pods left out once more, those that topology ties one at a time. What was lowered for one class may have taken the ground
// from under another, and there is room again; what others did since may let in another of a spread, or be what a pod wants to be near.
// Machines bought for those of higher priority may have room left, where limits allow no more machines.
func (s *solver) topUp() {
	if !slices.ContainsFunc(s.classes, func(c *class) bool { return s.wanted(c) > 0 }) {
		return
	}
	s.caps, s.last = map[siteKey]int64{}, true
	s.thrift()
	if s.machines() <= maxTidied {
		s.spare = &tidying{s: s}
	}
	tries := 0
	for near, moved := false, true; moved; near = true {
		moved = false
		for _, c := range s.classes {
			if near && !c.topo.near {
				continue
			}
			before := c.taken
			for !c.topo.nearHost && s.wanted(c) > 0 && tries < maxTopUps && !s.spent() {
				tries++
				if !s.topUpOnce(c) {
					break
				}
			}
			moved = moved || c.taken > before
		}
	}
}

// topUpOnce tries a class once, and says whether to try it again.
func (s *solver) topUpOnce(c *class) bool {
	if s.spare != nil {
		s.separate() // also what was bought last: what comes behind it has been bought now
	}
	before, bins := c.taken, len(s.bins)
	demands, add := s.collector()
	tied := len(c.topo.keys) > 0
	if tied {
		s.placeBySite(c, c.left()-1, add)
	} else {
		s.placeClass(c, add)
	}
	s.buyTier(*demands)
	if bought := s.bins[bins:]; slices.ContainsFunc(bought, func(b *bin) bool { return !s.keepsValues(b) }) ||
		len(bought) > 0 && s.widen(bought, true) {
		for _, b := range bought {
			s.left[b.pool].take(b.charged, -b.copies)
			if b.stock >= 0 {
				s.stock[b.stock] += b.copies
			}
			for _, it := range b.items {
				(*demands)[0].n += it.n * b.copies // there is one: the class was tried at one site, or without any
			}
		}
		s.bins = s.bins[:bins]
		if s.spare != nil {
			s.spare.bins = s.spare.bins[:min(bins, len(s.spare.bins))]
		}
	}
	s.squeeze(*demands)
	for _, d := range *demands {
		c.taken -= int(d.n)
		if d.n > 0 && tied {
			s.bumpWide(c, d.site.vals, d.site.in, -d.n)
			k := siteKey{c.id, d.site.id}
			s.bought[k] -= d.n
			s.caps[k] = s.bought[k] // not there; elsewhere perhaps
		}
		for _, id := range c.topo.bumpHost {
			s.counters[id].promised = 0
		}
	}
	return c.taken > before || len(*demands) > 0 && tied
}

// squeeze puts pods for which nothing more is bought into room left, whatever they would rather have: a wish is no reason to refuse.
func (s *solver) squeeze(demands []*demand) {
	if s.spare == nil {
		return
	}
	var left []*demand
	for _, d := range demands {
		if d.n == 0 || d.full == nil && d.c.apart.most == 0 {
			continue
		}
		if d.full != nil {
			d.mask, d.full = d.full, nil
		}
		left = append(left, d)
	}
	s.spare.closer = true
	s.fillLeft(left)
	s.spare.closer = false
}

// thrift charges limits for each machine with no more than the smallest that holds its fill at the least price: what is to be chosen
// from is narrowed before a pod is refused.
func (s *solver) thrift() {
	for _, b := range s.bins {
		left := &s.left[b.pool]
		if !left.limited || len(s.minValuesOf(b.pool)) > 0 {
			continue
		}
		best := -1
		for _, i := range s.byPrice(b.pool) {
			if o := &s.offers[i]; b.mask.has(i) && s.binFits(b, o) && o.t.Capacity.Fits(b.charged) && (best < 0 || o.price < s.offers[best].price ||
				o.price == s.offers[best].price && o.t.Capacity.Fits(s.offers[best].t.Capacity)) {
				best = i
			}
		}
		if best >= 0 {
			left.take(b.charged, -b.copies)
			b.charged = s.offers[best].t.Capacity
			left.take(b.charged, b.copies)
		}
	}
}

// manyPods is how many pods are worth filling rooms by price for; fewer are put where they fit first.
const manyPods = 64

// fillByPrice fills rooms with the plain classes of one priority that begin at i of those waiting, all at once: what is bought for the
// rest costs least when each room is given the pods that suit its shape. It does nothing elsewhere than at their beginning.
func (s *solver) fillByPrice(waiting []*class, i int) {
	if len(s.rooms.in) == 0 || !waiting[i].plain() || i > 0 && waiting[i-1].plain() && waiting[i-1].c.Priority == waiting[i].c.Priority {
		return
	}
	var demands []*demand
	pods := 0
	for _, c := range waiting[i:] {
		if !c.plain() || c.c.Priority != waiting[i].c.Priority {
			break
		}
		if n := s.wanted(c); n > 0 {
			demands = append(demands, &demand{c: c, mask: c.mask, n: int64(n)})
			pods += n
		}
	}
	if pods < manyPods || len(demands) < 2 || len(s.offers) == 0 {
		return
	}
	p := s.newPackingOf(level{lo: 0, hi: len(s.offers)}, demands, false)
	left := make([]int64, len(demands))
	for d := range demands {
		left[d] = demands[d].n
	}
	for room, x := range s.rooms.in {
		for k := range s.nd {
			if !x.Closed && !x.Drained {
				p.free[k] += float64(max(0, s.rooms.free[room*s.nd+k]))
			}
		}
	}
	p.price(left)
	for room, x := range s.rooms.in {
		if !x.Closed && !x.Drained {
			p.fillRoom(room, left)
		}
	}
}

// plain says whether nothing ties a class to other pods.
func (c *class) plain() bool {
	return len(c.topo.keys) == 0 && !c.hosted() && len(c.c.Volumes) == 0
}

// fillRoom is build for a room.
func (p *packing) fillRoom(room int, left []int64) {
	s, sc, nd := p.s, &p.scratch, p.s.nd
	s.settleRoom(room)
	var rem vec
	copy(rem[:], s.rooms.free[room*nd:room*nd+nd])
	sc.cand = sc.cand[:0]
	for d, n := range left {
		if c := p.demands[d].c; n > 0 && fitsIn(&c.req, &rem, nd) && s.admits(c.filter, room) {
			sc.cand = append(sc.cand, int32(d))
		}
	}
	p.sample(maxCandidates, maxCandidates)
	var guest guests
	for best := -1; ; {
		if best = p.nextItem(left, &rem, nil, &guest, best); best < 0 {
			break
		}
		n := min(left[best]-sc.used[best], max(1, timesIn(&p.demands[best].c.req, &rem, nd)/3))
		p.put(best, n, &rem, &guest)
	}
	var f fill
	p.collect(&f)
	for _, it := range f.items {
		left[it.d] -= it.n
		s.putOnRoom(p.demands[it.d].c, room, it.n)
	}
}

// placeClass places what it can of one class.
func (s *solver) placeClass(c *class, add func(*class, *mask, int64, *site)) {
	limit := s.wanted(c)
	if limit == 0 {
		return
	}
	keep := c.left() - limit // pods that must not be placed now
	if len(c.topo.keys) > 0 {
		s.placeBySite(c, keep, add)
		return
	}
	s.fillRooms(c, keep)
	if n := int64(c.left() - keep); n > 0 && !c.topo.nearHost && s.holds(c.mask, &c.req) {
		add(c, c.mask, n, nil)
	}
}

// wanted is how many pods of a class may be placed at all: none that can't be, and only one that wants a volume to itself.
func (s *solver) wanted(c *class) int {
	if c.left() == 0 || c.bad != "" || c.c.Daemon || len(c.c.Unsolved) > 0 {
		return 0
	}
	for i := range c.c.Volumes {
		if c.c.Volumes[i].Exclusive {
			if c.taken > 0 || s.exclusive(c) != nil {
				return 0
			}
			return min(1, c.left())
		}
	}
	return c.left()
}

// fillRooms puts pods that no wide topology ties onto rooms, in filling order.
func (s *solver) fillRooms(c *class, keep int) {
	if c.topo.nearHost && s.starts(c) {
		s.startOnRoom(c, keep)
		return
	}
	for room := range s.rooms.in {
		if c.left() <= keep {
			return
		}
		if n := min(s.roomTakes(c, room), int64(c.left()-keep)); n > 0 {
			s.putOnRoom(c, room, n)
		}
	}
}

// startOnRoom begins a group that must share one host on a room, but only where that room holds all that waits of the class: begun on
// a small one, the rest could go nowhere. Where a machine could hold its lump, that goes there whole.
func (s *solver) startOnRoom(c *class, keep int) {
	if x := c.lump; x != nil && len(x.members) > 1 && !x.tied && s.whole(x) && s.holds(x.one.filter.mask, &x.one.req) {
		s.lumpOnRoom(x, c)
		return
	}
	for room := range s.rooms.in {
		if s.roomTakes(c, room) >= int64(c.left()-keep) {
			s.putOnRoom(c, room, int64(c.left()-keep))
			return
		}
	}
}

// placeBySite places a class that topology ties, few pods at a time: free room before new machines, then the domain where a spread
// counts least, then the cheaper one, then by name.
func (s *solver) placeBySite(c *class, keep int, add func(*class, *mask, int64, *site)) {
	sites := s.sitesOf(c)
	for _, at := range sites {
		at.bought = 0
	}
	defer func() {
		for _, at := range sites {
			if at.bought > 0 {
				s.bought[siteKey{c.id, at.id}] += at.bought
				at.bought = 0
			}
		}
	}()
	spreads := slices.ContainsFunc(c.topo.wide, func(r rule) bool { return r.kind == ruleSpread }) ||
		slices.ContainsFunc(c.topo.bumpWide, func(id int) bool { return s.counters[id].spread })
	wishes := slices.ContainsFunc(c.topo.wide, func(r rule) bool { return r.kind == ruleWish })
	for c.left() > keep {
		s.work += int64(len(sites))
		best, bestN := (*site)(nil), int64(0)
		first := c.topo.near && s.starts(c)
		var could []string
		for _, at := range sites {
			n, _ := s.wideAllows(c, at.vals)
			if n == 0 || s.last && s.crowds(c, at) {
				continue
			}
			if first {
				could = append(could, at.name)
				if s.elsewhere(c, at) {
					continue
				}
			}
			room := s.nextRoom(c, at)
			if room < 0 {
				if n = min(n, s.mayBuy(c, at)); n == 0 {
					continue
				}
			}
			at.count, at.room = s.spreadCount(c, at), room
			at.unmet = s.unmetWishes(c, at.vals)
			at.cost = s.withWish(at.price, at.unmet)
			if best == nil || at.before(best) {
				best, bestN = at, n
			}
		}
		if best == nil {
			return
		}
		if first && len(could) > 1 {
			s.begins(c, best, could)
		}
		n := min(bestN, int64(c.left()-keep))
		if spreads || wishes {
			n = 1
		}
		if best.room >= 0 {
			s.putOnRoom(c, best.room, min(n, s.roomTakes(c, best.room)))
			continue
		}
		best.bought += n
		add(c, best.offers, n, best)
	}
}

// mayBuy is for how many more pods of the class machines may be bought at a site.
func (s *solver) mayBuy(c *class, at *site) int64 {
	if at.offers == nil || c.topo.nearHost {
		return 0
	}
	k := siteKey{c.id, at.id}
	if most, ok := s.caps[k]; ok {
		return max(0, most-s.bought[k]-at.bought)
	}
	return unlimited
}

// before orders sites for the next pod, as they stand now.
func (a *site) before(b *site) bool {
	switch {
	case (a.room >= 0) != (b.room >= 0):
		return a.room >= 0
	case a.count != b.count:
		return a.count < b.count
	case a.room >= 0:
		return a.unmet < b.unmet
	case a.level != b.level:
		return a.level < b.level
	}
	return a.cost < b.cost // sites are sorted by name: the first of equals stays
}

// spreadCount is how crowded the domains are by what spreads count, the class's own and those that count it.
func (s *solver) spreadCount(c *class, where *site) (n int64) {
	for i := range c.topo.wide {
		if r := &c.topo.wide[i]; r.kind == ruleSpread && where.vals[r.key] > 0 {
			n += s.counters[r.counter].at(int(where.vals[r.key]))
		}
	}
	for i, id := range c.topo.bumpWide { // what others spread it would rather not upset
		at := c.topo.scopeOf[i]
		if x := &s.counters[id]; x.spread && where.vals[x.key] > 0 && (at < 0 || where.in[at]) {
			n += x.at(int(where.vals[x.key]))
		}
	}
	return n
}

// nextRoom is the first room of the site that still takes a pod, -1 if there is none. What a class's own pods do to a room only ever
// closes it, so a room once found full is not looked at again.
func (s *solver) nextRoom(c *class, at *site) int {
	for ; at.next < len(at.rooms); at.next++ {
		if s.roomTakes(c, int(at.rooms[at.next])) > 0 {
			return int(at.rooms[at.next])
		}
	}
	return -1
}

// sitesOf lists the sites of a class by name.
func (s *solver) sitesOf(c *class) []*site {
	var byName map[string]*site // those with rooms
	sold := s.offerSites(c)
	shared := len(s.rooms.in) == 0 && len(sold) > 0 && s.wishOf(c) == c.mask
	var key soldKey
	if shared {
		if key = (soldKey{&sold[0], c.req}); s.soldSites[key] != nil {
			return s.soldSites[key]
		}
	}
	out := make([]*site, 0, len(sold))
	var buf []byte
	find := func(vals []int32, in []bool) *site {
		buf = s.siteName(buf[:0], c, vals, in)
		at := byName[string(buf)]
		if at == nil {
			at = &site{name: string(buf), vals: vals, in: in, level: len(s.levels)}
			at.id = s.siteID(at.name)
			if byName == nil {
				byName = map[string]*site{}
			}
			byName[at.name] = at
			out = append(out, at)
		}
		return at
	}
	slab := make([]site, 0, len(sold))
	for room := range s.rooms.in {
		x := s.rooms.in[room]
		if !x.Closed && !x.Drained && s.roomFits(c, room) > 0 && s.admits(c.filter, room) {
			at := find(s.rooms.vals[s.rooms.shape[room]], s.roomScopes(c, room))
			at.rooms = append(at.rooms, int32(room))
		}
	}
	for _, o := range sold {
		if !s.holds(o.offers, &c.req) {
			continue
		}
		at := byName[o.name]
		if at == nil {
			slab = append(slab, site{name: o.name, id: o.id, vals: o.vals, in: o.in})
			at = &slab[len(slab)-1]
			out = append(out, at)
		}
		at.offers = o.offers
		at.level, at.price = s.cheapest(o.offers, &c.req)
		if w := s.wished(c, o.offers); w != o.offers {
			if s.holds(w, &c.req) {
				at.level, at.price = s.cheapest(w, &c.req)
			} else {
				at.price = s.withWish(at.price, 100)
			}
		}
	}
	if len(byName) > 0 { // those sold are in order
		slices.SortFunc(out, func(a, b *site) int { return strings.Compare(a.name, b.name) })
	}
	if shared {
		if s.soldSites == nil {
			s.soldSites = map[soldKey][]*site{}
		}
		s.soldSites[key] = out
	}
	return out
}

// soldKey is what sites follow from where nothing stands and nothing is wished: the first of those sold, and what a pod asks for.
type soldKey struct {
	first *site
	req   vec
}

// siteID numbers sites by name.
func (s *solver) siteID(name string) int {
	id, ok := s.siteIDs[name]
	if !ok {
		id = len(s.siteIDs)
		s.siteIDs[name] = id
	}
	return id
}

// siteName is the values of a class's topology keys, and which of its scopes a site is in.
func (s *solver) siteName(buf []byte, c *class, vals []int32, in []bool) []byte {
	for _, k := range c.topo.keys {
		if vals[k] == openValue {
			buf = append(buf, "?\x00"...)
			continue
		}
		buf = append(append(buf, s.keys.text[k][vals[k]]...), 0)
	}
	return appendBools(buf, in)
}

func appendBools(buf []byte, list []bool) []byte {
	for _, b := range list {
		if b {
			buf = append(buf, 'y')
		} else {
			buf = append(buf, 'n')
		}
	}
	return buf
}

// offerSites splits the offers that admit a class by the values of its topology keys, and by the scopes they are in. Shared by classes
// alike in these, and in order of their names.
func (s *solver) offerSites(c *class) []site {
	text := s.siteText[:0]
	for _, k := range c.topo.keys {
		text = append(text, byte(k), byte(k>>8))
	}
	for _, on := range c.topo.scopes {
		text = append(text, on.text()...)
	}
	s.siteText = text
	if got, ok := s.siteMaps[siteMapKey{c.mask.id, string(text)}]; ok {
		return got
	}
	byVals := map[string]int{}
	var out []site
	var bits [][]uint64
	var buf []byte
	for i := range s.offers {
		if !c.mask.has(i) {
			continue
		}
		vals := s.offers[i].vals
		buf = buf[:0]
		for _, k := range c.topo.keys {
			buf = append(buf, byte(vals[k]), byte(vals[k]>>8), byte(vals[k]>>16), byte(vals[k]>>24))
		}
		var in []bool
		for _, on := range c.topo.scopes {
			in = append(in, s.inScope(on, &s.offers[i]))
		}
		buf = appendBools(buf, in)
		at, ok := byVals[string(buf)]
		if !ok {
			at = len(out)
			byVals[string(buf)] = at
			out = append(out, site{name: string(s.siteName(nil, c, vals, in)), vals: vals, in: in})
			bits = append(bits, make([]uint64, len(c.mask.bits)))
		}
		bits[at][i>>6] |= 1 << (i & 63)
	}
	for i := range out {
		out[i].offers, out[i].id = s.internMask(bits[i]), s.siteID(out[i].name)
	}
	slices.SortFunc(out, func(a, b site) int { return strings.Compare(a.name, b.name) })
	s.siteMaps[siteMapKey{c.mask.id, string(text)}] = out
	return out
}

type siteMapKey struct {
	mask int
	keys string
}

type siteKey struct{ class, site int }

// cheapest is the first level in which an offer of the mask holds the amount, and the least price there.
func (s *solver) cheapest(m *mask, req *vec) (int, int64) {
	for li, l := range s.levels {
		for _, i := range s.order[l.lo+s.firstIn(li, req) : l.hi] {
			if o := &s.offers[i]; m.has(i) && fitsIn(req, o.avail, s.nd) {
				return li, o.price
			}
		}
	}
	return len(s.levels), 0
}
