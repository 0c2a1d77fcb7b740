// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package topology

import "github.com/dovetail-sh/dovetail/internal/solve/problem"

// Compiled is a problem that is ready to be packed, as whoever packs, bounds or explains it holds its parts. It has no
// methods: each part is asked by its name. While pods are placed only Work, Usage and Topo change, and what classes
// have assigned; the others keep nothing but answers that they were asked for.
type Compiled struct {
	In          *problem.Input
	Work        *problem.Work
	Catalog     *problem.Catalog
	Inst        *problem.Instance
	Usage       *problem.Usage
	Topo        *Topology
	Assignments *Assignments
}

// Compile compiles a problem. Nothing is placed yet.
func Compile(in *problem.Input) Compiled {
	work := &problem.Work{StepLimit: 2 * in.Policy.Work} // however often it is begun anew
	c := Compiled{In: in, Work: work}
	c.Catalog, c.Inst = problem.Compile(in, work)
	c.Usage = problem.NewUsage(in, c.Catalog, c.Inst)
	c.Topo = newTopology(&c)
	c.Assignments = newAssignments(&c)
	return c
}

// newAssignments returns the assignments of a compiled problem; none is found yet.
func newAssignments(c *Compiled) *Assignments {
	return &Assignments{in: c.In, work: c.Work, catalog: c.Catalog, inst: c.Inst, usage: c.Usage, topo: c.Topo,
		ofOffers: map[offerAssignmentKey][]TopologyAssignment{}, ids: map[string]int{}}
}
