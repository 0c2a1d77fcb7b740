// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Compile compiles the input of Solve: what can be launched, and what must be placed.
func Compile(in *Input, work *Work) (*Catalog, *Instance) {
	p := in.Given
	catalog := &Catalog{in: in, work: work, offerSetByBits: map[string]*OfferSet{}, intersections: map[[2]*OfferSet]*OfferSet{}}
	inst := &Instance{in: in, work: work, catalog: catalog}
	t := &problemCompiler{in: in, work: work, catalog: catalog, inst: inst, filters: map[string]*nodeFilter{}}
	t.compileClasses()
	t.compileKeys()
	t.compilePorts()
	for _, d := range sortedDaemons(p.Daemons) {
		t.daemonsHaveTerms = t.daemonsHaveTerms || len(d.Pod().AntiAffinity) > 0
		inst.Daemons = append(inst.Daemons, &daemon{Spec: d, req: in.toVec(d.Pod().Requests), Filter: t.filterFor(d.Class, nil), Ports: in.ports.useOf(d.Pod().HostPorts)})
	}
	for _, c := range inst.Classes {
		c.Occupies = c.occupies(in)
		c.Filter = t.filterFor(c.Spec, t.daemonRulesOf(c.Spec))
	}
	o := offerCompiler{in: in, work: work, catalog: catalog, inst: inst, compiler: t, sizeIDs: map[Vec]int{}, quantityIDs: map[string]int{}, poolByKey: map[string]int{}}
	o.compileOffers()
	t.compileNodes(fillingOrder(p.Nodes))
	return catalog, inst
}

// compileClasses groups the demand into classes. They are placed in this order: priority, constrained before
// unconstrained (they have fewer options), large before small (small ones fit in the remainder), then by key.
func (s *problemCompiler) compileClasses() {
	all, of, pods := s.distinctClasses()
	tooMany := s.compileDims(all)
	classes := make([]Class, len(all))
	for n := range classes {
		classes[n].Spec, classes[n].Req = all[n], s.in.toVec(all[n].Requests)
	}
	first := s.orderClasses(classes, pods)
	list := make([]*model.Pod, len(s.in.Given.Demand))
	for i, c := range s.inst.Classes {
		n := pods[c.ID]
		c.ID, c.Pods, list = i, list[:0:n], list[n:]
	}
	for i, p := range s.in.Given.Demand {
		c := &classes[first[of[i]]]
		c.Pods = append(c.Pods, p)
	}
	for _, c := range s.inst.Classes {
		slices.SortFunc(c.Pods, ComparePods)
		if tooMany {
			s.refuseUnknownDims(c)
		}
		c.Missing = s.missingOf(c.Spec)
		c.Separation = s.separationOf(c.Spec)
		for _, v := range c.Spec.Volumes {
			if v.Driver != "" {
				c.CsiVolumes = append(c.CsiVolumes, v)
			}
		}
	}
	s.compileExclusivities()
}

// distinctClasses lists the classes of the demand as they are first met, by pod which it is of, and by class how many
// pods. Classes are interned, mostly: those of one key that are not come together in orderClasses.
func (s *problemCompiler) distinctClasses() (all []*model.Class, of []int32, pods []int64) {
	number := map[*model.Class]int32{}
	of = make([]int32, len(s.in.Given.Demand))
	for i, p := range s.in.Given.Demand {
		n, ok := number[p.Class]
		if !ok {
			n = int32(len(all))
			number[p.Class] = n
			all, pods = append(all, p.Class), append(pods, 0)
		}
		of[i] = n
		pods[n]++
	}
	return all, of, pods
}

// compileDims notes the resources that classes ask for, and of cpu, memory and the like those that DaemonSets ask for, too: a new node must hold its
// DaemonSets whether or not the demand asks for the same. It reports whether there are more than one problem may use. A
// resource that no node has free and no instance type has is none of them: whoever makes pods can make up as many as
// they like, and the pods of others must not be refused for it. A class that asks for one fits nowhere: Class.Missing.
func (s *problemCompiler) compileDims(all []*model.Class) (tooMany bool) {
	var used []bool
	note := func(requests model.Resources) {
		for d, v := range requests {
			for d >= len(used) {
				used = append(used, false)
			}
			used[d] = used[d] || v > 0
		}
	}
	for _, c := range all {
		note(c.Requests)
	}
	for _, x := range s.in.Given.Daemons {
		note(x.Pod().Requests[:min(len(x.Pod().Requests), len(model.FixedNames()))])
	}
	s.findSupplied(used)
	for d, is := range used {
		if is && s.isSupplied(d) {
			s.in.Dims = append(s.in.Dims, model.Dim(d))
		}
	}
	if tooMany = len(s.in.Dims) > MaxDims; tooMany {
		s.in.Dims = s.in.Dims[:MaxDims]
	}
	s.in.NumDims = len(s.in.Dims)
	return tooMany
}

// findSupplied notes which of the resources asked for some node has free or some instance type has, or promises. Those
// that every node has are not looked for.
func (s *problemCompiler) findSupplied(used []bool) {
	s.fixedDims = len(model.FixedNames())
	if len(used) > s.fixedDims {
		s.supplied = SuppliedResources(s.in.Given.Nodes, s.in.Given.Pools, len(used))
	}
}

// SuppliedResources reports for each of the first n resources whether a node has some of it free, or an instance type of
// a pool has or promises it. It ignores fixed resources.
func SuppliedResources(nodes []ExistingNode, pools []Pool, n int) []bool {
	supplied := make([]bool, n)
	add := func(r model.Resources) {
		for d := int(model.FirstExtended); d < min(len(r), n); d++ {
			supplied[d] = supplied[d] || r[d] > 0
		}
	}
	for i := range nodes {
		add(nodes[i].Free)
	}
	looked := map[**model.InstanceType]bool{} // pools of one provider mostly share a list
	for i := range pools {
		types := pools[i].Types
		if len(types) == 0 || looked[&types[0]] {
			continue
		}
		looked[&types[0]] = true
		for _, t := range types {
			add(t.Allocatable)
			add(t.Promised)
		}
	}
	return supplied
}

// isSupplied reports whether a resource is one that a node or an instance type has.
func (s *problemCompiler) isSupplied(d int) bool { return d < s.fixedDims || s.supplied[d] }

// missingOf returns the requested resources of a class that no node and no instance type has, ascending; nil: none.
func (s *problemCompiler) missingOf(c *model.Class) (missing []model.Dim) {
	for d := s.fixedDims; d < len(c.Requests); d++ {
		if c.Requests[d] > 0 && !s.supplied[d] {
			missing = append(missing, model.Dim(d))
		}
	}
	return missing
}

// refuseUnknownDims refuses a class that requests a resource beyond the maximum number of resources in one problem.
func (s *problemCompiler) refuseUnknownDims(c *Class) {
	for d, v := range c.Spec.Requests {
		if _, ok := slices.BinarySearch(s.in.Dims, model.Dim(d)); v > 0 && !ok && s.isSupplied(d) {
			c.Unsolvable = "more resources in one problem than the solver has room for: " + s.in.ResourceName(model.Dim(d))
		}
	}
}

// orderClasses sorts classes into Instance.Classes, with their places in the list given as ids. Those of one key are
// one: it returns by class the first of its key, to which pods are added up.
func (s *problemCompiler) orderClasses(classes []Class, pods []int64) (first []int32) {
	total := Vec{}
	for n := range classes {
		for k := range s.in.NumDims {
			total[k] += classes[n].Req[k] * pods[n]
		}
	}
	type ranked struct { // beside each other in memory, and keys are long
		priority   int32
		n          int32
		constraint int   // see constraintRank
		size       int64 // its part of all that is asked for
		key        string
	}
	order := make([]ranked, len(classes))
	for n := range classes {
		c, size := &classes[n], int64(0)
		for k := range s.in.NumDims {
			if total[k] > 0 {
				size += c.Req[k] * 1_000_000 / (total[k]/int64(len(s.in.Given.Demand)) + 1)
			}
		}
		order[n] = ranked{c.Spec.Priority, int32(n), constraintRank(c.Spec), size, c.Spec.Key}
	}
	slices.SortFunc(order, func(a, b ranked) int {
		switch {
		case a.priority != b.priority:
			return cmp.Compare(b.priority, a.priority)
		case a.constraint != b.constraint:
			return cmp.Compare(b.constraint, a.constraint)
		case a.size != b.size:
			return cmp.Compare(b.size, a.size)
		}
		return strings.Compare(a.key, b.key)
	})
	s.inst.Classes = make([]*Class, 0, len(classes))
	first = make([]int32, len(classes))
	for i, x := range order {
		if i > 0 && x.key == order[i-1].key {
			first[x.n] = first[order[i-1].n]
			pods[first[x.n]] += pods[x.n]
			continue
		}
		first[x.n] = x.n
		classes[x.n].ID = int(x.n)
		s.inst.Classes = append(s.inst.Classes, &classes[x.n])
	}
	return first
}

// constraintRank ranks how tied to others a class is.
func constraintRank(c *model.Class) int {
	n := 0
	if len(c.Spread) > 0 {
		n++
	}
	if len(c.AntiAffinity) > 0 || len(c.HostPorts) > 0 {
		n++
	}
	if len(c.Affinity) > 0 { // what it wants to be near is placed first, or the group might begin elsewhere
		return -1
	}
	return n
}

// ComparePods compares pods by namespace, name and UID.
func ComparePods(a, b *model.Pod) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.UID, b.UID)
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

// keySet is the set of label keys used in a problem.
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
		add(c.Terms[i].Standing)
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
