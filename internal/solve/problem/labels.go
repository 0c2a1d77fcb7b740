// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// labelTable interns the label keys that anything in the problem looks at, and their values; value 0 is "no such
// label".
type labelTable struct {
	Ids        map[string]int // by key
	Keys       []string
	valueIDs   []map[string]int32 // by key number: numbers of values
	ValueNames [][]string         // by key number and value number
}

// addKey numbers a key, unless it has a number.
func (t *labelTable) addKey(key string) {
	if _, ok := t.Ids[key]; ok {
		return
	}
	if t.Ids == nil {
		t.Ids = map[string]int{}
	}
	t.Ids[key] = len(t.Keys)
	t.Keys = append(t.Keys, key)
	t.valueIDs = append(t.valueIDs, map[string]int32{})
	t.ValueNames = append(t.ValueNames, []string{""})
}

// internValue returns the number of a value of a key, new where it was not seen yet.
func (t *labelTable) internValue(key int, v string) int32 {
	id, ok := t.valueIDs[key][v]
	if !ok {
		id = int32(len(t.ValueNames[key]))
		t.valueIDs[key][v] = id
		t.ValueNames[key] = append(t.ValueNames[key], v)
	}
	return id
}

// compileKeys collects the keys in sorted order, so that what depends on their numbers does not depend on input order.
func (s *problemCompiler) compileKeys() {
	set := map[string]bool{}
	reqs := func(rs model.Requirements) {
		for i := range rs {
			set[rs[i].Key] = true
		}
	}
	class := func(c *model.Class) {
		for i := range c.Terms {
			reqs(c.Terms[i].Requirements)
		}
		for i := range c.Preferred {
			reqs(c.Preferred[i].Term.Requirements)
		}
		for _, v := range c.Volumes {
			for _, list := range [][]model.Requirements{v.Topology, v.Standing, v.Migrated} {
				for _, t := range list {
					reqs(t)
				}
			}
		}
	}
	last := model.LabelHostname
	topoKey := func(k string) {
		if k != model.LabelHostname && k != last { // thousands of classes look at the same few
			last, set[k] = k, true
		}
	}
	for _, c := range s.inst.Classes {
		class(c.Spec)
		for _, t := range c.Spec.Spread {
			topoKey(t.TopologyKey)
		}
		for _, t := range c.Spec.Affinity {
			topoKey(t.TopologyKey)
		}
		for _, t := range c.Spec.AntiAffinity {
			topoKey(t.TopologyKey)
		}
		for _, v := range c.Spec.Volumes {
			if v.Unmade {
				set[model.LabelZone] = true
			}
		}
		for _, list := range [][]model.WeightedPodTerm{c.Spec.PreferredAffinity, c.Spec.PreferredAntiAffinity} {
			for _, t := range list {
				topoKey(t.Term.TopologyKey)
			}
		}
	}
	for _, d := range s.in.Given.Daemons {
		class(d.Class)
	}
	for _, c := range s.inst.AntiAffinityOnNodes() {
		for _, t := range c.AntiAffinity {
			topoKey(t.TopologyKey)
		}
	}
	names := make([]string, 0, len(set))
	for k := range set {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		s.in.Keys.addKey(k)
	}
}
