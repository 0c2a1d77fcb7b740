// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// capacityTree is the free capacity of nodes as plain numbers, under a binary tree that leads to the fullest node
// with enough of every resource while visiting few. Each point of the tree holds the largest free amount of each
// resource among the nodes below it; a point's children are 2k and 2k+1, its root is 1, and node i is leaf leaves+i.
// Memory keeps a tree from one search to the next, in which few nodes are different.
type capacityTree struct {
	indexOf     map[string]int // by node name; shared by trees of the same nodes
	dims        int
	free        []int64    // dims numbers a node; of a closed node all far below zero
	allocatable []float64  // CPU and memory of each node
	largest     [2]float64 // allocatable CPU and memory of the largest node
	leaves      int        // a power of two
	maxFree     []int64    // dims numbers a point: the largest free amounts below it
	maxFill     []float64  // a number a point: how full the fullest node below it is, by CPU and memory together
}

// closedCapacity is less free capacity than any node has.
const closedCapacity = math.MinInt64 / 8

// newCapacityTree is the tree of these nodes, in their order.
func newCapacityTree(nodes []*solve.ExistingNode, dims int) capacityTree {
	n := len(nodes)
	t := capacityTree{dims: dims, indexOf: make(map[string]int, n), leaves: 1, free: make([]int64, n*dims), allocatable: make([]float64, n*2)}
	for t.leaves < n {
		t.leaves *= 2
	}
	for i, node := range nodes {
		t.indexOf[node.Name] = i
		t.writeNode(i, node)
	}
	t.maxFree, t.maxFill = make([]int64, 2*t.leaves*dims), make([]float64, 2*t.leaves)
	for i := range t.maxFree {
		t.maxFree[i] = math.MinInt64
	}
	for i := range t.maxFill {
		t.maxFill[i] = math.Inf(-1)
	}
	for i := range nodes {
		t.updateLeaf(i)
	}
	for k := t.leaves - 1; k >= 1; k-- {
		t.joinChildren(k)
	}
	return t
}

// clone is a copy that may be written to.
func (t *capacityTree) clone() capacityTree {
	c := *t
	c.free, c.maxFree, c.maxFill = slices.Clone(t.free), slices.Clone(t.maxFree), slices.Clone(t.maxFill)
	return c
}

// freeOf is the free capacity of a node, one number a resource. Who writes to it must call updateNode.
func (t *capacityTree) freeOf(i int) []int64 { return t.free[i*t.dims : (i+1)*t.dims] }

// writeNode notes a node's free and allocatable capacity, without the points above it.
func (t *capacityTree) writeNode(i int, node *solve.ExistingNode) {
	for d := range t.dims {
		t.free[i*t.dims+d] = node.Free.At(model.Dim(d))
	}
	for d := range 2 {
		t.allocatable[i*2+d] = float64(max(1, node.Allocatable.At(model.Dim(d))))
		t.largest[d] = max(t.largest[d], t.allocatable[i*2+d])
	}
}

// matchesNode reports whether a node's capacity is still what was noted.
func (t *capacityTree) matchesNode(i int, node *solve.ExistingNode) bool {
	for d, v := range t.freeOf(i) {
		if node.Free.At(model.Dim(d)) != v {
			return false
		}
	}
	for d := range 2 {
		if t.allocatable[i*2+d] != float64(max(1, node.Allocatable.At(model.Dim(d)))) {
			return false
		}
	}
	return true
}

// updateNode brings a node's leaf and all points above it up to its free capacity.
func (t *capacityTree) updateNode(i int) {
	t.updateLeaf(i)
	for k := (t.leaves + i) / 2; k >= 1; k /= 2 {
		t.joinChildren(k)
	}
}

func (t *capacityTree) updateLeaf(i int) {
	k, free := t.leaves+i, t.freeOf(i)
	copy(t.maxFree[k*t.dims:], free)
	t.maxFill[k] = -float64(free[0])/t.allocatable[i*2] - float64(free[1])/t.allocatable[i*2+1]
	if free[0] < closedCapacity {
		t.maxFill[k] = math.Inf(-1)
	}
}

func (t *capacityTree) joinChildren(k int) {
	a, b := 2*k, 2*k+1
	for d := range t.dims {
		t.maxFree[k*t.dims+d] = max(t.maxFree[a*t.dims+d], t.maxFree[b*t.dims+d])
	}
	t.maxFill[k] = max(t.maxFill[a], t.maxFill[b])
}

// mayFitBelow reports whether the requests of a class may fit a node below a point; false: they fit none.
func (t *capacityTree) mayFitBelow(k int, c *model.Class) bool {
	most := t.maxFree[k*t.dims : (k+1)*t.dims]
	for d, v := range c.Requests {
		if v > 0 && (d >= t.dims || v > most[d]) {
			return false
		}
	}
	return true
}

// podsThatFit is for how many pods of a class a node has free capacity, whatever its labels and taints.
func (t *capacityTree) podsThatFit(i int, c *model.Class, kept model.Resources) int64 {
	n := int64(math.MaxInt32) // of a class that requests nothing
	for d, v := range c.Requests {
		switch {
		case v > 0 && d >= t.dims:
			return 0
		case v > 0:
			n = min(n, max(0, t.free[i*t.dims+d]-kept.At(model.Dim(d)))/v)
		}
	}
	return n
}

// shareOfLargest is the larger of a class's shares of the largest node's CPU and memory.
func (t *capacityTree) shareOfLargest(c *model.Class) float64 {
	return max(float64(c.Requests.At(model.CPU))/max(1, t.largest[0]), float64(c.Requests.At(model.Memory))/max(1, t.largest[1]))
}
