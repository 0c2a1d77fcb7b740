// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package topology

import (
	"encoding/binary"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// topologyCompiler is the state needed only while counters and rules are compiled.
type topologyCompiler struct {
	in      *problem.Input
	work    *problem.Work
	catalog *problem.Catalog
	inst    *problem.Instance
	usage   *problem.Usage
	topo    *Topology

	counterIDs      map[counterKey]int
	namespaces      map[string]bool // of pending pods
	owners          counterIndex    // counters of the owners of rules
	selected        counterIndex    // the others
	selectorKeys    []string        // label keys that selectors of counters look at, sorted
	isSelectorKey   map[string]bool
	equivalences    map[string]*labelEquivalence // by namespace and the values of selectorKeys
	buf             []byte                       // scratch
	existingDomains map[DomainKey][]int32        // those that existing nodes are in
	lastDomains     map[DomainKey][]int32        // what spreadDomains last returned
	seenBuf         []bool                       // scratch of it
	foundBuf        []int32
	offersByDomain  map[setDomainKey][]domainOffers
	scopes          map[string]*problem.Scope
	volumes         map[string]int       // see sharedVolumes
	hostSpreads     map[int][]hostSpread // by counter
	exemptions      map[int]int          // by counter of owners that exempt some values: that of all owners of such terms
	selectorIDs     map[string]int       // numbers of lists of selectors
	namespaceBuf    []string             // the namespace of the class at hand: thousands of classes of one follow each other
}

// hostSpread is a hard spread over hosts that some class of the demand has.
type hostSpread struct {
	ownerCounter int
	maxSkew      int64
}

// DomainKey is a topology key on the nodes of a scope.
type DomainKey struct {
	Scope *problem.Scope
	Key   int
}

// setDomainKey is a DomainKey for the offers of a set.
type setDomainKey struct {
	m *problem.OfferSet
	k DomainKey
}

// domainOffers is the offers in one domain.
type domainOffers struct {
	value  int32
	offers *problem.OfferSet
}

// counterKey determines what a counter counts.
type counterKey struct {
	key                     int
	countsOwners, forSpread bool
	scope                   *problem.Scope
	selectors               int // of topologyCompiler.selectorIDs
}

// counterIndex are the counters by a label value that their selector requires.
type counterIndex struct {
	byLabel map[[2]string][]int
	general []int // whose selectors ask for no value
}

// labelEquivalence is what classes of one namespace have in common whose labels no selector tells apart: the counters
// that select them, and the rules that owners of these counters have against them. It is shared and must not be
// changed.
type labelEquivalence struct {
	moved       []int // counters that select a pod and count it, ascending; those of terms and volumes of its own left out
	hostRules   []problem.Rule
	domainRules []problem.Rule
	topology    problem.TopologyRules // how a pod is counted by those in moved
	hasRules    bool                  // hostRules and domainRules are made
}

// counterFor returns the number of a counter, and creates it if necessary.
func (t *topologyCompiler) counterFor(key string, owner, spread bool, sels ...model.Selector) int {
	return t.counterInScope(nil, key, owner, spread, sels...)
}

// counterInScope is counterFor for pods on the nodes of a scope.
func (t *topologyCompiler) counterInScope(on *problem.Scope, key string, owner, spread bool, sels ...model.Selector) int {
	k := problem.HostKey
	if key != model.LabelHostname {
		k = t.in.Keys.Ids[key]
	}
	text := counterKey{key: k, countsOwners: owner, forSpread: spread, scope: on, selectors: t.selectorID(sels)}
	if id, ok := t.counterIDs[text]; ok {
		return id
	}
	id := len(t.topo.Counters)
	t.counterIDs[text] = id
	t.topo.Counters = append(t.topo.Counters, counter{key: k, countsOwners: owner, ForSpread: spread, selectors: slices.Clone(sels), scope: on})
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
			b = problem.AppendBools(b, []bool{r.Complement, r.AllowAbsent})
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

// concernsPending reports whether a selector includes a namespace of pending pods. Rules for other namespaces cannot
// exclude any of them, and a namespace may have thousands on nodes.
func (t *topologyCompiler) concernsPending(x *model.Selector) bool {
	if slices.ContainsFunc(x.Namespaces, func(n string) bool { return t.namespaces[n] }) {
		return true
	}
	if x.NamespaceL == nil {
		return false
	}
	for n := range t.namespaces {
		if x.NamespaceL.Matches(t.in.Given.Namespaces[n]) {
			return true
		}
	}
	return false
}

// volumeCounter is the counter of the pods that use a volume, by zone.
func (t *topologyCompiler) volumeCounter(v *model.Volume) int {
	return t.counterFor(model.LabelZone, false, false, model.Selector{Namespaces: []string{"disk", v.Claim}})
}
