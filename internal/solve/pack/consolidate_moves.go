// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// maxConsolidatedMachines is the maximum number of machines examined, maxEmptiedPerRound of machines that one round
// tries to empty, and maxMachinesToGrow of machines for which larger types are tried.
const (
	maxConsolidatedMachines = 2048
	maxEmptiedPerRound      = 256
	maxMachinesToGrow       = 128
	maxConsolidationRounds  = 8
	consolidationSteps      = 2_000_000
)

// findOffer finds the offer with which a bin would be launched, and its free resources.
func (t *consolidation) findOffer(x *plannedBin) {
	if x.offer = t.cheapestOffer(x.bin); x.offer >= 0 {
		x.free = *t.s.Catalog.Offers[x.offer].Allocatable
		for k := range t.s.In.NumDims {
			x.free[k] -= x.bin.requests[k]
		}
	}
}

// cheapestOffer returns the cheapest offer that holds the bin and that limits have been charged for; -1 if there is none.
func (t *consolidation) cheapestOffer(b *Bin) int {
	limited := t.s.Purchases.Limits[b.Pool].Limited
	return t.cheapestOfferThat(b, func(o *problem.Offer) bool { return !limited || o.Charge.Fits(b.charged) })
}

// cheapestOfferThat returns the cheapest offer that holds the bin and is allowed; -1 if there is none.
func (t *consolidation) cheapestOfferThat(b *Bin, isAllowed func(*problem.Offer) bool) int {
	s := t.s
	list := s.Catalog.PoolOffersCheapestFirst(b.Pool)
	if b.quantity < 0 {
		first := s.Catalog.FirstPoolCandidate(b.Pool, &b.requests)
		s.Work.Steps += int64(first)
		list = list[first:]
	} else {
		list = nil
		for i := range s.Catalog.Offers {
			if s.Catalog.Offers[i].Quantity == b.quantity && b.offers.Contains(i) {
				list = append(list, i)
			}
		}
	}
	for _, i := range list {
		s.Work.Steps++
		if o := &s.Catalog.Offers[i]; b.offers.Contains(i) && (o.Quantity < 0 || o.Quantity == b.quantity) && s.Purchases.offerHoldsBin(b, o) && isAllowed(o) {
			return i
		}
	}
	return -1
}

// adjustedCost returns the adjusted cost of the machine with which a bin would be launched.
func (t *consolidation) adjustedCost(x *plannedBin) int64 {
	return t.s.In.AdjustPrice(t.s.Catalog.Offers[x.offer].Price)
}

// podsBinAccepts is how many pods of an item of bin i fit on bin j, as the machine that it is.
func (t *consolidation) podsBinAccepts(j, i int, it *binItem) int64 {
	s, x := t.s, &t.bins[j]
	s.Work.Steps++
	if j == i || x.offer < 0 || len(x.bin.Items) == 0 {
		return 0
	}
	c := s.Inst.Classes[it.Class]
	if !it.offers.Contains(x.offer) || !problem.IsWithin(&c.Req, &x.free, s.In.NumDims) {
		return 0
	}
	return min(it.Count, problem.TimesIn(&c.Req, &x.free, s.In.NumDims), t.podsNeighboursAllow(x, c))
}

// podsNeighboursAllow is how many pods of a class may join those on a bin, resources aside.
func (t *consolidation) podsNeighboursAllow(x *plannedBin, c *problem.Class) int64 {
	s := t.s
	if len(s.Catalog.MinValuesOf(x.bin.Pool)) > 0 {
		return 0 // it would have to be seen how many types are left
	}
	n := s.Topo.PodsHostAllows(c, x.bin.host)
	if n > 0 && c.Occupies {
		var on problem.NodeTraits
		if x.offer >= 0 {
			on = s.Catalog.Offers[x.offer].Traits()
		}
		n = min(n, x.bin.occupancy.Allows(c, on))
	}
	if c.Separation.Most > 0 && !t.lastResort {
		have := int64(0)
		for _, it := range x.bin.Items {
			if it.Class == c.ID {
				have = it.Count
			}
		}
		n = min(n, max(0, c.Separation.Most-have))
	}
	return n
}

// switchPool moves bin j to the pool of bin i, if that costs no more and pods that need that pool can then join. It
// reports whether it did.
func (t *consolidation) switchPool(j, i int, it *binItem) bool {
	s, x := t.s, &t.bins[j]
	pool := t.bins[i].bin.Pool
	if j == i || x.offer < 0 || x.bin.Pool == pool || x.fixed || len(x.bin.Items) == 0 || len(t.bins) > maxMachinesToGrow || it.offers.Contains(x.offer) ||
		s.Purchases.Limits[pool].Limited || s.Purchases.Limits[x.bin.Pool].Limited || len(s.Catalog.MinValuesOf(pool)) > 0 {
		return false
	}
	c := s.Inst.Classes[it.Class]
	b := *x.bin
	b.Pool, b.offers = pool, s.Catalog.Intersect(s.Catalog.PoolOffers(pool), it.offers)
	for _, have := range x.bin.Items {
		b.offers = s.Catalog.Intersect(b.offers, have.offers)
	}
	y := plannedBin{bin: &b}
	t.findOffer(&y)
	if y.offer < 0 || t.adjustedCost(&y) > t.adjustedCost(x) || !problem.IsWithin(&c.Req, &y.free, s.In.NumDims) || t.podsNeighboursAllow(&y, c) <= 0 {
		return false
	}
	t.saveBin(j)
	b.charged = s.Catalog.Offers[y.offer].Charge
	*x.bin = b
	y.bin = x.bin
	t.bins[j] = y
	return true
}

// switchMachine makes bin j another machine, to which pods may go that can't go to the one it is: that is of an offer
// closed to them, or too small. The other machine is no dearer, unless there is nowhere else for the pods. It reports
// whether it did.
func (t *consolidation) switchMachine(j int, it *binItem) bool {
	s, x := t.s, &t.bins[j]
	c := s.Inst.Classes[it.Class]
	if x.offer < 0 || len(x.bin.Items) == 0 || len(t.bins) > maxMachinesToGrow && (it.offers.Contains(x.offer) || !problem.IsWithin(&c.Req, &x.free, s.In.NumDims)) {
		return false
	}
	b := *x.bin
	b.offers = s.Catalog.Intersect(b.offers, it.offers)
	joined := b
	for k := range s.In.NumDims {
		joined.requests[k] += c.Req[k]
	}
	left := &s.Purchases.Limits[b.Pool]
	left.Charge(b.charged, -1)
	y := plannedBin{bin: &b, fixed: x.fixed}
	y.offer = t.cheapestOfferThat(&joined, func(o *problem.Offer) bool {
		return (t.lastResort || s.In.AdjustPrice(o.Price) <= t.adjustedCost(x)) && (!left.Limited || left.CopiesAllowed(o.Charge) > 0)
	})
	ok := y.offer >= 0 && t.podsNeighboursAllow(&y, c) > 0
	if ok && left.Limited {
		b.charged = s.Catalog.Offers[y.offer].Charge
	}
	left.Charge(b.charged, 1)
	if !ok {
		return false
	}
	y.free = *s.Catalog.Offers[y.offer].Allocatable
	for k := range s.In.NumDims {
		y.free[k] -= b.requests[k]
	}
	*x.bin = b
	y.bin = x.bin
	t.bins[j] = y
	return true
}

// binHolding is bin i with only these items.
func (t *consolidation) binHolding(i int, items []binItem) plannedBin {
	b := *t.bins[i].bin
	b.Items, b.requests, b.occupancy = nil, problem.Vec{}, problem.Occupancy{}
	if b.quantity < 0 {
		b.offers = t.s.Catalog.PoolOffers(b.Pool)
	}
	for k := range items {
		b.offers = t.s.Catalog.Intersect(b.offers, items[k].offers)
		b.addPods(t.s.Inst.Classes[items[k].Class], items[k].offers, items[k].Count, t.s.In.NumDims)
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
func (s *Placement) occupancyOf(items []binItem) (g problem.Occupancy) {
	for _, it := range items {
		g.Add(s.Inst.Classes[it.Class])
	}
	return g
}

// movePods puts n pods of an item on bin j.
func (t *consolidation) movePods(j, i int, it *binItem, n int64) {
	s := t.s
	t.saveBin(j)
	t.moveCounts(j, i, it, n)
	x := &t.bins[j]
	x.bin.offers = s.Catalog.Intersect(x.bin.offers, it.offers)
	x.bin.occupancy = t.s.occupancyOf(x.bin.Items)
	x.bin.Items = slices.Clone(x.bin.Items)
	x.bin.addPods(s.Inst.Classes[it.Class], it.offers, n, s.In.NumDims)
	for k := range s.In.NumDims {
		x.free[k] -= s.Inst.Classes[it.Class].Req[k] * n
	}
	it.Count -= n
}

// moveCounts moves the counts of n pods from the host of bin i to that of bin j; i is -1 if they have no host.
func (t *consolidation) moveCounts(j, i int, it *binItem, n int64) {
	c := t.s.Inst.Classes[it.Class]
	if i >= 0 {
		t.s.Topo.CountOnHost(c, t.bins[i].bin.host, -n)
	}
	t.s.Topo.CountOnHost(c, t.bins[j].bin.host, n)
}

// saveBin notes how a bin is before it is changed.
func (t *consolidation) saveBin(j int) {
	x := &t.bins[j]
	was := undoEntry{j: j, was: *x, bin: *x.bin}
	was.bin.Items = slices.Clone(x.bin.Items)
	t.undo = append(t.undo, was)
}

// undoMoves undoes all moves from bin i.
func (t *consolidation) undoMoves(i int) {
	for k := len(t.undo) - 1; k >= 0; k-- {
		u := &t.undo[k]
		for _, it := range t.bins[u.j].bin.Items {
			for _, old := range u.bin.Items {
				if old.Class == it.Class {
					it.Count -= old.Count
				}
			}
			if it.Count != 0 {
				t.moveCounts(i, u.j, &it, it.Count)
			}
		}
		*u.was.bin = u.bin
		t.bins[u.j] = u.was
	}
}

// tryJoin counts items of bin j on the host of bin i, and reports whether rules between pods let them all be there
// beside those on into.
func (t *consolidation) tryJoin(i, j int, items []binItem, into *plannedBin) bool {
	if len(t.s.Catalog.MinValuesOf(into.bin.Pool)) > 0 {
		return false // it would have to be seen how many types are left
	}
	beside, b := *into, *into.bin
	beside.bin = &b
	for k := range items {
		c := t.s.Inst.Classes[items[k].Class]
		if !c.GoesBesideAny() {
			if t.podsNeighboursAllow(&beside, c) < items[k].Count {
				t.undoJoin(i, j, items[:k])
				return false
			}
			b.Items = append(slices.Clip(b.Items), items[k])
			b.occupancy = t.s.occupancyOf(b.Items)
		}
		t.moveCounts(i, j, &items[k], items[k].Count)
	}
	return true
}

// undoJoin counts items of bin j on its own host again, instead of on that of bin i.
func (t *consolidation) undoJoin(i, j int, items []binItem) {
	for k := range items {
		t.moveCounts(j, i, &items[k], items[k].Count)
	}
}

// placeOnSpareCapacity places pods in free capacity of machines planned before.
func (s *Placement) placeOnSpareCapacity(demands []*Demand) {
	if len(s.Bins) == 0 || len(demands) == 0 {
		return
	}
	s.splitCopies()
	t := s.spareCapacity
	if t == nil {
		t = &consolidation{s: s}
	}
	t.undo = t.undo[:0]
	t.addNewBins()
	var targets []int
	for i := range t.bins {
		targets = append(targets, i)
	}
	for _, d := range demands {
		if d.Class.AsGroup != nil {
			continue // a co-located group has a machine bought
		}
		it := binItem{Class: d.Class.ID, Count: d.Unbought, offers: d.Offers}
		for _, j := range targets {
			if it.Count == 0 {
				break
			}
			n := t.podsBinAccepts(j, -1, &it)
			if n == 0 && s.spareCapacity != nil && t.switchMachine(j, &it) {
				n = t.podsBinAccepts(j, -1, &it)
			}
			if n > 0 {
				t.movePods(j, -1, &it, n)
			}
		}
		d.Unbought = it.Count
	}
}

// addNewBins takes in the bins opened since it was last called.
func (t *consolidation) addNewBins() {
	s := t.s
	t.bins = slices.Grow(t.bins, len(s.Bins)-len(t.bins))
	for _, b := range s.Bins[len(t.bins):] {
		x := plannedBin{bin: b, fixed: b.quantity >= 0}
		for _, it := range b.Items {
			x.fixed = x.fixed || s.Inst.Classes[it.Class].Topology.HostAffinity // others may want to be near what is on it
		}
		t.findOffer(&x)
		t.bins = append(t.bins, x)
	}
}
