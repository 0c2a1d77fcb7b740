// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// binChoice is what a bin may become: the instance types and zones of its claim.
type binChoice struct {
	offer      int // the cheapest, whose price counts; -1: no machine holds the bin
	types      []*model.InstanceType
	typeStarts []int // where their offers begin; see offer.typeStart
	zones      []string
	charged    model.Resources // to limits: the largest of the types in each resource
	premium    int64           // what the cheapest costs more than it would have to, for more choice
}

// choiceKey is what the choices of a bin follow from, where no limit binds and it holds neither ports nor volumes.
type choiceKey struct {
	pool, offerSet int
	requests       vec
}

// chooseTypes lists every type that holds the bin at no more than the premium over the cheapest, of the cheapest's
// capacity type and with the same labels of the pool's own, as far as limits allow the largest of them. Cheapest
// first, then by name, then by zone. Where other capacity types or labels cost hardly more (Policy.ChoicePPM), those
// with the most offerings are taken: less is lost when one of them runs out or is taken away. Limits are charged for
// the choice in place of what the bin was charged.
func (s *purchases) chooseTypes(b *bin) *binChoice {
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

// bestChoice is the choice among the offers that hold the bin, which are given cheapest first.
func (s *purchases) bestChoice(b *bin, fit []int) *binChoice {
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

// maxPriceForChoice is what the cheapest of another choice may cost, for more offerings.
func (s *purchases) maxPriceForChoice(ch *binChoice) int64 {
	least := s.offers[ch.offer].price - ch.premium
	return least + mulDiv(least, s.policy.ChoicePPM, 1_000_000)
}

// countChoiceOfferings is how many offerings a choice leaves the cloud to pick from.
func (s *purchases) countChoiceOfferings(b *bin, ch *binChoice) (n int) {
	for _, first := range ch.typeStarts {
		for i := first; i < len(s.offers) && s.offers[i].typeStart == first; i++ {
			if o := &s.offers[i]; s.areInterchangeable(i, ch.offer) && slices.Contains(ch.types, o.instanceType) && b.offers.contains(i) && s.offerHoldsBin(b, o) {
				n++
			}
		}
	}
	return n
}

// gatherChoice collects a choice among the offers that are interchangeable with one of them, cheapest first.
func (s *purchases) gatherChoice(b *bin, fit []int, like int, need minValues) *binChoice {
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

// canJoinChoice says whether an offer may join a choice. A claim names types and zones apart from each other, so the
// cloud may put any of its types in any of its zones, and all of those must hold the bin, also offerings that can't
// be had now.
func (s *purchases) canJoinChoice(b *bin, ch *binChoice, o *offer) bool {
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

// typeHoldsInAllZones is canJoinChoice as far as one type of the pool is concerned, whose offers begin at first.
func (s *purchases) typeHoldsInAllZones(b *bin, ch *binChoice, o *offer, first int) bool {
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

// offerPassesAll says whether every class on the bin would go to the offer if it could be had.
func (s *purchases) offerPassesAll(b *bin, o *offer) bool {
	for _, it := range b.items {
		if !s.classes[it.class].filter.passes(&s.keys, o.labels, nil, "") {
			return false
		}
	}
	return true
}

// newNodeFor is the node to buy for one copy of a bin, without its pods.
func (s *purchases) newNodeFor(b *bin, ch *binChoice) NewNode {
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

// nodeTemplate is a node of a pool that may become what was chosen. Nodes of equal choices share it.
func (s *purchases) nodeTemplate(pool int, ch *binChoice) NewNode {
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
