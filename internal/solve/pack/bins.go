// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// Bin is a machine to launch, or equal copies of one, with its contents and the offers that fit.
type Bin struct {
	Pool      int
	offers    *problem.OfferSet // of the pool, or of the limited quantity, that admit every class on it
	Items     []binItem
	requests  problem.Vec // of all that one copy holds
	Copies    int64
	charged   model.Resources // to the pool's limits, for one copy
	price     int64           // of the machine it was packed as, micro-dollars an hour
	quantity  int             // as Offer.Quantity
	host      int             // its number among the hosts of topology once it has one, as a single copy; else -1
	occupancy problem.Occupancy
}

// binItem is pods of one class on each copy of a bin.
type binItem struct {
	Class  int
	Count  int64
	offers *problem.OfferSet // where the pods may go and be counted as they are
}

// newBin turns copies of a batch, with the pods that each holds, into a bin.
func (s *Purchases) newBin(b *batch, items []podShare, copies int64) *Bin {
	out := &Bin{Pool: b.pool, Copies: copies, charged: b.machine.capacity, price: b.machine.Price, quantity: b.machine.Quantity, host: -1, offers: s.Catalog.PoolOffers(b.pool)}
	if b.machine.Quantity >= 0 { // this one and no other: it is counted
		bits := make([]uint64, len(out.offers.Bits))
		for _, i := range b.machine.offers {
			bits[i>>6] |= 1 << (i & 63)
		}
		out.offers = s.Catalog.InternOfferSet(bits)
	}
	out.Items = make([]binItem, 0, len(items))
	for _, it := range items {
		out.offers = s.Catalog.Intersect(out.offers, it.demand.Offers)
		it.demand.addToBin(out, it.count, s.In.NumDims)
	}
	return out
}

// addPods adds n pods of a class, which may go to the offers of set, to each copy.
func (b *Bin) addPods(c *problem.Class, set *problem.OfferSet, n int64, nd int) {
	for k := range nd {
		b.requests[k] += c.Req[k] * n
	}
	b.occupancy.AddToCopy(c)
	for i := range b.Items {
		if b.Items[i].Class == c.ID {
			b.Items[i].Count += n
			return
		}
	}
	b.Items = append(b.Items, binItem{c.ID, n, set})
}

// offerHoldsBin reports whether a machine of the offer holds the bin: its requests, ports and volumes.
func (s *Purchases) offerHoldsBin(b *Bin, o *problem.Offer) bool {
	if !problem.IsWithin(&b.requests, o.Allocatable, s.In.NumDims) {
		return false
	}
	return b.occupancy.FitsOn(o)
}

// leastBinPrice returns the price of the cheapest machine that holds a bin, -1 if there is none.
func (s *Purchases) leastBinPrice(b *Bin) int64 { return s.leastPriceAmong(b, b.offers) }

// leastPriceAmong returns the price of the cheapest machine of a bin's pool that holds it, among some offers; -1 if
// there is none.
func (s *Purchases) leastPriceAmong(b *Bin, offers *problem.OfferSet) int64 {
	first := s.Catalog.FirstPoolCandidate(b.Pool, &b.requests)
	s.Work.Steps += int64(first)
	for _, i := range s.Catalog.PoolOffersCheapestFirst(b.Pool)[first:] {
		s.Work.Steps++
		if o := &s.Catalog.Offers[i]; offers.Contains(i) && s.offerHoldsBin(b, o) {
			return o.Price
		}
	}
	return -1
}

// addToBin puts n pods of a demand on each copy of a bin.
func (d *Demand) addToBin(b *Bin, n int64, nd int) {
	if d.Class.AsGroup == nil {
		b.addPods(d.Class, d.Offers, n, nd)
		return
	}
	for _, c := range d.Class.AsGroup.Members {
		b.addPods(c, d.Offers, int64(len(c.Pods))*n, nd)
	}
}
