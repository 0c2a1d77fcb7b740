// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// maxMachines is how many machines patterns are made for. Catalogues of real clouds stay below it once the dominated
// are gone.
const maxMachines = 256

// thinMachines keeps, of too many machines, the one with the most worth for its cost among those of nearly one price
// that admit the same demands, and for each demand one that holds it. What a machine becomes is chosen among all
// types later.
func (p *pricedPacking) thinMachines(remaining []int64) {
	if len(p.machines) <= maxMachines {
		return
	}
	nd := p.s.numDims
	worths := make([]int64, len(p.machines))
	for i, m := range p.machines {
		var v sum128
		for k := range nd {
			if m.available[k] > 0 {
				v.addProduct(max(p.resourcePrices[k], p.feasibility.highestPrice(k, func(g *feasibilityClass) bool { return g.includes(i) })), m.available[k])
			}
		}
		worths[i] = v.micro()
	}
	type bucket struct {
		pool, stock int
		admits      string
		price       int
	}
	best := map[bucket]int{}
	for i, m := range p.machines {
		k := bucket{pool: m.pool, stock: m.quantity, admits: string(appendWords(nil, m.admits))}
		for x := m.price; x > 0; x = x * 7 / 8 {
			k.price++
		}
		if was, ok := best[k]; !ok || ratioLess(worths[was], p.machines[was].adjustedCost, worths[i], m.adjustedCost) {
			best[k] = i
		}
	}
	keep := make([]bool, len(p.machines))
	for _, i := range best {
		keep[i] = true
	}
	for d, n := range remaining {
		least := -1
		for i, m := range p.machines {
			if n <= 0 || !p.machineAdmits(m, d) || !fitsIn(&p.demands[d].class.req, &m.available, nd) {
				continue
			}
			if keep[i] {
				least = -1
				break
			}
			if least < 0 || m.price < p.machines[least].price {
				least = i
			}
		}
		if least >= 0 {
			keep[least] = true
		}
	}
	var out []*machine
	for i, m := range p.machines {
		if keep[i] {
			out = append(out, m)
		}
	}
	p.machines, p.feasibilityIndex, p.resourcePricing = out, nil, nil
}

// restrictToMinValues narrows a machine of a pool that asks for several values of a label: a pattern may use only
// what that many types have in common, those that lose it least, and limits are charged for the largest of them.
// Demands for which there are not that many types are not admitted.
func (p *packingProblem) restrictToMinValues(m *machine, need minValues) {
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

// interchangeableOffer is an offer beside a machine, and how much less of a resource it has, the worst in millionths.
// There is no pointer in it: there are thousands for each machine.
type interchangeableOffer struct {
	offer int
	loss  int64
}

// interchangeableWith lists the offers that may be choices beside a machine, those that lose it least first. Machines
// of one size share the list.
func (p *packingProblem) interchangeableWith(m *machine) []interchangeableOffer {
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
