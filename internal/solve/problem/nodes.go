// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// nodeSet is the existing nodes and those in flight. They are numbered in the order they are filled: existing before
// in flight (what is there can be used now), then by name. What costs more than a look is computed when a node is
// first considered.
type nodeSet struct {
	List      []*ExistingNode
	ShapeOf   []int32   // by node: nodes of one shape have the same labels and taints
	Labels    [][]int32 // by shape: label values, by key
	ExampleOf []int32   // by shape: a node that has it

	antiAffinity      []*model.Class // see AntiAffinityOnNodes
	antiAffinityKnown bool
}

// OpenValue stands for the value of a label that a node in flight will have, while it is not certain.
const OpenValue = int32(-1)

// Occupancy is what pods on a node keep others from: ports and attached volumes.
type Occupancy struct {
	known   bool
	Ports   TakenPorts
	Handles map[string]map[string]bool // by driver: volumes attached

	attached []model.Attachment // volumes that are attached, in use or not
}

// fillingOrder lists nodes in the order they are filled.
func fillingOrder(nodes []ExistingNode) []*ExistingNode {
	out := make([]*ExistingNode, len(nodes))
	for i := range nodes {
		out[i] = &nodes[i]
	}
	order := func(a, b *ExistingNode) int {
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
func (s *problemCompiler) compileNodes(nodes []*ExistingNode) {
	r := &s.inst.Nodes
	r.List = nodes
	n := len(nodes)
	s.inst.InitialFree, r.ShapeOf = make([]int64, n*s.in.NumDims), make([]int32, n)
	for i, x := range r.List {
		for k, d := range s.in.Dims {
			s.inst.InitialFree[i*s.in.NumDims+k] = x.Free.At(d)
		}
		s.in.addExclusivityUnits(s.inst.InitialFree[i*s.in.NumDims : i*s.in.NumDims+s.in.NumDims])
	}
	shapes := map[string]int32{}
	var key []byte
	vals := make([]int32, len(s.in.Keys.Keys))
	for i, x := range r.List {
		key = key[:0]
		for k, name := range s.in.Keys.Keys {
			vals[k] = 0
			if v, ok := x.Labels[name]; ok {
				vals[k] = s.in.Keys.internValue(k, v)
			}
			if x.Open.Get(name) != nil {
				vals[k] = OpenValue
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
		if x.IsStanding() {
			key = append(key, '!')
			for _, plugin := range x.Migrated {
				key = append(append(key, plugin...), 0)
			}
		}
		id, ok := shapes[string(key)]
		if !ok {
			id = int32(len(r.Labels))
			shapes[string(key)] = id
			r.Labels = append(r.Labels, slices.Clone(vals))
			r.ExampleOf = append(r.ExampleOf, int32(i))
		}
		r.ShapeOf[i] = id
	}
	s.compileVolumesInUse()
}

// NodeAdmits says whether the node's labels and taints let classes of the filter on.
func (s *Instance) NodeAdmits(f *nodeFilter, node int) bool {
	r := &s.Nodes
	if f.daemons != nil && !s.admitOnNode(f.daemons, node) {
		return false
	}
	if f.looksAtNames {
		return s.checkNodeAdmits(f, node)
	}
	shape := r.ShapeOf[node]
	for int(shape) >= len(f.NodeVerdicts) {
		f.NodeVerdicts = append(f.NodeVerdicts, make([]int8, len(r.Labels)-len(f.NodeVerdicts))...)
	}
	if f.NodeVerdicts[shape] == 0 {
		f.NodeVerdicts[shape] = 2
		if s.checkNodeAdmits(f, node) {
			f.NodeVerdicts[shape] = 1
		}
	}
	return f.NodeVerdicts[shape] == 1
}

// checkNodeAdmits finds that out.
func (s *Instance) checkNodeAdmits(f *nodeFilter, node int) bool {
	x := s.Nodes.List[node]
	if model.Untolerated(x.Taints, f.Tolerations) != nil {
		return false
	}
	if x.IsStanding() {
		return f.passesStanding(&s.in.Keys, s.Nodes.Labels[s.Nodes.ShapeOf[node]], x.Open, x.Name, x.Migrated)
	}
	return f.Passes(&s.in.Keys, s.Nodes.Labels[s.Nodes.ShapeOf[node]], x.Open, x.Name)
}

// PodsFittingNode is how many pods of the class the node's free resources hold, once DaemonSets still to come have
// theirs.
func (s *Usage) PodsFittingNode(c *Class, node int) int64 {
	free := s.Free[node*s.in.NumDims : node*s.in.NumDims+s.in.NumDims]
	if !FitsSlice(&c.Req, free) {
		return 0
	}
	if !s.daemonsCharged[node] {
		s.ChargeDaemons(node)
		if !FitsSlice(&c.Req, free) {
			return 0
		}
	}
	n := Unlimited
	for k, v := range free {
		if q := c.Req[k]; q > 0 {
			n = min(n, v/q)
		}
	}
	return n
}

// ChargeDaemons takes off a node's free resources what DaemonSets need whose pod is still to come. One that no longer
// fits will not come, and takes nothing.
func (s *Usage) ChargeDaemons(node int) {
	if s.daemonsCharged[node] {
		return
	}
	s.daemonsCharged[node] = true
	if len(s.inst.Daemons) == 0 {
		return
	}
	free := s.Free[node*s.in.NumDims : node*s.in.NumDims+s.in.NumDims]
	x := s.inst.Nodes.List[node]
	for _, d := range s.inst.Daemons {
		if s.inst.NodeAdmits(d.Filter, node) && !runsDaemon(x, d.Spec) && FitsSlice(&d.req, free) {
			for k := range free {
				free[k] -= d.req[k]
			}
		}
	}
}

// runsDaemon says whether a pod of the DaemonSet is on the node.
func runsDaemon(x *ExistingNode, d *model.Daemon) bool {
	for _, p := range x.Pods {
		if d.Runs(p) {
			return true
		}
	}
	return false
}

// OccupancyOf is the ports and volumes that the node's pods hold, and the ports of DaemonSets still to come.
func (s *Usage) OccupancyOf(node int) *Occupancy {
	r := &s.inst.Nodes
	if s.occupancies == nil {
		s.occupancies = make([]Occupancy, len(r.List))
	}
	used := &s.occupancies[node]
	if used.known {
		return used
	}
	used.known, used.attached = true, r.List[node].Attached
	for _, p := range r.List[node].Pods {
		if len(p.Class.HostPorts) > 0 {
			ports := s.in.ports.useOf(p.Class.HostPorts)
			used.Ports = used.Ports.Take(&ports)
		}
		used.addVolumes(p.Class)
	}
	for _, d := range s.inst.Daemons {
		if s.inst.NodeAdmits(d.Filter, node) && !runsDaemon(r.List[node], d.Spec) {
			used.Ports = used.Ports.Take(&d.Ports)
		}
	}
	return used
}

// AddClass adds what one pod of the class holds. A copy of what was held before keeps its ports.
func (used *Occupancy) AddClass(c *Class) {
	if !c.Ports.IsEmpty() {
		used.Ports = slices.Clone(used.Ports).Take(&c.Ports)
	}
	used.addVolumes(c.Spec)
}

// AddClassInPlace is AddClass where nobody else has the bitmap of ports.
func (used *Occupancy) AddClassInPlace(c *Class) {
	used.Ports = used.Ports.Take(&c.Ports)
	used.addVolumes(c.Spec)
}

// addVolumes adds the volumes that one pod of the class has attached.
func (used *Occupancy) addVolumes(c *model.Class) {
	for i := range c.Volumes {
		if v := &c.Volumes[i]; v.Driver != "" {
			used.addHandle(v.Driver, v.Handle)
		}
	}
}

func (used *Occupancy) addHandle(driver, handle string) {
	if used.Handles == nil {
		used.Handles = map[string]map[string]bool{}
	}
	if used.Handles[driver] == nil {
		used.Handles[driver] = map[string]bool{}
	}
	used.Handles[driver][handle] = true
}

// leaving is how many volumes of a driver are attached that no pod uses any more. kube-scheduler counts them too.
func (used *Occupancy) leaving(driver string) (n int) {
	for i := range used.attached {
		if a := &used.attached[i]; a.Driver == driver && !used.Handles[driver][a.Handle] {
			n++
		}
	}
	return n
}

// PodsPortsAllow is how many pods of the class may join where these ports are taken: 0, 1, or unlimited where it has
// no ports.
func PodsPortsAllow(c *Class, taken TakenPorts) int64 {
	switch {
	case c.Ports.IsEmpty():
		return Unlimited
	case taken.Refuse(&c.Ports):
		return 0
	}
	return 1
}

// VolumesFit says whether the volumes of a pod may be attached beside those already there, and if not, whose limit
// they exceed. A volume attached twice counts once.
func VolumesFit(c *Class, used *Occupancy, limits map[string]int64) (string, bool) {
	for i := range c.CsiVolumes {
		v := &c.CsiVolumes[i]
		limit, ok := limits[v.Driver]
		if !ok || slices.ContainsFunc(c.CsiVolumes[:i], func(u model.Volume) bool { return u.Driver == v.Driver }) {
			continue // no limit known, or this driver is done
		}
		added := map[string]bool{}
		for j := range c.CsiVolumes[i:] {
			if w := &c.CsiVolumes[i+j]; w.Driver == v.Driver && !used.Handles[w.Driver][w.Handle] {
				added[w.Handle] = true
			}
		}
		if len(added) > 0 && int64(len(used.Handles[v.Driver])+used.leaving(v.Driver)+len(added)) > limit {
			return v.Driver, false
		}
	}
	return "", true
}

// compileVolumesInUse collects the volumes that one pod alone may use and that one does use.
func (s *problemCompiler) compileVolumesInUse() {
	wanted := false
	for _, c := range s.inst.Classes {
		for _, v := range c.Spec.Volumes {
			wanted = wanted || v.Exclusive
		}
	}
	if !wanted {
		return
	}
	s.inst.InitialVolumesInUse = map[string]bool{}
	for _, x := range s.inst.Nodes.List {
		if x.Drained {
			continue
		}
		for _, p := range x.Pods {
			for _, v := range p.Class.Volumes {
				if v.Exclusive {
					s.inst.InitialVolumesInUse[v.ID()] = true
				}
			}
		}
	}
}

// UseExclusiveVolumes notes that a pod of the class uses its volumes.
func (s *Usage) UseExclusiveVolumes(c *Class) {
	for i := range c.Spec.Volumes {
		if c.Spec.Volumes[i].Exclusive && s.volumesInUse != nil {
			s.volumesInUse[c.Spec.Volumes[i].ID()] = true
		}
	}
}

// ExclusiveVolumeInUse returns the first volume of the class that another pod has for itself, nil if there is none.
func (s *Usage) ExclusiveVolumeInUse(c *Class) *model.Volume {
	for i := range c.Spec.Volumes {
		if v := &c.Spec.Volumes[i]; v.Exclusive && s.volumesInUse[v.ID()] {
			return v
		}
	}
	return nil
}
