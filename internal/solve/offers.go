// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
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
	vals    []int32 // shared by all of one shape
	shape   int     // of solver.shapes: the same pool, vals, DaemonSets
	first   int     // of the pool's offers of types of this name, which lie together
	avail   *vec    // allocatable less the DaemonSets that will stand on it
	size    int     // of solver.sizes: equal avail, equal size
	ports   []model.HostPort
	price   int64
	ok      bool // can be had now
	stock   int  // of solver.stock: what several pools may draw on; -1 where the cloud sets no number
	idle    bool // another of the pool does for everybody what this one does, for no more: no machine is packed as it
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
	s.maskText = appendWords(s.maskText[:0], bits)
	if m := s.byMask[string(s.maskText)]; m != nil {
		return m
	}
	m := &mask{id: len(s.masks), bits: bits}
	s.masks = append(s.masks, m)
	s.byMask[string(s.maskText)] = m
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
		m.each(level{hi: len(s.offers)}, func(i int) {
			if o := &s.offers[i]; !seen[o.size] {
				seen[o.size] = true
				m.tops = addTop(m.tops, o.avail, s.nd)
			}
		})
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
	out := s.ands[[2]*mask{a, b}]
	if out == nil {
		bits := make([]uint64, len(a.bits))
		for i := range bits {
			bits[i] = a.bits[i] & b.bits[i]
		}
		out = s.internMask(bits)
		s.ands[[2]*mask{a, b}] = out
	}
	return out
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
	s.poolAt, s.poolShapes = make([]int, len(pools)+1), make([]int, len(pools)+1)
	filters := slices.SortedFunc(maps.Values(s.filters), func(a, b *filter) int { return cmp.Compare(a.id, b.id) })
	t := twinning{s: s, byText: map[string]int{}}
	s.twin, s.families = make([]int, len(pools)), make([]family, len(pools))
	reached := make([][]bool, len(pools)) // by filter
	type stall struct {
		*assortment
		variants [][]model.Requirement
	}
	open := make([]*stall, len(pools))
	total := 0 // there may be millions
	for i := range pools {
		s.twin[i] = i
		s.left = append(s.left, newPoolLeft(&pools[i]))
		if !usable(&pools[i]) {
			continue
		}
		a := t.assortment(&pools[i])
		s.twin[i] = t.twin(i, a)
		s.families[s.twin[i]].join(i, s.left[i])
		if s.twin[i] != i {
			continue
		}
		reached[i] = make([]bool, len(filters))
		for j, f := range filters {
			if reached[i][j] = f.reaches(s, &pools[i], a.known); reached[i][j] && open[i] == nil {
				open[i] = &stall{a, s.variants(&pools[i], a.known)}
				total += len(a.items) * len(open[i].variants)
			}
		}
	}
	s.offers = make([]offer, 0, total)
	for i := range pools {
		if i == 0 || pools[i-1].before(&pools[i]) != 0 {
			s.levels = append(s.levels, level{lo: len(s.offers)})
		}
		if open[i] != nil {
			s.poolOffers(i, open[i].assortment, open[i].variants)
		}
		s.poolAt[i+1], s.poolShapes[i+1] = len(s.offers), len(s.shapes)
		for _, t := range pools[i].Taints {
			s.discouraged = s.discouraged || t.Effect == model.PreferNoSchedule
		}
		s.levels[len(s.levels)-1].hi = len(s.offers)
	}
	s.sortOffers()
	words := (len(s.offers) + 63) / 64
	verdicts := make([]bool, len(s.shapes))
	for j, f := range filters {
		bits := make([]uint64, words)
		for i := range pools {
			if reached[i] == nil || !reached[i][j] {
				continue
			}
			some := false
			for x := s.poolShapes[i]; x < s.poolShapes[i+1]; x++ {
				verdicts[x] = f.passes(&s.keys, s.shapes[x].vals, nil, "")
				some = some || verdicts[x]
			}
			for x := s.poolAt[i]; some && x < s.poolAt[i+1]; x++ {
				if o := &s.offers[x]; o.ok && verdicts[o.shape] {
					bits[x>>6] |= 1 << (x & 63)
				}
			}
		}
		f.mask = &mask{bits: bits}
	}
	interned := make([]bool, len(filters))
	for _, c := range s.classes { // in class order
		if f := c.filter; !interned[f.id] {
			f.mask, interned[f.id] = s.internMask(f.mask.bits), true
		}
		c.mask = c.filter.mask
	}
}

// sortOffers puts the offers of each level and of each pool in the order of their prices.
func (s *solver) sortOffers() {
	s.order, s.poolOrder = make([]int, len(s.offers)), make([]int, len(s.offers))
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
			s.order[l.lo+at] = x.i
		}
	}
	next := slices.Clone(s.poolAt)
	for _, i := range s.order { // what is in order as a whole is so in its parts
		at := &next[s.offers[i].pool]
		s.poolOrder[*at] = i
		*at++
	}
}

// byPrice lists the offers of a pool, cheapest first.
func (s *solver) byPrice(pool int) []int {
	lo, hi := s.poolRange(pool)
	return s.poolOrder[lo:hi]
}

// usable says whether anything may be bought from the pool at all.
func usable(p *Pool) bool { return p.Ready && !p.Deleting && p.Replicas < 0 }

// assortment is what one list of types offers under the requirements that some pools have in common, in the order of offers: it is made once
// for all of them.
type assortment struct {
	id     int
	types  []*model.InstanceType // as given
	group  string                // only offerings of this node group; empty: all
	text   string                // of requirements
	known  map[string]bool
	shapes [][]int32 // provider's values of the problem's keys, unsaid where it says nothing
	items  []assorted
}

// assorted is one offering of a type.
type assorted struct {
	t     *model.InstanceType
	o     *model.Offering
	shape int
	room  *vec // shared by all of a type
	size  int  // of solver.sizes
	stock int
	idle  bool // another with the same labels has no less room and costs no more
}

// unsaid stands for a label that neither type nor offering says anything about.
const unsaid = int32(-2)

// twinning finds pools that are one to every pod that waits.
type twinning struct {
	s      *solver
	made   []*assortment
	byText map[string]int // the first pool of each kind
}

// assortment returns what a pool can buy.
func (t *twinning) assortment(p *Pool) *assortment {
	same := func(types []*model.InstanceType) bool { return slices.Equal(types, p.Types) }
	known := t.s.knownOf(p.Types)
	var b strings.Builder
	for i := range p.Requirements {
		r := &p.Requirements[i]
		if known[r.Key] || r.Empty() {
			b.WriteString(model.Requirements{*r}.Key())
		}
	}
	for _, a := range t.made {
		if a.text == b.String() && a.group == p.Group && same(a.types) {
			return a
		}
	}
	a := &assortment{id: len(t.made), types: p.Types, group: p.Group, text: b.String(), known: known}
	t.made = append(t.made, a)
	t.s.assort(a, p.Requirements)
	return a
}

// family is pools that no pod that waits can tell apart, by name. Their offers are those of the first; what is bought is booked to the first that
// has room within its limits.
type family struct {
	pools   []int
	limited bool // every one of them
	has     []bool
}

// join adds a pool, unless there is one without limits already: nothing is bought from those behind it.
func (f *family) join(pool int, l poolLeft) {
	if len(f.pools) > 0 && !f.limited {
		return
	}
	f.pools, f.limited = append(f.pools, pool), l.limited
	for d, h := range l.has {
		for d >= len(f.has) {
			f.has = append(f.has, false)
		}
		f.has[d] = f.has[d] || h
	}
}

// sells says whether anything is ever bought from the pool.
func (s *solver) sells(pool int) bool { return slices.Contains(s.families[s.twin[pool]].pools, pool) }

// twin is the first pool that no pod that waits can tell from this one; limits may.
func (t *twinning) twin(i int, a *assortment) int {
	s := t.s
	p := &s.in.Pools[i]
	if newPoolLeft(p).limited && len(s.minValuesOf(i)) > 0 {
		return i // what is left within its limits decides which types are left to choose from
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d %d %d", a.id, p.Weight, p.Rank, len(p.Taints))
	for _, x := range p.Taints {
		fmt.Fprintf(&b, " %q %q %q", x.Key, x.Value, x.Effect)
	}
	for _, r := range p.Requirements {
		_, looked := s.keys.ids[r.Key]
		if _, fixed := poolLabel(p, r.Key); r.MinValues > 0 || looked && !fixed && !a.known[r.Key] {
			b.WriteString(model.Requirements{r}.Key())
		}
	}
	for _, key := range s.keys.names {
		v, ok := poolLabel(p, key)
		fmt.Fprintf(&b, " %q %t", v, ok)
	}
	if first, ok := t.byText[b.String()]; ok {
		return first
	}
	t.byText[b.String()] = i
	return i
}

// reaches says whether a class with this filter might be on a machine of the pool, as far as the pool's taints and its own labels say.
func (f *filter) reaches(s *solver, p *Pool, known map[string]bool) bool {
	if model.Untolerated(p.Taints, f.tolerations) != nil {
		return false
	}
	if len(f.terms) == 0 {
		return true
	}
	return slices.ContainsFunc(f.terms, func(t term) bool {
		return !slices.ContainsFunc(t.reqs, func(q req) bool {
			key := s.keys.names[q.key]
			if known[key] {
				return false
			}
			v, ok := poolLabel(p, key)
			return ok && !q.r.Matches(v, true)
		})
	})
}

// assort lists what the types offer under the requirements.
func (s *solver) assort(a *assortment, rs model.Requirements) {
	types, offerings := slices.Clone(a.types), 0
	slices.SortFunc(types, func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range types {
		offerings += len(t.Offerings)
	}
	a.items = make([]assorted, 0, offerings)
	byVals := map[string]int{}
	vals := make([]int32, len(s.keys.names))
	var order []int
	var text []byte
	for _, t := range types {
		order = order[:0]
		for i := range t.Offerings {
			order = append(order, i)
		}
		slices.SortFunc(order, func(a, b int) int { return compareOfferings(&t.Offerings[a], &t.Offerings[b]) })
		room := s.project(t.Allocatable)
		s.addCliques(room[:])
		size := -1
		for _, oi := range order {
			o := &t.Offerings[oi]
			if mismatch(rs, t, o, a.known) != nil || a.group != "" && o.Labels[model.LabelNodeGroup] != a.group {
				continue
			}
			text = text[:0]
			for k, key := range s.keys.names {
				vals[k] = unsaid
				if v, ok := providerLabel(key, t, o); ok {
					vals[k] = s.keys.value(k, v)
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
				size = s.sizeOf(&room)
			}
			a.items = append(a.items, assorted{t: t, o: o, shape: shape, room: &room, size: size, stock: s.stockOf(t, o)})
		}
	}
	a.beaten(s.nd)
}

// beaten finds the items that are idle: of those alike the first is not.
func (a *assortment) beaten(nd int) {
	order := make([]int, len(a.items))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		x, y := &a.items[i], &a.items[j]
		return cmp.Or(cmp.Compare(x.o.PriceMicro, y.o.PriceMicro), cmp.Compare(y.room[0], x.room[0]), cmp.Compare(i, j))
	})
	kept, most := make([][]*vec, len(a.shapes)), make([]vec, len(a.shapes))
	for _, i := range order {
		x := &a.items[i]
		if !x.o.Available || x.o.Remaining >= 0 {
			continue
		}
		top := &most[x.shape] // of those kept: what has more of anything is within none of them
		x.idle = leq(x.room, top, nd) && slices.ContainsFunc(kept[x.shape], func(v *vec) bool { return leq(x.room, v, nd) })
		if !x.idle {
			kept[x.shape] = append(kept[x.shape], x.room)
			for k := range nd {
				top[k] = max(top[k], x.room[k])
			}
		}
	}
}

// sizeOf numbers amounts of room.
func (s *solver) sizeOf(v *vec) int {
	id, seen := s.sizeIDs[*v]
	if !seen {
		id = len(s.sizes)
		s.sizeIDs[*v] = id
		s.sizes = append(s.sizes, v)
	}
	return id
}

// shape is what offers of one pool with the same labels have in common.
type shape struct {
	vals    []int32
	daemons vec // what DaemonSets take
	any     bool
	ports   []model.HostPort
}

// poolOffers adds the offers of one pool: all that is assorted for it, with each way to fix the labels that it leaves open.
func (s *solver) poolOffers(pi int, a *assortment, variants [][]model.Requirement) {
	p := &s.in.Pools[pi]
	plain := !newPoolLeft(p).limited && len(s.minValuesOf(pi)) == 0 // nothing else of a type matters than its room, price and labels
	first := len(s.shapes)
	for _, given := range a.shapes {
		for _, variant := range variants {
			s.shapes = append(s.shapes, s.shapeOf(p, given, variant))
		}
	}
	for i := range a.items {
		it := &a.items[i]
		for j, variant := range variants {
			at := first + it.shape*len(variants) + j
			y := &s.shapes[at]
			x := offer{pool: pi, t: it.t, o: it.o, price: it.o.PriceMicro, ok: it.o.Available && it.o.Remaining != 0, variant: variant, stock: it.stock,
				vals: y.vals, shape: at, ports: y.ports, size: it.size, idle: it.idle && plain}
			if y.any {
				v := *it.room
				for k := range s.nd {
					v[k] -= y.daemons[k]
				}
				x.size = s.sizeOf(&v)
			}
			x.avail = s.sizes[x.size]
			if x.first = len(s.offers); x.first > s.poolAt[pi] && s.offers[x.first-1].t.Name == x.t.Name {
				x.first = s.offers[x.first-1].first
			}
			s.offers = append(s.offers, x)
		}
	}
}

// shapeOf are the values of the problem's label keys on nodes of a pool, given those that the provider sets, and the DaemonSets there.
func (s *solver) shapeOf(p *Pool, given []int32, variant []model.Requirement) shape {
	x := shape{vals: slices.Clone(given)}
	for k, key := range s.keys.names {
		if key == model.LabelHostname {
			x.vals[k] = s.keys.value(k, "\x00new") // a name that no term can mean, but a name
			continue
		}
		if given[k] == unsaid {
			x.vals[k] = 0
			if v, ok := poolLabel(p, key); ok {
				x.vals[k] = s.keys.value(k, v)
			}
		}
		for i := range variant {
			if variant[i].Key == key {
				x.vals[k] = s.keys.value(k, variant[i].Values[0])
			}
		}
	}
	for _, d := range s.daemons {
		if model.Untolerated(p.Taints, d.filter.tolerations) == nil && d.filter.passes(&s.keys, x.vals, nil, "") {
			x.any = true
			for k := range s.nd {
				x.daemons[k] += d.req[k]
			}
			x.ports = append(x.ports, d.in.Class.HostPorts...)
		}
	}
	return x
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
	if c := cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.PriceMicro, b.PriceMicro)); c != 0 {
		return c // texts of labels are dear
	}
	return strings.Compare(labelsKey(a.Labels), labelsKey(b.Labels))
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
