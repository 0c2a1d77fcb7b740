// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

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
			if s.registers {
				key = append(key, '!')
				for _, driver := range x.CSIDrivers {
					key = append(append(key, driver...), 0)
				}
				if x.CSIDrivers == nil {
					key = append(key, '-')
				}
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

// NodeAdmits reports whether the labels and taints of a node admit classes of the filter.
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
		return f.passesStanding(&s.in.Keys, s.Nodes.Labels[s.Nodes.ShapeOf[node]], x)
	}
	return f.Passes(&s.in.Keys, s.Nodes.Labels[s.Nodes.ShapeOf[node]], x.Open, x.Name)
}

// PodsFittingNode returns how many pods of the class fit in the free resources of a node after its missing DaemonSet
// pods.
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

// ChargeDaemons subtracts the requests of missing DaemonSet pods from the free resources of a node. A pod that does not
// fit is ignored, because it will not be scheduled.
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

// runsDaemon reports whether a pod of the DaemonSet is on the node.
func runsDaemon(x *ExistingNode, d *model.Daemon) bool {
	return slices.ContainsFunc(x.Pods, d.Runs)
}

// OccupancyOf returns the ports and volumes used by pods on a node, and the ports of missing DaemonSet pods.
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

// admitOnNode reports whether classes of the filter may be on an existing node, given the pods of DaemonSets that are there or
// come, and the pods that meet their affinity.
func (s *Instance) admitOnNode(r *daemonRules, node int) bool {
	if r == nil {
		return true
	}
	if r.nodes == nil {
		r.nodes = make([]int8, len(s.Nodes.List))
	}
	if r.nodes[node] == 0 {
		r.nodes[node] = 2
		if s.checkAdmitOnNode(r, node) {
			r.nodes[node] = 1
		}
	}
	return r.nodes[node] == 1
}

// checkAdmitOnNode finds that out. Rules against pods that are there are counted elsewhere (topology).
func (s *Instance) checkAdmitOnNode(r *daemonRules, node int) bool {
	x, beside := s.Nodes.List[node], false
	for _, i := range s.comingTo(node) {
		if r.apart != nil && r.apart[i] != nil {
			return false
		}
		beside = beside || r.near != nil && r.near[i]
	}
	return r.near == nil || r.isNear(&s.in.Keys, s.Nodes.Labels[s.Nodes.ShapeOf[node]], beside || s.in.hasPodSelected(x, r.selectors))
}

// comingTo returns the DaemonSets whose pods are missing on an existing node: those that the node admits, and that fit.
func (s *Instance) comingTo(node int) (out []int) {
	free := slices.Clone(s.InitialFree[node*s.in.NumDims : node*s.in.NumDims+s.in.NumDims])
	for i, d := range s.Daemons {
		if s.NodeAdmits(d.Filter, node) && !runsDaemon(s.Nodes.List[node], d.Spec) && FitsSlice(&d.req, free) {
			for k := range free {
				free[k] -= d.req[k]
			}
			out = append(out, i)
		}
	}
	return out
}
