// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// canBuyFrom reports whether anything can be launched from the pool.
func canBuyFrom(p *Pool) bool { return p.Ready && !p.Deleting && p.Replicas < 0 }

// unsetValue stands for a label that neither type nor offering says anything about.
const unsetValue = int32(-2)

// catalogOf returns what a pool can launch.
func (s *offerCompiler) catalogOf(p *Pool) *poolCatalog {
	same := func(types []*model.InstanceType) bool { return slices.Equal(types, p.Types) }
	known := s.catalog.ProviderKeysOf(p.Types)
	var b strings.Builder
	for i := range p.Requirements {
		r := &p.Requirements[i]
		if known[r.Key] || r.Empty() {
			b.WriteString(model.Requirements{*r}.Key())
		}
	}
	for _, a := range s.catalogs {
		if a.requirementKey == b.String() && a.group == p.Group && same(a.types) {
			return a
		}
	}
	a := &poolCatalog{id: len(s.catalogs), types: p.Types, group: p.Group, requirementKey: b.String(), providerKeys: known}
	s.catalogs = append(s.catalogs, a)
	s.listOfferings(a, p.Requirements)
	return a
}

// listOfferings lists the offerings of the types that satisfy the requirements.
func (s *offerCompiler) listOfferings(a *poolCatalog, rs model.Requirements) {
	types, offerings := slices.Clone(a.types), 0
	slices.SortFunc(types, func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range types {
		offerings += len(t.Offerings)
	}
	a.offerings = make([]catalogOffering, 0, offerings)
	byVals := map[string]int{}
	vals := slices.Repeat([]int32{unsetValue}, len(s.in.Keys.Keys))
	var given []int // keys that some of the types has: pods may ask for thousands that none has
	for k, key := range s.in.Keys.Keys {
		if a.providerKeys[key] {
			given = append(given, k)
		}
	}
	var order []int
	var text []byte
	for _, t := range types {
		order = order[:0]
		for i := range t.Offerings {
			order = append(order, i)
		}
		slices.SortFunc(order, func(a, b int) int { return compareOfferings(&t.Offerings[a], &t.Offerings[b]) })
		room := s.in.toVec(t.Allocatable)
		s.in.addExclusivityUnits(room[:])
		limits := s.csiLimitsOf(t)
		size := -1
		for _, oi := range order {
			o := &t.Offerings[oi]
			if unmetRequirement(rs, t, o, a.providerKeys) != nil || a.group != "" && o.Labels[model.LabelNodeGroup] != a.group {
				continue
			}
			text = text[:0]
			for _, k := range given {
				vals[k] = unsetValue
				if v, ok := t.Label(s.in.Keys.Keys[k], o); ok {
					vals[k] = s.in.Keys.internValue(k, v)
				}
				text = binary.LittleEndian.AppendUint32(text, uint32(vals[k]))
			}
			shape, ok := byVals[string(text)]
			if !ok {
				shape = len(a.shapes)
				byVals[string(text)] = shape
				a.shapes = append(a.shapes, slices.Clone(vals))
			}
			if size < 0 {
				size = s.internSize(&room)
			}
			a.offerings = append(a.offerings, catalogOffering{instanceType: t, offering: o, shape: shape, allocatable: &room, csiLimits: limits, size: size, quantity: s.quantityOf(t, o)})
		}
	}
	a.markDominated(s.in.NumDims, s.in.Dims)
}

// csiLimitsOf returns those limits of a type on attached volumes that the volumes of the demand could exceed.
func (s *offerCompiler) csiLimitsOf(t *model.InstanceType) (out map[string]int64) {
	if s.volumesByDriver == nil {
		s.volumesByDriver = map[string]int64{}
		for _, c := range s.inst.Classes {
			for i := range c.CsiVolumes {
				s.volumesByDriver[c.CsiVolumes[i].Driver] += int64(len(c.Pods))
			}
		}
	}
	for driver, n := range s.volumesByDriver {
		if limit, ok := t.CSILimits[driver]; ok && limit < n {
			if out == nil {
				out = map[string]int64{}
			}
			out[driver] = limit
		}
	}
	return out
}

// markDominated marks the offerings that another with the same labels beats: no less room, no lower limits, no higher price. Of equals
// the first stays. One that does not say that it has some cpu, memory or the like may hold a DaemonSet that another, which has a little, does not.
func (a *poolCatalog) markDominated(nd int, dims []model.Dim) {
	order := make([]int, len(a.offerings))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		x, y := &a.offerings[i], &a.offerings[j]
		return cmp.Or(cmp.Compare(x.offering.PriceMicro, y.offering.PriceMicro), cmp.Compare(y.allocatable[0], x.allocatable[0]), cmp.Compare(i, j))
	})
	kept, most := make([][]int, len(a.shapes)), make([]Vec, len(a.shapes))
	for _, i := range order {
		x := &a.offerings[i]
		x.dominatedBy = -1
		if !x.offering.Available || x.offering.Remaining >= 0 {
			continue
		}
		top := &most[x.shape] // of those kept: what has more of anything is within none of them
		if IsWithin(x.allocatable, top, nd) {
			if at := slices.IndexFunc(kept[x.shape], func(j int) bool {
				y := &a.offerings[j]
				for k, d := range dims {
					if d < model.FirstExtended && x.allocatable[k] <= 0 && y.allocatable[k] > 0 {
						return false
					}
				}
				return IsWithin(x.allocatable, y.allocatable, nd) && limitsNoLess(y.csiLimits, x.csiLimits)
			}); at >= 0 {
				x.dominatedBy = kept[x.shape][at]
			}
		}
		if x.dominatedBy < 0 {
			kept[x.shape] = append(kept[x.shape], i)
			for k := range nd {
				top[k] = max(top[k], x.allocatable[k])
			}
		}
	}
}

// compareOfferings orders the offerings of a type: zone, capacity type, price, labels.
func compareOfferings(a, b *model.Offering) int {
	if c := cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.PriceMicro, b.PriceMicro)); c != 0 {
		return c // texts of labels are dear
	}
	return strings.Compare(labelsKey(a.Labels), labelsKey(b.Labels))
}

// labelsKey is a text that tells labels apart.
func labelsKey(l model.Labels) string {
	keys := make([]string, 0, len(l))
	for k := range l {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(k + "=" + l[k] + ",")
	}
	return b.String()
}

// addPool adds a pool, unless the family already has one without limits: later ones would never be used.
func (f *family) addPool(pool int, l *PoolLimits) {
	if len(f.Pools) > 0 && !f.Limited {
		return
	}
	f.Pools, f.Limited = append(f.Pools, pool), l.Limited
	for _, x := range l.counts {
		f.counts = append(f.counts, x.id)
	}
	for d, h := range l.Has {
		for d >= len(f.Has) {
			f.Has = append(f.Has, false)
		}
		f.Has[d] = f.Has[d] || h
	}
}

// equivalentPoolOf is the first pool that no pod of the demand can tell from this one; limits may.
func (s *offerCompiler) equivalentPoolOf(i int, a *poolCatalog) int {
	p := &s.in.Given.Pools[i]
	if s.inst.InitialLimits[i].Limited && len(s.catalog.MinValuesOf(i)) > 0 {
		return i // what is left within its limits decides which types are left to choose from
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d %d %d", a.id, p.Weight, p.Rank, len(p.Taints))
	for _, x := range p.Taints {
		fmt.Fprintf(&b, " %q %q %q", x.Key, x.Value, x.Effect)
	}
	if len(p.Barred) > 0 { // some pods can tell it from others
		fmt.Fprintf(&b, " barred %q", p.Name)
	}
	for _, r := range p.Requirements {
		_, looked := s.in.Keys.Ids[r.Key]
		if _, fixed := PoolLabel(p, r.Key); r.MinValues > 0 || looked && !fixed && !a.providerKeys[r.Key] {
			b.WriteString(model.Requirements{r}.Key())
		}
	}
	for _, key := range s.in.Keys.Keys {
		v, ok := PoolLabel(p, key)
		fmt.Fprintf(&b, " %q %t", v, ok)
	}
	if first, ok := s.poolByKey[b.String()]; ok {
		return first
	}
	s.poolByKey[b.String()] = i
	return i
}

// providerKeys are the labels that a provider gives: where a type lacks one, its nodes will not have it. Any other
// label of a pool's requirements is the pool's own and is put on the node as the requirements say.
func providerKeys(types []*model.InstanceType) map[string]bool {
	known := map[string]bool{model.LabelZone: true, model.LabelCapacityType: true, model.LabelArch: true, model.LabelOS: true,
		model.LabelInstanceType: true, model.LabelRegion: true, model.LabelHostname: true}
	for _, t := range types {
		for k := range t.Labels {
			known[k] = true
		}
		for i := range t.Offerings {
			for k := range t.Offerings[i].Labels {
				known[k] = true
			}
		}
	}
	return known
}

// ProviderKeysOf is like providerKeys, cached per list of types.
func (s *Catalog) ProviderKeysOf(types []*model.InstanceType) map[string]bool {
	for i := range s.typeLists {
		if slices.Equal(s.typeLists[i].types, types) {
			return s.typeLists[i].providerKeys
		}
	}
	s.typeLists = append(s.typeLists, poolCatalog{types: types, providerKeys: providerKeys(types)})
	return s.typeLists[len(s.typeLists)-1].providerKeys
}

// unmetRequirement returns the pool requirement that type and offering do not meet, nil if they meet all.
func unmetRequirement(rs model.Requirements, t *model.InstanceType, o *model.Offering, known map[string]bool) *model.Requirement {
	for i := range rs {
		v, ok := t.Label(rs[i].Key, o)
		if !ok && !known[rs[i].Key] {
			if rs[i].Empty() {
				return &rs[i]
			}
			continue
		}
		if !rs[i].Matches(v, ok) {
			return &rs[i]
		}
	}
	return nil
}

// PoolLabel returns the value of a label if it is the same on every node of the pool, unless its types and offerings
// determine it.
func PoolLabel(p *Pool, key string) (string, bool) {
	if key == model.LabelProvisioner && p.Provisioner != "" {
		return p.Provisioner, true
	}
	switch key {
	case model.LabelNodePool:
		return p.Name, true
	case model.LabelRegistered, model.LabelInitialized:
		return "true", true // as soon as the node is, and no pod runs there before
	}
	if v, ok := p.Labels[key]; ok {
		return v, true
	}
	if r := p.Requirements.Get(key); r != nil && !r.Complement && len(r.Values) == 1 {
		return r.Values[0], true
	}
	return "", false
}

// internSize returns the number of an amount that offers have room for.
func (s *offerCompiler) internSize(v *Vec) int {
	id, seen := s.sizeIDs[*v]
	if !seen {
		id = len(s.catalog.Sizes)
		s.sizeIDs[*v] = id
		s.catalog.Sizes = append(s.catalog.Sizes, v)
	}
	return id
}

// quantityOf returns the number of the limited quantity that an offering draws on, -1 where there are as many as
// wanted. The same offering of two pools is one quantity, and so are all offerings of a node group.
func (s *offerCompiler) quantityOf(t *model.InstanceType, o *model.Offering) int {
	if o.Remaining < 0 {
		return -1
	}
	key := t.Name + "\x00" + o.Zone + "\x00" + o.CapacityType + "\x00" + labelsKey(o.Labels)
	if g := o.Labels[model.LabelNodeGroup]; g != "" {
		if o.Remaining >= int64(len(s.in.Given.Demand)) {
			return -1 // one for each pod is as many as wanted
		}
		key = "group\x00" + g // whatever its machines are, it has so many of them
	}
	id, ok := s.quantityIDs[key]
	if !ok {
		id = len(s.inst.InitialQuantities)
		s.quantityIDs[key] = id
		s.inst.InitialQuantities = append(s.inst.InitialQuantities, o.Remaining)
	}
	s.inst.InitialQuantities[id] = min(s.inst.InitialQuantities[id], o.Remaining)
	return id
}
