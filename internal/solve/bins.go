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
	pool    int
	mask    *mask // offers of the pool that admit every class on it
	items   []binItem
	req     vec
	copies  int64
	charged model.Resources // to the pool's limits, for one copy
	price   int64           // of the machine it was packed as
	stock   int             // of solver.stock, when it is one of so many; else -1
	host    int             // number among hosts once bins are opened one by one; -1 before
	guests  guests
}

type binItem struct {
	class int
	n     int64
	mask  *mask // where the pods may go and be counted as they are
}

// binOf turns copies of a batch, with the pods that they hold, into a bin.
func (s *solver) binOf(b *batch, items []held, copies int64) *bin {
	out := &bin{pool: b.pool, copies: copies, charged: b.m.capacity, price: b.m.price, stock: b.m.stock, host: -1, mask: s.poolMask(b.pool)}
	if b.m.stock >= 0 { // this one and no other: it is counted
		bits := make([]uint64, len(out.mask.bits))
		for _, i := range b.m.offers {
			bits[i>>6] |= 1 << (i & 63)
		}
		out.mask = s.internMask(bits)
	}
	out.items = make([]binItem, 0, len(items))
	for _, it := range items {
		out.mask = s.and(out.mask, it.d.mask)
		it.d.addTo(out, it.n, s.nd)
	}
	return out
}

func (b *bin) add(c *class, m *mask, n int64, nd int) {
	for k := range nd {
		b.req[k] += c.req[k] * n
	}
	if len(c.ports) > 0 || len(c.attach) > 0 {
		b.guests.add(c.c)
	}
	for i := range b.items {
		if b.items[i].class == c.id {
			b.items[i].n += n
			return
		}
	}
	b.items = append(b.items, binItem{c.id, n, m})
}

// poolMask is all the offers of a pool of which there are as many as wanted.
func (s *solver) poolMask(pool int) *mask {
	for len(s.poolMasks) < len(s.in.Pools) {
		bits := make([]uint64, (len(s.offers)+63)/64)
		for i := s.poolAt[len(s.poolMasks)]; i < s.poolAt[len(s.poolMasks)+1]; i++ {
			if s.offers[i].stock < 0 {
				bits[i>>6] |= 1 << (i & 63)
			}
		}
		s.poolMasks = append(s.poolMasks, s.internMask(bits))
	}
	return s.poolMasks[s.twin[pool]]
}

// binFits says whether a machine of the offer holds the bin.
func (s *solver) binFits(b *bin, o *offer) bool {
	if !fitsIn(&b.req, o.avail, s.nd) {
		return false
	}
	if len(b.guests.ports) > 0 && len(o.ports) > 0 {
		for _, p := range b.guests.ports {
			if slices.ContainsFunc(o.ports, p.Conflicts) {
				return false
			}
		}
	}
	for driver, handles := range b.guests.handles {
		if limit, ok := o.t.CSILimits[driver]; ok && int64(len(handles)) > limit {
			return false
		}
	}
	return true
}

// chosen is what a bin may become.
type chosen struct {
	offer   int // the cheapest
	types   []*model.InstanceType
	firsts  []int // where their offers begin
	zones   []string
	charged model.Resources
	premium int64 // what it costs more than it would have to, for more choice
}

// choiceKey is what the choices of a bin follow from, where no limit binds and it holds neither ports nor volumes.
type choiceKey struct {
	pool, mask int
	req        vec
}

// choose lists every type that holds the bin at no more than the premium over the cheapest, of the cheapest's capacity type and with
// the same labels of the pool's own, as far as limits allow the largest of them. Cheapest first, then by name, then by zone. Where other
// capacity types or labels cost hardly more (Policy.ChoicePPM), those with the most offerings are taken: less is lost when one of them
// runs out or is taken away.
func (s *solver) choose(b *bin) *chosen {
	left := &s.left[b.pool]
	key := choiceKey{b.pool, b.mask.id, b.req}
	plain := !left.limited && len(b.guests.ports) == 0 && len(b.guests.handles) == 0
	if ch := s.choices[key]; plain && ch != nil {
		return ch
	}
	fit := s.fitting[:0]
	least, most, all := int64(0), int64(0), true
	cut := plain && len(s.minValuesOf(b.pool)) == 0
	for _, i := range s.byPrice(b.pool) {
		o := &s.offers[i]
		if cut && len(fit) > 0 && o.price > most {
			all = false // too dear to be a choice, unless nothing comes of the cheapest
			break
		}
		if b.mask.has(i) && s.binFits(b, o) {
			if len(fit) == 0 {
				least = o.price
				most = least + mulDiv(least, s.pol.ChoicePPM, 1_000_000)
				most += mulDiv(most, s.pol.PremiumPPM, 1_000_000)
			}
			fit = append(fit, i)
		}
	}
	s.fitting = fit
	if left.limited {
		left.take(b.charged, -1) // the charge is made anew below
	}
	out := s.best(b, fit)
	if !all && (out.offer < 0 || s.offers[out.offer].price-out.premium != least) {
		fit = fit[:0]
		for _, i := range s.byPrice(b.pool) {
			if b.mask.has(i) && s.binFits(b, &s.offers[i]) {
				fit = append(fit, i)
			}
		}
		s.fitting = fit
		out = s.best(b, fit)
	}
	left.take(out.charged, 1)
	slices.Sort(out.zones)
	if plain {
		if s.choices == nil {
			s.choices = map[choiceKey]*chosen{}
		}
		s.choices[key] = out
	}
	return out
}

// best is the choice among the offers that hold the bin, cheapest first.
func (s *solver) best(b *bin, fit []int) *chosen {
	need := s.minValuesOf(b.pool)
	var first, out *chosen
	for n, i := range fit { // one try for each capacity type with the labels of the pool's own
		if out != nil && s.offers[i].price > s.choicePrice(out) {
			break
		}
		if slices.ContainsFunc(fit[:n], func(j int) bool { return s.alike(i, j) }) {
			continue
		}
		ch := s.gather(b, fit, i, need)
		if first == nil || first.offer < 0 {
			first = ch
		}
		switch {
		case ch.offer < 0 || need.lacking(ch.types) != nil:
		case out == nil:
			out = ch
		case s.offers[ch.offer].price <= s.choicePrice(out) && s.breadth(b, ch) > s.breadth(b, out):
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
	return &chosen{offer: -1}
}

// choicePrice is what may be paid for more choice than a choice leaves, counted from the cheapest.
func (s *solver) choicePrice(ch *chosen) int64 {
	least := s.offers[ch.offer].price - ch.premium
	return least + mulDiv(least, s.pol.ChoicePPM, 1_000_000)
}

// breadth is how many offerings a choice leaves the cloud.
func (s *solver) breadth(b *bin, ch *chosen) (n int) {
	for _, first := range ch.firsts {
		for i := first; i < len(s.offers) && s.offers[i].first == first; i++ {
			if o := &s.offers[i]; s.alike(i, ch.offer) && slices.Contains(ch.types, o.t) && b.mask.has(i) && s.binFits(b, o) {
				n++
			}
		}
	}
	return n
}

// alike says whether two offers may be choices of one claim: of one capacity type and node group, with the same labels of the pool's own.
func (s *solver) alike(i, j int) bool {
	return s.offers[i].o.CapacityType == s.offers[j].o.CapacityType && sameVariant(&s.offers[i], &s.offers[j])
}

// gather collects choices among the offers alike one of them, cheapest first.
func (s *solver) gather(b *bin, fit []int, like int, need minValues) *chosen {
	out := &chosen{offer: -1}
	left := &s.left[b.pool]
	for _, i := range fit {
		o := &s.offers[i]
		if !s.alike(i, like) {
			continue
		}
		if out.offer >= 0 {
			first := s.offers[out.offer].price
			if o.price > first+mulDiv(first, s.pol.PremiumPPM, 1_000_000) && !need.wants(out.types, o.t) {
				continue
			}
		}
		if !s.crossing(b, out, o) {
			continue
		}
		if !slices.Contains(out.types, o.t) {
			most := out.charged.Max(o.t.Capacity)
			if left.copies(most) < 1 || len(out.types) >= s.pol.MaxTypes && !need.wants(out.types, o.t) {
				continue
			}
			out.charged = most
			out.types = append(out.types, o.t)
			if !slices.Contains(out.firsts, o.first) {
				out.firsts = append(out.firsts, o.first)
			}
		}
		if out.offer < 0 {
			out.offer = i
		}
		if !slices.Contains(out.zones, o.o.Zone) {
			out.zones = append(out.zones, o.o.Zone)
		}
	}
	return out
}

// crossing says whether an offer may join the choices. A claim names types and zones apart from each other, so the cloud may put any
// of its types in any of its zones, and all of those must do, also offerings set aside now.
func (s *solver) crossing(b *bin, ch *chosen, o *offer) bool {
	newType, newZone := !slices.Contains(ch.types, o.t), !slices.Contains(ch.zones, o.o.Zone)
	if !newType && !newZone {
		return true
	}
	if !s.crosses(b, ch, o, o.first) {
		return false
	}
	for _, first := range ch.firsts {
		if newZone && first != o.first && !s.crosses(b, ch, o, first) {
			return false
		}
	}
	return true
}

// crosses is crossing as far as one type of the pool is concerned, whose offers begin at first.
func (s *solver) crosses(b *bin, ch *chosen, o *offer, first int) bool {
	for i := first; i < len(s.offers) && s.offers[i].first == first; i++ {
		x := &s.offers[i]
		if b.mask.has(i) && s.binFits(b, x) || x.o.CapacityType != o.o.CapacityType || !sameVariant(x, o) {
			continue
		}
		in := x.t == o.t && (slices.Contains(ch.zones, x.o.Zone) || x.o.Zone == o.o.Zone) || x.o.Zone == o.o.Zone && slices.Contains(ch.types, x.t)
		if in && (x.ok || !s.passesAll(b, x)) {
			return false
		}
	}
	return true
}

// passesAll says whether every class on the bin would go to the offer, could it be had.
func (s *solver) passesAll(b *bin, o *offer) bool {
	for _, it := range b.items {
		if !s.classes[it.class].filter.passes(&s.keys, o.vals, nil, "") {
			return false
		}
	}
	return true
}

// poolRange is where a pool's offers lie, or those of the first of its family.
func (s *solver) poolRange(pool int) (lo, hi int) {
	pool = s.twin[pool]
	return s.poolAt[pool], s.poolAt[pool+1]
}

func sameVariant(a, b *offer) bool {
	return a.o.Labels[model.LabelNodeGroup] == b.o.Labels[model.LabelNodeGroup] && slices.EqualFunc(a.variant, b.variant, func(x, y model.Requirement) bool {
		return x.Key == y.Key && slices.Equal(x.Values, y.Values)
	})
}

// nodeOf writes one copy of a bin down, without its pods.
func (s *solver) nodeOf(b *bin, ch *chosen) NewNode {
	node := s.emptyNode(b.pool, ch)
	for _, it := range b.items {
		node.Requests = node.Requests.AddInto(s.classes[it.class].c.Requests, it.n)
	}
	p, o := &s.in.Pools[b.pool], &s.offers[ch.offer]
	for _, d := range s.daemons {
		if model.Untolerated(p.Taints, d.filter.tolerations) == nil && d.filter.passes(&s.keys, o.vals, nil, "") {
			node.Requests = node.Requests.AddInto(d.in.Class.Requests, 1)
		}
	}
	return node
}

// emptyNode is a node of a pool that may become what was chosen. Those of one choice share what they have in common.
func (s *solver) emptyNode(pool int, ch *chosen) NewNode {
	key := [2]int{pool, ch.offer}
	for _, n := range s.empties[key] {
		if slices.Equal(n.Choices, ch.types) && slices.Equal(n.Zones, ch.zones) {
			return n
		}
	}
	o := &s.offers[ch.offer]
	p := &s.in.Pools[pool]
	names := make([]string, len(ch.types))
	for i, t := range ch.types {
		names[i] = t.Name
	}
	narrow := []model.Requirement{model.OneOf(model.LabelInstanceType, names...), model.OneOf(model.LabelCapacityType, o.o.CapacityType)}
	if len(ch.zones) > 0 && ch.zones[0] != "" {
		narrow = append(narrow, model.OneOf(model.LabelZone, ch.zones...))
	}
	for k, v := range o.o.Labels {
		if o.stock >= 0 || k == model.LabelNodeGroup {
			narrow = append(narrow, model.OneOf(k, v))
		}
	}
	narrow = append(narrow, o.variant...)
	node := NewNode{Pool: p.Name, Type: o.t, Offering: *o.o, Choices: ch.types, Zones: ch.zones, CapacityTypes: []string{o.o.CapacityType},
		Requirements: p.Requirements.With(narrow...), PriceMicro: o.price}
	if s.empties == nil {
		s.empties = map[[2]int][]NewNode{}
	}
	s.empties[key] = append(s.empties[key], node)
	return node
}

// minValues is how many distinct values of a label the choices must keep, by label.
type minValues []model.Requirement

func (s *solver) minValuesOf(pool int) minValues {
	for i := len(s.needs); i < len(s.in.Pools); i++ {
		var out minValues
		for _, r := range s.in.Pools[i].Requirements {
			if r.MinValues > 0 {
				out = append(out, r)
			}
		}
		s.needs = append(s.needs, out)
	}
	return s.needs[pool]
}

// wants says whether a further type brings a value that is still lacking.
func (m minValues) wants(types []*model.InstanceType, t *model.InstanceType) bool {
	for i := range m {
		have := distinct(m[i].Key, types)
		if len(have) < m[i].MinValues && len(distinct(m[i].Key, append(slices.Clip(types), t))) > len(have) {
			return true
		}
	}
	return false
}

// lacking returns the first rule that the types do not meet.
func (m minValues) lacking(types []*model.InstanceType) *model.Requirement {
	for i := range m {
		if len(distinct(m[i].Key, types)) < m[i].MinValues {
			return &m[i]
		}
	}
	return nil
}

// distinct lists the values of a label among types; zone and capacity type are their offerings'.
func distinct(key string, types []*model.InstanceType) []string {
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

// shared narrows a machine of a pool that wants several values of a label kept: a fill may use only what that many types have in
// common, those that lose it least, and limits are charged for the largest of them. Demands for which there are not that many types
// are not admitted.
func (p *packing) shared(m *machine, need minValues) {
	s := p.s
	if len(need) == 0 {
		return
	}
	others := p.alikeBy(m)
	gather := func(masks []*mask) ([]*model.InstanceType, vec, model.Resources) {
		types, room, most := []*model.InstanceType{m.t}, m.avail, m.t.Capacity
		for _, x := range others {
			o := &s.offers[x.i]
			if slices.Contains(types, o.t) || slices.ContainsFunc(masks, func(k *mask) bool { return !k.has(x.i) }) {
				continue
			}
			s.work++
			if need.lacking(types) == nil {
				break
			}
			if !need.wants(types, o.t) {
				continue
			}
			types, most = append(types, o.t), most.Max(o.t.Capacity)
			for k := range s.nd {
				room[k] = min(room[k], o.avail[k])
			}
		}
		return types, room, most
	}
	var kept []*mask
	for j, k := range p.masks {
		if m.admits[j>>6]>>(j&63)&1 == 0 {
			continue
		}
		if types, _, _ := gather(append(slices.Clip(kept), k)); need.lacking(types) == nil {
			kept = append(kept, k)
		} else {
			m.admits[j>>6] &^= 1 << (j & 63)
		}
	}
	_, m.avail, m.capacity = gather(kept)
}

// other is an offer beside a machine, and how much less of a resource it has, the worst in millionths. No pointer in it: there are thousands for each
// machine.
type other struct {
	i    int
	loss int64
}

// alikeBy lists the offers that may be choices beside a machine, those that lose it least first. Machines of one size have one list.
func (p *packing) alikeBy(m *machine) []other {
	s := p.s
	first := &s.offers[m.offers[0]]
	k := alikeKey{m.pool, first.size, first.o.CapacityType, fmt.Sprint(first.o.Labels[model.LabelNodeGroup], first.variant)}
	if list, ok := p.others[k]; ok {
		return list
	}
	var others []other
	lo, hi := s.poolRange(m.pool)
	for i := lo; i < hi; i++ {
		x := &s.offers[i]
		if !x.ok || x.o.CapacityType != first.o.CapacityType || !sameVariant(x, first) || x.stock >= 0 {
			continue
		}
		loss := int64(0)
		for k := range s.nd {
			if m.avail[k] > 0 {
				loss = max(loss, mulDiv(max(0, m.avail[k]-x.avail[k]), 1_000_000, m.avail[k]))
			}
		}
		others = append(others, other{i, loss})
	}
	slices.SortFunc(others, func(a, b other) int { // of equals the first by name, as offers are
		if a.loss != b.loss {
			return cmp.Compare(a.loss, b.loss)
		}
		return a.i - b.i
	})
	if p.others == nil {
		p.others = map[alikeKey][]other{}
	}
	p.others[k] = others
	return others
}

type alikeKey struct {
	pool, size            int
	capacityType, variant string
}

// improper returns the first bin whose pool wants more values of a label kept than the bin leaves it, nil if all are well.
func (s *solver) improper() *bin {
	for _, b := range s.bins {
		if !s.keepsValues(b) {
			return b
		}
	}
	return nil
}

func (s *solver) keepsValues(b *bin) bool {
	need := s.minValuesOf(b.pool)
	if len(need) == 0 {
		return true
	}
	was := s.left[b.pool]
	s.left[b.pool].left = was.left.Clone()
	ch := s.choose(b)
	s.left[b.pool] = was
	return need.lacking(ch.types) == nil
}
