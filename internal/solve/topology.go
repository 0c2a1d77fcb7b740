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

// hostKey stands for kubernetes.io/hostname, whose domains are the hosts themselves: nodes by number, then bins as they are opened.
const hostKey = -1

// counter counts pods by domain of one topology key: those that a selector chooses, or those that own an anti-affinity term.
type counter struct {
	key              int
	countsOwners     bool
	forSpread        bool             // pods being deleted do not count
	selectors        []model.Selector // all must match
	scope            *scope           // for a spread: only pods on these nodes count; nil: on all
	counts           []int32          // by value of the key, or by host
	initialCounts    []int32          // n as the problem states it
	total            int64            // in any domain
	initialTotal     int64
	expected         int64 // to be on machines not packed yet
	uncertain        int64 // on claims in flight whose domain is not certain
	initialUncertain int64
	version          int // of n
}

// scope is the nodes that a spread looks at: those that node affinity lets its pods on, whose taints they tolerate, and that have the
// keys of all of its class's hard spreads.
type scope struct {
	affinity *nodeFilter // nil: whatever node affinity says
	taints   *nodeFilter // nil: whatever the taints
	keys     []int
}

// includes says whether a node of these labels, name and taints is in the scope.
func (x *scope) includes(t *labelTable, vals []int32, open model.Requirements, name string, taints []model.Taint) bool {
	for _, k := range x.keys {
		if vals[k] == 0 {
			return false
		}
	}
	return (x.affinity == nil || x.affinity.passesAffinity(t, vals, open, name)) &&
		(x.taints == nil || model.Untolerated(taints, x.taints.tolerations) == nil)
}

type ruleKind int8

const (
	ruleSpread             ruleKind = iota // own spread constraint
	ruleAffinity                           // own required affinity
	ruleAnti                               // own required anti-affinity
	ruleAntiOfOthers                       // anti-affinity that others have against it
	rulePreference                         // own preferred affinity or anti-affinity: refuses nothing
	ruleSharedVolume                       // a volume, still to be made, that other pods use too: all go where the first goes
	ruleHostSpreadOfOthers                 // a spread over hosts of others that counts it: where they are, it may not crowd
)

// rule is one thing a class asks of the domain it goes to.
type rule struct {
	kind            ruleKind
	counter         int
	ownerCounter    int // for ruleGuest: the counter of pods that own the spread
	key             int
	topologyKey     string // the topology key
	selectsOwnPods  bool   // pods of the class count themselves
	hard            bool
	scope           *scope
	maxSkew         int64
	weight          int64 // of a preference; negative: to be away
	minDomains      int
	domains         []int32 // that count for the least of a spread
	standingDomains []int32 // those of them that a node is in already
	filledByOthers  []int32 // those of them that only others fill
	ownPods         []int32 // by domain: pods of the class placed, for a hard spread
	closedDomains   []int32 // domains in which the class would be crowded by others, whatever comes first
	cachedLeast     cachedMinimum
}

// cachedMinimum is the last answer of least, for so many changes of the counter and so many domains.
type cachedMinimum struct {
	version, numDomains int
	least               int64
}

// topologyRules is what a class asks of topology, and which counters its pods move.
type topologyRules struct {
	domainRules, hostRules       []rule // by key: larger than a host, and the host itself
	domainCounters, hostCounters []int
	scopes                       []*scope // of bumpWide: where a pod stands decides whether it counts
	counterScope                 []int    // by position in bumpWide: in scopes, -1: it counts anywhere
	keys                         []int    // of wide and bumpWide: a pod's domain in these must be known to place it
	hostAffinity                 bool     // required affinity to pods on the same host
	affinity                     bool     // required affinity over any key
}

// topologyCompiler holds what is needed only while rules are made.
type topologyCompiler struct {
	s               *solver
	counterIDs      map[counterKey]int
	byLabel         map[[2]string][]int          // counters by a label value that their selector wants
	general         []int                        // counters without such a label
	selectorKeys    []string                     // label keys that selectors of counters look at, sorted
	equivalences    map[string]*labelEquivalence // by namespace and those labels
	buf             []byte                       // scratch
	standingDomains map[domainKey][]int32
	lastDomains     map[domainKey][]int32 // what domainsOf last found
	seenBuf         []bool                // scratch of it
	foundBuf        []int32
	offersByDomain  map[setDomainKey][]domainOffers
	scopes          map[string]*scope
	volumes         map[string]int       // counters of pods with one volume that is still to be made
	hostSpreads     map[int][]hostSpread // by counter
	selectorIDs     map[string]int       // numbers of selectors
	namespaceBuf    []string             // the namespace of the class at hand: thousands follow each other that have the same
	ruleSlab        slab[rule]
	intSlab         slab[int]
}

// slab is memory from which many short lists are taken.
type slab[T any] []T

// appendTo appends to a list that is taken from here. Where it must be made anew it gets room for so many more.
func (a *slab[T]) appendTo(list []T, spare int, more ...T) []T {
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
	ownerCounter int
	maxSkew      int64
}

type domainKey struct {
	scope *scope
	key   int
}

// setDomainKey are the domains of offers, and domainOffers the offers in one.
type setDomainKey struct {
	m *offerSet
	k domainKey
}

type domainOffers struct {
	value  int32
	offers *offerSet
}

// counterKey says what a counter counts.
type counterKey struct {
	key                     int
	countsOwners, forSpread bool
	scope                   *scope
	selectors               int // of topologyCompiler.selectorIDs
}

// compileTopology makes counters and rules, and counts the pods that stand.
func (s *solver) compileTopology() {
	t := &topologyCompiler{s: s, counterIDs: map[counterKey]int{}, byLabel: map[[2]string][]int{}, standingDomains: map[domainKey][]int32{}, offersByDomain: map[setDomainKey][]domainOffers{},
		scopes: map[string]*scope{}, volumes: s.sharedVolumes(), hostSpreads: map[int][]hostSpread{}, equivalences: map[string]*labelEquivalence{}, selectorIDs: map[string]int{}, lastDomains: map[domainKey][]int32{}}
	for _, c := range s.classes {
		t.compileRules(c)
	}
	for _, c := range s.antiAffinityOnNodes() {
		for i := range c.AntiAffinity {
			t.counterFor(c.AntiAffinity[i].TopologyKey, true, false, c.AntiAffinity[i].Selector)
		}
	}
	if len(s.counters) == 0 {
		return
	}
	for i := range s.counters {
		t.indexCounter(i)
	}
	slices.Sort(t.selectorKeys)
	t.selectorKeys = slices.Compact(t.selectorKeys)
	for _, c := range s.classes {
		t.addRulesOfOthers(c)
	}
	t.countPodsOnNodes()
	s.compileNodeCaps()
	s.compileColocatedGroups()
}

// counterFor returns the number of the counter, made when new.
func (t *topologyCompiler) counterFor(key string, owner, spread bool, sels ...model.Selector) int {
	return t.counterInScope(nil, key, owner, spread, sels...)
}

// counterInScope is counterFor for pods on the nodes of a scope.
func (t *topologyCompiler) counterInScope(on *scope, key string, owner, spread bool, sels ...model.Selector) int {
	k := hostKey
	if key != model.LabelHostname {
		k = t.s.keys.ids[key]
	}
	text := counterKey{key: k, countsOwners: owner, forSpread: spread, scope: on, selectors: t.selectorID(sels)}
	if id, ok := t.counterIDs[text]; ok {
		return id
	}
	size := t.s.hostCount
	if k != hostKey {
		size = len(t.s.keys.valueNames[k])
	}
	id := len(t.s.counters)
	t.counterIDs[text] = id
	t.s.counters = append(t.s.counters, counter{key: k, countsOwners: owner, forSpread: spread, selectors: slices.Clone(sels), scope: on,
		counts: make([]int32, size)})
	return id
}

// selectorID numbers lists of selectors.
func (t *topologyCompiler) selectorID(sels []model.Selector) int {
	b := t.buf[:0]
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
	t.buf = b
	id, ok := t.selectorIDs[string(b)]
	if !ok {
		id = len(t.selectorIDs)
		t.selectorIDs[string(b)] = id
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

// selectorMatches says whether the selector chooses pods of the class.
func (s *solver) selectorMatches(x *model.Selector, c *model.Class) bool {
	if x.Pods == nil {
		return false
	}
	_, ok := slices.BinarySearch(x.Namespaces, c.Namespace)
	if !ok && (x.NamespaceL == nil || !x.NamespaceL.Matches(s.input.Namespaces[c.Namespace])) {
		return false
	}
	return x.Pods.Matches(c.Labels)
}

func (s *solver) allSelectorsMatch(xs []model.Selector, c *model.Class) bool {
	for i := range xs {
		if !s.selectorMatches(&xs[i], c) {
			return false
		}
	}
	return true
}

// compileRules makes the counters of a class's own constraints and the rules that read them.
func (t *topologyCompiler) compileRules(c *class) {
	add := func(r rule) {
		r.key = t.s.counters[r.counter].key
		if r.key == hostKey {
			c.topology.hostRules = t.ruleSlab.appendTo(c.topology.hostRules, 1, r) // and what others have against it, mostly
			return
		}
		c.topology.domainRules = t.ruleSlab.appendTo(c.topology.domainRules, 0, r)
	}
	if len(t.namespaceBuf) == 0 || t.namespaceBuf[0] != c.spec.Namespace {
		t.namespaceBuf = []string{c.spec.Namespace}
	}
	for i := range c.spec.Spread {
		x := &c.spec.Spread[i]
		if !x.Hard && x.TopologyKey == model.LabelHostname {
			continue // only a preference, and one that the scheduler itself sees to when it scores
		}
		sel := model.Selector{Namespaces: t.namespaceBuf, Pods: x.Selector}
		on := t.spreadScope(c, x)
		r := rule{kind: ruleSpread, counter: t.counterInScope(on, x.TopologyKey, false, true, sel), topologyKey: x.TopologyKey, hard: x.Hard, scope: on,
			maxSkew: int64(x.MaxSkew), minDomains: int(x.MinDomains), selectsOwnPods: t.s.selectorMatches(&sel, c.spec)}
		if x.TopologyKey == model.LabelHostname {
			t.countSpreadOwners(c, &r)
		} else {
			r.domains, r.standingDomains = t.spreadDomains(c, x, on)
		}
		add(r)
	}
	t.compilePreferenceRules(c, add)
	if len(c.spec.Affinity) > 0 {
		sels := make([]model.Selector, len(c.spec.Affinity))
		for i := range sels {
			sels[i] = c.spec.Affinity[i].Selector
		}
		self := t.s.allSelectorsMatch(sels, c.spec)
		c.topology.affinity = true
		for i := range c.spec.Affinity {
			key := c.spec.Affinity[i].TopologyKey
			c.topology.hostAffinity = c.topology.hostAffinity || key == model.LabelHostname
			add(rule{kind: ruleAffinity, counter: t.counterFor(key, false, false, sels...), topologyKey: key, selectsOwnPods: self, hard: true})
		}
	}
	for i := range c.spec.AntiAffinity {
		x := &c.spec.AntiAffinity[i]
		add(rule{kind: ruleAnti, counter: t.counterFor(x.TopologyKey, false, false, x.Selector), topologyKey: x.TopologyKey, hard: true,
			selectsOwnPods: t.s.selectorMatches(&x.Selector, c.spec)})
		t.counterFor(x.TopologyKey, true, false, x.Selector)
	}
	for i := range c.spec.Volumes {
		if v := &c.spec.Volumes[i]; t.volumes[v.Claim] > 1 {
			add(rule{kind: ruleSharedVolume, counter: t.volumeCounter(v), topologyKey: model.LabelZone, hard: true})
		}
	}
}

// sharedVolumes are the volumes still to be made, by claim, with how many pods will use each: two stands for many.
func (s *solver) sharedVolumes() map[string]int {
	out := map[string]int{}
	count := func(c *model.Class, n int) {
		for i := range c.Volumes {
			if v := &c.Volumes[i]; v.Unmade && !v.Exclusive {
				out[v.Claim] += n
			}
		}
	}
	for _, c := range s.classes {
		count(c.spec, len(c.pods))
	}
	if len(out) > 0 {
		for i := range s.input.Rooms {
			for _, p := range s.input.Rooms[i].Pods {
				count(p.Class, 1)
			}
		}
	}
	return out
}

// volumeCounter is the counter of the pods that use a volume, by zone.
func (t *topologyCompiler) volumeCounter(v *model.Volume) int {
	return t.counterFor(model.LabelZone, false, false, model.Selector{Namespaces: []string{"disk", v.Claim}})
}

// countSpreadOwners counts the owners of a spread over hosts, so that others may be kept from crowding them: kube-scheduler would let those
// come, and then not let the owners.
func (t *topologyCompiler) countSpreadOwners(c *class, r *rule) {
	known := t.hostSpreads[r.counter]
	i := slices.IndexFunc(known, func(h hostSpread) bool { return h.maxSkew == r.maxSkew })
	if i < 0 {
		nobody := model.Selector{Namespaces: []string{fmt.Sprint(r.counter), fmt.Sprint(r.maxSkew)}}
		i, known = len(known), append(known, hostSpread{ownerCounter: t.counterFor(model.LabelHostname, true, true, nobody), maxSkew: r.maxSkew})
		t.hostSpreads[r.counter] = known
	}
	c.topology.hostCounters = t.intSlab.appendTo(c.topology.hostCounters, 1, known[i].ownerCounter)
}

// spreadScope are the nodes that a spread looks at, nil when it looks at all.
func (t *topologyCompiler) spreadScope(c *class, x *model.SpreadConstraint) *scope {
	out := scope{}
	if !x.IgnoreAffinity && len(c.spec.Terms) > 0 {
		out.affinity = c.filter
	}
	if x.HonorTaints {
		out.taints = c.filter
	}
	for i := range c.spec.Spread {
		if o := &c.spec.Spread[i]; o.Hard && x.Hard && o.TopologyKey != model.LabelHostname && o.TopologyKey != x.TopologyKey {
			out.keys = append(out.keys, t.s.keys.ids[o.TopologyKey])
		}
	}
	if out.affinity == nil && out.taints == nil && len(out.keys) == 0 {
		return nil
	}
	slices.Sort(out.keys)
	k := out.identity()
	if t.scopes[k] == nil {
		kept := out
		t.scopes[k] = &kept
	}
	return t.scopes[k]
}

func (x *scope) identity() string {
	id := func(f *nodeFilter) int {
		if f == nil {
			return -1
		}
		return f.id
	}
	return fmt.Sprint(" on ", id(x.affinity), id(x.taints), x.keys)
}

// spreadDomains lists the domains whose least count a spread is measured from: those of nodes that stand, and those in which the class could
// have a machine bought. Where only others have one bought, widen finds out: until then there is nothing there to count.
func (t *topologyCompiler) spreadDomains(c *class, x *model.SpreadConstraint, on *scope) (all, standing []int32) {
	s := t.s
	key := s.keys.ids[x.TopologyKey]
	t.seenBuf = append(t.seenBuf[:0], make([]bool, len(s.keys.valueNames[key]))...)
	seen := t.seenBuf
	list := func() []int32 {
		t.foundBuf = t.foundBuf[:0]
		for v, ok := range seen {
			if ok {
				t.foundBuf = append(t.foundBuf, int32(v))
			}
		}
		return t.foundBuf
	}
	id := domainKey{on, key}
	standing, known := t.standingDomains[id]
	if known {
		for _, v := range standing {
			seen[v] = true
		}
	} else {
		present := make([]bool, len(s.nodes.labels))
		for i, r := range s.nodes.list {
			present[s.nodes.shapeOf[i]] = present[s.nodes.shapeOf[i]] || !r.Drained
		}
		for shape, vals := range s.nodes.labels {
			r := s.nodes.list[s.nodes.exampleOf[shape]]
			if v := vals[key]; v > 0 && present[shape] && (on == nil || on.includes(&s.keys, vals, r.Open, r.Name, r.Taints)) {
				seen[v] = true
			}
		}
		standing = slices.Clone(list())
		t.standingDomains[id] = standing
	}
	for _, x := range t.purchasableDomains(c.offers, id) {
		if !seen[x.value] && s.someOfferHolds(x.offers, &c.req) {
			seen[x.value] = true
		}
	}
	if all = t.lastDomains[id]; all == nil || !slices.Equal(all, list()) {
		all = slices.Clone(list()) // it is shared, and must not be changed
		t.lastDomains[id] = all
	}
	return all, standing
}

// purchasableDomains splits those offers of an offer set that are in a scope by their values of a key.
func (t *topologyCompiler) purchasableDomains(set *offerSet, k domainKey) []domainOffers {
	s := t.s
	key := setDomainKey{set, k}
	if out, ok := t.offersByDomain[key]; ok {
		return out
	}
	bits := map[int32][]uint64{}
	var out []domainOffers
	for i := range s.offers {
		o := &s.offers[i]
		v := o.labels[k.key]
		if v <= 0 || !set.contains(i) || k.scope != nil && !s.offerInScope(k.scope, o) {
			continue
		}
		if bits[v] == nil {
			bits[v] = make([]uint64, len(set.bits))
			out = append(out, domainOffers{value: v})
		}
		bits[v][i>>6] |= 1 << (i & 63)
	}
	for i := range out {
		out[i].offers = s.internOfferSet(bits[out[i].value])
	}
	t.offersByDomain[key] = out
	return out
}

// offerInScope says whether a machine of the offer would be in the scope.
func (s *solver) offerInScope(on *scope, o *offer) bool {
	return on.includes(&s.keys, o.labels, nil, "", s.input.Pools[o.pool].Taints)
}

// indexCounter files a counter under a label value its selector wants, so that a class need not be held against every counter.
func (t *topologyCompiler) indexCounter(id int) {
	for _, x := range t.s.counters[id].selectors {
		if x.Pods == nil {
			return // selects nothing, ever
		}
	}
	for _, x := range t.s.counters[id].selectors {
		for _, r := range *x.Pods {
			t.selectorKeys = append(t.selectorKeys, r.Key)
		}
	}
	for _, x := range t.s.counters[id].selectors {
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

// countersSelecting lists the counters whose selectors choose the class, ascending.
func (t *topologyCompiler) countersSelecting(c *model.Class) (out []int) {
	try := func(ids []int) {
		for _, id := range ids {
			if t.s.allSelectorsMatch(t.s.counters[id].selectors, c) {
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

// countersMovedBy adds to the counters that choose a pod those that it owns a term of, and its volumes.
func (t *topologyCompiler) countersMovedBy(c *model.Class, chosen []int) []int {
	if len(c.AntiAffinity) == 0 && len(c.Volumes) == 0 {
		return chosen
	}
	out := slices.Clone(chosen)
	for i := range c.AntiAffinity {
		x := &c.AntiAffinity[i]
		out = append(out, t.counterFor(x.TopologyKey, true, false, x.Selector))
	}
	for i := range c.Volumes {
		if v := &c.Volumes[i]; t.volumes[v.Claim] > 1 && v.Unmade {
			out = append(out, t.volumeCounter(v))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// labelEquivalence is what classes of one namespace have in common whose labels no selector tells apart: the counters that choose them and what those
// that have these counters have against them. It is found once and shared, and must not be changed.
type labelEquivalence struct {
	selecting   []int
	moved       []int // counters that a pod moves, volumes and terms of its own left out
	hostRules   []rule
	domainRules []rule
	topology    topologyRules // of bumpWide, bumpHost, scopes, scopeOf and keys, for moves
}

// labelEquivalenceOf finds the kin of a class.
func (t *topologyCompiler) labelEquivalenceOf(c *model.Class) *labelEquivalence {
	t.buf = append(append(t.buf[:0], c.Namespace...), 0)
	for _, key := range t.selectorKeys {
		if v, ok := c.Labels[key]; ok {
			t.buf = append(t.buf, '=')
			t.buf = append(t.buf, v...)
		}
		t.buf = append(t.buf, 0)
	}
	if k := t.equivalences[string(t.buf)]; k != nil {
		return k
	}
	k := &labelEquivalence{selecting: t.countersSelecting(c)}
	t.equivalences[string(t.buf)] = k
	for _, id := range k.selecting {
		x := &t.s.counters[id]
		for _, h := range t.hostSpreads[id] {
			k.hostRules = append(k.hostRules, rule{kind: ruleHostSpreadOfOthers, counter: id, ownerCounter: h.ownerCounter, key: hostKey, topologyKey: model.LabelHostname,
				hard: true, maxSkew: h.maxSkew})
		}
		if !x.countsOwners {
			k.moved = append(k.moved, id)
			continue
		}
		name := model.LabelHostname
		if x.key != hostKey {
			name = t.s.keys.keys[x.key]
		}
		r := rule{kind: ruleAntiOfOthers, counter: id, key: x.key, topologyKey: name, hard: true}
		if x.key == hostKey {
			k.hostRules = append(k.hostRules, r)
		} else {
			k.domainRules = append(k.domainRules, r)
		}
	}
	t.recordCounters(&k.topology, k.moved)
	return k
}

// addRulesOfOthers adds what others have against the class, and what its pods move.
func (t *topologyCompiler) addRulesOfOthers(c *class) {
	k := t.labelEquivalenceOf(c.spec)
	c.topology.domainRules = append(c.topology.domainRules, k.domainRules...) // a copy: what is known of a rule is noted there
	if len(c.topology.hostRules) == 0 {
		c.topology.hostRules = slices.Clip(k.hostRules)
	} else {
		c.topology.hostRules = t.ruleSlab.appendTo(c.topology.hostRules, 0, k.hostRules...)
	}
	if moves := t.countersMovedBy(c.spec, k.moved); len(moves) > len(k.moved) {
		t.recordCounters(&c.topology, moves)
	} else {
		x := &k.topology
		if len(c.topology.hostCounters) == 0 {
			c.topology.hostCounters = x.hostCounters
		} else {
			c.topology.hostCounters = t.intSlab.appendTo(c.topology.hostCounters, 0, x.hostCounters...)
		}
		c.topology.domainCounters, c.topology.scopes, c.topology.counterScope, c.topology.keys = x.domainCounters, x.scopes, x.counterScope, x.keys
	}
	if slices.ContainsFunc(c.topology.domainRules, func(r rule) bool { return !slices.Contains(c.topology.keys, r.key) }) {
		keys := slices.Clone(c.topology.keys)
		for i := range c.topology.domainRules {
			keys = append(keys, c.topology.domainRules[i].key)
		}
		slices.Sort(keys)
		c.topology.keys = slices.Compact(keys)
	}
}

// recordCounters notes what a pod that moves these counters does to hosts and domains.
func (t *topologyCompiler) recordCounters(x *topologyRules, moves []int) {
	for _, id := range moves {
		at := &t.s.counters[id]
		if at.key == hostKey {
			x.hostCounters = append(x.hostCounters, id)
			continue
		}
		n := -1
		if at.scope != nil {
			if n = slices.Index(x.scopes, at.scope); n < 0 {
				n = len(x.scopes)
				x.scopes = append(x.scopes, at.scope)
			}
		}
		x.domainCounters, x.counterScope, x.keys = append(x.domainCounters, id), append(x.counterScope, n), append(x.keys, at.key)
	}
	slices.Sort(x.keys)
	x.keys = slices.Compact(x.keys)
}

// countPodsOnNodes counts the pods on nodes.
func (t *topologyCompiler) countPodsOnNodes() {
	s := t.s
	memo := map[*model.Class][]int{}
	for node, x := range s.nodes.list {
		if x.Drained {
			continue
		}
		vals := s.nodes.labels[s.nodes.shapeOf[node]]
		for _, p := range x.Pods {
			ids, ok := memo[p.Class]
			if !ok {
				ids = t.countersMovedBy(p.Class, t.labelEquivalenceOf(p.Class).moved)
				memo[p.Class] = ids
			}
			for _, id := range ids {
				k := &s.counters[id]
				if k.forSpread && !p.Deleting.IsZero() {
					continue
				}
				if k.scope != nil && !k.scope.includes(&s.keys, vals, x.Open, x.Name, x.Taints) {
					continue
				}
				k.addPods(vals, node, 1)
			}
		}
	}
	for i := range s.counters {
		c := &s.counters[i]
		c.initialCounts, c.initialTotal, c.initialUncertain = slices.Clone(c.counts), c.total, c.uncertain
	}
}

// addPods counts n pods more in the domain that the host is in.
func (x *counter) addPods(vals []int32, host int, n int64) {
	x.version++
	d := host
	if x.key != hostKey {
		v := vals[x.key]
		if v == openValue {
			x.uncertain += n
			x.total += n
			return
		}
		if v == 0 {
			return
		}
		d = int(v)
	}
	for d >= len(x.counts) {
		x.counts = append(x.counts, 0)
	}
	x.counts[d] += int32(n)
	x.total += n
}

func (x *counter) countIn(d int) int64 {
	if d < len(x.counts) {
		return int64(x.counts[d])
	}
	return 0
}

// countInDomains counts n pods more of the class in the domains of vals. counted says which of its scopes the node is in.
func (s *solver) countInDomains(c *class, vals []int32, counted []bool, n int64) {
	for i, id := range c.topology.domainCounters {
		if at := c.topology.counterScope[i]; at < 0 || counted[at] {
			s.counters[id].addPods(vals, 0, n)
		}
	}
	for i := range c.topology.domainRules {
		r := &c.topology.domainRules[i]
		if d := vals[r.key]; (r.kind == ruleSpread || r.kind == ruleAffinity) && r.hard && d > 0 {
			for int(d) >= len(r.ownPods) {
				r.ownPods = append(r.ownPods, 0)
			}
			r.ownPods[d] += int32(n)
		}
	}
}

// nodeScopes says which scopes of the class a node is in.
func (s *solver) nodeScopes(c *class, node int) []bool {
	if len(c.topology.scopes) == 0 {
		return nil
	}
	x := s.nodes.list[node]
	out := make([]bool, len(c.topology.scopes))
	for i, on := range c.topology.scopes {
		out[i] = on.includes(&s.keys, s.nodes.labels[s.nodes.shapeOf[node]], x.Open, x.Name, x.Taints)
	}
	return out
}

func (s *solver) countOnHost(c *class, host int, n int64) {
	for _, id := range c.topology.hostCounters {
		s.counters[id].addPods(nil, host, n)
	}
}

// leastCount is the smallest count among the domains of a spread; zero while fewer of them than wanted have a node.
func (s *solver) leastCount(r *rule) int64 {
	x := &s.counters[r.counter]
	if r.cachedLeast.version != x.version+1 || r.cachedLeast.numDomains != len(r.domains) {
		r.cachedLeast = cachedMinimum{x.version + 1, len(r.domains), s.computeLeastCount(r)}
	}
	return r.cachedLeast.least
}

// computeLeastCount is least, counted.
func (s *solver) computeLeastCount(r *rule) int64 {
	x := &s.counters[r.counter]
	out, with := unlimited, 0
	for _, d := range r.domains {
		have := x.countIn(int(d))
		out = min(out, have)
		if r.minDomains > 1 && (have > 0 || slices.Contains(r.standingDomains, d)) {
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

// mayStartGroup says whether a pod may be the first of its affinity: nobody it wants to be near is anywhere, and it is near itself.
func (s *solver) mayStartGroup(c *class) bool {
	for _, rules := range [][]rule{c.topology.domainRules, c.topology.hostRules} {
		for i := range rules {
			if r := &rules[i]; r.kind == ruleAffinity && (!r.selectsOwnPods || s.counters[r.counter].total+s.counters[r.counter].expected > 0) {
				return false
			}
		}
	}
	return true
}

// podsRuleAllows is how many pods of the class one rule lets into a domain, given the count there.
func (s *solver) podsRuleAllows(c *class, r *rule, have, least int64, known bool) int64 {
	switch r.kind {
	case ruleSpread:
		switch room := r.maxSkew + least - have; {
		case !r.hard:
			return unlimited
		case !known:
			return 0
		case r.selectsOwnPods:
			return max(0, room)
		case room < 0:
			return 0
		}
	case ruleAffinity:
		if !known || have == 0 && !s.mayStartGroup(c) {
			return 0
		}
	case ruleAnti:
		if have > 0 {
			return 0
		}
		if r.selectsOwnPods && known {
			return 1
		}
	case ruleAntiOfOthers:
		if have > 0 {
			return 0
		}
	case ruleSharedVolume:
		if have < s.counters[r.counter].total {
			return 0
		}
	case ruleHostSpreadOfOthers:
		return max(0, r.maxSkew-have)
	}
	return unlimited
}

// podsDomainsAllow is how many pods of the class the rules over keys larger than a host let into the domains of vals, and the first rule
// that lets in none.
func (s *solver) podsDomainsAllow(c *class, vals []int32) (int64, *rule) {
	n := unlimited
	for i := range c.topology.domainRules {
		r := &c.topology.domainRules[i]
		x := &s.counters[r.counter]
		d, have, least := vals[r.key], int64(0), int64(0)
		switch {
		case d == openValue:
			if r.kind != ruleSharedVolume {
				have = x.total
			}
			if r.kind == ruleAnti && r.selectsOwnPods {
				n = min(n, 1)
			}
		case d > 0:
			have = x.countIn(int(d))
			if r.kind == ruleAnti || r.kind == ruleAntiOfOthers {
				have += x.uncertain
			}
		}
		if r.kind == ruleSpread {
			least = s.leastCount(r)
		}
		m := s.podsRuleAllows(c, r, have, least, d > 0)
		if m == 0 || slices.Contains(r.closedDomains, d) {
			return 0, r
		}
		n = min(n, m)
	}
	return n, nil
}

// podsHostAllows is the same for a host and the rules over hostname. The least count of a spread over hosts is taken as zero: a new
// host may always come, and comes empty.
func (s *solver) podsHostAllows(c *class, host int) int64 {
	n := unlimited
	for i := range c.topology.hostRules {
		r := &c.topology.hostRules[i]
		if r.kind == ruleHostSpreadOfOthers && s.counters[r.ownerCounter].countIn(host) == 0 {
			continue
		}
		if n = min(n, s.podsRuleAllows(c, r, s.counters[r.counter].countIn(host), 0, true)); n == 0 {
			return 0
		}
	}
	return n
}
