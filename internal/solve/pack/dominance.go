// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// machinesOf makes machines of the offers of a level that are in some of the sets, numbered by place in the list, and are
// wanted. Offers that nothing tells apart are one machine.
func (s *Purchases) machinesOf(l problem.Level, offerSets []*problem.OfferSet, wanted func(i int) bool) []*Machine {
	words := (len(offerSets) + 63) / 64
	byKey := make(map[machineKey]*Machine, min(len(s.Catalog.Sizes), l.Hi-l.Lo))
	var all []*Machine
	admits := make([]uint64, words)
	any := offerSets[0]
	if len(offerSets) > 1 {
		any = &problem.OfferSet{Bits: slices.Clone(any.Bits)}
	}
	for _, set := range offerSets[1:] {
		for i := l.Lo >> 6; i<<6 < l.Hi; i++ {
			any.Bits[i] |= set.Bits[i]
		}
	}
	any.ForEach(l, func(i int) {
		if !wanted(i) {
			return
		}
		o := &s.Catalog.Offers[i]
		clear(admits)
		for j, set := range offerSets {
			if set.Contains(i) {
				admits[j>>6] |= 1 << (j & 63)
			}
		}
		s.Work.Steps += int64(len(offerSets))/8 + 1
		key := machineKeyOf(o, admits)
		m := byKey[key]
		if m == nil {
			m = s.newMachine(o, slices.Clone(admits))
			byKey[key] = m
			all = append(all, m)
		}
		m.offers = append(m.offers, i)
	})
	return all
}

// newMachine is the machine of an offer, which admits the offer sets of these numbers.
func (s *Purchases) newMachine(o *problem.Offer, admits []uint64) *Machine {
	return &Machine{pool: o.Pool, instanceType: o.InstanceType, Available: *o.Allocatable, Price: o.Price, ports: problem.TakenPorts(nil).Take(&o.Ports), traits: o.Traits(), Quantity: o.Quantity,
		AdjustedCost: s.In.AdjustPrice(o.Price) + s.limitCharge(o.Pool, o.Charge), Admits: admits, capacity: o.Charge}
}

// machineKey is the common key of offers that form one machine.
type machineKey struct {
	pool, size, quantity int
	price                int64
	instanceType         string
	admits               uint64
	more                 string // of what it admits, and its variant
}

func machineKeyOf(o *problem.Offer, admits []uint64) machineKey {
	k := machineKey{pool: o.Pool, size: o.Size, quantity: o.Quantity, price: o.Price, instanceType: o.InstanceType.Name, admits: admits[0]}
	if len(admits) > 1 || len(o.Variant) > 0 {
		more := problem.AppendWords(nil, admits[1:])
		for _, r := range o.Variant {
			more = append(append(more, r.Values[0]...), 0)
		}
		k.more = string(more)
	}
	return k
}

// dropDominated drops machines that another dominates: no less capacity, no higher price, no fewer demands, and
// nothing that limits tell apart. It sorts them by price.
func (p *Market) dropDominated(all []*Machine) []*Machine {
	slices.SortStableFunc(all, func(a, b *Machine) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(b.Available[0], a.Available[0]))
	})
	var kept []*Machine
	for _, m := range all {
		if !slices.ContainsFunc(kept, func(k *Machine) bool { return p.dominates(k, m) }) {
			kept = append(kept, m)
		}
	}
	return kept
}

// dominates reports whether a is as good as b for every demand, price aside.
func (p *Market) dominates(a, b *Machine) bool {
	if a.Quantity >= 0 || !problem.IsWithin(&b.Available, &a.Available, p.In.NumDims) || !a.traits.Dominates(&b.traits) {
		return false
	}
	for i, w := range b.Admits {
		if w&^a.Admits[i] != 0 {
			return false
		}
	}
	l := &p.Catalog.Families[a.pool]
	if !l.Limited {
		return true
	}
	if a.pool != b.pool {
		return false
	}
	for d, h := range l.Has {
		if h && a.capacity.At(model.Dim(d)) > b.capacity.At(model.Dim(d)) {
			return false
		}
	}
	return true
}
