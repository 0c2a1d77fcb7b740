// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// offer is one thing that can be bought: a type of a pool in one zone and capacity type, with every label that the problem looks at
// fixed. Where the pool leaves a label of its own open (In several values, Exists), there is an offer for each value that matters.
type offer struct {
	pool    int
	t       *model.InstanceType
	o       *model.Offering
	vals    []int32
	avail   vec // allocatable less the DaemonSets that will stand on it
	size    int // of solver.sizes: equal avail, equal size
	ports   []model.HostPort
	price   int64
	ok      bool // can be had now
	stock   int  // of solver.stock: what several pools may draw on; -1 where the cloud sets no number
	variant []model.Requirement
}

// level is the pools of one weight and rank.
type level struct {
	lo, hi int // offers
}

// mask is a set of offers, interned.
type mask struct {
	id    int
	bits  []uint64
	tops  []vec // the largest machines in it, no one within another; made when first asked for
	known bool
}

func (m *mask) has(i int) bool { return m.bits[i>>6]>>(i&63)&1 != 0 }

// internMask returns the one mask with these bits. The bits must not be changed afterwards.
func (s *solver) internMask(bits []uint64) *mask {
	b := appendWords(make([]byte, 0, 8*len(bits)), bits)
	if m := s.byMask[string(b)]; m != nil {
		return m
	}
	m := &mask{id: len(s.masks), bits: bits}
	s.masks = append(s.masks, m)
	s.byMask[string(b)] = m
	return m
}

// addTop keeps only vectors that are not within another.
func addTop(tops []vec, v *vec, nd int) []vec {
	for i := range tops {
		if leq(v, &tops[i], nd) {
			return tops
		}
	}
	kept := tops[:0]
	for i := range tops {
		if !leq(&tops[i], v, nd) {
			kept = append(kept, tops[i])
		}
	}
	return append(kept, *v)
}

func leq(a, b *vec, nd int) bool {
	for k := range nd {
		if a[k] > b[k] {
			return false
		}
	}
	return true
}

// fitsIn is leq with a zero request fitting anywhere, as kube-scheduler has it.
func fitsIn(req, room *vec, nd int) bool {
	for k := range nd {
		if req[k] > room[k] && req[k] > 0 {
			return false
		}
	}
	return true
}

// holds says whether some offer of the mask is large enough.
func (s *solver) holds(m *mask, req *vec) bool {
	if !m.known {
		m.known = true
		seen := make([]bool, len(s.sizes))
		for i := range s.offers {
			if o := &s.offers[i]; m.has(i) && !seen[o.size] {
				seen[o.size] = true
				m.tops = addTop(m.tops, &o.avail, s.nd)
			}
		}
	}
	for i := range m.tops {
		if fitsIn(req, &m.tops[i], s.nd) {
			return true
		}
	}
	return false
}

func (s *solver) and(a, b *mask) *mask {
	if a == b {
		return a
	}
	bits := make([]uint64, len(a.bits))
	for i := range bits {
		bits[i] = a.bits[i] & b.bits[i]
	}
	return s.internMask(bits)
}

// compileOffers lists what can be bought and which classes each offer admits.
func (s *solver) compileOffers() {
	pools := slices.Clone(s.in.Pools)
	slices.SortStableFunc(pools, func(a, b Pool) int {
		return cmp.Or(a.before(&b), strings.Compare(a.Name, b.Name), strings.Compare(a.Group, b.Group))
	})
	s.in = &Problem{ResourceNames: s.in.ResourceNames, Demand: s.in.Demand, Rooms: s.in.Rooms, Pools: pools,
		Daemons: s.in.Daemons, Namespaces: s.in.Namespaces}
	s.sizeIDs, s.stockIDs = map[vec]int{}, map[string]int{}
	for i := range pools {
		if i == 0 || pools[i-1].before(&pools[i]) != 0 {
			s.levels = append(s.levels, level{lo: len(s.offers)})
		}
		if usable(&pools[i]) {
			s.poolOffers(i)
		}
		for _, t := range pools[i].Taints {
			s.discouraged = s.discouraged || t.Effect == model.PreferNoSchedule
		}
		s.levels[len(s.levels)-1].hi = len(s.offers)
		s.left = append(s.left, newPoolLeft(&pools[i]))
	}
	s.order = make([]int, len(s.offers))
	for _, l := range s.levels {
		for i := l.lo; i < l.hi; i++ {
			s.order[i] = i
		}
		slices.SortStableFunc(s.order[l.lo:l.hi], func(x, y int) int { return cmp.Compare(s.offers[x].price, s.offers[y].price) })
	}
	words := (len(s.offers) + 63) / 64
	for _, f := range s.filters {
		bits := make([]uint64, words)
		tolerated := make([]bool, len(pools))
		for i := range pools {
			tolerated[i] = model.Untolerated(pools[i].Taints, f.tolerations) == nil
		}
		for i := range s.offers {
			o := &s.offers[i]
			if !o.ok || !tolerated[o.pool] {
				continue
			}
			if f.passes(&s.keys, o.vals, nil, "") {
				bits[i>>6] |= 1 << (i & 63)
			}
		}
		f.mask = &mask{bits: bits}
	}
	for _, c := range s.classes { // interned in class order: the map above has none
		c.filter.mask = s.internMask(c.filter.mask.bits)
		c.mask = c.filter.mask
	}
}

// usable says whether anything may be bought from the pool at all.
func usable(p *Pool) bool { return p.Ready && !p.Deleting && p.Replicas < 0 }

// poolOffers adds the offers of one pool.
func (s *solver) poolOffers(pi int) {
	p := &s.in.Pools[pi]
	types := slices.Clone(p.Types)
	slices.SortFunc(types, func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	known := providerKeys(types)
	variants := s.variants(p, known)
	most := 0
	for _, t := range types {
		most += len(t.Offerings) * len(variants)
	}
	s.offers = slices.Grow(s.offers, most)
	for _, t := range types {
		order := make([]int, len(t.Offerings))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return compareOfferings(&t.Offerings[a], &t.Offerings[b]) })
		for _, oi := range order {
			o := &t.Offerings[oi]
			if mismatch(p.Requirements, t, o, known) != nil || p.Group != "" && o.Labels[model.LabelNodeGroup] != p.Group {
				continue
			}
			for _, variant := range variants {
				x := offer{pool: pi, t: t, o: o, price: o.PriceMicro, ok: o.Available && o.Remaining != 0, variant: variant, stock: s.stockOf(t, o)}
				x.vals = s.offerVals(p, t, o, variant)
				x.avail = s.project(t.Allocatable)
				for _, d := range s.daemons {
					if model.Untolerated(p.Taints, d.filter.tolerations) == nil && d.filter.passes(&s.keys, x.vals, nil, "") {
						for k := range s.nd {
							x.avail[k] -= d.req[k]
						}
						x.ports = append(x.ports, d.in.Class.HostPorts...)
					}
				}
				id, seen := s.sizeIDs[x.avail]
				if !seen {
					id = len(s.sizes)
					s.sizeIDs[x.avail] = id
					s.sizes = append(s.sizes, x.avail)
				}
				x.size = id
				s.offers = append(s.offers, x)
			}
		}
	}
}

// stockOf numbers offerings of which the cloud has only so many. The same one offered to two pools is one stock, and so are all offerings
// of a node group.
func (s *solver) stockOf(t *model.InstanceType, o *model.Offering) int {
	if o.Remaining < 0 {
		return -1
	}
	key := t.Name + "\x00" + o.Zone + "\x00" + o.CapacityType + "\x00" + labelsKey(o.Labels)
	if g := o.Labels[model.LabelNodeGroup]; g != "" {
		if o.Remaining >= int64(len(s.in.Demand)) {
			return -1 // one for each pod is as many as wanted
		}
		key = "group\x00" + g // whatever its machines are, it has so many of them
	}
	id, ok := s.stockIDs[key]
	if !ok {
		id = len(s.stock)
		s.stockIDs[key] = id
		s.stock = append(s.stock, o.Remaining)
	}
	s.stock[id] = min(s.stock[id], o.Remaining)
	return id
}

func compareOfferings(a, b *model.Offering) int {
	return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType),
		cmp.Compare(a.PriceMicro, b.PriceMicro), strings.Compare(labelsKey(a.Labels), labelsKey(b.Labels)))
}

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

// providerKeys are the labels that a provider gives: where a type lacks one, its nodes will not have it. Any other label of a pool's
// requirements is the pool's own and is put on the node as the requirements say.
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

// providerLabel is what type and offering say about a label.
func providerLabel(key string, t *model.InstanceType, o *model.Offering) (string, bool) {
	switch key {
	case model.LabelZone:
		return o.Zone, o.Zone != ""
	case model.LabelCapacityType:
		return o.CapacityType, o.CapacityType != ""
	}
	if v, ok := o.Labels[key]; ok {
		return v, true
	}
	if v, ok := t.Labels[key]; ok {
		return v, true
	}
	if key == model.LabelInstanceType {
		return t.Name, true
	}
	return "", false
}

// mismatch returns the pool requirement that type and offering do not meet, nil if they meet all.
func mismatch(rs model.Requirements, t *model.InstanceType, o *model.Offering, known map[string]bool) *model.Requirement {
	for i := range rs {
		v, ok := providerLabel(rs[i].Key, t, o)
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

// offerVals are the values of the problem's label keys on a node of this offer.
func (s *solver) offerVals(p *Pool, t *model.InstanceType, o *model.Offering, variant []model.Requirement) []int32 {
	vals := make([]int32, len(s.keys.names))
	for k, key := range s.keys.names {
		if key == model.LabelHostname {
			vals[k] = s.keys.value(k, "\x00new") // a name that no term can mean, but a name
			continue
		}
		v, ok := providerLabel(key, t, o)
		if !ok {
			v, ok = poolLabel(p, key)
		}
		for i := range variant {
			if variant[i].Key == key {
				v, ok = variant[i].Values[0], true
			}
		}
		if ok {
			vals[k] = s.keys.value(k, v)
		}
	}
	return vals
}

// poolLabel is the one value that the pool gives to a label of its own.
func poolLabel(p *Pool, key string) (string, bool) {
	if key == model.LabelProvisioner && p.Provisioner != "" {
		return p.Provisioner, true
	}
	if key == model.LabelNodePool {
		return p.Name, true
	}
	if v, ok := p.Labels[key]; ok {
		return v, true
	}
	if r := p.Requirements.Get(key); r != nil && !r.Complement && len(r.Values) == 1 {
		return r.Values[0], true
	}
	return "", false
}

// maxVariants bounds the product of open labels a pool is multiplied by.
const maxVariants = 64

// variants lists the ways to fix the labels that the pool leaves open and that somebody looks at.
func (s *solver) variants(p *Pool, known map[string]bool) [][]model.Requirement {
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

// openValues are the values of an open label that can make a difference: those listed by the pool, or else those that some class
// asks for and one that nobody names.
func (s *solver) openValues(r *model.Requirement, key int) []string {
	if !r.Complement {
		return r.Values
	}
	set := map[string]bool{}
	add := func(v string) {
		if r.Matches(v, true) {
			set[v] = true
		}
	}
	if s.topological(r.Key) { // beside pods that stand on a node that bears it
		for i := range s.in.Rooms {
			if v, ok := s.in.Rooms[i].Labels[r.Key]; ok {
				add(v)
			}
		}
	}
	for _, f := range s.filters {
		for _, t := range f.terms {
			for _, q := range t.reqs {
				if q.key != key {
					continue
				}
				if !q.r.Complement {
					for _, v := range q.r.Values {
						add(v)
					}
				}
				if q.r.Min != math.MinInt64 {
					add(strconv.FormatInt(q.r.Min, 10))
				}
				if q.r.Max != math.MaxInt64 {
					add(strconv.FormatInt(q.r.Max, 10))
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

// topological says whether some pod that waits counts others by the key.
func (s *solver) topological(key string) bool {
	return slices.ContainsFunc(s.classes, func(c *class) bool {
		at := func(t model.PodTerm) bool { return t.TopologyKey == key }
		return slices.ContainsFunc(c.c.Affinity, at) || slices.ContainsFunc(c.c.AntiAffinity, at) ||
			slices.ContainsFunc(c.c.Spread, func(t model.SpreadConstraint) bool { return t.TopologyKey == key })
	})
}

// poolLeft is what is left of a pool's limits while bins are opened.
type poolLeft struct {
	limited bool
	has     []bool
	left    model.Resources
	nodes   int64 // negative: not limited
}

func newPoolLeft(p *Pool) poolLeft {
	l := poolLeft{has: p.HasLimit, left: p.Left.Clone(), nodes: p.NodesLeft}
	for len(l.left) < len(l.has) {
		l.left = append(l.left, 0)
	}
	l.limited = l.nodes >= 0
	for _, h := range l.has {
		l.limited = l.limited || h
	}
	return l
}

// copies is how many machines of this capacity the limits still allow.
func (l *poolLeft) copies(capacity model.Resources) int64 {
	n := unlimited
	if !l.limited {
		return n
	}
	if l.nodes >= 0 {
		n = l.nodes
	}
	for d, h := range l.has {
		if c := capacity.At(model.Dim(d)); h && c > 0 {
			n = min(n, max(0, l.left[d])/c)
		}
	}
	return n
}

// take charges n machines.
func (l *poolLeft) take(capacity model.Resources, n int64) {
	if !l.limited {
		return
	}
	if l.nodes >= 0 {
		l.nodes -= n
	}
	for d, h := range l.has {
		if h {
			l.left[d] -= capacity.At(model.Dim(d)) * n
		}
	}
}
