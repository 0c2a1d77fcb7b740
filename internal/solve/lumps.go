// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// colocatedGroup is pods that must all share one host: each must be near others of the co-located group, and there is nobody else whom it might be near. To packings
// and proofs they are one pod, which asks for what they ask for together.
type colocatedGroup struct {
	members   []*class
	asPod     *class // the pod that they are, numbered behind the classes; see groupDemand and asOne
	entangled bool   // others are told apart by who is on a host with them: it is not packed as one
}

// compileColocatedGroups finds them: classes with one affinity over hosts, where all that it selects are among them. Pods with one that selects only pods
// of a co-located group, and not themselves, are part of that.
func (s *solver) compileColocatedGroups() {
	near := make([][]*class, len(s.counters)) // by counter: classes with an affinity by it
	by := make([]int, len(s.classes))         // by class: its counter, -1: none
	any := false
	for _, c := range s.classes {
		by[c.id] = -1
		for i := range c.topology.hostRules {
			if r := &c.topology.hostRules[i]; r.kind == ruleAffinity && by[c.id] < 0 { // all its terms select the same pods
				by[c.id], near[r.counter], any = r.counter, append(near[r.counter], c), true
			}
		}
	}
	if !any {
		return
	}
	self, others := make([]bool, len(s.counters)), make([][]*class, len(s.counters)) // whom it selects: those classes, and more
	for _, c := range s.classes {
		for _, id := range c.topology.hostCounters {
			if by[c.id] == id {
				self[id] = true
			} else if len(near[id]) > 0 {
				others[id] = append(others[id], c)
			}
		}
	}
	of := make([]*colocatedGroup, len(s.counters))
	for again := true; again; {
		again = false
		for id, have := range near {
			if len(have) == 0 || of[id] != nil || s.counters[id].initialTotal > 0 || self[id] == (len(others[id]) > 0) {
				continue // whoever is near itself and others may begin beside either
			}
			x := &colocatedGroup{}
			for i, c := range others[id] {
				if by[c.id] < 0 || of[by[c.id]] == nil || i > 0 && of[by[c.id]] != x {
					x = nil
					break
				}
				x = of[by[c.id]]
			}
			if x != nil {
				of[id], again = x, true
			}
		}
	}
	for _, c := range s.classes {
		if by[c.id] < 0 || of[by[c.id]] == nil {
			continue
		}
		c.group = of[by[c.id]]
		if len(c.group.members) == 0 {
			s.groups = append(s.groups, c.group)
		}
		c.group.members = append(c.group.members, c)
	}
	for i, x := range s.groups {
		x.asPod = s.groupAsPod(x, len(s.classes)+i, func(c *class) int64 { return int64(len(c.pods)) })
	}
	s.markEntangledGroups()
}

// markEntangledGroups marks the co-located groups that are not packed as one: those that some rule between pods concerns beside what makes them co-located groups.
func (s *solver) markEntangledGroups() {
	readers := make([][]*colocatedGroup, len(s.counters)) // co-located groups whose members have an affinity by the counter
	for _, x := range s.groups {
		for _, c := range x.members {
			x.entangled = x.entangled || len(c.topology.keys) > 0 || len(c.ports) > 0 || len(c.csiVolumes) > 0 || c.separation.most > 0 || c.spec.Priority != x.members[0].spec.Priority
			for i := range c.topology.hostRules {
				r := &c.topology.hostRules[i]
				if x.entangled = x.entangled || r.kind != ruleAffinity; r.kind == ruleAffinity {
					readers[r.counter] = append(readers[r.counter], x)
				}
			}
		}
	}
	for _, c := range s.classes {
		for i := range c.topology.hostRules {
			r := &c.topology.hostRules[i]
			for _, x := range readers[r.counter] { // whoever else looks at its pods
				x.entangled = x.entangled || r.kind != ruleAffinity || c.group != x
			}
		}
	}
	for _, x := range s.groups {
		for _, c := range x.members {
			for _, id := range c.topology.hostCounters {
				x.entangled = x.entangled || !slices.Contains(readers[id], x)
			}
		}
	}
}

// groupAsPod is the pod that so many pods of the members of a co-located group are.
func (s *solver) groupAsPod(x *colocatedGroup, id int, pods func(*class) int64) *class {
	out := &class{id: id, asGroup: x}
	for _, c := range x.members {
		n := pods(c)
		for k := range s.numDims {
			out.req[k] += c.req[k] * n
		}
		switch {
		case n == 0:
		case out.filter == nil:
			out.filter = c.filter
		case out.filter != c.filter: // nodes are asked what the first of them may go to
			f := *out.filter
			f.nodeVerdicts, f.offers = nil, s.intersect(f.offers, c.filter.offers)
			out.filter = &f
		}
	}
	out.offers = out.filter.offers
	return out
}

// isWholeAndPlaceable says whether nothing of a co-located group is placed and all of it can be.
func (s *solver) isWholeAndPlaceable(x *colocatedGroup) bool {
	for _, c := range x.members {
		if c.assigned > 0 || s.placeablePods(c) < len(c.pods) {
			return false
		}
	}
	return true
}

// placeGroupOnNode puts a co-located group, of which the class may be the first, on a node that has the resources and labels for all of it.
func (s *solver) placeGroupOnNode(x *colocatedGroup, first *class) {
	for node := range s.nodes.list {
		if s.podsNodeAccepts(first, node) == 0 || !fitsSlice(&x.asPod.req, s.nodes.free[node*s.numDims:node*s.numDims+s.numDims]) ||
			slices.ContainsFunc(x.members, func(c *class) bool { return !s.nodeAdmits(c.filter, node) }) {
			continue
		}
		for _, c := range x.members {
			s.placeOnNode(c, node, int64(len(c.pods)))
		}
		return
	}
}

// demandColocatedGroups makes co-located groups demands of one pod each, where some machine holds them: they share machines with whatever else is packed. It says
// whether there were any.
func (s *solver) demandColocatedGroups() (any bool) {
	for _, x := range s.groups {
		if x.entangled || !s.isWholeAndPlaceable(x) {
			continue
		}
		d := s.groupDemand(x)
		if !s.someOfferHolds(d.offers, &d.class.req) {
			continue
		}
		any = true
		s.demands = append(s.demands, d)
		for _, c := range x.members {
			c.assigned = len(c.pods)
			for _, id := range c.topology.hostCounters {
				s.counters[id].expected += int64(len(c.pods))
			}
		}
	}
	return any
}

// groupDemand is the demand of a co-located group: one pod, for offers that all members may go to.
func (s *solver) groupDemand(x *colocatedGroup) *demand {
	one := x.asPod
	one.offers = x.members[0].offers
	wish := s.preferAmong(x.members[0], one.offers)
	for _, c := range x.members[1:] {
		one.offers, wish = s.intersect(one.offers, c.offers), s.intersect(wish, s.preferAmong(c, c.offers))
	}
	if one.spec == nil {
		one.spec = &model.Class{Key: "lump", Priority: x.members[0].spec.Priority}
		for _, c := range x.members {
			one.spec.Key += "\x00" + c.spec.Key
		}
	}
	d := &demand{class: one, offers: one.offers, unbought: 1, total: 1}
	if wish != one.offers && s.someOfferHolds(wish, &one.req) {
		d.offers, d.permitted = wish, one.offers
	}
	return d
}

// release has pods of a demand wait again.
func (d *demand) release(n int64) {
	if d.class.asGroup == nil {
		d.class.assigned -= int(n)
		return
	}
	for _, c := range d.class.asGroup.members {
		c.assigned = 0
	}
}

// addToBin puts n pods of a demand on a bin.
func (d *demand) addToBin(b *bin, n int64, nd int) {
	if d.class.asGroup == nil {
		b.addPods(d.class, d.offers, n, nd)
		return
	}
	for _, c := range d.class.asGroup.members {
		b.addPods(c, d.offers, int64(len(c.pods))*n, nd)
	}
}

// classesToBound are the classes as a bound counts them: what is placed of a co-located group is one pod, however it was placed.
func (s *solver) classesToBound() []*class {
	if len(s.groups) == 0 {
		return s.classes
	}
	var out []*class
	for _, c := range s.classes {
		if c.group == nil {
			out = append(out, c)
		}
	}
	for i, x := range s.groups {
		taken, all := 0, true
		for _, c := range x.members {
			taken, all = taken+c.assigned, all && c.assigned == len(c.pods)
		}
		if taken == 0 {
			continue
		}
		one := x.asPod
		if !all { // not the pod whose worth may be known
			one = s.groupAsPod(x, len(s.classes)+len(s.groups)+i, func(c *class) int64 { return int64(c.assigned) })
		}
		one.assigned, one.offers = 1, one.filter.offers
		out = append(out, one)
	}
	return out
}
