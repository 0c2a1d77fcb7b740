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
