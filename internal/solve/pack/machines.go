// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// maxMachines is how many machines patterns are made for. Catalogues of real clouds stay below it once the dominated
// are gone.
const maxMachines = 256

// thinMachines keeps, of too many machines, the one with the most worth for its cost among those of nearly one price
// that admit the same demands, and for each demand one that holds it. What a machine becomes is chosen among all
// types later.
func (p *PricedPacking) thinMachines(remaining []int64) {
	if len(p.Machines) <= maxMachines {
		return
	}
	nd := p.S.NumDims
	worths := make([]int64, len(p.Machines))
	for i, m := range p.Machines {
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
	for i, m := range p.Machines {
		k := bucket{pool: m.pool, stock: m.Quantity, admits: string(problem.AppendWords(nil, m.Admits))}
		for x := m.Price; x > 0; x = x * 7 / 8 {
			k.price++
		}
		if was, ok := best[k]; !ok || problem.RatioLess(worths[was], p.Machines[was].AdjustedCost, worths[i], m.AdjustedCost) {
			best[k] = i
		}
	}
	keep := make([]bool, len(p.Machines))
	for _, i := range best {
		keep[i] = true
	}
	for d, n := range remaining {
		least := -1
		for i, m := range p.Machines {
			if n <= 0 || !p.MachineAdmits(m, d) || !problem.FitsIn(&p.Demands[d].Class.Req, &m.Available, nd) {
				continue
			}
			if keep[i] {
				least = -1
				break
			}
			if least < 0 || m.Price < p.Machines[least].Price {
				least = i
			}
		}
		if least >= 0 {
			keep[least] = true
		}
	}
	var out []*Machine
	for i, m := range p.Machines {
		if keep[i] {
			out = append(out, m)
		}
	}
	p.Machines, p.feasibilityIndex, p.resourcePricing = out, nil, nil
}

// restrictToMinValues narrows a machine of a pool that asks for several values of a label: a pattern may use only
// what that many types have in common, those that lose it least, and limits are charged for the largest of them.
// Demands for which there are not that many types are not admitted.
func (p *PackingProblem) restrictToMinValues(m *Machine, need problem.MinValues) {
	s := p.S
	if len(need) == 0 {
		return
	}
	others := p.interchangeableWith(m)
	gather := func(masks []*problem.OfferSet) ([]*model.InstanceType, problem.Vec, model.Resources) {
		types, room, most := []*model.InstanceType{m.instanceType}, m.Available, m.capacity
		for _, x := range others {
			o := &s.Offers[x.offer]
			if slices.Contains(types, o.InstanceType) || slices.ContainsFunc(masks, func(k *problem.OfferSet) bool { return !k.Contains(x.offer) }) {
				continue
			}
			s.Steps++
			if need.FirstUnmet(types) == nil {
				break
			}
			if !need.GainsFrom(types, o.InstanceType) {
				continue
			}
			types, most = append(types, o.InstanceType), most.Max(o.Charge)
			for k := range s.NumDims {
				room[k] = min(room[k], o.Allocatable[k])
			}
		}
		return types, room, most
	}
	var kept []*problem.OfferSet
	for j, k := range p.offerSets {
		if m.Admits[j>>6]>>(j&63)&1 == 0 {
			continue
		}
		if types, _, _ := gather(append(slices.Clip(kept), k)); need.FirstUnmet(types) == nil {
			kept = append(kept, k)
		} else {
			m.Admits[j>>6] &^= 1 << (j & 63)
		}
	}
	_, m.Available, m.capacity = gather(kept)
}

// interchangeableOffer is an offer beside a machine, and how much less of a resource it has, the worst in millionths.
// There is no pointer in it: there are thousands for each machine.
type interchangeableOffer struct {
	offer int
	loss  int64
}

// interchangeableWith lists the offers that may be choices beside a machine, those that lose it least first. Machines
// of one size share the list.
func (p *PackingProblem) interchangeableWith(m *Machine) []interchangeableOffer {
	s := p.S
	first := &s.Offers[m.offers[0]]
	k := interchangeKey{m.pool, first.Size, first.Offering.CapacityType, fmt.Sprint(first.Offering.Labels[model.LabelNodeGroup], first.Variant)}
	if list, ok := p.interchangeable[k]; ok {
		return list
	}
	var others []interchangeableOffer
	lo, hi := s.PoolOfferRange(m.pool)
	for i := lo; i < hi; i++ {
		x := &s.Offers[i]
		if !x.Available || x.Offering.CapacityType != first.Offering.CapacityType || !problem.SameVariant(x, first) || x.Quantity >= 0 {
			continue
		}
		loss := int64(0)
		for k := range s.NumDims {
			if m.Available[k] > 0 {
				loss = max(loss, problem.MulDiv(max(0, m.Available[k]-x.Allocatable[k]), 1_000_000, m.Available[k]))
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
