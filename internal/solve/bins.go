// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// bin is a machine to buy, or copies of one: what it holds, and which offers would do.
type bin struct {
	pool      int
	offers    *offerSet // offers of the pool that admit every class on it
	items     []binItem
	requests  vec
	copies    int64
	charged   model.Resources // to the pool's limits, for one copy
	price     int64           // of the machine it was packed as
	quantity  int             // of solver.quantities, when it is one of so many; else -1
	host      int             // number among hosts once bins are opened one by one; -1 before
	occupancy occupancy
}

type binItem struct {
	class  int
	count  int64
	offers *offerSet // where the pods may go and be counted as they are
}

// newBin turns copies of a batch, with the pods that they hold, into a bin.
func (s *solver) newBin(b *batch, items []podShare, copies int64) *bin {
	out := &bin{pool: b.pool, copies: copies, charged: b.machine.capacity, price: b.machine.price, quantity: b.machine.quantity, host: -1, offers: s.poolMask(b.pool)}
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

// poolMask is all the offers of a pool of which there are as many as wanted.
func (s *solver) poolMask(pool int) *offerSet {
	for len(s.poolSets) < len(s.input.Pools) {
		bits := make([]uint64, (len(s.offers)+63)/64)
		for i := s.poolStart[len(s.poolSets)]; i < s.poolStart[len(s.poolSets)+1]; i++ {
			if s.offers[i].quantity < 0 {
				bits[i>>6] |= 1 << (i & 63)
			}
		}
		s.poolSets = append(s.poolSets, s.internOfferSet(bits))
	}
	return s.poolSets[s.equivalentPool[pool]]
}

// offerHoldsBin says whether a machine of the offer holds the bin.
func (s *solver) offerHoldsBin(b *bin, o *offer) bool {
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

// binChoice is what a bin may become.
type binChoice struct {
	offer      int // the cheapest
	types      []*model.InstanceType
	typeStarts []int // where their offers begin
	zones      []string
	charged    model.Resources
	premium    int64 // what it costs more than it would have to, for more choice
}

// choiceKey is what the choices of a bin follow from, where no limit binds and it holds neither ports nor volumes.
type choiceKey struct {
	pool, offerSet int
	requests       vec
}

// chooseTypes lists every type that holds the bin at no more than the premium over the cheapest, of the cheapest's capacity type and with
// the same labels of the pool's own, as far as limits allow the largest of them. Cheapest first, then by name, then by zone. Where other
// capacity types or labels cost hardly more (Policy.ChoicePPM), those with the most offerings are taken: less is lost when one of them
// runs out or is taken away.
func (s *solver) chooseTypes(b *bin) *binChoice {
	left := &s.limits[b.pool]
	key := choiceKey{b.pool, b.offers.id, b.requests}
	plain := !left.limited && len(b.occupancy.ports) == 0 && len(b.occupancy.handles) == 0
	if ch := s.choiceCache[key]; plain && ch != nil {
		return ch
	}
	fit := s.fittingBuf[:0]
	least, most, all := int64(0), int64(0), true
	cut := plain && len(s.minValuesOf(b.pool)) == 0
	for _, i := range s.poolOffersCheapestFirst(b.pool) {
		o := &s.offers[i]
		if cut && len(fit) > 0 && o.price > most {
			all = false // too dear to be a choice, unless nothing comes of the cheapest
			break
		}
		if b.offers.contains(i) && s.offerHoldsBin(b, o) {
			if len(fit) == 0 {
				least = o.price
				most = least + mulDiv(least, s.policy.ChoicePPM, 1_000_000)
				most += mulDiv(most, s.policy.PremiumPPM, 1_000_000)
			}
			fit = append(fit, i)
		}
	}
	s.fittingBuf = fit
	if left.limited {
		left.charge(b.charged, -1) // the charge is made anew below
	}
	out := s.bestChoice(b, fit)
	if !all && (out.offer < 0 || s.offers[out.offer].price-out.premium != least) {
		fit = fit[:0]
		for _, i := range s.poolOffersCheapestFirst(b.pool) {
			if b.offers.contains(i) && s.offerHoldsBin(b, &s.offers[i]) {
				fit = append(fit, i)
			}
		}
		s.fittingBuf = fit
		out = s.bestChoice(b, fit)
	}
	left.charge(out.charged, 1)
	slices.Sort(out.zones)
	if plain {
		if s.choiceCache == nil {
			s.choiceCache = map[choiceKey]*binChoice{}
		}
		s.choiceCache[key] = out
	}
	return out
}

// bestChoice is the choice among the offers that hold the bin, cheapest first.
func (s *solver) bestChoice(b *bin, fit []int) *binChoice {
	need := s.minValuesOf(b.pool)
	var first, out *binChoice
	for n, i := range fit { // one try for each capacity type with the labels of the pool's own
		if out != nil && s.offers[i].price > s.maxPriceForChoice(out) {
			break
		}
		if slices.ContainsFunc(fit[:n], func(j int) bool { return s.areInterchangeable(i, j) }) {
			continue
		}
		ch := s.gatherChoice(b, fit, i, need)
		if first == nil || first.offer < 0 {
			first = ch
		}
		switch {
		case ch.offer < 0 || need.firstUnmet(ch.types) != nil:
		case out == nil:
			out = ch
		case s.offers[ch.offer].price <= s.maxPriceForChoice(out) && s.countChoiceOfferings(b, ch) > s.countChoiceOfferings(b, out):
			ch.premium = out.premium + s.offers[ch.offer].price - s.offers[out.offer].price
			out = ch
		}
	}
	switch {
	case out != nil:
		return out
	case first != nil:
		return first
	}
	return &binChoice{offer: -1}
}

// maxPriceForChoice is what may be paid for more choice than a choice leaves, counted from the cheapest.
func (s *solver) maxPriceForChoice(ch *binChoice) int64 {
	least := s.offers[ch.offer].price - ch.premium
	return least + mulDiv(least, s.policy.ChoicePPM, 1_000_000)
}

// countChoiceOfferings is how many offerings a choice leaves the cloud.
func (s *solver) countChoiceOfferings(b *bin, ch *binChoice) (n int) {
	for _, first := range ch.typeStarts {
		for i := first; i < len(s.offers) && s.offers[i].typeStart == first; i++ {
			if o := &s.offers[i]; s.areInterchangeable(i, ch.offer) && slices.Contains(ch.types, o.instanceType) && b.offers.contains(i) && s.offerHoldsBin(b, o) {
				n++
			}
		}
	}
	return n
}

// areInterchangeable says whether two offers may be choices of one claim: of one capacity type and node group, with the same labels of the pool's own.
func (s *solver) areInterchangeable(i, j int) bool {
	return s.offers[i].offering.CapacityType == s.offers[j].offering.CapacityType && sameVariant(&s.offers[i], &s.offers[j])
}

// gatherChoice collects choices among the offers alike one of them, cheapest first.
func (s *solver) gatherChoice(b *bin, fit []int, like int, need minValues) *binChoice {
	out := &binChoice{offer: -1}
	left := &s.limits[b.pool]
	for _, i := range fit {
		o := &s.offers[i]
		if !s.areInterchangeable(i, like) {
			continue
		}
		if out.offer >= 0 {
			first := s.offers[out.offer].price
			if o.price > first+mulDiv(first, s.policy.PremiumPPM, 1_000_000) && !need.gainsFrom(out.types, o.instanceType) {
				continue
			}
		}
		if !s.canJoinChoice(b, out, o) {
			continue
		}
		if !slices.Contains(out.types, o.instanceType) {
			most := out.charged.Max(o.instanceType.Capacity)
			if left.copiesAllowed(most) < 1 || len(out.types) >= s.policy.MaxTypes && !need.gainsFrom(out.types, o.instanceType) {
				continue
			}
			out.charged = most
			out.types = append(out.types, o.instanceType)
			if !slices.Contains(out.typeStarts, o.typeStart) {
				out.typeStarts = append(out.typeStarts, o.typeStart)
			}
		}
		if out.offer < 0 {
			out.offer = i
		}
		if !slices.Contains(out.zones, o.offering.Zone) {
			out.zones = append(out.zones, o.offering.Zone)
		}
	}
	return out
}

// canJoinChoice says whether an offer may join the choices. A claim names types and zones apart from each other, so the cloud may put any
// of its types in any of its zones, and all of those must do, also offerings set aside now.
func (s *solver) canJoinChoice(b *bin, ch *binChoice, o *offer) bool {
	newType, newZone := !slices.Contains(ch.types, o.instanceType), !slices.Contains(ch.zones, o.offering.Zone)
	if !newType && !newZone {
		return true
	}
	if !s.typeHoldsInAllZones(b, ch, o, o.typeStart) {
		return false
	}
	for _, first := range ch.typeStarts {
		if newZone && first != o.typeStart && !s.typeHoldsInAllZones(b, ch, o, first) {
			return false
		}
	}
	return true
}

// typeHoldsInAllZones is crossing as far as one type of the pool is concerned, whose offers begin at first.
func (s *solver) typeHoldsInAllZones(b *bin, ch *binChoice, o *offer, first int) bool {
	for i := first; i < len(s.offers) && s.offers[i].typeStart == first; i++ {
		x := &s.offers[i]
		if b.offers.contains(i) && s.offerHoldsBin(b, x) || x.offering.CapacityType != o.offering.CapacityType || !sameVariant(x, o) {
			continue
		}
		in := x.instanceType == o.instanceType && (slices.Contains(ch.zones, x.offering.Zone) || x.offering.Zone == o.offering.Zone) || x.offering.Zone == o.offering.Zone && slices.Contains(ch.types, x.instanceType)
		if in && (x.available || !s.offerPassesAll(b, x)) {
			return false
		}
	}
	return true
}

// offerPassesAll says whether every class on the bin would go to the offer, could it be had.
func (s *solver) offerPassesAll(b *bin, o *offer) bool {
	for _, it := range b.items {
		if !s.classes[it.class].filter.passes(&s.keys, o.labels, nil, "") {
			return false
		}
	}
	return true
}

// poolOfferRange is where a pool's offers lie, or those of the first of its family.
func (s *solver) poolOfferRange(pool int) (lo, hi int) {
	pool = s.equivalentPool[pool]
	return s.poolStart[pool], s.poolStart[pool+1]
}

func sameVariant(a, b *offer) bool {
	return a.offering.Labels[model.LabelNodeGroup] == b.offering.Labels[model.LabelNodeGroup] && slices.EqualFunc(a.variant, b.variant, func(x, y model.Requirement) bool {
		return x.Key == y.Key && slices.Equal(x.Values, y.Values)
	})
}

// newNodeFor writes one copy of a bin down, without its pods.
func (s *solver) newNodeFor(b *bin, ch *binChoice) NewNode {
	node := s.nodeTemplate(b.pool, ch)
	for _, it := range b.items {
		node.Requests = node.Requests.AddInto(s.classes[it.class].spec.Requests, it.count)
	}
	p, o := &s.input.Pools[b.pool], &s.offers[ch.offer]
	for _, d := range s.daemons {
		if model.Untolerated(p.Taints, d.filter.tolerations) == nil && d.filter.passes(&s.keys, o.labels, nil, "") {
			node.Requests = node.Requests.AddInto(d.spec.Class.Requests, 1)
		}
	}
	return node
}

// nodeTemplate is a node of a pool that may become what was chosen. Those of one choice share what they have in common.
func (s *solver) nodeTemplate(pool int, ch *binChoice) NewNode {
	key := [2]int{pool, ch.offer}
	for _, n := range s.nodeTemplates[key] {
		if slices.Equal(n.Choices, ch.types) && slices.Equal(n.Zones, ch.zones) {
			return n
		}
	}
	o := &s.offers[ch.offer]
	p := &s.input.Pools[pool]
	names := make([]string, len(ch.types))
	for i, t := range ch.types {
		names[i] = t.Name
	}
	narrow := []model.Requirement{model.OneOf(model.LabelInstanceType, names...), model.OneOf(model.LabelCapacityType, o.offering.CapacityType)}
	if len(ch.zones) > 0 && ch.zones[0] != "" {
		narrow = append(narrow, model.OneOf(model.LabelZone, ch.zones...))
	}
	for k, v := range o.offering.Labels {
		if o.quantity >= 0 || k == model.LabelNodeGroup {
			narrow = append(narrow, model.OneOf(k, v))
		}
	}
	narrow = append(narrow, o.variant...)
	node := NewNode{Pool: p.Name, Type: o.instanceType, Offering: *o.offering, Choices: ch.types, Zones: ch.zones, CapacityTypes: []string{o.offering.CapacityType},
		Requirements: p.Requirements.With(narrow...), PriceMicro: o.price}
	if s.nodeTemplates == nil {
		s.nodeTemplates = map[[2]int][]NewNode{}
	}
	s.nodeTemplates[key] = append(s.nodeTemplates[key], node)
	return node
}

// minValues is how many distinct values of a label the choices must keep, by label.
type minValues []model.Requirement

func (s *solver) minValuesOf(pool int) minValues {
	for i := len(s.minValuesByPool); i < len(s.input.Pools); i++ {
		var out minValues
		for _, r := range s.input.Pools[i].Requirements {
			if r.MinValues > 0 {
				out = append(out, r)
			}
		}
		s.minValuesByPool = append(s.minValuesByPool, out)
	}
	return s.minValuesByPool[pool]
}

// gainsFrom says whether a further type brings a value that is still lacking.
func (m minValues) gainsFrom(types []*model.InstanceType, t *model.InstanceType) bool {
	for i := range m {
		have := distinctValues(m[i].Key, types)
		if len(have) < m[i].MinValues && len(distinctValues(m[i].Key, append(slices.Clip(types), t))) > len(have) {
			return true
		}
	}
	return false
}

// firstUnmet returns the first rule that the types do not meet.
func (m minValues) firstUnmet(types []*model.InstanceType) *model.Requirement {
	for i := range m {
		if len(distinctValues(m[i].Key, types)) < m[i].MinValues {
			return &m[i]
		}
	}
	return nil
}

// distinctValues lists the values of a label among types; zone and capacity type are their offerings'.
func distinctValues(key string, types []*model.InstanceType) []string {
	var out []string
	for _, t := range types {
		switch v, ok := t.Labels[key]; {
		case key == model.LabelInstanceType:
			out = append(out, t.Name)
		case ok:
			out = append(out, v)
		case key == model.LabelZone || key == model.LabelCapacityType:
			for i := range t.Offerings {
				if o := &t.Offerings[i]; o.Available {
					v, _ := providerLabel(key, t, o)
					out = append(out, v)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// restrictToMinValues narrows a machine of a pool that wants several values of a label kept: a fill may use only what that many types have in
// common, those that lose it least, and limits are charged for the largest of them. Demands for which there are not that many types
// are not admitted.
func (p *packing) restrictToMinValues(m *machine, need minValues) {
	s := p.s
	if len(need) == 0 {
		return
	}
	others := p.interchangeableWith(m)
	gather := func(masks []*offerSet) ([]*model.InstanceType, vec, model.Resources) {
		types, room, most := []*model.InstanceType{m.instanceType}, m.available, m.instanceType.Capacity
		for _, x := range others {
			o := &s.offers[x.offer]
			if slices.Contains(types, o.instanceType) || slices.ContainsFunc(masks, func(k *offerSet) bool { return !k.contains(x.offer) }) {
				continue
			}
			s.steps++
			if need.firstUnmet(types) == nil {
				break
			}
			if !need.gainsFrom(types, o.instanceType) {
				continue
			}
			types, most = append(types, o.instanceType), most.Max(o.instanceType.Capacity)
			for k := range s.numDims {
				room[k] = min(room[k], o.allocatable[k])
			}
		}
		return types, room, most
	}
	var kept []*offerSet
	for j, k := range p.offerSets {
		if m.admits[j>>6]>>(j&63)&1 == 0 {
			continue
		}
		if types, _, _ := gather(append(slices.Clip(kept), k)); need.firstUnmet(types) == nil {
			kept = append(kept, k)
		} else {
			m.admits[j>>6] &^= 1 << (j & 63)
		}
	}
	_, m.available, m.capacity = gather(kept)
}

// interchangeableOffer is an offer beside a machine, and how much less of a resource it has, the worst in millionths. No pointer in it: there are thousands for each
// machine.
type interchangeableOffer struct {
	offer int
	loss  int64
}

// interchangeableWith lists the offers that may be choices beside a machine, those that lose it least first. Machines of one size have one list.
func (p *packing) interchangeableWith(m *machine) []interchangeableOffer {
	s := p.s
	first := &s.offers[m.offers[0]]
	k := interchangeKey{m.pool, first.size, first.offering.CapacityType, fmt.Sprint(first.offering.Labels[model.LabelNodeGroup], first.variant)}
	if list, ok := p.interchangeable[k]; ok {
		return list
	}
	var others []interchangeableOffer
	lo, hi := s.poolOfferRange(m.pool)
	for i := lo; i < hi; i++ {
		x := &s.offers[i]
		if !x.available || x.offering.CapacityType != first.offering.CapacityType || !sameVariant(x, first) || x.quantity >= 0 {
			continue
		}
		loss := int64(0)
		for k := range s.numDims {
			if m.available[k] > 0 {
				loss = max(loss, mulDiv(max(0, m.available[k]-x.allocatable[k]), 1_000_000, m.available[k]))
			}
		}
		others = append(others, interchangeableOffer{i, loss})
	}
	slices.SortFunc(others, func(a, b interchangeableOffer) int { // of equals the first by name, as offers are
		if a.loss != b.loss {
			return cmp.Compare(a.loss, b.loss)
		}
		return a.offer - b.offer
	})
	if p.interchangeable == nil {
		p.interchangeable = map[interchangeKey][]interchangeableOffer{}
	}
	p.interchangeable[k] = others
	return others
}

type interchangeKey struct {
	pool, size            int
	capacityType, variant string
}

// binLackingMinValues returns the first bin whose pool wants more values of a label kept than the bin leaves it, nil if all are well.
func (s *solver) binLackingMinValues() *bin {
	for _, b := range s.bins {
		if !s.meetsMinValues(b) {
			return b
		}
	}
	return nil
}

func (s *solver) meetsMinValues(b *bin) bool {
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
