// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// compileOffers lists what can be launched and which classes each offer admits.
func (s *offerCompiler) compileOffers() {
	pools := slices.Clone(s.in.Given.Pools)
	slices.SortStableFunc(pools, func(a, b Pool) int {
		return cmp.Or(a.Before(&b), strings.Compare(a.Name, b.Name), strings.Compare(a.Group, b.Group), strings.Compare(a.Part, b.Part))
	})
	s.in.Given = &Problem{ResourceNames: s.in.Given.ResourceNames, Demand: s.in.Given.Demand, Nodes: s.in.Given.Nodes, Pools: pools,
		Daemons: s.in.Given.Daemons, Namespaces: s.in.Given.Namespaces, Limits: s.in.Given.Limits, Static: s.in.Given.Static}
	s.catalog.poolStart, s.poolShapeStart = make([]int, len(pools)+1), make([]int, len(pools)+1)
	filters := slices.SortedFunc(maps.Values(s.compiler.filters), func(a, b *nodeFilter) int { return cmp.Compare(a.id, b.id) })
	s.catalog.EquivalentPool, s.catalog.Families = make([]int, len(pools)), make([]family, len(pools))
	open, reached, total := s.openPools(filters)
	s.catalog.Offers = make([]Offer, 0, total)
	for i := range pools {
		if i == 0 || pools[i-1].Before(&pools[i]) != 0 {
			s.catalog.Levels = append(s.catalog.Levels, Level{Lo: len(s.catalog.Offers)})
		}
		if open[i] != nil {
			s.addPoolOffers(i, open[i].catalog, open[i].variants)
		}
		s.catalog.poolStart[i+1], s.poolShapeStart[i+1] = len(s.catalog.Offers), len(s.labelShapes)
		for _, t := range pools[i].Taints {
			s.catalog.hasPreferNoSchedule = s.catalog.hasPreferNoSchedule || t.Effect == model.PreferNoSchedule
		}
		s.catalog.Levels[len(s.catalog.Levels)-1].Hi = len(s.catalog.Offers)
	}
	s.sortOffers()
	s.admitOffers(filters, reached)
}

// openPool is a pool that offers are made of: its catalog, and the ways to fix the labels that it leaves open.
type openPool struct {
	catalog  *poolCatalog
	variants [][]model.Requirement
}

// openPools groups pools into families. It returns by pool what it offers, nil where no pod of the demand can tell it
// from another or go to it, and which filters may let pods on its nodes; and how many offers there will be: there may
// be millions.
func (s *offerCompiler) openPools(filters []*nodeFilter) (open []*openPool, reached [][]bool, total int) {
	pools := s.in.Given.Pools
	open, reached = make([]*openPool, len(pools)), make([][]bool, len(pools))
	s.inst.InitialLimits = newPoolLimits(s.in.Given)
	for i := range pools {
		s.catalog.EquivalentPool[i] = i
		if !canBuyFrom(&pools[i]) {
			continue
		}
		a := s.catalogOf(&pools[i])
		s.catalog.EquivalentPool[i] = s.equivalentPoolOf(i, a)
		s.catalog.Families[s.catalog.EquivalentPool[i]].addPool(i, &s.inst.InitialLimits[i])
		if s.catalog.EquivalentPool[i] != i {
			continue
		}
		reached[i] = make([]bool, len(filters))
		for j, f := range filters {
			if reached[i][j] = f.mayReach(s.in.Keys.Keys, &pools[i], a.providerKeys); reached[i][j] && open[i] == nil {
				open[i] = &openPool{a, s.labelVariants(&pools[i], a.providerKeys)}
				total += len(a.offerings) * len(open[i].variants)
			}
		}
	}
	return open, reached, total
}

// admitOffers finds the offers that each filter and each class may have.
func (s *offerCompiler) admitOffers(filters []*nodeFilter, reached [][]bool) {
	words := (len(s.catalog.Offers) + 63) / 64
	verdicts := make([]bool, len(s.labelShapes))
	for j, f := range filters {
		bits := make([]uint64, words)
		for i := range s.in.Given.Pools {
			if reached[i] == nil || !reached[i][j] {
				continue
			}
			some := false
			for x := s.poolShapeStart[i]; x < s.poolShapeStart[i+1]; x++ {
				y := &s.labelShapes[x]
				verdicts[x] = f.Passes(&s.in.Keys, y.labels, nil, "") && s.inst.admitBeside(f.daemons, y.labels, y.daemons)
				some = some || verdicts[x]
			}
			for x := s.catalog.poolStart[i]; some && x < s.catalog.poolStart[i+1]; x++ {
				o := &s.catalog.Offers[x]
				if !o.Available || !verdicts[o.shape] || !o.holdsDaemons(s.in.NumDims) {
					continue
				}
				if _, barred := f.BarOn(&s.in.Given.Pools[i], o); !barred {
					bits[x>>6] |= 1 << (x & 63)
				}
			}
		}
		f.Offers = &OfferSet{Bits: bits}
	}
	interned := make([]bool, len(filters))
	for _, c := range s.inst.Classes { // in class order
		if f := c.Filter; !interned[f.id] {
			f.Offers, interned[f.id] = s.catalog.InternOfferSet(f.Offers.Bits), true
		}
		c.Offers = c.Filter.Offers
	}
}

// sortOffers puts the offers of each level and of each pool in the order of their prices.
func (s *offerCompiler) sortOffers() {
	s.catalog.offersByPrice, s.catalog.poolOffersByPrice = make([]int, len(s.catalog.Offers)), make([]int, len(s.catalog.Offers))
	for i := range s.catalog.offersByPrice {
		s.catalog.offersByPrice[i] = i
	}
	for _, l := range s.catalog.Levels {
		slices.SortStableFunc(s.catalog.offersByPrice[l.Lo:l.Hi], func(i, j int) int {
			return cmp.Compare(s.catalog.Offers[i].Price, s.catalog.Offers[j].Price)
		})
	}
	next := slices.Clone(s.catalog.poolStart)
	for _, i := range s.catalog.offersByPrice { // what is in order as a whole is so in its parts
		at := &next[s.catalog.Offers[i].Pool]
		s.catalog.poolOffersByPrice[*at] = i
		*at++
	}
}

// addPoolOffers adds the offers of one pool: all of its catalog, with each way to fix the labels that it leaves open.
func (s *offerCompiler) addPoolOffers(pi int, a *poolCatalog, variants [][]model.Requirement) {
	p := &s.in.Given.Pools[pi]
	limited := s.inst.InitialLimits[pi].Limited || len(p.Barred) > 0 // then more of a type matters than its room, price and labels
	start := len(s.catalog.Offers)
	first := len(s.labelShapes)
	for _, given := range a.shapes {
		for _, variant := range variants {
			s.labelShapes = append(s.labelShapes, s.labelShapeOf(p, given, variant))
		}
	}
	for i := range a.offerings {
		it := &a.offerings[i]
		charge := s.compiler.chargeOf(it.instanceType, it.offering)
		for j, variant := range variants {
			at := first + it.shape*len(variants) + j
			y := &s.labelShapes[at]
			x := Offer{Pool: pi, InstanceType: it.instanceType, Offering: it.offering, Price: it.offering.PriceMicro, Charge: charge, Available: it.offering.Available && it.offering.Remaining != 0, Variant: variant, Quantity: it.quantity,
				Labels: y.labels, shape: at, Ports: y.ports, CSILimits: it.csiLimits, Size: it.size, DominatedBy: -1}
			if it.dominatedBy >= 0 && !limited {
				x.DominatedBy = start + it.dominatedBy*len(variants) + j
			}
			if len(y.daemons) > 0 {
				v := *it.allocatable
				for k := range s.in.NumDims {
					// A node that has too little of these is none for its DaemonSets. Extended resources, and what a type doesn't say that it
					// has, they may go without.
					if v[k] -= y.daemonRequests[k]; v[k] < 0 && (s.in.Dims[k] >= model.FirstExtended || it.allocatable[k] <= 0) {
						v[k] = 0
					}
				}
				x.Size = s.internSize(&v)
			}
			x.Allocatable = s.catalog.Sizes[x.Size]
			if x.TypeStart = len(s.catalog.Offers); x.TypeStart > s.catalog.poolStart[pi] && s.catalog.Offers[x.TypeStart-1].InstanceType.Name == x.InstanceType.Name {
				x.TypeStart = s.catalog.Offers[x.TypeStart-1].TypeStart
			}
			s.catalog.Offers = append(s.catalog.Offers, x)
		}
	}
}

// holdsDaemons reports whether an offer has what its DaemonSets request.
func (o *Offer) holdsDaemons(nd int) bool {
	return !slices.ContainsFunc(o.Allocatable[:nd], func(v int64) bool { return v < 0 })
}

// labelShapeOf is the label values of nodes of a pool, given those that the provider sets, and the DaemonSets that
// will stand there.
func (s *offerCompiler) labelShapeOf(p *Pool, given []int32, variant []model.Requirement) labelShape {
	x := labelShape{labels: slices.Clone(given)}
	for k, key := range s.in.Keys.Keys {
		if key == model.LabelHostname {
			x.labels[k] = s.in.Keys.internValue(k, "\x00new") // a name that no term can mean, but a name
			continue
		}
		if given[k] == unsetValue {
			x.labels[k] = 0
			if v, ok := PoolLabel(p, key); ok {
				x.labels[k] = s.in.Keys.internValue(k, v)
			}
		}
		for i := range variant {
			if variant[i].Key == key {
				x.labels[k] = s.in.Keys.internValue(k, variant[i].Values[0])
			}
		}
	}
	var ports []model.HostPort
	x.daemons = s.inst.standing(p, x.labels)
	for _, i := range x.daemons {
		d := s.inst.Daemons[i]
		for k := range s.in.NumDims {
			x.daemonRequests[k] += d.req[k]
		}
		ports = append(ports, d.Spec.Pod().HostPorts...)
	}
	x.ports = s.in.ports.useOf(ports)
	return x
}

// maxVariants bounds the ways to fix a pool's open labels.
const maxVariants = 64

// labelVariants lists the ways to fix the labels that the pool leaves open and that the problem uses.
func (s *offerCompiler) labelVariants(p *Pool, known map[string]bool) [][]model.Requirement {
	out := [][]model.Requirement{nil}
	for i := range p.Requirements {
		r := &p.Requirements[i]
		key, looked := s.in.Keys.Ids[r.Key]
		if _, fixed := PoolLabel(p, r.Key); !looked || known[r.Key] || fixed || !r.HasValue() {
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
// some class or volume asks for, one that each class allows which excludes some, and one that nobody excludes.
func (s *offerCompiler) openValues(r *model.Requirement, key int) []string {
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
		for i := range s.in.Given.Nodes {
			if v, ok := s.in.Given.Nodes[i].Labels[r.Key]; ok {
				add(v)
			}
		}
	}
	var excluded []string
	look := func(terms []term) {
		for _, t := range terms {
			for _, q := range t.Requirements {
				if q.Key != key {
					continue
				}
				if !q.Spec.Complement {
					for _, v := range q.Spec.Values {
						add(v)
					}
					continue
				}
				both := r.Intersect(*q.Spec)
				if v, ok := both.AnyValue(); ok {
					add(v)
				}
				excluded = append(excluded, q.Spec.Values...)
			}
		}
	}
	for _, f := range s.compiler.filters {
		look(f.Terms)
		for _, alternatives := range f.volumes {
			look(alternatives)
		}
	}
	slices.Sort(excluded)
	rest := r.Intersect(model.Requirement{Key: r.Key, Complement: true, Values: slices.Compact(excluded), Min: math.MinInt64, Max: math.MaxInt64})
	if v, ok := rest.AnyValue(); ok {
		add(v)
	}
	out := make([]string, 0, len(set))
	for v := range set {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// isTopologyKey reports whether a spread, affinity or anti-affinity of the demand is over the key.
func (s *offerCompiler) isTopologyKey(key string) bool {
	return slices.ContainsFunc(s.inst.Classes, func(c *Class) bool {
		at := func(t model.PodTerm) bool { return t.TopologyKey == key }
		return slices.ContainsFunc(c.Spec.Affinity, at) || slices.ContainsFunc(c.Spec.AntiAffinity, at) ||
			slices.ContainsFunc(c.Spec.Spread, func(t model.SpreadConstraint) bool { return t.TopologyKey == key })
	})
}

// chargeOf returns the amounts that a node of an offering counts toward limits: see PoolLimits.
func (s *problemCompiler) chargeOf(t *model.InstanceType, o *model.Offering) model.Resources {
	for i := range s.in.Given.Limits {
		if s.in.Given.Limits[i].MicroPerHour >= 0 {
			return t.Capacity.With(dollarDim(s.in.Given), o.PriceMicro)
		}
	}
	return t.Capacity
}
