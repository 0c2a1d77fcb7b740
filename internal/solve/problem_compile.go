// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// problemCompiler holds what is needed only while a problem is compiled.
type problemCompiler struct {
	*problem
	filters     map[string]*nodeFilter
	sizeIDs     map[vec]int    // places in offerCatalog.sizes
	quantityIDs map[string]int // places in problem.initialQuantities

	labelShapes    []labelShape // by pool
	poolShapeStart []int        // by pool: where its shapes begin; one more for the end

	catalogs  []*poolCatalog
	poolByKey map[string]int // the first pool of each family
}

// compile makes the problem of what Solve is given. Nothing is placed yet.
func (s *problem) compile(p *Problem, mem Memory, pol Policy) {
	s.input, s.policy = p, pol
	s.offerSetByBits, s.intersections = map[string]*offerSet{}, map[[2]*offerSet]*offerSet{}
	t := &problemCompiler{problem: s, filters: map[string]*nodeFilter{}, sizeIDs: map[vec]int{}, quantityIDs: map[string]int{}, poolByKey: map[string]int{}}
	t.compileClasses()
	t.compileKeys()
	for _, c := range s.classes {
		c.filter = t.filterFor(c.spec)
	}
	for _, d := range p.Daemons {
		s.daemons = append(s.daemons, &daemon{spec: d, req: s.toVec(d.Class.Requests), filter: t.filterFor(d.Class)})
	}
	t.compileOffers()
	t.compileNodes(mem)
}

// compileClasses groups the demand into classes. They are placed in this order: priority, constrained before free
// (they have fewer places to go), large before small (what is small fits into what is left), then by key.
func (s *problemCompiler) compileClasses() {
	all, of, pods := s.distinctClasses()
	tooMany := s.compileDims(all)
	classes := make([]class, len(all))
	for n := range classes {
		classes[n].spec, classes[n].req = all[n], s.toVec(all[n].Requests)
	}
	first := s.orderClasses(classes, pods)
	sorted := slices.IsSortedFunc(s.input.Demand, comparePods) // as state has it
	list, places := make([]*model.Pod, len(s.input.Demand)), make([]int32, len(s.input.Demand))
	for i, c := range s.classes {
		n := pods[c.id]
		c.id, c.pods, list = i, list[:0:n], list[n:]
		c.demandOrder, places = places[:0:n], places[n:]
	}
	for i, p := range s.input.Demand {
		c := &classes[first[of[i]]]
		if c.pods = append(c.pods, p); sorted {
			c.demandOrder = append(c.demandOrder, int32(i))
		}
	}
	for _, c := range s.classes {
		if !sorted {
			slices.SortFunc(c.pods, comparePods)
			c.demandOrder = c.demandOrder[:len(c.pods)]
		}
		if tooMany {
			s.refuseUnknownDims(c)
		}
		c.ports, c.separation = c.spec.HostPorts, s.separationOf(c.spec)
		for _, v := range c.spec.Volumes {
			if v.Driver != "" {
				c.csiVolumes = append(c.csiVolumes, v)
			}
		}
	}
	s.compileExclusivities()
}

// distinctClasses lists the classes of the demand as they are first met, by pod which it is of, and by class how many pods. Classes are
// interned, mostly: those of one key that are not come together in orderClasses.
func (s *problemCompiler) distinctClasses() (all []*model.Class, of []int32, pods []int64) {
	number := map[*model.Class]int32{}
	of = make([]int32, len(s.input.Demand))
	for i, p := range s.input.Demand {
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

// compileDims notes the resources that classes ask for, and says whether there are more than one problem may use.
func (s *problemCompiler) compileDims(all []*model.Class) (tooMany bool) {
	var used []bool
	for _, c := range all {
		for d, v := range c.Requests {
			for d >= len(used) {
				used = append(used, false)
			}
			used[d] = used[d] || v > 0
		}
	}
	for d, is := range used {
		if is {
			s.dims = append(s.dims, model.Dim(d))
		}
	}
	if tooMany = len(s.dims) > maxDims; tooMany {
		s.dims = s.dims[:maxDims]
	}
	s.numDims = len(s.dims)
	return tooMany
}

// refuseUnknownDims refuses a class that asks for a resource beyond those that one problem may use.
func (s *problemCompiler) refuseUnknownDims(c *class) {
	for d, v := range c.spec.Requests {
		if _, ok := slices.BinarySearch(s.dims, model.Dim(d)); v > 0 && !ok {
			c.unsolvable = "more resources in one problem than the solver has room for: " + s.resourceName(model.Dim(d))
		}
	}
}

// orderClasses sorts classes into problem.classes, with their places in the list given as ids. Those of one key are one: it returns by
// class the first of its key, to which pods are added up.
func (s *problemCompiler) orderClasses(classes []class, pods []int64) (first []int32) {
	total := vec{}
	for n := range classes {
		for k := range s.numDims {
			total[k] += classes[n].req[k] * pods[n]
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
		for k := range s.numDims {
			if total[k] > 0 {
				size += c.req[k] * 1_000_000 / (total[k]/int64(len(s.input.Demand)) + 1)
			}
		}
		order[n] = ranked{c.spec.Priority, int32(n), constraintRank(c.spec), size, c.spec.Key}
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
	s.classes = make([]*class, 0, len(classes))
	first = make([]int32, len(classes))
	for i, x := range order {
		if i > 0 && x.key == order[i-1].key {
			first[x.n] = first[order[i-1].n]
			pods[first[x.n]] += pods[x.n]
			continue
		}
		first[x.n] = x.n
		classes[x.n].id = int(x.n)
		s.classes = append(s.classes, &classes[x.n])
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

// orderedPod is a pod and its place in Problem.Demand, where that is sorted; else 0.
type orderedPod struct {
	position int32
	pod      *model.Pod
}

// compareOrdered orders pods as comparePods does, by place where that is known.
func compareOrdered(a, b orderedPod) int {
	if a.position != b.position {
		return cmp.Compare(a.position, b.position)
	}
	return comparePods(a.pod, b.pod)
}

// comparePods orders pods by namespace, name and UID.
func comparePods(a, b *model.Pod) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.UID, b.UID)
}
