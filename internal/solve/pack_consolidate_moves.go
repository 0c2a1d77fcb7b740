// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "slices"

// findOffer finds what a bin would be bought as, and what is free on it.
func (t *consolidation) findOffer(x *plannedBin) {
	if x.offer = t.cheapestOffer(x.bin); x.offer >= 0 {
		x.free = *t.s.offers[x.offer].allocatable
		for k := range t.s.numDims {
			x.free[k] -= x.requests[k]
		}
	}
}

// cheapestOffer is the cheapest offer that holds the bin and that limits have been charged for; -1 where there is
// none.
func (t *consolidation) cheapestOffer(b *bin) int {
	s := t.s
	list := s.poolOffersCheapestFirst(b.pool)
	if b.quantity < 0 {
		first := s.firstPoolCandidate(b.pool, &b.requests)
		s.steps += int64(first)
		list = list[first:]
	} else {
		list = nil
		for i := range s.offers {
			if s.offers[i].quantity == b.quantity && b.offers.contains(i) {
				list = append(list, i)
			}
		}
	}
	for _, i := range list {
		s.steps++
		if o := &s.offers[i]; b.offers.contains(i) && (o.quantity < 0 || o.quantity == b.quantity) && s.offerHoldsBin(b, o) && (!s.limits[b.pool].limited || o.instanceType.Capacity.Fits(b.charged)) {
			return i
		}
	}
	return -1
}

// adjustedCost is that of the machine a bin would be bought as.
func (t *consolidation) adjustedCost(x *plannedBin) int64 {
	return t.s.adjustPrice(t.s.offers[x.offer].price)
}

// podsBinAccepts is how many pods of an item of bin i fit on bin j, as the machine that it is.
func (t *consolidation) podsBinAccepts(j, i int, it *binItem) int64 {
	s, x := t.s, &t.bins[j]
	s.steps++
	if j == i || x.offer < 0 || len(x.items) == 0 {
		return 0
	}
	c := s.classes[it.class]
	if !it.offers.contains(x.offer) || !fitsIn(&c.req, &x.free, s.numDims) {
		return 0
	}
	return min(it.count, timesIn(&c.req, &x.free, s.numDims), t.podsNeighboursAllow(x, c))
}

// podsNeighboursAllow is how many pods of a class may join those on a bin, resources aside.
func (t *consolidation) podsNeighboursAllow(x *plannedBin, c *class) int64 {
	s := t.s
	if len(s.minValuesOf(x.pool)) > 0 {
		return 0 // it would have to be seen how many types are left
	}
	n := s.podsHostAllows(c, x.host)
	if n > 0 && len(c.ports) > 0 {
		n = min(n, podsPortsAllow(c, x.occupancy.ports))
		if x.offer >= 0 {
			n = min(n, podsPortsAllow(c, s.offers[x.offer].ports))
		}
	}
	if n > 0 && len(c.csiVolumes) > 0 {
		if _, ok := volumesFit(c, x.occupancy.handles, s.offers[x.offer].instanceType.CSILimits); !ok {
			return 0
		}
	}
	if c.separation.most > 0 && !t.ignoreSeparation {
		have := int64(0)
		for _, it := range x.items {
			if it.class == c.id {
				have = it.count
			}
		}
		n = min(n, max(0, c.separation.most-have))
	}
	return n
}

// switchPool has the pool of bin i buy bin j, where that costs no more and pods that need that pool can then join. It
// says whether it did.
func (t *consolidation) switchPool(j, i int, it *binItem) bool {
	s, x := t.s, &t.bins[j]
	pool := t.bins[i].pool
	if j == i || x.offer < 0 || x.pool == pool || x.fixed || len(x.items) == 0 || len(t.bins) > maxMachinesToGrow || it.offers.contains(x.offer) ||
		s.limits[pool].limited || s.limits[x.pool].limited || len(s.minValuesOf(pool)) > 0 {
		return false
	}
	c := s.classes[it.class]
	b := *x.bin
	b.pool, b.offers = pool, s.intersect(s.poolOffers(pool), it.offers)
	for _, have := range x.items {
		b.offers = s.intersect(b.offers, have.offers)
	}
	y := plannedBin{bin: &b}
	t.findOffer(&y)
	if y.offer < 0 || t.adjustedCost(&y) > t.adjustedCost(x) || !fitsIn(&c.req, &y.free, s.numDims) || t.podsNeighboursAllow(&y, c) <= 0 {
		return false
	}
	t.saveBin(j)
	b.charged = s.offers[y.offer].instanceType.Capacity
	*x.bin = b
	y.bin = x.bin
	t.bins[j] = y
	return true
}

// switchMachine has bin j be another machine, no dearer, to which pods may go that fit on the one it is and may not
// go to that. It says whether it did.
func (t *consolidation) switchMachine(j int, it *binItem) bool {
	s, x := t.s, &t.bins[j]
	c := s.classes[it.class]
	if x.offer < 0 || it.offers.contains(x.offer) || !fitsIn(&c.req, &x.free, s.numDims) {
		return false
	}
	b := *x.bin
	b.offers = s.intersect(b.offers, it.offers)
	y := plannedBin{bin: &b, fixed: x.fixed}
	t.findOffer(&y)
	if y.offer < 0 || t.adjustedCost(&y) > t.adjustedCost(x) || !fitsIn(&c.req, &y.free, s.numDims) || t.podsNeighboursAllow(&y, c) <= 0 {
		return false
	}
	*x.bin = b
	y.bin = x.bin
	t.bins[j] = y
	return true
}

// binHolding is bin i with only these items.
func (t *consolidation) binHolding(i int, items []binItem) plannedBin {
	b := *t.bins[i].bin
	b.items, b.requests, b.occupancy = nil, vec{}, occupancy{}
	if b.quantity < 0 {
		b.offers = t.s.poolOffers(b.pool)
	}
	for k := range items {
		b.offers = t.s.intersect(b.offers, items[k].offers)
		b.addPods(t.s.classes[items[k].class], items[k].offers, items[k].count, t.s.numDims)
	}
	x := plannedBin{bin: &b}
	if len(items) > 0 {
		t.findOffer(&x)
	} else {
		x.offer = -1
	}
	return x
}

// occupancyOf is the ports and volumes of the pods in items.
func (t *consolidation) occupancyOf(items []binItem) (g occupancy) {
	for _, it := range items {
		if c := t.s.classes[it.class]; len(c.ports) > 0 || len(c.csiVolumes) > 0 {
			g.addClass(c.spec)
		}
	}
	return g
}

// movePods puts n pods of an item on bin j.
func (t *consolidation) movePods(j, i int, it *binItem, n int64) {
	s := t.s
	t.saveBin(j)
	t.moveCounts(j, i, it, n)
	x := &t.bins[j]
	x.offers = s.intersect(x.offers, it.offers)
	x.bin.occupancy = t.occupancyOf(x.items)
	x.items = slices.Clone(x.items)
	x.addPods(s.classes[it.class], it.offers, n, s.numDims)
	for k := range s.numDims {
		x.free[k] -= s.classes[it.class].req[k] * n
	}
	it.count -= n
}

// moveCounts has n pods counted on the host of bin j instead of that of bin i; i is -1 where they come from none.
func (t *consolidation) moveCounts(j, i int, it *binItem, n int64) {
	c := t.s.classes[it.class]
	if i >= 0 {
		t.s.countOnHost(c, t.bins[i].host, -n)
	}
	t.s.countOnHost(c, t.bins[j].host, n)
}

// saveBin notes how a bin is before it is changed.
func (t *consolidation) saveBin(j int) {
	x := &t.bins[j]
	was := undoEntry{j: j, was: *x, bin: *x.bin}
	was.bin.items = slices.Clone(x.items)
	t.undo = append(t.undo, was)
}

// undoMoves undoes all moves from bin i.
func (t *consolidation) undoMoves(i int) {
	for k := len(t.undo) - 1; k >= 0; k-- {
		u := &t.undo[k]
		for _, it := range t.bins[u.j].items {
			for _, old := range u.bin.items {
				if old.class == it.class {
					it.count -= old.count
				}
			}
			if it.count != 0 {
				t.moveCounts(i, u.j, &it, it.count)
			}
		}
		*u.was.bin = u.bin
		t.bins[u.j] = u.was
	}
}

// tryJoin counts items of bin j on the host of bin i, and says whether rules between pods let them all be there
// beside those on into.
func (t *consolidation) tryJoin(i, j int, items []binItem, into *plannedBin) bool {
	if len(t.s.minValuesOf(into.pool)) > 0 {
		return false // it would have to be seen how many types are left
	}
	beside, b := *into, *into.bin
	beside.bin = &b
	for k := range items {
		c := t.s.classes[items[k].class]
		if !c.goesBesideAny() {
			if t.podsNeighboursAllow(&beside, c) < items[k].count {
				t.undoJoin(i, j, items[:k])
				return false
			}
			b.items = append(slices.Clip(b.items), items[k])
			b.occupancy = t.occupancyOf(b.items)
		}
		t.moveCounts(i, j, &items[k], items[k].count)
	}
	return true
}

// undoJoin has items of bin j counted on its own host again, instead of that of bin i.
func (t *consolidation) undoJoin(i, j int, items []binItem) {
	for k := range items {
		t.moveCounts(j, i, &items[k], items[k].count)
	}
}
