// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// compileOffers lists what can be bought and which classes each offer admits.
func (s *problemCompiler) compileOffers() {
	pools := slices.Clone(s.input.Pools)
	slices.SortStableFunc(pools, func(a, b Pool) int {
		return cmp.Or(a.before(&b), strings.Compare(a.Name, b.Name), strings.Compare(a.Group, b.Group))
	})
	s.input = &Problem{ResourceNames: s.input.ResourceNames, Demand: s.input.Demand, Rooms: s.input.Rooms, Pools: pools,
		Daemons: s.input.Daemons, Namespaces: s.input.Namespaces}
	s.poolStart, s.poolShapeStart = make([]int, len(pools)+1), make([]int, len(pools)+1)
	filters := slices.SortedFunc(maps.Values(s.filters), func(a, b *nodeFilter) int { return cmp.Compare(a.id, b.id) })
	s.equivalentPool, s.families = make([]int, len(pools)), make([]family, len(pools))
	open, reached, total := s.openPools(filters)
	s.offers = make([]offer, 0, total)
	for i := range pools {
		if i == 0 || pools[i-1].before(&pools[i]) != 0 {
			s.levels = append(s.levels, level{lo: len(s.offers)})
		}
		if open[i] != nil {
			s.addPoolOffers(i, open[i].poolCatalog, open[i].variants)
		}
		s.poolStart[i+1], s.poolShapeStart[i+1] = len(s.offers), len(s.labelShapes)
		for _, t := range pools[i].Taints {
			s.hasPreferNoSchedule = s.hasPreferNoSchedule || t.Effect == model.PreferNoSchedule
		}
		s.levels[len(s.levels)-1].hi = len(s.offers)
	}
	s.sortOffers()
	s.admitOffers(filters, reached)
}

// openPool is a pool that offers are made of: its catalog, and the ways to fix the labels that it leaves open.
type openPool struct {
	*poolCatalog
	variants [][]model.Requirement
}

// openPools groups pools into families. It returns by pool what it offers, nil where no pod of the demand can tell it from another or
// go to it, and which filters may let pods on its nodes; and how many offers there will be: there may be millions.
func (s *problemCompiler) openPools(filters []*nodeFilter) (open []*openPool, reached [][]bool, total int) {
	pools := s.input.Pools
	open, reached = make([]*openPool, len(pools)), make([][]bool, len(pools))
	for i := range pools {
		s.equivalentPool[i] = i
		s.initialLimits = append(s.initialLimits, newPoolLimits(&pools[i]))
		if !canBuyFrom(&pools[i]) {
			continue
		}
		a := s.catalogOf(&pools[i])
		s.equivalentPool[i] = s.equivalentPoolOf(i, a)
		s.families[s.equivalentPool[i]].addPool(i, s.initialLimits[i])
		if s.equivalentPool[i] != i {
			continue
		}
		reached[i] = make([]bool, len(filters))
		for j, f := range filters {
			if reached[i][j] = f.mayReach(s, &pools[i], a.providerKeys); reached[i][j] && open[i] == nil {
				open[i] = &openPool{a, s.labelVariants(&pools[i], a.providerKeys)}
				total += len(a.offerings) * len(open[i].variants)
			}
		}
	}
	return open, reached, total
}

// admitOffers finds the offers that each filter and each class may have.
func (s *problemCompiler) admitOffers(filters []*nodeFilter, reached [][]bool) {
	words := (len(s.offers) + 63) / 64
	verdicts := make([]bool, len(s.labelShapes))
	for j, f := range filters {
		bits := make([]uint64, words)
		for i := range s.input.Pools {
			if reached[i] == nil || !reached[i][j] {
				continue
			}
			some := false
			for x := s.poolShapeStart[i]; x < s.poolShapeStart[i+1]; x++ {
				verdicts[x] = f.passes(&s.keys, s.labelShapes[x].labels, nil, "")
				some = some || verdicts[x]
			}
			for x := s.poolStart[i]; some && x < s.poolStart[i+1]; x++ {
				if o := &s.offers[x]; o.available && verdicts[o.shape] {
					bits[x>>6] |= 1 << (x & 63)
				}
			}
		}
		f.offers = &offerSet{bits: bits}
	}
	interned := make([]bool, len(filters))
	for _, c := range s.classes { // in class order
		if f := c.filter; !interned[f.id] {
			f.offers, interned[f.id] = s.internOfferSet(f.offers.bits), true
		}
		c.offers = c.filter.offers
	}
}

// sortOffers puts the offers of each level and of each pool in the order of their prices.
func (s *problemCompiler) sortOffers() {
	s.offersByPrice, s.poolOffersByPrice = make([]int, len(s.offers)), make([]int, len(s.offers))
	type priced struct { // beside each other in memory: there may be millions
		price int64
		i     int
	}
	var list []priced
	for _, l := range s.levels {
		list = slices.Grow(list[:0], l.hi-l.lo)
		for i := l.lo; i < l.hi; i++ {
			list = append(list, priced{s.offers[i].price, i})
		}
		slices.SortFunc(list, func(x, y priced) int {
			if x.price != y.price {
				return cmp.Compare(x.price, y.price)
			}
			return x.i - y.i
		})
		for at, x := range list {
			s.offersByPrice[l.lo+at] = x.i
		}
	}
	next := slices.Clone(s.poolStart)
	for _, i := range s.offersByPrice { // what is in order as a whole is so in its parts
		at := &next[s.offers[i].pool]
		s.poolOffersByPrice[*at] = i
		*at++
	}
}

// internSize returns the number of an amount that offers have room for.
func (s *problemCompiler) internSize(v *vec) int {
	id, seen := s.sizeIDs[*v]
	if !seen {
		id = len(s.sizes)
		s.sizeIDs[*v] = id
		s.sizes = append(s.sizes, v)
	}
	return id
}

// labelShape is what offers of one pool with the same labels have in common.
type labelShape struct {
	labels         []int32
	daemonRequests vec // what DaemonSets take
	hasDaemons     bool
	ports          []model.HostPort
}

// addPoolOffers adds the offers of one pool: all of its catalog, with each way to fix the labels that it leaves open.
func (s *problemCompiler) addPoolOffers(pi int, a *poolCatalog, variants [][]model.Requirement) {
	p := &s.input.Pools[pi]
	plain := !newPoolLimits(p).limited && len(s.minValuesOf(pi)) == 0 // nothing else of a type matters than its room, price and labels
	first := len(s.labelShapes)
	for _, given := range a.shapes {
		for _, variant := range variants {
			s.labelShapes = append(s.labelShapes, s.labelShapeOf(p, given, variant))
		}
	}
	for i := range a.offerings {
		it := &a.offerings[i]
		for j, variant := range variants {
			at := first + it.shape*len(variants) + j
			y := &s.labelShapes[at]
			x := offer{pool: pi, instanceType: it.instanceType, offering: it.offering, price: it.offering.PriceMicro, available: it.offering.Available && it.offering.Remaining != 0, variant: variant, quantity: it.quantity,
				labels: y.labels, shape: at, ports: y.ports, size: it.size, dominated: it.dominated && plain}
			if y.hasDaemons {
				v := *it.allocatable
				for k := range s.numDims {
					v[k] -= y.daemonRequests[k]
				}
				x.size = s.internSize(&v)
			}
			x.allocatable = s.sizes[x.size]
			if x.typeStart = len(s.offers); x.typeStart > s.poolStart[pi] && s.offers[x.typeStart-1].instanceType.Name == x.instanceType.Name {
				x.typeStart = s.offers[x.typeStart-1].typeStart
			}
			s.offers = append(s.offers, x)
		}
	}
}

// labelShapeOf is the label values of nodes of a pool, given those that the provider sets, and the DaemonSets that
// will stand there.
func (s *problemCompiler) labelShapeOf(p *Pool, given []int32, variant []model.Requirement) labelShape {
	x := labelShape{labels: slices.Clone(given)}
	for k, key := range s.keys.keys {
		if key == model.LabelHostname {
			x.labels[k] = s.keys.internValue(k, "\x00new") // a name that no term can mean, but a name
			continue
		}
		if given[k] == unsetValue {
			x.labels[k] = 0
			if v, ok := poolLabel(p, key); ok {
				x.labels[k] = s.keys.internValue(k, v)
			}
		}
		for i := range variant {
			if variant[i].Key == key {
				x.labels[k] = s.keys.internValue(k, variant[i].Values[0])
			}
		}
	}
	for _, d := range s.daemons {
		if model.Untolerated(p.Taints, d.filter.tolerations) == nil && d.filter.passes(&s.keys, x.labels, nil, "") {
			x.hasDaemons = true
			for k := range s.numDims {
				x.daemonRequests[k] += d.req[k]
			}
			x.ports = append(x.ports, d.spec.Class.HostPorts...)
		}
	}
	return x
}

// quantityOf returns the number of the limited quantity that an offering draws on, -1 where there are as many as
// wanted. The same offering of two pools is one quantity, and so are all offerings of a node group.
func (s *problemCompiler) quantityOf(t *model.InstanceType, o *model.Offering) int {
	if o.Remaining < 0 {
		return -1
	}
	key := t.Name + "\x00" + o.Zone + "\x00" + o.CapacityType + "\x00" + labelsKey(o.Labels)
	if g := o.Labels[model.LabelNodeGroup]; g != "" {
		if o.Remaining >= int64(len(s.input.Demand)) {
			return -1 // one for each pod is as many as wanted
		}
		key = "group\x00" + g // whatever its machines are, it has so many of them
	}
	id, ok := s.quantityIDs[key]
	if !ok {
		id = len(s.initialQuantities)
		s.quantityIDs[key] = id
		s.initialQuantities = append(s.initialQuantities, o.Remaining)
	}
	s.initialQuantities[id] = min(s.initialQuantities[id], o.Remaining)
	return id
}

// maxVariants bounds the ways to fix a pool's open labels.
const maxVariants = 64

// labelVariants lists the ways to fix the labels that the pool leaves open and that somebody looks at.
func (s *problemCompiler) labelVariants(p *Pool, known map[string]bool) [][]model.Requirement {
	out := [][]model.Requirement{nil}
	for i := range p.Requirements {
		r := &p.Requirements[i]
		key, looked := s.keys.ids[r.Key]
		if _, fixed := poolLabel(p, r.Key); !looked || known[r.Key] || fixed || !r.HasValue() {
			continue
		}
		values := s.openValues(r, key)
		var next [][]model.Requirement
		for _, v := range out {
			for _, x := range values {
				if len(next) < maxVariants {
					next = append(next, append(slices.Clip(v), model.OneOf(r.Key, x)))
				}
			}
			if r.AllowAbsent && len(next) < maxVariants {
				next = append(next, v)
			}
		}
		out = next
	}
	return out
}

// openValues are the values of an open label that can make a difference: those listed by the pool, or else those that
// some class asks for and one that nobody names.
func (s *problemCompiler) openValues(r *model.Requirement, key int) []string {
	if !r.Complement {
		return r.Values
	}
	set := map[string]bool{}
	add := func(v string) {
		if r.Matches(v, true) {
			set[v] = true
		}
	}
	if s.isTopologyKey(r.Key) { // beside pods that stand on a node that bears it
		for i := range s.input.Rooms {
			if v, ok := s.input.Rooms[i].Labels[r.Key]; ok {
				add(v)
			}
		}
	}
	for _, f := range s.filters {
		for _, t := range f.terms {
			for _, q := range t.requirements {
				if q.key != key {
					continue
				}
				if !q.spec.Complement {
					for _, v := range q.spec.Values {
						add(v)
					}
				}
				if q.spec.Min != math.MinInt64 {
					add(strconv.FormatInt(q.spec.Min, 10))
				}
				if q.spec.Max != math.MaxInt64 {
					add(strconv.FormatInt(q.spec.Max, 10))
				}
			}
		}
	}
	if r.Min != math.MinInt64 {
		add(strconv.FormatInt(r.Min, 10))
	} else if r.Max != math.MaxInt64 {
		add(strconv.FormatInt(r.Max, 10))
	} else {
		add("any")
	}
	out := make([]string, 0, len(set))
	for v := range set {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// isTopologyKey says whether a spread, affinity or anti-affinity of the demand is over the key.
func (s *problemCompiler) isTopologyKey(key string) bool {
	return slices.ContainsFunc(s.classes, func(c *class) bool {
		at := func(t model.PodTerm) bool { return t.TopologyKey == key }
		return slices.ContainsFunc(c.spec.Affinity, at) || slices.ContainsFunc(c.spec.AntiAffinity, at) ||
			slices.ContainsFunc(c.spec.Spread, func(t model.SpreadConstraint) bool { return t.TopologyKey == key })
	})
}
