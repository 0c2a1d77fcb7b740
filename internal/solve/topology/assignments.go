// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package topology

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// Assignments finds the combinations of domains in which pods of a class may be placed.
type Assignments struct {
	in      *problem.Input
	work    *problem.Work
	catalog *problem.Catalog
	inst    *problem.Instance
	usage   *problem.Usage
	topo    *Topology

	ids         map[string]int // by name of TopologyAssignment
	ofOffers    map[offerAssignmentKey][]TopologyAssignment
	ofClasses   map[assignmentCacheKey][]*TopologyAssignment // where assignments can be shared
	scopeKeyBuf []byte                                       // scratch
}

// TopologyAssignment is a combination of topology domains possible for a class, with the existing nodes and the offers
// there.
type TopologyAssignment struct {
	Name     string            // values of the domains, by which assignments are sorted
	ID       int               // by name, see Assignments.ids
	Labels   []int32           // labels of a node there; only the class's topology keys count
	InScope  []bool            // which scopes of the class a node there is in
	nodes    []int32           // existing nodes that admit the class, in filling order
	nextNode int               // the first of nodes not found full
	Offers   *problem.OfferSet // nil: nothing can be launched there
	level    int               // first weight level that has an offer for one pod
	Price    int64             // price of the cheapest offer for one pod in the first weight level that has one, in micro-dollars per hour

	// State for the next pod.
	Node                               int // existing node that takes it; -1: none
	SpreadCount, UnmetPreference, Cost int64
	Purchased                          int64 // for the class being placed, not in Placement.purchased yet
}

// IsBetterThan compares assignments for the next pod: existing nodes first, then the lowest counts of spreads, then
// fewer unmet preferences or, if a machine is launched, the higher level and the lower cost.
func (a *TopologyAssignment) IsBetterThan(b *TopologyAssignment) bool {
	switch {
	case (a.Node >= 0) != (b.Node >= 0):
		return a.Node >= 0
	case a.SpreadCount != b.SpreadCount:
		return a.SpreadCount < b.SpreadCount
	case a.Node >= 0:
		return a.UnmetPreference < b.UnmetPreference
	case a.level != b.level:
		return a.level < b.level
	}
	return a.Cost < b.Cost // topology assignments are sorted by name: the first of equals stays
}

// assignmentCacheKey is what the assignments of a class follow from where there are no existing nodes and no
// preferences: the first of those that offers have, and what a pod asks for.
type assignmentCacheKey struct {
	first *TopologyAssignment
	req   problem.Vec
}

// AssignmentsOf returns the possible assignments of a class, by name.
func (s *Assignments) AssignmentsOf(c *problem.Class) []*TopologyAssignment {
	sold := s.OfferAssignments(c)
	shared := len(s.inst.Nodes.List) == 0 && len(sold) > 0 && s.inst.PreferredOffersOf(c) == c.Offers
	var key assignmentCacheKey
	if shared {
		if key = (assignmentCacheKey{&sold[0], c.Req}); s.ofClasses[key] != nil {
			return s.ofClasses[key]
		}
	}
	out, byName := s.nodeAssignments(c)
	for _, o := range sold {
		if !s.catalog.SomeOfferHolds(o.Offers, &c.Req) {
			continue
		}
		at := byName[o.Name]
		if at == nil {
			at = &TopologyAssignment{Name: o.Name, ID: o.ID, Labels: o.Labels, InScope: o.InScope}
			out = append(out, at)
		}
		s.setOffers(c, at, o.Offers)
	}
	if len(byName) > 0 { // those sold are in order
		slices.SortFunc(out, func(a, b *TopologyAssignment) int { return strings.Compare(a.Name, b.Name) })
	}
	if shared {
		if s.ofClasses == nil {
			s.ofClasses = map[assignmentCacheKey][]*TopologyAssignment{}
		}
		s.ofClasses[key] = out
	}
	return out
}

// nodeAssignments lists the assignments that existing nodes are in which admit a class, and returns them by name too.
func (s *Assignments) nodeAssignments(c *problem.Class) (out []*TopologyAssignment, byName map[string]*TopologyAssignment) {
	byName = map[string]*TopologyAssignment{}
	var buf []byte
	for node, x := range s.inst.Nodes.List {
		if x.Closed || x.Drained || s.usage.PodsFittingNode(c, node) == 0 || !s.inst.NodeAdmits(c.Filter, node) {
			continue
		}
		vals, in := s.inst.Nodes.Labels[s.inst.Nodes.ShapeOf[node]], s.topo.NodeScopes(c, node)
		buf = s.appendAssignmentName(buf[:0], c, vals, in)
		at := byName[string(buf)]
		if at == nil {
			at = &TopologyAssignment{Name: string(buf), Labels: vals, InScope: in, level: len(s.catalog.Levels)}
			at.ID = s.assignmentID(at.Name)
			byName[at.Name] = at
			out = append(out, at)
		}
		at.nodes = append(at.nodes, int32(node))
	}
	return out, byName
}

// setOffers sets the offers of an assignment, and the price for one pod there.
func (s *Assignments) setOffers(c *problem.Class, at *TopologyAssignment, offers *problem.OfferSet) {
	at.Offers = offers
	at.level, at.Price = s.catalog.CheapestLevel(offers, &c.Req)
	if w := s.inst.PreferAmong(c, offers); w != offers {
		if s.catalog.SomeOfferHolds(w, &c.Req) {
			at.level, at.Price = s.catalog.CheapestLevel(w, &c.Req)
		} else {
			at.Price = s.in.AddPreferenceCost(at.Price, 100)
		}
	}
}

// assignmentID returns the number of an assignment's name, and assigns one to a new name.
func (s *Assignments) assignmentID(name string) int {
	id, ok := s.ids[name]
	if !ok {
		id = len(s.ids)
		s.ids[name] = id
	}
	return id
}

// appendAssignmentName appends the values of a class's topology keys, and which of its scopes a node is in.
func (s *Assignments) appendAssignmentName(buf []byte, c *problem.Class, vals []int32, in []bool) []byte {
	for _, k := range c.Topology.Keys {
		if vals[k] == problem.OpenValue {
			buf = append(buf, "?\x00"...)
			continue
		}
		buf = append(append(buf, s.in.Keys.ValueNames[k][vals[k]]...), 0)
	}
	return problem.AppendBools(buf, in)
}

// offerAssignmentKey is what OfferAssignments follow from.
type offerAssignmentKey struct {
	offerSet int
	keys     string
}

// OfferAssignments divides the offers that admit a class by the values of its topology keys and by their scopes, sorted
// by name. Classes that agree in these share the list.
func (s *Assignments) OfferAssignments(c *problem.Class) []TopologyAssignment {
	text := s.scopeKeyBuf[:0]
	for _, k := range c.Topology.Keys {
		text = append(text, byte(k), byte(k>>8))
	}
	for _, on := range c.Topology.Scopes {
		text = append(text, on.Identity()...)
	}
	s.scopeKeyBuf = text
	if got, ok := s.ofOffers[offerAssignmentKey{c.Offers.ID, string(text)}]; ok {
		return got
	}
	byVals := map[string]int{}
	var out []TopologyAssignment
	var bits [][]uint64
	var buf []byte
	for i := range s.catalog.Offers {
		if !c.Offers.Contains(i) {
			continue
		}
		vals := s.catalog.Offers[i].Labels
		buf = buf[:0]
		for _, k := range c.Topology.Keys {
			buf = append(buf, byte(vals[k]), byte(vals[k]>>8), byte(vals[k]>>16), byte(vals[k]>>24))
		}
		var in []bool
		for _, on := range c.Topology.Scopes {
			in = append(in, s.topo.OfferInScope(on, &s.catalog.Offers[i]))
		}
		buf = problem.AppendBools(buf, in)
		at, ok := byVals[string(buf)]
		if !ok {
			at = len(out)
			byVals[string(buf)] = at
			out = append(out, TopologyAssignment{Name: string(s.appendAssignmentName(nil, c, vals, in)), Labels: vals, InScope: in})
			bits = append(bits, make([]uint64, len(c.Offers.Bits)))
		}
		bits[at][i>>6] |= 1 << (i & 63)
	}
	for i := range out {
		out[i].Offers, out[i].ID = s.catalog.InternOfferSet(bits[i]), s.assignmentID(out[i].Name)
	}
	slices.SortFunc(out, func(a, b TopologyAssignment) int { return strings.Compare(a.Name, b.Name) })
	s.ofOffers[offerAssignmentKey{c.Offers.ID, string(text)}] = out
	return out
}

// ClassAssignment is a class and an assignment, by index.
type ClassAssignment struct{ Class, Assignment int }

// MayPack reports whether a rule is a hard spread with a skew above 1.
func MayPack(r *problem.Rule) bool { return r.Kind == problem.RuleSpread && r.Hard && r.MaxSkew > 1 }

// SpreadCountAt returns the number of pods that spreads count in the domains of an assignment, both the class's own
// spreads and those that count it. With packs, own hard spreads with a skew above 1 are reversed: the highest count
// gives the lowest result.
func (s *Assignments) SpreadCountAt(c *problem.Class, where *TopologyAssignment, packs bool) (n int64) {
	for i := range c.Topology.DomainRules {
		if r := &c.Topology.DomainRules[i]; r.Kind == problem.RuleSpread && where.Labels[r.Key] > 0 {
			have := s.topo.Counters[r.Counter].CountIn(int(where.Labels[r.Key]))
			if packs && MayPack(r) {
				have = -have
			}
			n += have
		}
	}
	for i, id := range c.Topology.DomainCounters { // what others spread it would rather not upset
		at := c.Topology.CounterScope[i]
		if x := &s.topo.Counters[id]; x.ForSpread && where.Labels[x.key] > 0 && (at < 0 || where.InScope[at]) {
			n += x.CountIn(int(where.Labels[x.key]))
		}
	}
	return n
}

// NextOpenNode returns the first existing node of the assignment with room for a pod of the class, -1 if there is none.
// Pods of the class never free a node, so a full node is not checked again.
func (s *Assignments) NextOpenNode(c *problem.Class, at *TopologyAssignment) int {
	for ; at.nextNode < len(at.nodes); at.nextNode++ {
		if s.topo.PodsNodeAccepts(c, int(at.nodes[at.nextNode])) > 0 {
			return int(at.nodes[at.nextNode])
		}
	}
	return -1
}

// WouldCrowd reports whether one more pod of the class at an assignment would make a pod placed there exceed its spread,
// if that pod came last, or a group start elsewhere without permission, if this pod came first.
func (s *Assignments) WouldCrowd(c *problem.Class, where *TopologyAssignment) bool {
	for _, id := range c.Topology.DomainCounters {
		if x := &s.topo.Counters[id]; !x.ForSpread && where.Labels[x.key] != 0 && s.groupBeganElsewhere(id, where.Labels[x.key]) {
			return true
		}
	}
	return s.CrowdedSpread(c, where) != nil
}

// CrowdedSpread returns a topology spread rule of the pods placed in the domain of where whose maxSkew would be
// exceeded by one more pod of class c, or nil if there is none.
func (s *Assignments) CrowdedSpread(c *problem.Class, where *TopologyAssignment) *problem.Rule {
	for i, id := range c.Topology.DomainCounters {
		x := &s.topo.Counters[id]
		d := where.Labels[x.key]
		if at := c.Topology.CounterScope[i]; !x.ForSpread || d <= 0 || at >= 0 && !where.InScope[at] {
			continue
		}
		for _, other := range s.inst.Classes {
			for j := range other.Topology.DomainRules {
				r := &other.Topology.DomainRules[j]
				if r.Kind == problem.RuleSpread && r.Hard && r.Counter == id && int(d) < len(r.OwnPods) && r.OwnPods[d] > 0 && x.CountIn(int(d))+1-s.topo.LeastCount(r) > r.MaxSkew {
					return r
				}
			}
		}
	}
	return nil
}

// groupBeganElsewhere reports whether a group with affinity to pods of a counter starts in another domain, where no
// other pod keeps it.
func (s *Assignments) groupBeganElsewhere(id int, where int32) bool {
	leaning := map[int]int64{} // by domain
	for _, c := range s.inst.Classes {
		for i := range c.Topology.DomainRules {
			r := &c.Topology.DomainRules[i]
			if r.Kind != problem.RuleAffinity || !r.SelectsOwnPods || r.Counter != id {
				continue
			}
			s.work.Steps += int64(len(r.OwnPods))
			for d, n := range r.OwnPods {
				if n > 0 && d != int(where) {
					leaning[d] += int64(n)
				}
			}
		}
	}
	for d, n := range leaning {
		if s.topo.Counters[id].CountIn(d) <= n {
			return true
		}
	}
	return false
}
