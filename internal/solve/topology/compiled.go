// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package topology

import "github.com/dovetail-sh/dovetail/internal/solve/problem"

// Compiled is a compiled problem, as used by packages pack, bound and explain. It has no methods: use its parts by name.
// While pods are placed, only Work, Usage and Topo change, and the assigned pods of classes; the other parts only cache
// results.
type Compiled struct {
	In          *problem.Input
	Work        *problem.Work
	Catalog     *problem.Catalog
	Inst        *problem.Instance
	Usage       *problem.Usage
	Topo        *Topology
	Assignments *Assignments
}
