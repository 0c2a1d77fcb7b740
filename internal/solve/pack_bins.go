// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// bin is a machine to buy, or equal copies of one: what it holds, and which offers would do.
type bin struct {
	pool      int
	offers    *offerSet // of the pool, or of the limited quantity, that admit every class on it
	items     []binItem
	requests  vec // of all that one copy holds
	copies    int64
	charged   model.Resources // to the pool's limits, for one copy
	price     int64           // of the machine it was packed as, micro-dollars an hour
	quantity  int             // as offer.quantity
	host      int             // its number among the hosts of topology once it has one, as a single copy; else -1
	occupancy occupancy
}

// binItem is pods of one class on each copy of a bin.
type binItem struct {
	class  int
	count  int64
	offers *offerSet // where the pods may go and be counted as they are
}

// newBin turns copies of a batch, with the pods that each holds, into a bin.
func (s *purchases) newBin(b *batch, items []podShare, copies int64) *bin {
	out := &bin{pool: b.pool, copies: copies, charged: b.machine.capacity, price: b.machine.price, quantity: b.machine.quantity, host: -1, offers: s.poolOffers(b.pool)}
	if b.machine.quantity >= 0 { // this one and no other: it is counted
		bits := make([]uint64, len(out.offers.bits))
		for _, i := range b.machine.offers {
			bits[i>>6] |= 1 << (i & 63)
		}
		out.offers = s.internOfferSet(bits)
	}
	out.items = make([]binItem, 0, len(items))
	for _, it := range items {
		out.offers = s.intersect(out.offers, it.demand.offers)
		it.demand.addToBin(out, it.count, s.numDims)
	}
	return out
}

// addPods adds n pods of a class, which may go to the offers of set, to each copy.
func (b *bin) addPods(c *class, set *offerSet, n int64, nd int) {
	for k := range nd {
		b.requests[k] += c.req[k] * n
	}
	if len(c.ports) > 0 || len(c.csiVolumes) > 0 {
		b.occupancy.addClass(c.spec)
	}
	for i := range b.items {
		if b.items[i].class == c.id {
			b.items[i].count += n
			return
		}
	}
	b.items = append(b.items, binItem{c.id, n, set})
}

// offerHoldsBin says whether a machine of the offer holds the bin: its requests, ports and volumes.
func (s *purchases) offerHoldsBin(b *bin, o *offer) bool {
	if !fitsIn(&b.requests, o.allocatable, s.numDims) {
		return false
	}
	if len(b.occupancy.ports) > 0 && len(o.ports) > 0 {
		for _, p := range b.occupancy.ports {
			if slices.ContainsFunc(o.ports, p.Conflicts) {
				return false
			}
		}
	}
	for driver, handles := range b.occupancy.handles {
		if limit, ok := o.instanceType.CSILimits[driver]; ok && int64(len(handles)) > limit {
			return false
		}
	}
	return true
}

// leastBinPrice is the price of the cheapest machine that holds a bin, -1 where none does.
func (s *purchases) leastBinPrice(b *bin) int64 {
	first := s.firstPoolCandidate(b.pool, &b.requests)
	s.steps += int64(first)
	for _, i := range s.poolOffersCheapestFirst(b.pool)[first:] {
		s.steps++
		if o := &s.offers[i]; b.offers.contains(i) && s.offerHoldsBin(b, o) {
			return o.price
		}
	}
	return -1
}

// countMachines is how many machines are to be bought.
func (s *placement) countMachines() (n int64) {
	for _, b := range s.bins {
		n += b.copies
	}
	return n
}

// buysFromSeveralLevels says whether machines of more than one level are bought.
func (s *placement) buysFromSeveralLevels() bool {
	for _, b := range s.bins {
		if s.input.Pools[b.pool].before(&s.input.Pools[s.bins[0].pool]) != 0 {
			return true
		}
	}
	return false
}

// mergeEqualBins makes equal bins copies of one again. No pod may be added to a bin any more.
func (s *placement) mergeEqualBins() {
	seen, out := make(map[string]*bin, len(s.bins)), make([]*bin, 0, len(s.bins))
	var words []uint64
	var key []byte
	for _, b := range s.bins {
		slices.SortFunc(b.items, func(x, y binItem) int { return cmp.Compare(x.class, y.class) })
		words = append(words[:0], uint64(b.pool), uint64(b.offers.id), uint64(b.quantity), uint64(len(b.items)))
		for _, it := range b.items {
			words = append(words, uint64(it.class), uint64(it.count))
		}
		for _, v := range b.charged {
			words = append(words, uint64(v))
		}
		key = appendWords(key[:0], words)
		if was := seen[string(key)]; was != nil {
			was.copies += b.copies
			continue
		}
		seen[string(key)] = b
		out = append(out, b)
	}
	s.bins = out
}

// splitCopies makes every copy a bin of its own, with a number among the hosts.
func (s *placement) splitCopies() {
	out := make([]*bin, 0, s.countMachines())
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
			one.copies, one.host, one.occupancy = 1, s.hostCount, occupancy{}
			s.hostCount++
			for _, it := range one.items {
				c := s.classes[it.class]
				s.countOnHost(c, one.host, it.count)
				if len(c.ports) > 0 || len(c.csiVolumes) > 0 {
					one.occupancy.addClass(c.spec)
				}
			}
			out = append(out, one)
		}
	}
	s.bins = out
}

// binLackingMinValues returns the first bin that leaves its pool fewer values of a label than minValues asks for, nil
// if none does.
func (s *placement) binLackingMinValues() *bin {
	for _, b := range s.bins {
		if !s.meetsMinValues(b) {
			return b
		}
	}
	return nil
}

// meetsMinValues says whether the choices of a bin have the values that its pool asks for.
func (s *purchases) meetsMinValues(b *bin) bool {
	need := s.minValuesOf(b.pool)
	if len(need) == 0 {
		return true
	}
	was := s.limits[b.pool]
	s.limits[b.pool].amounts = was.amounts.Clone()
	ch := s.chooseTypes(b)
	s.limits[b.pool] = was
	return need.firstUnmet(ch.types) == nil
}
