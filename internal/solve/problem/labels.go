// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"maps"
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
	keys := keySet{}
	for _, c := range s.inst.Classes {
		keys.addOfNodes(c.Spec)
		keys.addOfPods(c.Spec)
	}
	for _, d := range s.in.Given.Daemons {
		keys.addOfNodes(d.Class)
	}
	for _, c := range s.inst.AntiAffinityOnNodes() {
		for i := range c.AntiAffinity {
			keys.addTopology(c.AntiAffinity[i].TopologyKey)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		s.in.Keys.addKey(k)
	}
}

// keySet is label keys that something in a problem looks at.
type keySet map[string]bool

// addOfNodes adds the keys that a class asks nodes for.
func (set keySet) addOfNodes(c *model.Class) {
	add := func(rs model.Requirements) {
		for i := range rs {
			set[rs[i].Key] = true
		}
	}
	for i := range c.Terms {
		add(c.Terms[i].Requirements)
	}
	for i := range c.Preferred {
		add(c.Preferred[i].Term.Requirements)
	}
	for _, v := range c.Volumes {
		for _, list := range [][]model.Requirements{v.Topology, v.Standing, v.Migrated} {
			for _, t := range list {
				add(t)
			}
		}
	}
}

// addOfPods adds the topology keys over which a class is tied to other pods.
func (set keySet) addOfPods(c *model.Class) {
	for i := range c.Spread {
		set.addTopology(c.Spread[i].TopologyKey)
	}
	for _, list := range [][]model.PodTerm{c.Affinity, c.AntiAffinity} {
		for i := range list {
			set.addTopology(list[i].TopologyKey)
		}
	}
	for _, list := range [][]model.WeightedPodTerm{c.PreferredAffinity, c.PreferredAntiAffinity} {
		for i := range list {
			set.addTopology(list[i].Term.TopologyKey)
		}
	}
	for i := range c.Volumes {
		if c.Volumes[i].Unmade {
			set[model.LabelZone] = true
		}
	}
}

// addTopology adds a topology key, unless it is that of hosts, which have numbers of their own.
func (set keySet) addTopology(key string) {
	if key != model.LabelHostname {
		set[key] = true
	}
}
