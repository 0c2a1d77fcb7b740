// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// hostKey stands for kubernetes.io/hostname, whose domains are the hosts themselves: rooms by number, then bins as they are opened.
const hostKey = -1

// counter counts pods by domain of one topology key: those that a selector chooses, or those that own an anti-affinity term.
type counter struct {
	key      int
	owner    bool
	spread   bool             // pods being deleted do not count
	sels     []model.Selector // all must match
	on       *scope           // for a spread: only pods on these nodes count; nil: on all
	n        []int32          // by value of the key, or by host
	start    []int32          // n as the problem states it
	total    int64            // in any domain
	total0   int64
	promised int64 // to be on machines not packed yet
	floating int64 // on claims in flight whose domain is not certain
	float0   int64
	changes  int // of n
}

// scope is the nodes that a spread looks at: those that node affinity lets its pods on, whose taints they tolerate, and that have the
// keys of all of its class's hard spreads.
type scope struct {
	affine   *filter // nil: whatever node affinity says
	tolerant *filter // nil: whatever the taints
	keys     []int
}

// has says whether a node of these labels, name and taints is in the scope.
func (x *scope) has(t *keyTable, vals []int32, open model.Requirements, name string, taints []model.Taint) bool {
	for _, k := range x.keys {
		if vals[k] == 0 {
			return false
		}
	}
	return (x.affine == nil || x.affine.affine(t, vals, open, name)) &&
		(x.tolerant == nil || model.Untolerated(taints, x.tolerant.tolerations) == nil)
}

type ruleKind int8

const (
	ruleSpread   ruleKind = iota // own spread constraint
	ruleAffinity                 // own required affinity
	ruleAnti                     // own required anti-affinity
	ruleOthers                   // anti-affinity that others have against it
	ruleWish                     // own preferred affinity or anti-affinity: refuses nothing
	ruleDisk                     // a disk, still to be made, that other pods use too: all go where the first goes
	ruleGuest                    // a spread over hosts of others that counts it: where they are, it may not crowd
)

// rule is one thing a class asks of the domain it goes to.
type rule struct {
	kind       ruleKind
	counter    int
	owners     int // for ruleGuest: the counter of pods that own the spread
	key        int
	name       string // the topology key
	self       bool   // pods of the class count themselves
	hard       bool
	on         *scope
	maxSkew    int64
	weight     int64 // of a wish; negative: to be away
	minDomains int
	domains    []int32 // that count for the least of a spread
	standing   []int32 // those of them that a room is in already
	filled     []int32 // those of them that only others fill
	own        []int32 // by domain: pods of the class placed, for a hard spread
	shut       []int32 // domains in which the class would be crowded by others, whatever comes first
	known      leastKnown
}

// leastKnown is the last answer of least, for so many changes of the counter and so many domains.
type leastKnown struct {
	changes, domains int
	least            int64
}

// topo is what a class asks of topology, and which counters its pods move.
type topo struct {
	wide, host         []rule // by key: larger than a host, and the host itself
	bumpWide, bumpHost []int
	scopes             []*scope // of bumpWide: where a pod stands decides whether it counts
	scopeOf            []int    // by position in bumpWide: in scopes, -1: it counts anywhere
	keys               []int    // of wide and bumpWide: a pod's domain in these must be known to place it
	nearHost           bool     // required affinity to pods on the same host
	near               bool     // required affinity over any key
}

// topoCompiler holds what is needed only while rules are made.
type topoCompiler struct {
	s       *solver
	ids     map[counterKey]int
	byLabel map[[2]string][]int // counters by a label value that their selector wants
	general []int               // counters without such a label
	looked  []string            // label keys that selectors of counters look at, sorted
	kin     map[string]*kin     // by namespace and those labels
	text    []byte              // scratch
	domains map[domainKey][]int32
	all     map[domainKey][]int32 // what domainsOf last found
	seen    []bool                // scratch of it
	found   []int32
	sold    map[maskDomains][]domainOffers
	scopes  map[string]*scope
	disks   map[string]int       // counters of pods with one disk that is still to be made
	hosted  map[int][]hostSpread // by counter
	sels    map[string]int       // numbers of selectors
	space   []string             // the namespace of the class at hand: thousands follow each other that have the same
	lists   slab[rule]
	ints    slab[int]
}

// slab is memory from which many short lists are taken.
type slab[T any] []T

// join appends to a list that is taken from here. Where it must be made anew it gets room for so many more.
func (a *slab[T]) join(list []T, spare int, more ...T) []T {
	if n := len(list) + len(more) + spare; n-spare > cap(list) {
		if len(*a) < n {
			*a = make([]T, max(n, 256))
		}
		list = append((*a)[:0:n], list...)
		*a = (*a)[n:]
	}
	return append(list, more...)
}

// hostSpread is a hard spread over hosts that some demand has.
type hostSpread struct {
	owners  int
	maxSkew int64
}

type domainKey struct {
	on  *scope
	key int
}

// maskDomains are the domains of offers, and domainOffers the offers in one.
type maskDomains struct {
	m *mask
	k domainKey
}

type domainOffers struct {
	value  int32
	offers *mask
}

// counterKey says what a counter counts.
type counterKey struct {
	key           int
	owner, spread bool
	on            *scope
	sels          int // of topoCompiler.sels
}

// compileTopology makes counters and rules, and counts the pods that stand.
func (s *solver) compileTopology() {
	t := &topoCompiler{s: s, ids: map[counterKey]int{}, byLabel: map[[2]string][]int{}, domains: map[domainKey][]int32{}, sold: map[maskDomains][]domainOffers{},
		scopes: map[string]*scope{}, disks: s.sharedDisks(), hosted: map[int][]hostSpread{}, kin: map[string]*kin{}, sels: map[string]int{}, all: map[domainKey][]int32{}}
	for _, c := range s.classes {
		t.rules(c)
	}
	for _, c := range s.standingAnti() {
		for i := range c.AntiAffinity {
			t.counter(c.AntiAffinity[i].TopologyKey, true, false, c.AntiAffinity[i].Selector)
		}
	}
	if len(s.counters) == 0 {
		return
	}
	for i := range s.counters {
		t.index(i)
	}
	slices.Sort(t.looked)
	t.looked = slices.Compact(t.looked)
	for _, c := range s.classes {
		t.relate(c)
	}
	t.countStanding()
	s.compileLoners()
	s.compileLumps()
}

// counter returns the number of the counter, made when new.
func (t *topoCompiler) counter(key string, owner, spread bool, sels ...model.Selector) int {
	return t.counterOn(nil, key, owner, spread, sels...)
}

// counterOn is counter for pods on the nodes of a scope.
func (t *topoCompiler) counterOn(on *scope, key string, owner, spread bool, sels ...model.Selector) int {
	k := hostKey
	if key != model.LabelHostname {
		k = t.s.keys.ids[key]
	}
	text := counterKey{key: k, owner: owner, spread: spread, on: on, sels: t.selector(sels)}
	if id, ok := t.ids[text]; ok {
		return id
	}
	size := t.s.slots
	if k != hostKey {
		size = len(t.s.keys.text[k])
	}
	id := len(t.s.counters)
	t.ids[text] = id
	t.s.counters = append(t.s.counters, counter{key: k, owner: owner, spread: spread, sels: slices.Clone(sels), on: on,
		n: make([]int32, size)})
	return id
}

// selector numbers lists of selectors.
func (t *topoCompiler) selector(sels []model.Selector) int {
	b := t.text[:0]
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	requirements := func(rs *model.Requirements) {
		if rs == nil {
			b = append(b, 0)
			return
		}
		b = binary.AppendUvarint(b, uint64(len(*rs))+1)
		for i := range *rs {
			r := &(*rs)[i]
			text(r.Key)
			b = appendBools(b, []bool{r.Complement, r.AllowAbsent})
			b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, uint64(r.Min)), uint64(r.Max))
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(r.MinValues)), uint64(len(r.Values)))
			for _, v := range r.Values {
				text(v)
			}
		}
	}
	for i := range sels {
		x := &sels[i]
		b = binary.AppendUvarint(b, uint64(len(x.Namespaces)))
		for _, n := range x.Namespaces {
			text(n)
		}
		requirements(x.NamespaceL)
		requirements(x.Pods)
	}
	t.text = b
	id, ok := t.sels[string(b)]
	if !ok {
		id = len(t.sels)
		t.sels[string(b)] = id
	}
	return id
}

func selectorKey(sels ...model.Selector) string {
	var out []byte
	for i := range sels {
		x := &sels[i]
		for _, n := range x.Namespaces {
			out = strconv.AppendQuote(out, n)
		}
		if x.NamespaceL != nil {
			out = append(append(append(out, '('), x.NamespaceL.Key()...), ')')
		}
		if x.Pods != nil {
			out = append(append(append(out, '{'), x.Pods.Key()...), '}')
		}
		out = append(out, ' ')
	}
	return string(out)
}

// selects says whether the selector chooses pods of the class.
func (s *solver) selects(x *model.Selector, c *model.Class) bool {
	if x.Pods == nil {
		return false
	}
	_, ok := slices.BinarySearch(x.Namespaces, c.Namespace)
	if !ok && (x.NamespaceL == nil || !x.NamespaceL.Matches(s.in.Namespaces[c.Namespace])) {
		return false
	}
	return x.Pods.Matches(c.Labels)
}

func (s *solver) selectsAll(xs []model.Selector, c *model.Class) bool {
	for i := range xs {
		if !s.selects(&xs[i], c) {
			return false
		}
	}
	return true
}

// rules makes the counters of a class's own constraints and the rules that read them.
func (t *topoCompiler) rules(c *class) {
	add := func(r rule) {
		r.key = t.s.counters[r.counter].key
		if r.key == hostKey {
			c.topo.host = t.lists.join(c.topo.host, 1, r) // and what others have against it, mostly
			return
		}
		c.topo.wide = t.lists.join(c.topo.wide, 0, r)
	}
	if len(t.space) == 0 || t.space[0] != c.c.Namespace {
		t.space = []string{c.c.Namespace}
	}
	for i := range c.c.Spread {
		x := &c.c.Spread[i]
		if !x.Hard && x.TopologyKey == model.LabelHostname {
			continue // only a wish, and one that the scheduler itself sees to when it scores
		}
		sel := model.Selector{Namespaces: t.space, Pods: x.Selector}
		on := t.scopeOf(c, x)
		r := rule{kind: ruleSpread, counter: t.counterOn(on, x.TopologyKey, false, true, sel), name: x.TopologyKey, hard: x.Hard, on: on,
			maxSkew: int64(x.MaxSkew), minDomains: int(x.MinDomains), self: t.s.selects(&sel, c.c)}
		if x.TopologyKey == model.LabelHostname {
			t.ownSpread(c, &r)
		} else {
			r.domains, r.standing = t.domainsOf(c, x, on)
		}
		add(r)
	}
	t.wishRules(c, add)
	if len(c.c.Affinity) > 0 {
		sels := make([]model.Selector, len(c.c.Affinity))
		for i := range sels {
			sels[i] = c.c.Affinity[i].Selector
		}
		self := t.s.selectsAll(sels, c.c)
		c.topo.near = true
		for i := range c.c.Affinity {
			key := c.c.Affinity[i].TopologyKey
			c.topo.nearHost = c.topo.nearHost || key == model.LabelHostname
			add(rule{kind: ruleAffinity, counter: t.counter(key, false, false, sels...), name: key, self: self, hard: true})
		}
	}
	for i := range c.c.AntiAffinity {
		x := &c.c.AntiAffinity[i]
		add(rule{kind: ruleAnti, counter: t.counter(x.TopologyKey, false, false, x.Selector), name: x.TopologyKey, hard: true,
			self: t.s.selects(&x.Selector, c.c)})
		t.counter(x.TopologyKey, true, false, x.Selector)
	}
	for i := range c.c.Volumes {
		if v := &c.c.Volumes[i]; t.disks[v.Claim] > 1 {
			add(rule{kind: ruleDisk, counter: t.disk(v), name: model.LabelZone, hard: true})
		}
	}
}

// sharedDisks are the disks still to be made, by claim, with how many pods will use each: two stands for many.
func (s *solver) sharedDisks() map[string]int {
	out := map[string]int{}
	count := func(c *model.Class, n int) {
		for i := range c.Volumes {
			if v := &c.Volumes[i]; v.Unmade && !v.Exclusive {
				out[v.Claim] += n
			}
		}
	}
	for _, c := range s.classes {
		count(c.c, len(c.pods))
	}
	if len(out) > 0 {
		for i := range s.in.Rooms {
			for _, p := range s.in.Rooms[i].Pods {
				count(p.Class, 1)
			}
		}
	}
	return out
}

// disk is the counter of the pods that use a disk, by zone.
func (t *topoCompiler) disk(v *model.Volume) int {
	return t.counter(model.LabelZone, false, false, model.Selector{Namespaces: []string{"disk", v.Claim}})
}

// ownSpread counts the owners of a spread over hosts, so that others may be kept from crowding them: kube-scheduler would let those
// come, and then not let the owners.
func (t *topoCompiler) ownSpread(c *class, r *rule) {
	known := t.hosted[r.counter]
	i := slices.IndexFunc(known, func(h hostSpread) bool { return h.maxSkew == r.maxSkew })
	if i < 0 {
		nobody := model.Selector{Namespaces: []string{fmt.Sprint(r.counter), fmt.Sprint(r.maxSkew)}}
		i, known = len(known), append(known, hostSpread{owners: t.counter(model.LabelHostname, true, true, nobody), maxSkew: r.maxSkew})
		t.hosted[r.counter] = known
	}
	c.topo.bumpHost = t.ints.join(c.topo.bumpHost, 1, known[i].owners)
}

// scopeOf are the nodes that a spread looks at, nil when it looks at all.
func (t *topoCompiler) scopeOf(c *class, x *model.SpreadConstraint) *scope {
	out := scope{}
	if !x.IgnoreAffinity && len(c.c.Terms) > 0 {
		out.affine = c.filter
	}
	if x.HonorTaints {
		out.tolerant = c.filter
	}
	for i := range c.c.Spread {
		if o := &c.c.Spread[i]; o.Hard && x.Hard && o.TopologyKey != model.LabelHostname && o.TopologyKey != x.TopologyKey {
			out.keys = append(out.keys, t.s.keys.ids[o.TopologyKey])
		}
	}
	if out.affine == nil && out.tolerant == nil && len(out.keys) == 0 {
		return nil
	}
	slices.Sort(out.keys)
	k := out.text()
	if t.scopes[k] == nil {
		kept := out
		t.scopes[k] = &kept
	}
	return t.scopes[k]
}

func (x *scope) text() string {
	id := func(f *filter) int {
		if f == nil {
			return -1
		}
		return f.id
	}
	return fmt.Sprint(" on ", id(x.affine), id(x.tolerant), x.keys)
}

// domainsOf lists the domains whose least count a spread is measured from: those of nodes that stand, and those in which the class could
// have a machine bought. Where only others have one bought, widen finds out: until then there is nothing there to count.
func (t *topoCompiler) domainsOf(c *class, x *model.SpreadConstraint, on *scope) (all, standing []int32) {
	s := t.s
	key := s.keys.ids[x.TopologyKey]
	t.seen = append(t.seen[:0], make([]bool, len(s.keys.text[key]))...)
	seen := t.seen
	list := func() []int32 {
		t.found = t.found[:0]
		for v, ok := range seen {
			if ok {
				t.found = append(t.found, int32(v))
			}
		}
		return t.found
	}
	id := domainKey{on, key}
	standing, known := t.domains[id]
	if known {
		for _, v := range standing {
			seen[v] = true
		}
	} else {
		present := make([]bool, len(s.rooms.vals))
		for i, r := range s.rooms.in {
			present[s.rooms.shape[i]] = present[s.rooms.shape[i]] || !r.Drained
		}
		for shape, vals := range s.rooms.vals {
			r := s.rooms.in[s.rooms.of[shape]]
			if v := vals[key]; v > 0 && present[shape] && (on == nil || on.has(&s.keys, vals, r.Open, r.Name, r.Taints)) {
				seen[v] = true
			}
		}
		standing = slices.Clone(list())
		t.domains[id] = standing
	}
	for _, x := range t.buyable(c.mask, id) {
		if !seen[x.value] && s.holds(x.offers, &c.req) {
			seen[x.value] = true
		}
	}
	if all = t.all[id]; all == nil || !slices.Equal(all, list()) {
		all = slices.Clone(list()) // it is shared, and must not be changed
		t.all[id] = all
	}
	return all, standing
}

// buyable splits those offers of a mask that are in a scope by their values of a key.
func (t *topoCompiler) buyable(m *mask, k domainKey) []domainOffers {
	s := t.s
	key := maskDomains{m, k}
	if out, ok := t.sold[key]; ok {
		return out
	}
	bits := map[int32][]uint64{}
	var out []domainOffers
	for i := range s.offers {
		o := &s.offers[i]
		v := o.vals[k.key]
		if v <= 0 || !m.has(i) || k.on != nil && !s.inScope(k.on, o) {
			continue
		}
		if bits[v] == nil {
			bits[v] = make([]uint64, len(m.bits))
			out = append(out, domainOffers{value: v})
		}
		bits[v][i>>6] |= 1 << (i & 63)
	}
	for i := range out {
		out[i].offers = s.internMask(bits[out[i].value])
	}
	t.sold[key] = out
	return out
}

// inScope says whether a machine of the offer would be in the scope.
func (s *solver) inScope(on *scope, o *offer) bool {
	return on.has(&s.keys, o.vals, nil, "", s.in.Pools[o.pool].Taints)
}

// index files a counter under a label value its selector wants, so that a class need not be held against every counter.
func (t *topoCompiler) index(id int) {
	for _, x := range t.s.counters[id].sels {
		if x.Pods == nil {
			return // selects nothing, ever
		}
	}
	for _, x := range t.s.counters[id].sels {
		for _, r := range *x.Pods {
			t.looked = append(t.looked, r.Key)
		}
	}
	for _, x := range t.s.counters[id].sels {
		for _, r := range *x.Pods {
			if !r.Complement && !r.AllowAbsent && len(r.Values) > 0 {
				for _, v := range r.Values {
					k := [2]string{r.Key, v}
					t.byLabel[k] = append(t.byLabel[k], id)
				}
				return
			}
		}
	}
	t.general = append(t.general, id)
}

// chosenBy lists the counters whose selectors choose the class, ascending.
func (t *topoCompiler) chosenBy(c *model.Class) (out []int) {
	try := func(ids []int) {
		for _, id := range ids {
			if t.s.selectsAll(t.s.counters[id].sels, c) {
				out = append(out, id)
			}
		}
	}
	try(t.general)
	for k, v := range c.Labels {
		if ids := t.byLabel[[2]string{k, v}]; len(ids) > 0 {
			try(ids)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// moves adds to the counters that choose a pod those that it owns a term of, and its disks.
func (t *topoCompiler) moves(c *model.Class, chosen []int) []int {
	if len(c.AntiAffinity) == 0 && len(c.Volumes) == 0 {
		return chosen
	}
	out := slices.Clone(chosen)
	for i := range c.AntiAffinity {
		x := &c.AntiAffinity[i]
		out = append(out, t.counter(x.TopologyKey, true, false, x.Selector))
	}
	for i := range c.Volumes {
		if v := &c.Volumes[i]; t.disks[v.Claim] > 1 && v.Unmade {
			out = append(out, t.disk(v))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// kin is what classes of one namespace have in common whose labels no selector tells apart: the counters that choose them and what those
// that have these counters have against them. It is found once and shared, and must not be changed.
type kin struct {
	chosen []int
	moves  []int // counters that a pod moves, disks and terms of its own left out
	host   []rule
	wide   []rule
	topo   topo // of bumpWide, bumpHost, scopes, scopeOf and keys, for moves
}

// kinOf finds the kin of a class.
func (t *topoCompiler) kinOf(c *model.Class) *kin {
	t.text = append(append(t.text[:0], c.Namespace...), 0)
	for _, key := range t.looked {
		if v, ok := c.Labels[key]; ok {
			t.text = append(t.text, '=')
			t.text = append(t.text, v...)
		}
		t.text = append(t.text, 0)
	}
	if k := t.kin[string(t.text)]; k != nil {
		return k
	}
	k := &kin{chosen: t.chosenBy(c)}
	t.kin[string(t.text)] = k
	for _, id := range k.chosen {
		x := &t.s.counters[id]
		for _, h := range t.hosted[id] {
			k.host = append(k.host, rule{kind: ruleGuest, counter: id, owners: h.owners, key: hostKey, name: model.LabelHostname,
				hard: true, maxSkew: h.maxSkew})
		}
		if !x.owner {
			k.moves = append(k.moves, id)
			continue
		}
		name := model.LabelHostname
		if x.key != hostKey {
			name = t.s.keys.names[x.key]
		}
		r := rule{kind: ruleOthers, counter: id, key: x.key, name: name, hard: true}
		if x.key == hostKey {
			k.host = append(k.host, r)
		} else {
			k.wide = append(k.wide, r)
		}
	}
	t.follow(&k.topo, k.moves)
	return k
}

// relate adds what others have against the class, and what its pods move.
func (t *topoCompiler) relate(c *class) {
	k := t.kinOf(c.c)
	c.topo.wide = append(c.topo.wide, k.wide...) // a copy: what is known of a rule is noted there
	if len(c.topo.host) == 0 {
		c.topo.host = slices.Clip(k.host)
	} else {
		c.topo.host = t.lists.join(c.topo.host, 0, k.host...)
	}
	if moves := t.moves(c.c, k.moves); len(moves) > len(k.moves) {
		t.follow(&c.topo, moves)
	} else {
		x := &k.topo
		if len(c.topo.bumpHost) == 0 {
			c.topo.bumpHost = x.bumpHost
		} else {
			c.topo.bumpHost = t.ints.join(c.topo.bumpHost, 0, x.bumpHost...)
		}
		c.topo.bumpWide, c.topo.scopes, c.topo.scopeOf, c.topo.keys = x.bumpWide, x.scopes, x.scopeOf, x.keys
	}
	if slices.ContainsFunc(c.topo.wide, func(r rule) bool { return !slices.Contains(c.topo.keys, r.key) }) {
		keys := slices.Clone(c.topo.keys)
		for i := range c.topo.wide {
			keys = append(keys, c.topo.wide[i].key)
		}
		slices.Sort(keys)
		c.topo.keys = slices.Compact(keys)
	}
}

// follow notes what a pod that moves these counters does to hosts and domains.
func (t *topoCompiler) follow(x *topo, moves []int) {
	for _, id := range moves {
		at := &t.s.counters[id]
		if at.key == hostKey {
			x.bumpHost = append(x.bumpHost, id)
			continue
		}
		n := -1
		if at.on != nil {
			if n = slices.Index(x.scopes, at.on); n < 0 {
				n = len(x.scopes)
				x.scopes = append(x.scopes, at.on)
			}
		}
		x.bumpWide, x.scopeOf, x.keys = append(x.bumpWide, id), append(x.scopeOf, n), append(x.keys, at.key)
	}
	slices.Sort(x.keys)
	x.keys = slices.Compact(x.keys)
}

// countStanding counts the pods on rooms.
func (t *topoCompiler) countStanding() {
	s := t.s
	memo := map[*model.Class][]int{}
	for room, x := range s.rooms.in {
		if x.Drained {
			continue
		}
		vals := s.rooms.vals[s.rooms.shape[room]]
		for _, p := range x.Pods {
			ids, ok := memo[p.Class]
			if !ok {
				ids = t.moves(p.Class, t.kinOf(p.Class).moves)
				memo[p.Class] = ids
			}
			for _, id := range ids {
				k := &s.counters[id]
				if k.spread && !p.Deleting.IsZero() {
					continue
				}
				if k.on != nil && !k.on.has(&s.keys, vals, x.Open, x.Name, x.Taints) {
					continue
				}
				k.bump(vals, room, 1)
			}
		}
	}
	for i := range s.counters {
		c := &s.counters[i]
		c.start, c.total0, c.float0 = slices.Clone(c.n), c.total, c.floating
	}
}

// bump counts n pods more in the domain that the host is in.
func (x *counter) bump(vals []int32, host int, n int64) {
	x.changes++
	d := host
	if x.key != hostKey {
		v := vals[x.key]
		if v == openValue {
			x.floating += n
			x.total += n
			return
		}
		if v == 0 {
			return
		}
		d = int(v)
	}
	for d >= len(x.n) {
		x.n = append(x.n, 0)
	}
	x.n[d] += int32(n)
	x.total += n
}

func (x *counter) at(d int) int64 {
	if d < len(x.n) {
		return int64(x.n[d])
	}
	return 0
}

// bumpWide counts n pods more of the class in the domains of vals. counted says which of its scopes the node is in.
func (s *solver) bumpWide(c *class, vals []int32, counted []bool, n int64) {
	for i, id := range c.topo.bumpWide {
		if at := c.topo.scopeOf[i]; at < 0 || counted[at] {
			s.counters[id].bump(vals, 0, n)
		}
	}
	for i := range c.topo.wide {
		r := &c.topo.wide[i]
		if d := vals[r.key]; (r.kind == ruleSpread || r.kind == ruleAffinity) && r.hard && d > 0 {
			for int(d) >= len(r.own) {
				r.own = append(r.own, 0)
			}
			r.own[d] += int32(n)
		}
	}
}

// roomScopes says which scopes of the class a room is in.
func (s *solver) roomScopes(c *class, room int) []bool {
	if len(c.topo.scopes) == 0 {
		return nil
	}
	x := s.rooms.in[room]
	out := make([]bool, len(c.topo.scopes))
	for i, on := range c.topo.scopes {
		out[i] = on.has(&s.keys, s.rooms.vals[s.rooms.shape[room]], x.Open, x.Name, x.Taints)
	}
	return out
}

func (s *solver) bumpHost(c *class, host int, n int64) {
	for _, id := range c.topo.bumpHost {
		s.counters[id].bump(nil, host, n)
	}
}

// least is the smallest count among the domains of a spread; zero while fewer of them than wanted have a node.
func (s *solver) least(r *rule) int64 {
	x := &s.counters[r.counter]
	if r.known.changes != x.changes+1 || r.known.domains != len(r.domains) {
		r.known = leastKnown{x.changes + 1, len(r.domains), s.count(r)}
	}
	return r.known.least
}

// count is least, counted.
func (s *solver) count(r *rule) int64 {
	x := &s.counters[r.counter]
	out, with := unlimited, 0
	for _, d := range r.domains {
		have := x.at(int(d))
		out = min(out, have)
		if r.minDomains > 1 && (have > 0 || slices.Contains(r.standing, d)) {
			with++
		}
	}
	if r.minDomains > 1 && with < r.minDomains {
		return 0
	}
	if out == unlimited {
		return 0
	}
	return out
}

// starts says whether a pod may be the first of its affinity: nobody it wants to be near is anywhere, and it is near itself.
func (s *solver) starts(c *class) bool {
	for _, rules := range [][]rule{c.topo.wide, c.topo.host} {
		for i := range rules {
			if r := &rules[i]; r.kind == ruleAffinity && (!r.self || s.counters[r.counter].total+s.counters[r.counter].promised > 0) {
				return false
			}
		}
	}
	return true
}

// allows is how many pods of the class one rule lets into a domain, given the count there.
func (s *solver) allows(c *class, r *rule, have, least int64, known bool) int64 {
	switch r.kind {
	case ruleSpread:
		switch room := r.maxSkew + least - have; {
		case !r.hard:
			return unlimited
		case !known:
			return 0
		case r.self:
			return max(0, room)
		case room < 0:
			return 0
		}
	case ruleAffinity:
		if !known || have == 0 && !s.starts(c) {
			return 0
		}
	case ruleAnti:
		if have > 0 {
			return 0
		}
		if r.self && known {
			return 1
		}
	case ruleOthers:
		if have > 0 {
			return 0
		}
	case ruleDisk:
		if have < s.counters[r.counter].total {
			return 0
		}
	case ruleGuest:
		return max(0, r.maxSkew-have)
	}
	return unlimited
}

// wideAllows is how many pods of the class the rules over keys larger than a host let into the domains of vals, and the first rule
// that lets in none.
func (s *solver) wideAllows(c *class, vals []int32) (int64, *rule) {
	n := unlimited
	for i := range c.topo.wide {
		r := &c.topo.wide[i]
		x := &s.counters[r.counter]
		d, have, least := vals[r.key], int64(0), int64(0)
		switch {
		case d == openValue:
			if r.kind != ruleDisk {
				have = x.total
			}
			if r.kind == ruleAnti && r.self {
				n = min(n, 1)
			}
		case d > 0:
			have = x.at(int(d))
			if r.kind == ruleAnti || r.kind == ruleOthers {
				have += x.floating
			}
		}
		if r.kind == ruleSpread {
			least = s.least(r)
		}
		m := s.allows(c, r, have, least, d > 0)
		if m == 0 || slices.Contains(r.shut, d) {
			return 0, r
		}
		n = min(n, m)
	}
	return n, nil
}

// hostAllows is the same for a host and the rules over hostname. The least count of a spread over hosts is taken as zero: a new
// host may always come, and comes empty.
func (s *solver) hostAllows(c *class, host int) int64 {
	n := unlimited
	for i := range c.topo.host {
		r := &c.topo.host[i]
		if r.kind == ruleGuest && s.counters[r.owners].at(host) == 0 {
			continue
		}
		if n = min(n, s.allows(c, r, s.counters[r.counter].at(host), 0, true)); n == 0 {
			return 0
		}
	}
	return n
}
