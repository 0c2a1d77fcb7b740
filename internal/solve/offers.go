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
	pool         int
	instanceType *model.InstanceType
	offering     *model.Offering
	labels       []int32 // shared by all of one shape
	shape        int     // of solver.labelShapes: the same pool, vals, DaemonSets
	typeStart    int     // of the pool's offers of types of this name, which lie together
	allocatable  *vec    // allocatable less the DaemonSets that will stand on it
	size         int     // of solver.sizes: equal avail, equal size
	ports        []model.HostPort
	price        int64
	available    bool // can be had now
	quantity     int  // of solver.quantities: what several pools may draw on; -1 where the cloud sets no number
	dominated    bool // another of the pool does for everybody what this one does, for no more: no machine is packed as it
	variant      []model.Requirement
}

// level is the pools of one weight and rank.
type level struct {
	lo, hi int // offers
}

// offerSet is a set of offers, interned.
type offerSet struct {
	id           int
	bits         []uint64
	maximalSizes []vec // the largest machines in it, no one within another; made when first asked for
	sizesKnown   bool
}

func (set *offerSet) contains(i int) bool { return set.bits[i>>6]>>(i&63)&1 != 0 }

// internOfferSet returns the one offer set with these bits. The bits must not be changed afterwards.
func (s *solver) internOfferSet(bits []uint64) *offerSet {
	s.offerSetKey = appendWords(s.offerSetKey[:0], bits)
	if set := s.offerSetByBits[string(s.offerSetKey)]; set != nil {
		return set
	}
	set := &offerSet{id: len(s.offerSets), bits: bits}
	s.offerSets = append(s.offerSets, set)
	s.offerSetByBits[string(s.offerSetKey)] = set
	return set
}

// addMaximal keeps only vectors that are not within another.
func addMaximal(tops []vec, v *vec, nd int) []vec {
	for i := range tops {
		if isWithin(v, &tops[i], nd) {
			return tops
		}
	}
	kept := tops[:0]
	for i := range tops {
		if !isWithin(&tops[i], v, nd) {
			kept = append(kept, tops[i])
		}
	}
	return append(kept, *v)
}

func isWithin(a, b *vec, nd int) bool {
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

// someOfferHolds says whether some offer of the offer set is large enough.
func (s *solver) someOfferHolds(set *offerSet, req *vec) bool {
	if !set.sizesKnown {
		set.sizesKnown = true
		seen := make([]bool, len(s.sizes))
		set.forEach(level{hi: len(s.offers)}, func(i int) {
			if o := &s.offers[i]; !seen[o.size] {
				seen[o.size] = true
				set.maximalSizes = addMaximal(set.maximalSizes, o.allocatable, s.numDims)
			}
		})
	}
	for i := range set.maximalSizes {
		if fitsIn(req, &set.maximalSizes[i], s.numDims) {
			return true
		}
	}
	return false
}

func (s *solver) intersect(a, b *offerSet) *offerSet {
	if a == b {
		return a
	}
	out := s.intersections[[2]*offerSet{a, b}]
	if out == nil {
		bits := make([]uint64, len(a.bits))
		for i := range bits {
			bits[i] = a.bits[i] & b.bits[i]
		}
		out = s.internOfferSet(bits)
		s.intersections[[2]*offerSet{a, b}] = out
	}
	return out
}

// compileOffers lists what can be bought and which classes each offer admits.
func (s *solver) compileOffers() {
	pools := slices.Clone(s.input.Pools)
	slices.SortStableFunc(pools, func(a, b Pool) int {
		return cmp.Or(a.before(&b), strings.Compare(a.Name, b.Name), strings.Compare(a.Group, b.Group))
	})
	s.input = &Problem{ResourceNames: s.input.ResourceNames, Demand: s.input.Demand, Rooms: s.input.Rooms, Pools: pools,
		Daemons: s.input.Daemons, Namespaces: s.input.Namespaces}
	s.sizeIDs, s.quantityIDs = map[vec]int{}, map[string]int{}
	s.poolStart, s.poolShapeStart = make([]int, len(pools)+1), make([]int, len(pools)+1)
	filters := slices.SortedFunc(maps.Values(s.filters), func(a, b *nodeFilter) int { return cmp.Compare(a.id, b.id) })
	t := poolGrouping{s: s, poolByKey: map[string]int{}}
	s.equivalentPool, s.families = make([]int, len(pools)), make([]family, len(pools))
	reached := make([][]bool, len(pools)) // by filter
	type stall struct {
		*poolCatalog
		variants [][]model.Requirement
	}
	open := make([]*stall, len(pools))
	total := 0 // there may be millions
	for i := range pools {
		s.equivalentPool[i] = i
		s.limits = append(s.limits, newPoolLimits(&pools[i]))
		if !canBuyFrom(&pools[i]) {
			continue
		}
		a := t.catalogOf(&pools[i])
		s.equivalentPool[i] = t.equivalentPoolOf(i, a)
		s.families[s.equivalentPool[i]].addPool(i, s.limits[i])
		if s.equivalentPool[i] != i {
			continue
		}
		reached[i] = make([]bool, len(filters))
		for j, f := range filters {
			if reached[i][j] = f.mayReach(s, &pools[i], a.providerKeys); reached[i][j] && open[i] == nil {
				open[i] = &stall{a, s.labelVariants(&pools[i], a.providerKeys)}
				total += len(a.offerings) * len(open[i].variants)
			}
		}
	}
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
	words := (len(s.offers) + 63) / 64
	verdicts := make([]bool, len(s.labelShapes))
	for j, f := range filters {
		bits := make([]uint64, words)
		for i := range pools {
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
func (s *solver) sortOffers() {
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

// poolOffersCheapestFirst lists the offers of a pool, cheapest first.
func (s *solver) poolOffersCheapestFirst(pool int) []int {
	lo, hi := s.poolOfferRange(pool)
	return s.poolOffersByPrice[lo:hi]
}

// canBuyFrom says whether anything may be bought from the pool at all.
func canBuyFrom(p *Pool) bool { return p.Ready && !p.Deleting && p.Replicas < 0 }

// poolCatalog is what one list of types offers under the requirements that some pools have in common, in the order of offers: it is made once
// for all of them.
type poolCatalog struct {
	id             int
	types          []*model.InstanceType // as given
	group          string                // only offerings of this node group; empty: all
	requirementKey string                // of requirements
	providerKeys   map[string]bool
	shapes         [][]int32 // provider's values of the problem's keys, unsaid where it says nothing
	offerings      []catalogOffering
}

// catalogOffering is one offering of a type.
type catalogOffering struct {
	instanceType *model.InstanceType
	offering     *model.Offering
	shape        int
	allocatable  *vec // shared by all of a type
	size         int  // of solver.sizes
	quantity     int
	dominated    bool // another with the same labels has no less room and costs no more
}

// unsetValue stands for a label that neither type nor offering says anything about.
const unsetValue = int32(-2)

// poolGrouping finds pools that are one to every pod that waits.
type poolGrouping struct {
	s         *solver
	catalogs  []*poolCatalog
	poolByKey map[string]int // the first pool of each kind
}

// catalogOf returns what a pool can buy.
func (t *poolGrouping) catalogOf(p *Pool) *poolCatalog {
	same := func(types []*model.InstanceType) bool { return slices.Equal(types, p.Types) }
	known := t.s.knownOf(p.Types)
	var b strings.Builder
	for i := range p.Requirements {
		r := &p.Requirements[i]
		if known[r.Key] || r.Empty() {
			b.WriteString(model.Requirements{*r}.Key())
		}
	}
	for _, a := range t.catalogs {
		if a.requirementKey == b.String() && a.group == p.Group && same(a.types) {
			return a
		}
	}
	a := &poolCatalog{id: len(t.catalogs), types: p.Types, group: p.Group, requirementKey: b.String(), providerKeys: known}
	t.catalogs = append(t.catalogs, a)
	t.s.listOfferings(a, p.Requirements)
	return a
}

// family is pools that no pod that waits can tell apart, by name. Their offers are those of the first; what is bought is booked to the first that
// has room within its limits.
type family struct {
	pools   []int
	limited bool // every one of them
	has     []bool
}

// addPool adds a pool, unless there is one without limits already: nothing is bought from those behind it.
func (f *family) addPool(pool int, l poolLimits) {
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

// buysFrom says whether anything is ever bought from the pool.
func (s *solver) buysFrom(pool int) bool {
	return slices.Contains(s.families[s.equivalentPool[pool]].pools, pool)
}

// equivalentPoolOf is the first pool that no pod that waits can tell from this one; limits may.
func (t *poolGrouping) equivalentPoolOf(i int, a *poolCatalog) int {
	s := t.s
	p := &s.input.Pools[i]
	if newPoolLimits(p).limited && len(s.minValuesOf(i)) > 0 {
		return i // what is left within its limits decides which types are left to choose from
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d %d %d", a.id, p.Weight, p.Rank, len(p.Taints))
	for _, x := range p.Taints {
		fmt.Fprintf(&b, " %q %q %q", x.Key, x.Value, x.Effect)
	}
	for _, r := range p.Requirements {
		_, looked := s.keys.ids[r.Key]
		if _, fixed := poolLabel(p, r.Key); r.MinValues > 0 || looked && !fixed && !a.providerKeys[r.Key] {
			b.WriteString(model.Requirements{r}.Key())
		}
	}
	for _, key := range s.keys.keys {
		v, ok := poolLabel(p, key)
		fmt.Fprintf(&b, " %q %t", v, ok)
	}
	if first, ok := t.poolByKey[b.String()]; ok {
		return first
	}
	t.poolByKey[b.String()] = i
	return i
}

// mayReach says whether a class with this filter might be on a machine of the pool, as far as the pool's taints and its own labels say.
func (f *nodeFilter) mayReach(s *solver, p *Pool, known map[string]bool) bool {
	if model.Untolerated(p.Taints, f.tolerations) != nil {
		return false
	}
	if len(f.terms) == 0 {
		return true
	}
	return slices.ContainsFunc(f.terms, func(t term) bool {
		return !slices.ContainsFunc(t.requirements, func(q requirement) bool {
			key := s.keys.keys[q.key]
			if known[key] {
				return false
			}
			v, ok := poolLabel(p, key)
			return ok && !q.spec.Matches(v, true)
		})
	})
}

// listOfferings lists what the types offer under the requirements.
func (s *solver) listOfferings(a *poolCatalog, rs model.Requirements) {
	types, offerings := slices.Clone(a.types), 0
	slices.SortFunc(types, func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range types {
		offerings += len(t.Offerings)
	}
	a.offerings = make([]catalogOffering, 0, offerings)
	byVals := map[string]int{}
	vals := make([]int32, len(s.keys.keys))
	var order []int
	var text []byte
	for _, t := range types {
		order = order[:0]
		for i := range t.Offerings {
			order = append(order, i)
		}
		slices.SortFunc(order, func(a, b int) int { return compareOfferings(&t.Offerings[a], &t.Offerings[b]) })
		room := s.toVec(t.Allocatable)
		s.addExclusivityUnits(room[:])
		size := -1
		for _, oi := range order {
			o := &t.Offerings[oi]
			if unmetRequirement(rs, t, o, a.providerKeys) != nil || a.group != "" && o.Labels[model.LabelNodeGroup] != a.group {
				continue
			}
			text = text[:0]
			for k, key := range s.keys.keys {
				vals[k] = unsetValue
				if v, ok := providerLabel(key, t, o); ok {
					vals[k] = s.keys.internValue(k, v)
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
			a.offerings = append(a.offerings, catalogOffering{instanceType: t, offering: o, shape: shape, allocatable: &room, size: size, quantity: s.quantityOf(t, o)})
		}
	}
	a.markDominated(s.numDims)
}

// markDominated finds the items that are idle: of those alike the first is not.
func (a *poolCatalog) markDominated(nd int) {
	order := make([]int, len(a.offerings))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		x, y := &a.offerings[i], &a.offerings[j]
		return cmp.Or(cmp.Compare(x.offering.PriceMicro, y.offering.PriceMicro), cmp.Compare(y.allocatable[0], x.allocatable[0]), cmp.Compare(i, j))
	})
	kept, most := make([][]*vec, len(a.shapes)), make([]vec, len(a.shapes))
	for _, i := range order {
		x := &a.offerings[i]
		if !x.offering.Available || x.offering.Remaining >= 0 {
			continue
		}
		top := &most[x.shape] // of those kept: what has more of anything is within none of them
		x.dominated = isWithin(x.allocatable, top, nd) && slices.ContainsFunc(kept[x.shape], func(v *vec) bool { return isWithin(x.allocatable, v, nd) })
		if !x.dominated {
			kept[x.shape] = append(kept[x.shape], x.allocatable)
			for k := range nd {
				top[k] = max(top[k], x.allocatable[k])
			}
		}
	}
}

// internSize numbers amounts of room.
func (s *solver) internSize(v *vec) int {
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

// addPoolOffers adds the offers of one pool: all that is assorted for it, with each way to fix the labels that it leaves open.
func (s *solver) addPoolOffers(pi int, a *poolCatalog, variants [][]model.Requirement) {
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

// labelShapeOf are the values of the problem's label keys on nodes of a pool, given those that the provider sets, and the DaemonSets there.
func (s *solver) labelShapeOf(p *Pool, given []int32, variant []model.Requirement) labelShape {
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

// quantityOf numbers offerings of which the cloud has only so many. The same one offered to two pools is one limited quantity, and so are all offerings
// of a node group.
func (s *solver) quantityOf(t *model.InstanceType, o *model.Offering) int {
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
		id = len(s.quantities)
		s.quantityIDs[key] = id
		s.quantities = append(s.quantities, o.Remaining)
	}
	s.quantities[id] = min(s.quantities[id], o.Remaining)
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

// unmetRequirement returns the pool requirement that type and offering do not meet, nil if they meet all.
func unmetRequirement(rs model.Requirements, t *model.InstanceType, o *model.Offering, known map[string]bool) *model.Requirement {
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

// labelVariants lists the ways to fix the labels that the pool leaves open and that somebody looks at.
func (s *solver) labelVariants(p *Pool, known map[string]bool) [][]model.Requirement {
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

// isTopologyKey says whether some pod that waits counts others by the key.
func (s *solver) isTopologyKey(key string) bool {
	return slices.ContainsFunc(s.classes, func(c *class) bool {
		at := func(t model.PodTerm) bool { return t.TopologyKey == key }
		return slices.ContainsFunc(c.spec.Affinity, at) || slices.ContainsFunc(c.spec.AntiAffinity, at) ||
			slices.ContainsFunc(c.spec.Spread, func(t model.SpreadConstraint) bool { return t.TopologyKey == key })
	})
}

// poolLimits is what is left of a pool's limits while bins are opened.
type poolLimits struct {
	limited bool
	has     []bool
	amounts model.Resources
	nodes   int64 // negative: not limited
}

func newPoolLimits(p *Pool) poolLimits {
	l := poolLimits{has: p.HasLimit, amounts: p.Left.Clone(), nodes: p.NodesLeft}
	for len(l.amounts) < len(l.has) {
		l.amounts = append(l.amounts, 0)
	}
	l.limited = l.nodes >= 0
	for _, h := range l.has {
		l.limited = l.limited || h
	}
	return l
}

// copiesAllowed is how many machines of this capacity the limits still allow.
func (l *poolLimits) copiesAllowed(capacity model.Resources) int64 {
	n := unlimited
	if !l.limited {
		return n
	}
	if l.nodes >= 0 {
		n = l.nodes
	}
	for d, h := range l.has {
		if c := capacity.At(model.Dim(d)); h && c > 0 {
			n = min(n, max(0, l.amounts[d])/c)
		}
	}
	return n
}

// charge charges n machines.
func (l *poolLimits) charge(capacity model.Resources, n int64) {
	if !l.limited {
		return
	}
	if l.nodes >= 0 {
		l.nodes -= n
	}
	for d, h := range l.has {
		if h {
			l.amounts[d] -= capacity.At(model.Dim(d)) * n
		}
	}
}
