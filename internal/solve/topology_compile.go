// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// topologyCompiler holds what is needed only while counters and rules are made.
type topologyCompiler struct {
	*topology
	counterIDs      map[counterKey]int
	byLabel         map[[2]string][]int          // counters by a label value that their selector asks for
	general         []int                        // counters without such a label
	selectorKeys    []string                     // label keys that selectors of counters look at, sorted
	equivalences    map[string]*labelEquivalence // by namespace and the values of selectorKeys
	buf             []byte                       // scratch
	standingDomains map[domainKey][]int32        // those that existing nodes are in
	lastDomains     map[domainKey][]int32        // what spreadDomains last returned
	seenBuf         []bool                       // scratch of it
	foundBuf        []int32
	offersByDomain  map[setDomainKey][]domainOffers
	scopes          map[string]*scope
	volumes         map[string]int       // see sharedVolumes
	hostSpreads     map[int][]hostSpread // by counter
	selectorIDs     map[string]int       // numbers of lists of selectors
	namespaceBuf    []string             // the namespace of the class at hand: thousands of classes of one follow each other
	ruleSlab        slab[rule]
	intSlab         slab[int]
}

// slab is memory from which many short lists are taken.
type slab[T any] []T

// appendTo appends to a list that is taken from the slab. Where it must be made anew it gets room for so many spare
// entries.
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

// hostSpread is a hard spread over hosts that some class of the demand has.
type hostSpread struct {
	ownerCounter int
	maxSkew      int64
}

// domainKey is a topology key on the nodes of a scope.
type domainKey struct {
	scope *scope
	key   int
}

// setDomainKey is a domainKey for the offers of a set.
type setDomainKey struct {
	m *offerSet
	k domainKey
}

// domainOffers is the offers in one domain.
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

// compile makes counters and rules, and counts the pods on existing nodes.
func (s *topology) compile() {
	s.hostCount = len(s.nodes.list)
	s.offerAssignmentCache, s.assignmentIDs = map[offerAssignmentKey][]topologyAssignment{}, map[string]int{}
	t := &topologyCompiler{topology: s, counterIDs: map[counterKey]int{}, byLabel: map[[2]string][]int{}, standingDomains: map[domainKey][]int32{},
		offersByDomain: map[setDomainKey][]domainOffers{}, scopes: map[string]*scope{}, hostSpreads: map[int][]hostSpread{},
		equivalences: map[string]*labelEquivalence{}, selectorIDs: map[string]int{}, lastDomains: map[domainKey][]int32{}}
	t.volumes = t.sharedVolumes()
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
	t.compileNodeCaps()
	t.compileColocatedGroups()
}

// counterFor returns the number of a counter, made where there is none.
func (t *topologyCompiler) counterFor(key string, owner, spread bool, sels ...model.Selector) int {
	return t.counterInScope(nil, key, owner, spread, sels...)
}

// counterInScope is counterFor for pods on the nodes of a scope.
func (t *topologyCompiler) counterInScope(on *scope, key string, owner, spread bool, sels ...model.Selector) int {
	k := hostKey
	if key != model.LabelHostname {
		k = t.keys.ids[key]
	}
	text := counterKey{key: k, countsOwners: owner, forSpread: spread, scope: on, selectors: t.selectorID(sels)}
	if id, ok := t.counterIDs[text]; ok {
		return id
	}
	size := t.hostCount
	if k != hostKey {
		size = len(t.keys.valueNames[k])
	}
	id := len(t.counters)
	t.counterIDs[text] = id
	t.counters = append(t.counters, counter{key: k, countsOwners: owner, forSpread: spread, selectors: slices.Clone(sels), scope: on,
		counts: make([]int32, size)})
	return id
}

// selectorID returns the number of a list of selectors.
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

// compileRules makes the counters of a class's own constraints and the rules that read them.
func (t *topologyCompiler) compileRules(c *class) {
	add := func(r rule) {
		r.key = t.counters[r.counter].key
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
			maxSkew: int64(x.MaxSkew), minDomains: int(x.MinDomains), selectsOwnPods: t.selectorMatches(&sel, c.spec)}
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
		self := t.allSelectorsMatch(sels, c.spec)
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
			selectsOwnPods: t.selectorMatches(&x.Selector, c.spec)})
		t.counterFor(x.TopologyKey, true, false, x.Selector)
	}
	for i := range c.spec.Volumes {
		if v := &c.spec.Volumes[i]; t.volumes[v.Claim] > 1 {
			add(rule{kind: ruleSharedVolume, counter: t.volumeCounter(v), topologyKey: model.LabelZone, hard: true})
		}
	}
}

// compilePreferenceRules makes rules of the preferred pod affinity and anti-affinity terms over keys larger than a
// host.
func (t *topologyCompiler) compilePreferenceRules(c *class, add func(rule)) {
	one := func(w *model.WeightedPodTerm, sign int64) {
		if w.Term.TopologyKey != model.LabelHostname {
			add(rule{kind: rulePreference, counter: t.counterFor(w.Term.TopologyKey, false, false, w.Term.Selector), topologyKey: w.Term.TopologyKey,
				weight: sign * int64(w.Weight)})
		}
	}
	for i := range c.spec.PreferredAffinity {
		one(&c.spec.PreferredAffinity[i], 1)
	}
	for i := range c.spec.PreferredAntiAffinity {
		one(&c.spec.PreferredAntiAffinity[i], -1)
	}
}

// sharedVolumes returns the volumes still to be made, by claim, with how many pods will use each.
func (s *topologyCompiler) sharedVolumes() map[string]int {
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

// countSpreadOwners has the owners of a spread over hosts counted, so that others are kept from crowding them:
// kube-scheduler would let those come, and then not let the owners.
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

// spreadScope returns the nodes that a spread looks at, nil when it looks at all.
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
			out.keys = append(out.keys, t.keys.ids[o.TopologyKey])
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

// identity is a text that tells scopes apart.
func (x *scope) identity() string {
	id := func(f *nodeFilter) int {
		if f == nil {
			return -1
		}
		return f.id
	}
	return fmt.Sprint(" on ", id(x.affinity), id(x.taints), x.keys)
}

// spreadDomains lists the domains among which the least count of a spread is taken: those of existing nodes, and
// those in which the class could have a machine bought. Where only other classes have one bought, expectNewDomains
// finds out: until then there is nothing there to count.
func (t *topologyCompiler) spreadDomains(c *class, x *model.SpreadConstraint, on *scope) (all, standing []int32) {
	s := t.topology
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

// purchasableDomains splits those offers of a set that are in a scope by their values of a key.
func (t *topologyCompiler) purchasableDomains(set *offerSet, k domainKey) []domainOffers {
	s := t.topology
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
