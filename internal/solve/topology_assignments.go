// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"slices"
	"strings"
)

// topologyAssignment is one combination of topology domains that a class could go to: the existing nodes there, and
// the offers there.
type topologyAssignment struct {
	name     string    // the domains' values; what assignments are sorted by
	id       int       // by name, see topology.assignmentIDs
	labels   []int32   // of a node there: the values of the class's topology keys are what counts
	inScope  []bool    // which of the class's scopes a node there is in
	nodes    []int32   // existing nodes that admit the class, in filling order
	nextNode int       // the first of nodes not found full
	offers   *offerSet // nil: nothing can be bought there
	level    int       // the first that has an offer for one pod
	price    int64     // of the cheapest offer for one pod in that level, micro-dollars an hour

	// As the next pod finds it.
	node                               int // of existing nodes the one that takes it; -1: none does
	spreadCount, unmetPreference, cost int64
	purchased                          int64 // for the class being placed, not in placement.purchased yet
}

// isBetterThan orders assignments for the next pod: existing nodes first, then where spreads count least, then fewer
// unmet preferences or, where a machine is bought, the higher level and the lower cost.
func (a *topologyAssignment) isBetterThan(b *topologyAssignment) bool {
	switch {
	case (a.node >= 0) != (b.node >= 0):
		return a.node >= 0
	case a.spreadCount != b.spreadCount:
		return a.spreadCount < b.spreadCount
	case a.node >= 0:
		return a.unmetPreference < b.unmetPreference
	case a.level != b.level:
		return a.level < b.level
	}
	return a.cost < b.cost // topology assignments are sorted by name: the first of equals stays
}

// assignmentCacheKey is what the assignments of a class follow from where there are no existing nodes and no
// preferences: the first of those that offers have, and what a pod asks for.
type assignmentCacheKey struct {
	first *topologyAssignment
	req   vec
}

// assignmentsOf lists the assignments that a class could go to, by name.
func (s *topology) assignmentsOf(c *class) []*topologyAssignment {
	var byName map[string]*topologyAssignment // those with nodes
	sold := s.offerAssignments(c)
	shared := len(s.nodes.list) == 0 && len(sold) > 0 && s.preferredOffersOf(c) == c.offers
	var key assignmentCacheKey
	if shared {
		if key = (assignmentCacheKey{&sold[0], c.req}); s.assignmentCache[key] != nil {
			return s.assignmentCache[key]
		}
	}
	out := make([]*topologyAssignment, 0, len(sold))
	var buf []byte
	find := func(vals []int32, in []bool) *topologyAssignment {
		buf = s.appendAssignmentName(buf[:0], c, vals, in)
		at := byName[string(buf)]
		if at == nil {
			at = &topologyAssignment{name: string(buf), labels: vals, inScope: in, level: len(s.levels)}
			at.id = s.assignmentID(at.name)
			if byName == nil {
				byName = map[string]*topologyAssignment{}
			}
			byName[at.name] = at
			out = append(out, at)
		}
		return at
	}
	slab := make([]topologyAssignment, 0, len(sold))
	for node := range s.nodes.list {
		x := s.nodes.list[node]
		if !x.Closed && !x.Drained && s.podsFittingNode(c, node) > 0 && s.nodeAdmits(c.filter, node) {
			at := find(s.nodes.labels[s.nodes.shapeOf[node]], s.nodeScopes(c, node))
			at.nodes = append(at.nodes, int32(node))
		}
	}
	for _, o := range sold {
		if !s.someOfferHolds(o.offers, &c.req) {
			continue
		}
		at := byName[o.name]
		if at == nil {
			slab = append(slab, topologyAssignment{name: o.name, id: o.id, labels: o.labels, inScope: o.inScope})
			at = &slab[len(slab)-1]
			out = append(out, at)
		}
		at.offers = o.offers
		at.level, at.price = s.cheapestLevel(o.offers, &c.req)
		if w := s.preferAmong(c, o.offers); w != o.offers {
			if s.someOfferHolds(w, &c.req) {
				at.level, at.price = s.cheapestLevel(w, &c.req)
			} else {
				at.price = s.addPreferenceCost(at.price, 100)
			}
		}
	}
	if len(byName) > 0 { // those sold are in order
		slices.SortFunc(out, func(a, b *topologyAssignment) int { return strings.Compare(a.name, b.name) })
	}
	if shared {
		if s.assignmentCache == nil {
			s.assignmentCache = map[assignmentCacheKey][]*topologyAssignment{}
		}
		s.assignmentCache[key] = out
	}
	return out
}

// assignmentID returns the number of an assignment's name, a new one where it has none.
func (s *topology) assignmentID(name string) int {
	id, ok := s.assignmentIDs[name]
	if !ok {
		id = len(s.assignmentIDs)
		s.assignmentIDs[name] = id
	}
	return id
}

// appendAssignmentName appends the values of a class's topology keys, and which of its scopes a node is in.
func (s *topology) appendAssignmentName(buf []byte, c *class, vals []int32, in []bool) []byte {
	for _, k := range c.topology.keys {
		if vals[k] == openValue {
			buf = append(buf, "?\x00"...)
			continue
		}
		buf = append(append(buf, s.keys.valueNames[k][vals[k]]...), 0)
	}
	return appendBools(buf, in)
}

// offerAssignmentKey is what offerAssignments follow from.
type offerAssignmentKey struct {
	offerSet int
	keys     string
}

// offerAssignments splits the offers that admit a class by the values of its topology keys and by the scopes they are
// in, in the order of names. Classes alike in these share the list.
func (s *topology) offerAssignments(c *class) []topologyAssignment {
	text := s.assignmentKey[:0]
	for _, k := range c.topology.keys {
		text = append(text, byte(k), byte(k>>8))
	}
	for _, on := range c.topology.scopes {
		text = append(text, on.identity()...)
	}
	s.assignmentKey = text
	if got, ok := s.offerAssignmentCache[offerAssignmentKey{c.offers.id, string(text)}]; ok {
		return got
	}
	byVals := map[string]int{}
	var out []topologyAssignment
	var bits [][]uint64
	var buf []byte
	for i := range s.offers {
		if !c.offers.contains(i) {
			continue
		}
		vals := s.offers[i].labels
		buf = buf[:0]
		for _, k := range c.topology.keys {
			buf = append(buf, byte(vals[k]), byte(vals[k]>>8), byte(vals[k]>>16), byte(vals[k]>>24))
		}
		var in []bool
		for _, on := range c.topology.scopes {
			in = append(in, s.offerInScope(on, &s.offers[i]))
		}
		buf = appendBools(buf, in)
		at, ok := byVals[string(buf)]
		if !ok {
			at = len(out)
			byVals[string(buf)] = at
			out = append(out, topologyAssignment{name: string(s.appendAssignmentName(nil, c, vals, in)), labels: vals, inScope: in})
			bits = append(bits, make([]uint64, len(c.offers.bits)))
		}
		bits[at][i>>6] |= 1 << (i & 63)
	}
	for i := range out {
		out[i].offers, out[i].id = s.internOfferSet(bits[i]), s.assignmentID(out[i].name)
	}
	slices.SortFunc(out, func(a, b topologyAssignment) int { return strings.Compare(a.name, b.name) })
	s.offerAssignmentCache[offerAssignmentKey{c.offers.id, string(text)}] = out
	return out
}

// classAssignment is a class and an assignment, by number.
type classAssignment struct{ class, assignment int }

// spreadCountAt is how many pods spreads count in the domains of an assignment, the class's own spreads and those
// that count it.
func (s *topology) spreadCountAt(c *class, where *topologyAssignment) (n int64) {
	for i := range c.topology.domainRules {
		if r := &c.topology.domainRules[i]; r.kind == ruleSpread && where.labels[r.key] > 0 {
			n += s.counters[r.counter].countIn(int(where.labels[r.key]))
		}
	}
	for i, id := range c.topology.domainCounters { // what others spread it would rather not upset
		at := c.topology.counterScope[i]
		if x := &s.counters[id]; x.forSpread && where.labels[x.key] > 0 && (at < 0 || where.inScope[at]) {
			n += x.countIn(int(where.labels[x.key]))
		}
	}
	return n
}

// nextOpenNode is the first existing node of the assignment that still takes a pod of the class, -1 if there is none.
// What a class's own pods do to a node only ever closes it, so a node once found full is not looked at again.
func (s *topology) nextOpenNode(c *class, at *topologyAssignment) int {
	for ; at.nextNode < len(at.nodes); at.nextNode++ {
		if s.podsNodeAccepts(c, int(at.nodes[at.nextNode])) > 0 {
			return int(at.nodes[at.nextNode])
		}
	}
	return -1
}
