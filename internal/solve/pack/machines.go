// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// maxMachines is the maximum number of machines for which patterns are built. Catalogs of real clouds have fewer after
// dominated machines are removed.
const maxMachines = 256

// thinMachines keeps, of too many machines, the one with the most worth for its cost among those of nearly one price
// that admit the same demands, and for each demand one that holds it. What a machine becomes is chosen among all
// types later.
func (p *Prices) thinMachines(remaining []int64) {
	if len(p.Market.Machines) <= maxMachines {
		return
	}
	nd := p.In.NumDims
	worths := make([]int64, len(p.Market.Machines))
	for i, m := range p.Market.Machines {
		var v problem.Sum128
		for k := range nd {
			if m.Available[k] > 0 {
				v.AddProduct(max(p.resourcePrices[k], p.feasibility.HighestPrice(k, func(g *FeasibilityClass) bool { return g.Includes(i) })), m.Available[k])
			}
		}
		worths[i] = v.Micro()
	}
	type bucket struct {
		pool, stock int
		admits      string
		price       int
	}
	best := map[bucket]int{}
	for i, m := range p.Market.Machines {
		k := bucket{pool: m.pool, stock: m.Quantity, admits: string(problem.AppendWords(nil, m.Admits))}
		for x := m.Price; x > 0; x = x * 7 / 8 {
			k.price++
		}
		if was, ok := best[k]; !ok || problem.RatioLess(worths[was], p.Market.Machines[was].AdjustedCost, worths[i], m.AdjustedCost) {
			best[k] = i
		}
	}
	keep := make([]bool, len(p.Market.Machines))
	for _, i := range best {
		keep[i] = true
	}
	for d, n := range remaining {
		least := -1
		for i, m := range p.Market.Machines {
			if n <= 0 || !p.Market.MachineAdmits(m, d) || !problem.IsWithin(&p.Market.Demands[d].Class.Req, &m.Available, nd) {
				continue
			}
			if keep[i] {
				least = -1
				break
			}
			if least < 0 || m.Price < p.Market.Machines[least].Price {
				least = i
			}
		}
		if least >= 0 {
			keep[least] = true
		}
	}
	var out []*Machine
	for i, m := range p.Market.Machines {
		if keep[i] {
			out = append(out, m)
		}
	}
	p.Market.Machines, p.Market.feasibilityIndex, p.resourcePricing = out, nil, nil
}

// valueNarrowing narrows machines of pools that ask for several values of a label to what minValues leaves of them.
type valueNarrowing struct {
	topology.Compiled
	market          *Market
	choices         map[interchangeKey][]int // see listChoices; by keys without a size
	interchangeable map[interchangeKey]*interchangeableOffers
	valuesOfSets    map[valuesKey]bool
}

func newValueNarrowing(market *Market) *valueNarrowing {
	return &valueNarrowing{Compiled: market.Compiled, market: market, choices: map[interchangeKey][]int{},
		interchangeable: map[interchangeKey]*interchangeableOffers{}, valuesOfSets: map[valuesKey]bool{}}
}

// restrictAllToMinValues narrows machines to what minValues leaves of them, and adds those that were left out because a
// machine dominates them which now does not.
func (p *valueNarrowing) restrictAllToMinValues(l problem.Level, all []*Machine) []*Machine {
	narrowed := map[int]*Machine{} // by offer
	for _, m := range all {
		admits := slices.Clone(m.Admits)
		if !p.restrictToMinValues(m) {
			continue
		}
		x := m
		if !slices.Equal(admits, m.Admits) {
			x = &Machine{} // dominates nothing
		}
		for _, i := range m.offers {
			narrowed[i] = x
		}
	}
	if len(narrowed) == 0 {
		return all
	}
	more := p.market.Purchases.machinesOf(l, p.market.offerSets, func(i int) bool {
		m := narrowed[p.market.Catalog.Offers[i].DominatedBy]
		return m != nil && !problem.IsWithin(p.market.Catalog.Offers[i].Allocatable, &m.Available, p.market.In.NumDims)
	})
	for _, m := range more {
		p.restrictToMinValues(m)
	}
	all = append(all, more...)
	return append(all, p.machinesForSingles(l, all)...)
}

// machinesForSingles returns machines for demands that no narrowed machine holds, or only a dearer one than a pod alone
// needs. What each machine was narrowed to may be too little for a pod that other offers would hold: such a machine is
// narrowed to those offers only that hold a pod of the demand, the cheapest first.
func (p *valueNarrowing) machinesForSingles(l problem.Level, narrowed []*Machine) (out []*Machine) {
	type size struct {
		set   int
		req   problem.Vec
		class *problem.Class // nil: requests say all that a machine must have
	}
	seen := map[size]bool{}
	for d, x := range p.market.Demands {
		k := size{set: p.market.SetOf[d], req: x.Class.Req}
		if x.Class.Occupies {
			k.class = x.Class
		}
		if seen[k] {
			continue
		}
		seen[k] = true
		least := problem.Unlimited
		for _, m := range slices.Concat(narrowed, out) {
			p.market.Work.Steps++
			if m.Price < least && p.market.holdsOne(m, d) {
				least = m.Price
			}
		}
		for pool := range p.market.In.Given.Pools {
			if lo, _ := p.market.Catalog.PoolOfferRange(pool); lo >= l.Lo && lo < l.Hi && len(p.market.Catalog.MinValuesOf(pool)) > 0 {
				if m := p.machineForSingle(d, pool, least); m != nil {
					out, least = append(out, m), m.Price
				}
			}
		}
	}
	return out
}

// machineForSingle returns the machine of the cheapest offers of a pool which hold a pod of a demand and have the values
// that minValues asks for, nil where it would cost as much as one that there is.
func (p *valueNarrowing) machineForSingle(d, pool int, below int64) *Machine {
	s, x := p.market.Purchases, p.market.Demands[d]
	holds := func(i int) bool {
		s.Work.Steps++
		o := &s.Catalog.Offers[i]
		return o.Available && o.Quantity < 0 && x.Offers.Contains(i) && problem.IsWithin(&x.Class.Req, o.Allocatable, s.In.NumDims) &&
			p.isWithinLimits(o) && new(problem.Occupancy).Allows(x.Class, o.Traits()) > 0
	}
	offers := s.Catalog.PoolOffersCheapestFirst(pool)
	var tried []int
	for n := s.Catalog.FirstPoolCandidate(pool, &x.Class.Req); n < len(offers) && s.Catalog.Offers[offers[n]].Price < below; n++ {
		first := offers[n]
		if !holds(first) || slices.ContainsFunc(tried, func(i int) bool { return s.Catalog.AreInterchangeable(i, first) }) {
			continue
		}
		tried = append(tried, first)
		count := s.Catalog.CountValues(pool)
		chosen := offers[n:n]
		for _, i := range offers[n:] {
			if count.IsMet() {
				break
			}
			if (i == first || count.Gains(i)) && s.Catalog.AreInterchangeable(i, first) && holds(i) {
				count.Add(i)
				chosen = append(slices.Clip(chosen), i)
			}
		}
		if count.IsMet() {
			return p.machineOfAny(chosen)
		}
	}
	return nil
}

// machineOfAny is the machine that may become any of some offers, at the price of the first.
func (p *valueNarrowing) machineOfAny(offers []int) *Machine {
	m := p.market.Purchases.newMachine(&p.market.Catalog.Offers[offers[0]], make([]uint64, (len(p.market.offerSets)+63)/64))
	m.offers = offers[:1:1]
	for _, i := range offers[1:] {
		o := &p.market.Catalog.Offers[i]
		m.capacity = m.capacity.Max(o.Charge)
		m.ports = m.ports.Take(&o.Ports)
		m.traits = m.traits.And(o.Traits())
		for k := range p.market.In.NumDims {
			m.Available[k] = min(m.Available[k], o.Allocatable[k])
		}
	}
	for j, set := range p.market.offerSets {
		if !slices.ContainsFunc(offers, func(i int) bool { return !set.Contains(i) }) {
			m.Admits[j>>6] |= 1 << (j & 63)
		}
	}
	return m
}

// holdsOne reports whether a machine holds a pod of a demand alone.
func (p *Market) holdsOne(m *Machine, d int) bool {
	c, on := p.Demands[d].Class, m.traits
	on.DaemonPorts = nil // they are among the machine's ports
	used := problem.Occupancy{Ports: m.ports}
	return p.MachineAdmits(m, d) && problem.IsWithin(&c.Req, &m.Available, p.In.NumDims) && used.Allows(c, on) > 0
}

// isWithinLimits reports whether the limits of its pool allow a node that may become the offer.
func (p *valueNarrowing) isWithinLimits(o *problem.Offer) bool {
	left := &p.market.Purchases.Limits[o.Pool]
	return !left.Limited || left.CopiesAllowed(o.Charge) > 0
}

// restrictToMinValues narrows a machine of a pool that asks for several values of a label: a pattern may use only
// what the offers that have these values have in common, and limits are charged for the largest of them. Demands for
// which there are not that many values are not admitted. It reports whether the machine holds less now.
func (p *valueNarrowing) restrictToMinValues(m *Machine) (narrowed bool) {
	if len(p.market.Catalog.MinValuesOf(m.pool)) == 0 {
		return false
	}
	count := p.market.Catalog.CountValues(m.pool)
	var kept []*problem.OfferSet
	room, most := m.Available, m.capacity
	for j, k := range p.market.offerSets {
		if m.Admits[j>>6]>>(j&63)&1 == 0 {
			continue
		}
		if !p.hasValues(m, k) {
			m.Admits[j>>6] &^= 1 << (j & 63)
			narrowed = true
			continue
		}
		if v, c, ok := p.roomWithValues(m, append(slices.Clip(kept), k), &count); ok {
			kept, room, most = append(kept, k), v, c
		} else {
			m.Admits[j>>6] &^= 1 << (j & 63)
			narrowed = true
		}
	}
	narrowed = narrowed || room != m.Available
	m.Available, m.capacity = room, most
	return narrowed
}

// hasValues reports whether the offers of a set that may be choices beside a machine have the values that minValues asks
// for, however little room they leave. It is asked first: where they have not, as for pods of one zone of a pool that
// asks for two, every machine would be looked at offer by offer.
func (p *valueNarrowing) hasValues(m *Machine, set *problem.OfferSet) bool {
	s := p.market.Purchases
	first := &s.Catalog.Offers[m.offers[0]]
	k := valuesKey{p.choicesKey(m), set}
	k.size = 0 // however little room they leave
	if has, ok := p.valuesOfSets[k]; ok {
		return has
	}
	count := s.Catalog.CountValues(m.pool)
	lo, hi := s.Catalog.PoolOfferRange(m.pool)
	for i := lo; i < hi && !count.IsMet(); i++ {
		s.Work.Steps++
		x := &s.Catalog.Offers[i]
		if count.Gains(i) && set.Contains(i) && x.Available && p.isWithinLimits(x) && x.Offering.CapacityType == first.Offering.CapacityType && problem.SameVariant(x, first) {
			count.Add(i)
		}
	}
	p.valuesOfSets[k] = count.IsMet()
	return count.IsMet()
}

// valuesKey names the offers of a set among which a machine's choices are.
type valuesKey struct {
	interchangeKey
	set *problem.OfferSet
}

// roomWithValues returns the room that a machine shares with offers which have, together with its own, the values that
// minValues asks for, and what limits are charged for the largest of them; false if there are not that many values.
// The offers are in all of the sets. Those with no less room are taken first, the cheapest first; if they do not do,
// those that lose the machine least.
func (p *valueNarrowing) roomWithValues(m *Machine, sets []*problem.OfferSet, count *problem.ValueCount) (problem.Vec, model.Resources, bool) {
	s := p.market.Purchases
	isIn := func(i int) bool {
		return !slices.ContainsFunc(sets, func(k *problem.OfferSet) bool { return !k.Contains(i) })
	}
	own := func() {
		count.Reset()
		for _, i := range m.offers {
			if isIn(i) {
				count.Add(i)
			}
		}
	}
	own()
	room, most := m.Available, m.capacity.Clone()
	for _, i := range s.Catalog.PoolOffersCheapestFirst(m.pool)[s.Catalog.FirstPoolCandidate(m.pool, &room):] {
		if count.IsMet() {
			return room, most, true
		}
		s.Work.Steps++
		o := &s.Catalog.Offers[i]
		if !count.Gains(i) || !o.Available || o.Quantity >= 0 || !problem.IsWithin(&room, o.Allocatable, s.In.NumDims) || !isIn(i) || !p.isWithinLimits(o) || !s.Catalog.AreInterchangeable(i, m.offers[0]) {
			continue
		}
		count.Add(i)
		most = most.MaxInto(o.Charge)
	}
	if count.IsMet() {
		return room, most, true
	}
	own()
	most = append(most[:0], m.capacity...)
	others := p.interchangeableWith(m, count)
	for n := 0; ; n++ {
		x, ok := others.at(n)
		if !ok {
			break
		}
		s.Work.Steps++
		if !count.Gains(x.offer) || !isIn(x.offer) {
			continue
		}
		o := &s.Catalog.Offers[x.offer]
		count.Add(x.offer)
		most = most.MaxInto(o.Charge)
		for k := range s.In.NumDims {
			room[k] = min(room[k], o.Allocatable[k])
		}
		if count.IsMet() {
			return room, most, true
		}
	}
	return room, most, false
}

// interchangeableOffer is an offer beside a machine, and how much less of a resource it has, the worst in millionths.
// There is no pointer in it: there are thousands for each machine.
type interchangeableOffer struct {
	offer int
	loss  int64
}

// isBefore reports whether an offer loses less than another; of equals the first by name is first, as offers are.
func (a interchangeableOffer) isBefore(b interchangeableOffer) bool {
	return a.loss < b.loss || a.loss == b.loss && a.offer < b.offer
}

// interchangeableOffers are offers, those that lose the least first. They are put in order as far as they are asked for:
// a few do as a rule.
type interchangeableOffers struct {
	sorted []interchangeableOffer
	rest   []interchangeableOffer // a heap
}

// at returns the offer at an index, false if there are fewer. Indexes must be requested in ascending order.
func (l *interchangeableOffers) at(n int) (interchangeableOffer, bool) {
	if n == len(l.sorted) && len(l.rest) > 0 {
		last := len(l.rest) - 1
		l.sorted = append(l.sorted, l.rest[0])
		l.rest[0], l.rest = l.rest[last], l.rest[:last]
		l.sink(0)
	}
	if n >= len(l.sorted) {
		return interchangeableOffer{}, false
	}
	return l.sorted[n], true
}

// sink moves an offer of the heap down to its place.
func (l *interchangeableOffers) sink(i int) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(l.rest) && l.rest[child].isBefore(l.rest[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		l.rest[i], l.rest[least] = l.rest[least], l.rest[i]
		i = least
	}
}

// interchangeableWith returns the offers that a choice may have in addition to a machine. Machines of one size share the
// list.
func (p *valueNarrowing) interchangeableWith(m *Machine, values *problem.ValueCount) *interchangeableOffers {
	k := p.choicesKey(m)
	if list, ok := p.interchangeable[k]; ok {
		return list
	}
	s := p.market.Purchases
	k.size = 0
	offers, ok := p.choices[k]
	if !ok {
		offers = p.listChoices(m, values)
		p.choices[k] = offers
	}
	s.Work.Steps += int64(len(offers))
	list := &interchangeableOffers{rest: make([]interchangeableOffer, len(offers))}
	for n, i := range offers {
		x, loss := &s.Catalog.Offers[i], int64(0)
		for k := range s.In.NumDims {
			if short := m.Available[k] - x.Allocatable[k]; short > 0 && m.Available[k] > 0 {
				loss = max(loss, problem.MulDiv(short, 1_000_000, m.Available[k]))
			}
		}
		list.rest[n] = interchangeableOffer{i, loss}
	}
	for i := len(list.rest)/2 - 1; i >= 0; i-- {
		list.sink(i)
	}
	p.interchangeable[p.choicesKey(m)] = list
	return list
}

// listChoices lists the offers that may be choices beside a machine, whatever its size; of those of a type that nothing
// tells apart the first.
func (p *valueNarrowing) listChoices(m *Machine, values *problem.ValueCount) (out []int) {
	s := p.market.Purchases
	lo, hi := s.Catalog.PoolOfferRange(m.pool)
	s.Work.Steps += int64(hi - lo)
	for i := lo; i < hi; i++ {
		x := &s.Catalog.Offers[i]
		if !x.Available || x.Quantity >= 0 || !p.isWithinLimits(x) || !s.Catalog.AreInterchangeable(i, m.offers[0]) {
			continue
		}
		if len(out) == 0 || !p.areAlike(out[len(out)-1], i, values) {
			out = append(out, i)
		}
	}
	return out
}

// areAlike reports whether two offers are of one type, with the same room and values, for the same demands.
func (p *valueNarrowing) areAlike(i, j int, values *problem.ValueCount) bool {
	a, b := &p.market.Catalog.Offers[i], &p.market.Catalog.Offers[j]
	return a.TypeStart == b.TypeStart && a.Size == b.Size && values.AreAlike(i, j) &&
		!slices.ContainsFunc(p.market.offerSets, func(set *problem.OfferSet) bool { return set.Contains(i) != set.Contains(j) })
}

// choicesKey returns the key of the offers that a choice may have in addition to a machine.
func (p *valueNarrowing) choicesKey(m *Machine) interchangeKey {
	first := &p.market.Catalog.Offers[m.offers[0]]
	return interchangeKey{m.pool, first.Size, first.Offering.CapacityType, fmt.Sprint(first.Offering.Labels[model.LabelNodeGroup], first.Variant)}
}

type interchangeKey struct {
	pool, size            int
	capacityType, variant string
}
