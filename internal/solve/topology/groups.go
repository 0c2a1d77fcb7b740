// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package topology

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// groupCompiler finds the co-located groups of a problem.
type groupCompiler struct {
	in      *problem.Input
	catalog *problem.Catalog
	inst    *problem.Instance
	topo    *Topology
}

// compileColocatedGroups finds the groups: classes with one affinity over hosts, where all pods that it selects are
// among them. Classes whose affinity selects only pods of a group, and not themselves, belong to it too.
func (s *groupCompiler) compileColocatedGroups() {
	near := make([][]*problem.Class, len(s.topo.Counters)) // by counter: classes with an affinity by it
	by := make([]int, len(s.inst.Classes))                 // by class: its counter, -1: none
	any := false
	for _, c := range s.inst.Classes {
		by[c.ID] = -1
		for i := range c.Topology.HostRules {
			if r := &c.Topology.HostRules[i]; r.Kind == problem.RuleAffinity && by[c.ID] < 0 { // all its terms select the same pods
				by[c.ID], near[r.Counter], any = r.Counter, append(near[r.Counter], c), true
			}
		}
	}
	if !any {
		return
	}
	self, others := make([]bool, len(s.topo.Counters)), make([][]*problem.Class, len(s.topo.Counters)) // whom it selects: those classes, and more
	for _, c := range s.inst.Classes {
		for _, id := range c.Topology.HostCounters {
			if by[c.ID] == id {
				self[id] = true
			} else if len(near[id]) > 0 {
				others[id] = append(others[id], c)
			}
		}
	}
	of := make([]*problem.ColocatedGroup, len(s.topo.Counters))
	for grown := true; grown; {
		grown = false
		for id, have := range near {
			if len(have) == 0 || of[id] != nil || s.topo.Counters[id].initialTotal > 0 || self[id] == (len(others[id]) > 0) {
				continue // whoever is near itself and others may begin beside either
			}
			x := &problem.ColocatedGroup{}
			for i, c := range others[id] {
				if by[c.ID] < 0 || of[by[c.ID]] == nil || i > 0 && of[by[c.ID]] != x {
					x = nil
					break
				}
				x = of[by[c.ID]]
			}
			if x != nil {
				of[id], grown = x, true
			}
		}
	}
	for _, c := range s.inst.Classes {
		if by[c.ID] < 0 || of[by[c.ID]] == nil {
			continue
		}
		c.Group = of[by[c.ID]]
		if len(c.Group.Members) == 0 {
			s.topo.ColocatedGroups = append(s.topo.ColocatedGroups, c.Group)
		}
		c.Group.Members = append(c.Group.Members, c)
	}
	for i, x := range s.topo.ColocatedGroups {
		x.AsPod = s.topo.GroupAsPod(x, len(s.inst.Classes)+i, func(c *problem.Class) int64 { return int64(len(c.Pods)) })
	}
	s.markEntangledGroups()
}

// markEntangledGroups marks the groups affected by rules between pods other than the affinity that defines them.
func (s *groupCompiler) markEntangledGroups() {
	readers := make([][]*problem.ColocatedGroup, len(s.topo.Counters)) // co-located groups whose members have an affinity by the counter
	for _, x := range s.topo.ColocatedGroups {
		for _, c := range x.Members {
			x.Entangled = x.Entangled || len(c.Topology.Keys) > 0 || c.Occupies || c.Separation.Most > 0 || c.Spec.Priority != x.Members[0].Spec.Priority
			for i := range c.Topology.HostRules {
				r := &c.Topology.HostRules[i]
				if x.Entangled = x.Entangled || r.Kind != problem.RuleAffinity; r.Kind == problem.RuleAffinity {
					readers[r.Counter] = append(readers[r.Counter], x)
				}
			}
		}
	}
	for _, c := range s.inst.Classes {
		for i := range c.Topology.HostRules {
			r := &c.Topology.HostRules[i]
			for _, x := range readers[r.Counter] { // whoever else looks at its pods
				x.Entangled = x.Entangled || r.Kind != problem.RuleAffinity || c.Group != x
			}
		}
	}
	for _, x := range s.topo.ColocatedGroups {
		for _, c := range x.Members {
			for _, id := range c.Topology.HostCounters {
				x.Entangled = x.Entangled || !slices.Contains(readers[id], x)
			}
		}
	}
}

// GroupAsPod returns a class with one pod that represents the given number of pods of each member.
func (s *Topology) GroupAsPod(x *problem.ColocatedGroup, id int, pods func(*problem.Class) int64) *problem.Class {
	out := &problem.Class{ID: id, AsGroup: x}
	for _, c := range x.Members {
		n := pods(c)
		for k := range s.in.NumDims {
			out.Req[k] += c.Req[k] * n
		}
		switch {
		case n == 0:
		case out.Filter == nil:
			out.Filter = c.Filter
		case out.Filter != c.Filter: // nodes are asked what the first of them may go to
			f := *out.Filter
			f.NodeVerdicts, f.Offers = nil, s.catalog.Intersect(f.Offers, c.Filter.Offers)
			out.Filter = &f
		}
	}
	out.Offers = out.Filter.Offers
	return out
}

// IsWholeAndPlaceable reports whether no pod of a group is placed and all of them can be.
func (s *Topology) IsWholeAndPlaceable(x *problem.ColocatedGroup) bool {
	for _, c := range x.Members {
		if c.Assigned > 0 || s.usage.PlaceablePods(c) < len(c.Pods) {
			return false
		}
	}
	return true
}
