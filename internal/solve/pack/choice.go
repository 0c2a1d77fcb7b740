// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// BinChoice is the set of instance types and zones that the NodeClaim of a bin allows.
type BinChoice struct {
	Offer      int // the cheapest offer, whose price counts; -1: no machine fits the bin
	types      []*model.InstanceType
	typeStarts []int // where their offers begin; see Offer.TypeStart
	zones      []string
	charged    model.Resources // to limits: the largest of the types in each resource
	values     problem.ValueCount
	offerings  int   // joined so far
	Premium    int64 // additional cost of the cheapest offer for more choice
}

// hasValues reports whether there is a machine, and the choice has the values required by minValues.
func (ch *BinChoice) hasValues() bool { return ch.Offer >= 0 && ch.values.IsMet() }

// Choices determines what NodeClaims of bins allow.
type Choices struct {
	topology.Compiled
	Purchases *Purchases

	cache      map[choiceKey]*BinChoice
	fittingBuf []int                        // scratch of ChooseTypes
	missingBuf []int                        // scratch of ChooseTypes
	templates  map[[2]int][]problem.NewNode // by pool and cheapest offer
}

// choiceKey determines the choices of a bin, if no limit binds and it has neither ports nor volumes.
type choiceKey struct {
	pool, offerSet int
	requests       problem.Vec
}

// ChooseTypes lists every type that fits the bin and costs at most the premium more than the cheapest, with the same
// capacity type and the same pool-specific labels as the cheapest, as far as limits allow the largest of them. They are
// sorted by price, then name, then zone. If other capacity types or labels cost hardly more (Policy.ChoicePPM), those
// with the most offerings are chosen, which reduces the effect of exhausted capacity and interruptions. Limits are
// charged for the choice instead of for the bin.
//
// After a shortage, the premium does not apply: see countMissing.
func (s *Choices) ChooseTypes(b *Bin) *BinChoice {
	left := &s.Purchases.Limits[b.Pool]
	key := choiceKey{b.Pool, b.offers.ID, b.requests}
	plain := !left.Limited && b.occupancy.IsEmpty()
	if ch := s.cache[key]; plain && ch != nil {
		return ch
	}
	fit, missing := s.fittingBuf[:0], s.missingBuf[:0]
	least, most, all := int64(0), int64(0), true
	for _, i := range s.Catalog.PoolOffersCheapestFirst(b.Pool) {
		o := &s.Catalog.Offers[i]
		if plain && len(fit) > shortageFactor*len(missing) && o.Price > most {
			all = false // too dear to be a choice, unless nothing comes of the cheapest or they lack values
			break
		}
		if b.offers.Contains(i) && s.Purchases.offerHoldsBin(b, o) {
			if len(fit) == 0 {
				least = o.Price
				most = least + problem.MulDiv(least, s.In.Policy.ChoicePPM, 1_000_000)
				most += problem.MulDiv(most, s.In.Policy.PremiumPPM, 1_000_000)
			}
			fit = append(fit, i)
		} else if s.isMissing(b, o) {
			missing = append(missing, i)
		}
	}
	s.fittingBuf, s.missingBuf = fit, missing
	if left.Limited {
		left.Charge(b.charged, -1) // the charge is made anew below
	}
	out := s.bestChoice(b, fit, missing)
	if !all && (!out.hasValues() || s.Catalog.Offers[out.Offer].Price-out.Premium != least) {
		fit = fit[:0]
		for _, i := range s.Catalog.PoolOffersCheapestFirst(b.Pool) {
			if b.offers.Contains(i) && s.Purchases.offerHoldsBin(b, &s.Catalog.Offers[i]) {
				fit = append(fit, i)
			}
		}
		s.fittingBuf = fit
		out = s.bestChoice(b, fit, missing)
	}
	left.Charge(out.charged, 1)
	slices.Sort(out.zones)
	if plain {
		if s.cache == nil {
			s.cache = map[choiceKey]*BinChoice{}
		}
		s.cache[key] = out
	}
	return out
}

// After a shortage, a choice has shortageFactor times as many offerings as had no capacity. Each of those allows
// offerings to cost shortagePremium parts per million more than the cheapest that could be launched otherwise: any
// offering of another capacity type and, for spot capacity, the cheapest of the choice, because EC2 weighs spot prices
// against interruptions. For on-demand, the cheapest offering with capacity is launched.
const (
	shortageFactor  = 4
	shortagePremium = 250_000
)

// isMissing reports whether the pods of a bin may use an offer, but it has no capacity now.
func (s *Choices) isMissing(b *Bin, o *problem.Offer) bool {
	return o.Offering.LacksCapacity() && o.Quantity < 0 && s.offerPassesAll(b, o)
}

// countMissing counts the missing offers that are interchangeable with one of them. A launch tells only of the offerings that its claim
// names whether they have capacity. So that a shortage is known after few launches, each names several times as many as were found
// missing before it, of any size: a zone that runs out of one size often runs out of others.
func (s *Choices) countMissing(missing []int, like int) (n int) {
	for _, i := range missing {
		if s.Catalog.AreInterchangeable(i, like) {
			n++
		}
	}
	return n
}

// bestChoice is the choice among the offers that hold the bin, which are given cheapest first, as are those that would but are
// missing.
func (s *Choices) bestChoice(b *Bin, fit, missing []int) *BinChoice {
	insists := len(s.Catalog.MinValuesOf(b.Pool)) > 0
	var first, out *BinChoice
	for n, i := range fit { // one try for each capacity type with the labels of the pool's own
		if out != nil && s.Catalog.Offers[i].Price > s.maxPriceForChoice(out) {
			break
		}
		if slices.ContainsFunc(fit[:n], func(j int) bool { return s.Catalog.AreInterchangeable(i, j) }) {
			continue
		}
		ch := s.gatherChoice(b, fit, missing, i)
		if first == nil || first.Offer < 0 {
			first = ch
		}
		switch {
		case ch.Offer < 0 || insists && !ch.hasValues():
		case out == nil:
			out = ch
		default:
			out = s.betterChoice(b, out, ch)
		}
	}
	switch {
	case out != nil:
		return out
	case first != nil:
		return first
	}
	return &BinChoice{Offer: -1}
}

// betterChoice is the one of two choices with more offerings, where it costs hardly more than the least that any looked
// at so far does; else the cheaper. Of equals it is the first. Limits may forbid the cheapest types of a choice, so one
// that is looked at later may be the cheaper.
func (s *Choices) betterChoice(b *Bin, first, next *BinChoice) *BinChoice {
	was, is := s.Catalog.Offers[first.Offer].Price, s.Catalog.Offers[next.Offer].Price
	least := min(was-first.Premium, is)
	first.Premium, next.Premium = was-least, is-least
	if is > s.maxPriceForChoice(next) {
		return first
	}
	if was <= s.maxPriceForChoice(first) {
		a, b := s.countChoiceOfferings(b, first), s.countChoiceOfferings(b, next)
		if a > b || a == b && was <= is {
			return first
		}
	}
	return next
}

// maxPriceForChoice returns the maximum price of the cheapest offering of another choice with more offerings.
func (s *Choices) maxPriceForChoice(ch *BinChoice) int64 {
	least := s.Catalog.Offers[ch.Offer].Price - ch.Premium
	return least + problem.MulDiv(least, s.In.Policy.ChoicePPM, 1_000_000)
}

// countChoiceOfferings is how many offerings a choice leaves the cloud to pick from.
func (s *Choices) countChoiceOfferings(b *Bin, ch *BinChoice) (n int) {
	for _, first := range ch.typeStarts {
		for i := first; i < len(s.Catalog.Offers) && s.Catalog.Offers[i].TypeStart == first; i++ {
			if o := &s.Catalog.Offers[i]; s.Catalog.AreInterchangeable(i, ch.Offer) && slices.Contains(ch.types, o.InstanceType) && b.offers.Contains(i) && s.Purchases.offerHoldsBin(b, o) {
				n++
			}
		}
	}
	return n
}

// gatherChoice collects a choice among the offers that are interchangeable with one of them, cheapest first.
// Dearer ones are taken too if they bring a value that minValues still lacks, or if the choice is to be wider after a shortage
// (shortagePremium), and they count no more against limits.
func (s *Choices) gatherChoice(b *Bin, fit, missing []int, like int) *BinChoice {
	out := &BinChoice{Offer: -1, values: s.Catalog.CountValues(b.Pool)}
	left := &s.Purchases.Limits[b.Pool]
	lacking, instead := s.countMissing(missing, like), int64(math.MaxInt64)
	for _, i := range fit {
		o := &s.Catalog.Offers[i]
		if !s.Catalog.AreInterchangeable(i, like) {
			if o.Offering.CapacityType != s.Catalog.Offers[like].Offering.CapacityType {
				instead = min(instead, o.Price)
			}
			continue
		}
		if out.Offer >= 0 {
			first := s.Catalog.Offers[out.Offer].Price
			if o.Offering.CapacityType == model.Spot {
				instead = min(instead, first)
			}
			widens := out.offerings < shortageFactor*lacking && o.Price-instead <= problem.MulDiv(instead, shortagePremium*int64(lacking), 1_000_000) && (!left.Limited || out.charged.Max(o.Charge).Equal(out.charged))
			if o.Price > first+problem.MulDiv(first, s.In.Policy.PremiumPPM, 1_000_000) && !widens && !out.values.Gains(i) {
				continue
			}
		}
		if !s.canJoinChoice(b, out, o) {
			continue
		}
		most := out.charged.Max(o.Charge)
		if s.In.HasDollars(left) {
			most = s.In.WithPrice(most, s.dearestOfChoice(out, o))
		}
		if left.CopiesAllowed(most) < 1 {
			continue
		}
		if !slices.Contains(out.types, o.InstanceType) {
			if len(out.types) >= s.In.Policy.MaxTypes && !out.values.Gains(i) {
				continue
			}
			out.types = append(out.types, o.InstanceType)
			if !slices.Contains(out.typeStarts, o.TypeStart) {
				out.typeStarts = append(out.typeStarts, o.TypeStart)
			}
		}
		out.charged = most
		out.offerings++
		out.values.Add(i)
		if out.Offer < 0 {
			out.Offer = i
		}
		if !slices.Contains(out.zones, o.Offering.Zone) {
			out.zones = append(out.zones, o.Offering.Zone)
		}
	}
	return out
}

// dearestOfChoice is the price of the dearest offering that a node may become where an offer joins a choice: any of the
// types in any of the zones.
func (s *Choices) dearestOfChoice(ch *BinChoice, o *problem.Offer) int64 {
	most := o.Price
	for _, first := range append(slices.Clip(ch.typeStarts), o.TypeStart) {
		for i := first; i < len(s.Catalog.Offers) && s.Catalog.Offers[i].TypeStart == first; i++ {
			x := &s.Catalog.Offers[i]
			if x.Offering.CapacityType == o.Offering.CapacityType && problem.SameVariant(x, o) &&
				(x.Offering.Zone == o.Offering.Zone || slices.Contains(ch.zones, x.Offering.Zone)) {
				most = max(most, x.Price)
			}
		}
	}
	return most
}

// canJoinChoice reports whether an offer may join a choice. A claim names types and zones apart from each other, so the
// cloud may put any of its types in any of its zones, and all of those must hold the bin, also offerings that can't
// be had now.
func (s *Choices) canJoinChoice(b *Bin, ch *BinChoice, o *problem.Offer) bool {
	newType, newZone := !slices.Contains(ch.types, o.InstanceType), !slices.Contains(ch.zones, o.Offering.Zone)
	if !newType && !newZone {
		return true
	}
	if !s.typeHoldsInAllZones(b, ch, o, o.TypeStart) {
		return false
	}
	for _, first := range ch.typeStarts {
		if newZone && first != o.TypeStart && !s.typeHoldsInAllZones(b, ch, o, first) {
			return false
		}
	}
	return true
}

// typeHoldsInAllZones is canJoinChoice for one type of the pool, whose offers start at first.
func (s *Choices) typeHoldsInAllZones(b *Bin, ch *BinChoice, o *problem.Offer, first int) bool {
	for i := first; i < len(s.Catalog.Offers) && s.Catalog.Offers[i].TypeStart == first; i++ {
		x := &s.Catalog.Offers[i]
		if b.offers.Contains(i) && s.Purchases.offerHoldsBin(b, x) || x.Offering.CapacityType != o.Offering.CapacityType || !problem.SameVariant(x, o) {
			continue
		}
		in := x.InstanceType == o.InstanceType && (slices.Contains(ch.zones, x.Offering.Zone) || x.Offering.Zone == o.Offering.Zone) || x.Offering.Zone == o.Offering.Zone && slices.Contains(ch.types, x.InstanceType)
		if in && (x.Available || !s.offerPassesAll(b, x)) {
			return false
		}
	}
	return true
}

// offerPassesAll reports whether the offer admits every class on the bin if it has capacity.
func (s *Choices) offerPassesAll(b *Bin, o *problem.Offer) bool {
	for _, it := range b.Items {
		if !s.Inst.OfferAdmits(s.Inst.Classes[it.Class].Filter, o) {
			return false
		}
	}
	return true
}

// NewNodeFor returns the node to launch for one copy of a bin, without its pods.
func (s *Choices) NewNodeFor(b *Bin, ch *BinChoice) problem.NewNode {
	node := s.nodeTemplate(b.Pool, ch)
	for _, it := range b.Items {
		node.Requests = node.Requests.AddInto(s.Inst.Classes[it.Class].Spec.Requests, it.Count)
	}
	p, o := &s.In.Given.Pools[b.Pool], &s.Catalog.Offers[ch.Offer]
	for _, d := range s.Inst.Daemons {
		if model.Untolerated(p.Taints, d.Filter.Tolerations) == nil && d.Filter.Passes(&s.In.Keys, o.Labels, nil, "") {
			node.Requests = node.Requests.AddInto(d.Spec.Pod().Requests, 1)
		}
	}
	return node
}

// nodeTemplate is a node of a pool that may become what was chosen. Nodes of equal choices share it.
func (s *Choices) nodeTemplate(pool int, ch *BinChoice) problem.NewNode {
	key := [2]int{pool, ch.Offer}
	for _, n := range s.templates[key] {
		if slices.Equal(n.Choices, ch.types) && slices.Equal(n.Zones, ch.zones) {
			return n
		}
	}
	o := &s.Catalog.Offers[ch.Offer]
	p := &s.In.Given.Pools[pool]
	names := make([]string, len(ch.types))
	for i, t := range ch.types {
		names[i] = t.Name
	}
	narrow := []model.Requirement{model.OneOf(model.LabelInstanceType, names...), model.OneOf(model.LabelCapacityType, o.Offering.CapacityType)}
	if len(ch.zones) > 0 && ch.zones[0] != "" {
		narrow = append(narrow, model.OneOf(model.LabelZone, ch.zones...))
	}
	for k, v := range o.Offering.Labels {
		if o.Quantity >= 0 || k == model.LabelNodeGroup {
			narrow = append(narrow, model.OneOf(k, v))
		}
	}
	narrow = append(narrow, o.Variant...)
	node := problem.NewNode{Pool: p.Name, Type: o.InstanceType, Offering: *o.Offering, Choices: ch.types, Zones: ch.zones, CapacityTypes: []string{o.Offering.CapacityType},
		Requirements: p.Requirements.With(narrow...), PriceMicro: o.Price}
	if p.RelaxMinValues {
		node.Requirements, node.MinValuesRelaxed = ch.values.Relax(node.Requirements)
	}
	if s.templates == nil {
		s.templates = map[[2]int][]problem.NewNode{}
	}
	s.templates[key] = append(s.templates[key], node)
	return node
}

// meetsMinValues reports whether the choices of a bin have the values required by its pool.
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
