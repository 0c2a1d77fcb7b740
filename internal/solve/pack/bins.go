// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// Bin is a machine to buy, or equal copies of one: what it holds, and which offers would do.
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

// offerHoldsBin says whether a machine of the offer holds the bin: its requests, ports and volumes.
func (s *Purchases) offerHoldsBin(b *Bin, o *problem.Offer) bool {
	if !problem.FitsIn(&b.requests, o.Allocatable, s.In.NumDims) {
		return false
	}
	return b.occupancy.FitsOn(o)
}

// leastBinPrice is the price of the cheapest machine that holds a bin, -1 where none does.
func (s *Purchases) leastBinPrice(b *Bin) int64 {
	first := s.Catalog.FirstPoolCandidate(b.Pool, &b.requests)
	s.Work.Steps += int64(first)
	for _, i := range s.Catalog.PoolOffersCheapestFirst(b.Pool)[first:] {
		s.Work.Steps++
		if o := &s.Catalog.Offers[i]; b.offers.Contains(i) && s.offerHoldsBin(b, o) {
			return o.Price
		}
	}
	return -1
}

// CountMachines is how many machines are to be bought.
func (s *Placement) CountMachines() (n int64) {
	for _, b := range s.Bins {
		n += b.Copies
	}
	return n
}

// BuysFromSeveralLevels says whether machines of more than one level are bought.
func (s *Placement) BuysFromSeveralLevels() bool {
	for _, b := range s.Bins {
		if s.In.Given.Pools[b.Pool].Before(&s.In.Given.Pools[s.Bins[0].Pool]) != 0 {
			return true
		}
	}
	return false
}

// mergeEqualBins makes equal bins copies of one again. No pod may be added to a bin any more.
func (s *Placement) mergeEqualBins() {
	seen, out := make(map[string]*Bin, len(s.Bins)), make([]*Bin, 0, len(s.Bins))
	var words []uint64
	var key []byte
	for _, b := range s.Bins {
		slices.SortFunc(b.Items, func(x, y binItem) int { return cmp.Compare(x.Class, y.Class) })
		words = append(words[:0], uint64(b.Pool), uint64(b.offers.ID), uint64(b.quantity), uint64(len(b.Items)))
		for _, it := range b.Items {
			words = append(words, uint64(it.Class), uint64(it.Count))
		}
		for _, v := range b.charged {
			words = append(words, uint64(v))
		}
		key = problem.AppendWords(key[:0], words)
		if was := seen[string(key)]; was != nil {
			was.Copies += b.Copies
			continue
		}
		seen[string(key)] = b
		out = append(out, b)
	}
	s.Bins = out
}

// splitCopies makes every copy a bin of its own, with a number among the hosts.
func (s *Placement) splitCopies() {
	out := make([]*Bin, 0, s.CountMachines())
	for _, b := range s.Bins {
		if b.host >= 0 {
			out = append(out, b)
			continue
		}
		for n := b.Copies; n > 0; n-- {
			one := b
			if n > 1 {
				x := *b
				one, x.Items = &x, slices.Clone(b.Items)
			}
			one.Copies, one.host, one.occupancy = 1, s.Topo.HostCount, problem.Occupancy{}
			s.Topo.HostCount++
			for _, it := range one.Items {
				c := s.Inst.Classes[it.Class]
				s.Topo.CountOnHost(c, one.host, it.Count)
				one.occupancy.Add(c)
			}
			out = append(out, one)
		}
	}
	s.Bins = out
}

// binLackingMinValues returns the first bin that leaves its pool fewer values of a label than MinValues asks for, nil
// if none does.
func (s *Placement) binLackingMinValues() *Bin {
	for _, b := range s.Bins {
		if !s.Choices.meetsMinValues(b) {
			return b
		}
	}
	return nil
}

// meetsMinValues says whether the choices of a bin have the values that its pool asks for.
func (s *Choices) meetsMinValues(b *Bin) bool {
	if len(s.Catalog.MinValuesOf(b.Pool)) == 0 {
		return true
	}
	left := &s.Purchases.Limits[b.Pool]
	ch := s.ChooseTypes(b)
	left.Charge(ch.charged, -1) // nothing is bought here: what the bin was charged stands
	left.Charge(b.charged, 1)
	return ch.hasValues()
}
