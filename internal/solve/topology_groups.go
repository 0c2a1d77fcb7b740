// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "slices"

// colocatedGroup is pods that must all share one host: each has required affinity to others of the group, and there
// is no other pod that it might be near. To packings and bounds the group is one pod, which asks for what its pods
// ask for together.
type colocatedGroup struct {
	members   []*class
	asPod     *class // the pod that it is, numbered behind the classes; see groupDemand and groupAsPod
	entangled bool   // rules, ports or volumes concern other pods too: it is not packed as one pod
}

// compileColocatedGroups finds the groups: classes with one affinity over hosts, where all pods that it selects are
// among them. Classes whose affinity selects only pods of a group, and not themselves, belong to it too.
func (s *topologyCompiler) compileColocatedGroups() {
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
	for grown := true; grown; {
		grown = false
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
				of[id], grown = x, true
			}
		}
	}
	for _, c := range s.classes {
		if by[c.id] < 0 || of[by[c.id]] == nil {
			continue
		}
		c.group = of[by[c.id]]
		if len(c.group.members) == 0 {
			s.colocatedGroups = append(s.colocatedGroups, c.group)
		}
		c.group.members = append(c.group.members, c)
	}
	for i, x := range s.colocatedGroups {
		x.asPod = s.groupAsPod(x, len(s.classes)+i, func(c *class) int64 { return int64(len(c.pods)) })
	}
	s.markEntangledGroups()
}

// markEntangledGroups marks the groups that some rule between pods concerns beside the affinity that makes them
// groups.
func (s *topologyCompiler) markEntangledGroups() {
	readers := make([][]*colocatedGroup, len(s.counters)) // co-located groups whose members have an affinity by the counter
	for _, x := range s.colocatedGroups {
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
	for _, x := range s.colocatedGroups {
		for _, c := range x.members {
			for _, id := range c.topology.hostCounters {
				x.entangled = x.entangled || !slices.Contains(readers[id], x)
			}
		}
	}
}

// groupAsPod is the class of one pod that stands for so many pods of each member.
func (s *topology) groupAsPod(x *colocatedGroup, id int, pods func(*class) int64) *class {
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

// isWholeAndPlaceable says whether no pod of a group is placed and all of them can be.
func (s *topology) isWholeAndPlaceable(x *colocatedGroup) bool {
	for _, c := range x.members {
		if c.assigned > 0 || s.placeablePods(c) < len(c.pods) {
			return false
		}
	}
	return true
}
