// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// NodeConstraints are checked in this order. The reason is that of the first one that refuses.
var NodeConstraints = [...]*NodeConstraint{&hostPorts, &exclusiveVolumes, &volumeLimits}

// Dominates reports whether a node holds everything that another node with traits b holds, ignoring resources.
func (a *NodeTraits) Dominates(b *NodeTraits) bool {
	for _, x := range NodeConstraints {
		if x.dominates != nil && !x.dominates(a, b) {
			return false
		}
	}
	return true
}

// IsEmpty reports whether the node has nothing that a constraint checks.
func (used *Occupancy) IsEmpty() bool { return len(used.Ports) == 0 && len(used.Handles) == 0 }

// Add adds pods of the class, once per class, for any number of its pods.
func (used *Occupancy) Add(c *Class) {
	if !c.Occupies {
		return
	}
	for _, x := range NodeConstraints {
		if x.add != nil {
			x.add(used, c)
		}
	}
}

// AddToCopy is like Add, for a copy that shares data.
func (used *Occupancy) AddToCopy(c *Class) {
	if !c.Ports.IsEmpty() {
		used.Ports = slices.Clone(used.Ports)
	}
	used.Add(c)
}

// Allows returns how many more pods of the class may join those on a node.
func (used *Occupancy) Allows(c *Class, on NodeTraits) int64 {
	n := Unlimited
	if !c.Occupies {
		return n
	}
	for _, x := range NodeConstraints {
		if x.allows != nil {
			n = min(n, x.allows(used, c, on))
		}
	}
	return n
}

// FitsOn reports whether the contents of a bin are allowed on a machine of the offer, ignoring resources.
func (used *Occupancy) FitsOn(o *Offer) bool {
	for _, x := range NodeConstraints {
		if x.fits != nil && !x.fits(used, o) {
			return false
		}
	}
	return true
}

// MostAlone returns the maximum number of pods of the class on one node, regardless of other pods.
func (c *Class) MostAlone(in *Input) int64 {
	n := Unlimited
	for _, x := range NodeConstraints {
		if x.alone != nil && x.Concerns(in, c) {
			n = min(n, x.alone(c))
		}
	}
	return n
}

// Concerns reports whether the constraint checks pods of the class.
func (x *NodeConstraint) Concerns(in *Input, c *Class) bool {
	return x.concerns != nil && x.concerns(in, c)
}

// occupies reports whether some constraint checks pods of the class: see Class.Occupies.
func (c *Class) occupies(in *Input) bool {
	return slices.ContainsFunc(NodeConstraints[:], func(x *NodeConstraint) bool { return x.Concerns(in, c) })
}

// ExplainNode returns the reason of the first constraint that excludes pods of the class from every new node of the
// pool, nil if there is none.
func (u *Usage) ExplainNode(c *Class, pool int) *plan.Reason {
	for _, x := range NodeConstraints {
		if x.explain == nil {
			continue
		}
		if r := x.explain(u, c, pool); r != nil {
			return r
		}
	}
	return nil
}
