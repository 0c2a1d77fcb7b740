// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// nodeSet is the existing nodes and those in flight. They are numbered in the order they are filled: existing before
// in flight (what is there can be used now), then by name. What costs more than a look is computed when a node is
// first considered.
type nodeSet struct {
	list           []*Room
	free           []int64     // numDims amounts a node
	shapeOf        []int32     // by node: nodes of one shape have the same labels and taints
	labels         [][]int32   // by shape: label values, by key
	exampleOf      []int32     // by shape: a node that has it
	daemonsCharged []bool      // by node: DaemonSets still to come are taken off free
	occupancies    []occupancy // by node: ports and volumes in use; nil until somebody asks

	antiAffinity      []*model.Class // see antiAffinityOnNodes
	antiAffinityKnown bool
}

// openValue stands for the value of a label that a node in flight will have, while it is not certain.
const openValue = int32(-1)

// occupancy is what pods on a node keep others from: ports and attached volumes.
type occupancy struct {
	known   bool
	ports   []model.HostPort
	handles map[string]map[string]bool // by driver: volumes attached
}

// fillingOrder lists nodes in the order they are filled.
func fillingOrder(rooms []Room) []*Room {
	out := make([]*Room, len(rooms))
	for i := range rooms {
		out[i] = &rooms[i]
	}
	order := func(a, b *Room) int {
		switch {
		case a.InFlight == b.InFlight:
			return strings.Compare(a.Name, b.Name)
		case b.InFlight:
			return -1
		}
		return 1
	}
	if !slices.IsSortedFunc(out, order) {
		slices.SortFunc(out, order)
	}
	return out
}

// compileNodes notes what is free on each node and groups nodes into shapes: labels that anybody looks at, taints,
// and for a node in flight what is still open. A class is held against a shape once.
func (s *problemCompiler) compileNodes(mem Memory) {
	r := &s.nodes
	n := len(s.input.Rooms)
	if n > 0 && len(mem.nodes) == n && &mem.nodes[0] == &s.input.Rooms[0] {
		r.list = mem.nodesInOrder
	} else {
		r.list = fillingOrder(s.input.Rooms)
	}
	s.initialFree, r.shapeOf, r.daemonsCharged = make([]int64, n*s.numDims), make([]int32, n), make([]bool, n)
	for i, x := range r.list {
		for k, d := range s.dims {
			s.initialFree[i*s.numDims+k] = x.Free.At(d)
		}
		s.addExclusivityUnits(s.initialFree[i*s.numDims : i*s.numDims+s.numDims])
	}
	shapes := map[string]int32{}
	var key []byte
	vals := make([]int32, len(s.keys.keys))
	for i, x := range r.list {
		key = key[:0]
		for k, name := range s.keys.keys {
			vals[k] = 0
			if v, ok := x.Labels[name]; ok {
				vals[k] = s.keys.internValue(k, v)
			}
			if x.Open.Get(name) != nil {
				vals[k] = openValue
			}
			key = binary.LittleEndian.AppendUint32(key, uint32(vals[k]))
		}
		for _, t := range x.Taints {
			key = append(key, t.Key...)
			key = append(append(key, '='), t.Value...)
			key = append(append(append(key, ':'), t.Effect...), 0)
		}
		if len(x.Open) > 0 {
			key = append(key, x.Open.Key()...)
		}
		id, ok := shapes[string(key)]
		if !ok {
			id = int32(len(r.labels))
			shapes[string(key)] = id
			r.labels = append(r.labels, slices.Clone(vals))
			r.exampleOf = append(r.exampleOf, int32(i))
		}
		r.shapeOf[i] = id
	}
	r.free = slices.Clone(s.initialFree)
	s.compileVolumesInUse()
	s.volumesInUse = maps.Clone(s.initialVolumesInUse)
}

// nodeAdmits says whether the node's labels and taints let classes of the filter on.
func (s *problem) nodeAdmits(f *nodeFilter, node int) bool {
	r := &s.nodes
	if f.looksAtNames {
		return s.checkNodeAdmits(f, node)
	}
	shape := r.shapeOf[node]
	for int(shape) >= len(f.nodeVerdicts) {
		f.nodeVerdicts = append(f.nodeVerdicts, make([]int8, len(r.labels)-len(f.nodeVerdicts))...)
	}
	if f.nodeVerdicts[shape] == 0 {
		f.nodeVerdicts[shape] = 2
		if s.checkNodeAdmits(f, node) {
			f.nodeVerdicts[shape] = 1
		}
	}
	return f.nodeVerdicts[shape] == 1
}

// checkNodeAdmits finds that out.
func (s *problem) checkNodeAdmits(f *nodeFilter, node int) bool {
	x := s.nodes.list[node]
	return model.Untolerated(x.Taints, f.tolerations) == nil &&
		f.passes(&s.keys, s.nodes.labels[s.nodes.shapeOf[node]], x.Open, x.Name)
}

// podsFittingNode is how many pods of the class the node's free resources hold, once DaemonSets still to come have
// theirs.
func (s *problem) podsFittingNode(c *class, node int) int64 {
	free := s.nodes.free[node*s.numDims : node*s.numDims+s.numDims]
	if !fitsSlice(&c.req, free) {
		return 0
	}
	if !s.nodes.daemonsCharged[node] {
		s.chargeDaemons(node)
		if !fitsSlice(&c.req, free) {
			return 0
		}
	}
	n := unlimited
	for k, v := range free {
		if q := c.req[k]; q > 0 {
			n = min(n, v/q)
		}
	}
	return n
}

// chargeDaemons takes off a node's free resources what DaemonSets need whose pod is still to come. One that no longer
// fits will not come, and takes nothing.
func (s *problem) chargeDaemons(node int) {
	if s.nodes.daemonsCharged[node] {
		return
	}
	s.nodes.daemonsCharged[node] = true
	if len(s.daemons) == 0 {
		return
	}
	free := s.nodes.free[node*s.numDims : node*s.numDims+s.numDims]
	x := s.nodes.list[node]
	for _, d := range s.daemons {
		if s.nodeAdmits(d.filter, node) && !runsDaemon(x, d.spec) && fitsSlice(&d.req, free) {
			for k := range free {
				free[k] -= d.req[k]
			}
		}
	}
}

// runsDaemon says whether a pod of the DaemonSet is on the node.
func runsDaemon(x *Room, d *model.Daemon) bool {
	for _, p := range x.Pods {
		if p.Owner.Kind == "DaemonSet" && p.Owner.Name == d.Name && p.Namespace == d.Namespace {
			return true
		}
	}
	return false
}

// occupancyOf is the ports and volumes that the node's pods hold, and the ports of DaemonSets still to come.
func (s *problem) occupancyOf(node int) *occupancy {
	r := &s.nodes
	if r.occupancies == nil {
		r.occupancies = make([]occupancy, len(r.list))
	}
	used := &r.occupancies[node]
	if used.known {
		return used
	}
	used.known = true
	for _, p := range r.list[node].Pods {
		used.addClass(p.Class)
	}
	for _, d := range s.daemons {
		if s.nodeAdmits(d.filter, node) && !runsDaemon(r.list[node], d.spec) {
			used.ports = append(used.ports, d.spec.Class.HostPorts...)
		}
	}
	return used
}

// addClass adds what one pod of the class holds.
func (used *occupancy) addClass(c *model.Class) {
	used.ports = append(used.ports, c.HostPorts...)
	for _, v := range c.Volumes {
		if v.Driver == "" {
			continue
		}
		if used.handles == nil {
			used.handles = map[string]map[string]bool{}
		}
		if used.handles[v.Driver] == nil {
			used.handles[v.Driver] = map[string]bool{}
		}
		used.handles[v.Driver][v.Handle] = true
	}
}

// podsPortsAllow is how many pods of the class may join where these ports are taken: 0, 1, or unlimited where it has
// no ports.
func podsPortsAllow(c *class, taken []model.HostPort) int64 {
	if len(c.ports) == 0 {
		return unlimited
	}
	for _, p := range c.ports {
		for _, o := range taken {
			if p.Conflicts(o) {
				return 0
			}
		}
	}
	return 1
}

// volumesFit says whether the volumes of a pod may be attached beside those already there, and if not, whose limit
// they exceed. A volume attached twice counts once.
func volumesFit(c *class, handles map[string]map[string]bool, limits map[string]int64) (string, bool) {
	for i, v := range c.csiVolumes {
		limit, ok := limits[v.Driver]
		if !ok || slices.ContainsFunc(c.csiVolumes[:i], func(u model.Volume) bool { return u.Driver == v.Driver }) {
			continue // no limit known, or this driver is done
		}
		added := map[string]bool{}
		for _, w := range c.csiVolumes[i:] {
			if w.Driver == v.Driver && !handles[w.Driver][w.Handle] {
				added[w.Handle] = true
			}
		}
		if len(added) > 0 && int64(len(handles[v.Driver])+len(added)) > limit {
			return v.Driver, false
		}
	}
	return "", true
}

// compileVolumesInUse collects the volumes that one pod alone may use and that one does use.
func (s *problemCompiler) compileVolumesInUse() {
	wanted := false
	for _, c := range s.classes {
		for _, v := range c.spec.Volumes {
			wanted = wanted || v.Exclusive
		}
	}
	if !wanted {
		return
	}
	s.initialVolumesInUse = map[string]bool{}
	for _, x := range s.nodes.list {
		if x.Drained {
			continue
		}
		for _, p := range x.Pods {
			for _, v := range p.Class.Volumes {
				if v.Exclusive {
					s.initialVolumesInUse[volumeID(&v)] = true
				}
			}
		}
	}
}

// volumeID names a volume: by its handle, before there is one by its claim.
func volumeID(v *model.Volume) string { return cmp.Or(v.Handle, v.Claim) }

// useExclusiveVolumes notes that a pod of the class uses its volumes.
func (s *problem) useExclusiveVolumes(c *class) {
	for i := range c.spec.Volumes {
		if c.spec.Volumes[i].Exclusive && s.volumesInUse != nil {
			s.volumesInUse[volumeID(&c.spec.Volumes[i])] = true
		}
	}
}

// exclusiveVolumeInUse returns the first volume of the class that another pod has for itself, nil if there is none.
func (s *problem) exclusiveVolumeInUse(c *class) *model.Volume {
	for i := range c.spec.Volumes {
		if v := &c.spec.Volumes[i]; v.Exclusive && s.volumesInUse[volumeID(v)] {
			return v
		}
	}
	return nil
}
