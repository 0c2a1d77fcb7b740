// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// OwnLimits represents the limits of a NodePool among those of Problem.Limits.
const OwnLimits = -1

// PoolLimits are the limits that apply to a pool's nodes while bins are opened: its own, and those shared with other
// pools. The remainder of shared limits is stored once for all pools.
//
// A node is charged as a vector: the capacity of its instance type and, if some limit is in dollars, its price in
// micro-dollars per hour after the last resource.
type PoolLimits struct {
	Limited bool
	Has     []bool // by resource: some limit applies to it

	counts []*limitCount
}

// limitCount is the remainder of one limit.
type limitCount struct {
	id      int    // of all that there are, by which they are told apart
	limit   int    // of Problem.Limits, or OwnLimits
	has     []bool // by resource
	amounts model.Resources
	nodes   int64 // negative: not limited
}

// dollarDim is the place of a node's price in what limits are charged.
func dollarDim(p *Problem) model.Dim { return model.Dim(len(p.ResourceNames)) }

// newPoolLimits returns the limits of each pool of a problem. Several pools that are one NodePool share its limits.
func newPoolLimits(p *Problem) []PoolLimits {
	var shared []*limitCount
	for i := range p.Limits {
		shared = append(shared, newSharedCount(p, i))
	}
	own := map[string]*limitCount{}
	out := make([]PoolLimits, len(p.Pools))
	for i := range p.Pools {
		x := &p.Pools[i]
		c := own[x.Name]
		if c == nil {
			c = &limitCount{id: len(p.Limits) + i, limit: OwnLimits, has: x.HasLimit, amounts: x.Left.Clone(), nodes: x.NodesLeft}
			own[x.Name] = c
		}
		out[i].add(c)
		for _, l := range x.Shared {
			out[i].add(shared[l])
		}
	}
	return out
}

// newSharedCount is what is left of one of a problem's limits. One that leaves a node of the largest type for each pod
// limits nothing.
func newSharedCount(p *Problem, limit int) *limitCount {
	l := &p.Limits[limit]
	dollars := dollarDim(p)
	c := &limitCount{id: limit, limit: limit, has: slices.Clone(l.HasMost), amounts: l.Most.Sub(l.Used), nodes: -1}
	var most model.Resources // that one node takes
	for i := range p.Pools {
		if !slices.Contains(p.Pools[i].Shared, limit) {
			continue
		}
		for _, t := range p.Pools[i].Types {
			most = most.Max(t.Capacity)
			for j := range t.Offerings {
				most = most.Max(model.Resources(nil).With(dollars, t.Offerings[j].PriceMicro))
			}
		}
	}
	if l.Nodes >= 0 {
		c.nodes = max(0, l.Nodes-l.UsedNodes)
	}
	if l.MicroPerHour >= 0 {
		c.has = append(c.has, make([]bool, int(dollars)+1-len(c.has))...)
		c.has[dollars] = true
		c.amounts = c.amounts.With(dollars, l.MicroPerHour-l.UsedMicro)
	}
	pods := int64(len(p.Demand))
	for d := range c.has {
		if d := model.Dim(d); pods == 0 || c.amounts.At(d)/pods >= most.At(d) {
			c.has[d] = false
		}
	}
	if c.nodes >= pods {
		c.nodes = -1
	}
	return c
}

// add makes a limit apply to the pool's nodes, if it limits anything.
func (l *PoolLimits) add(c *limitCount) {
	limited := c.nodes >= 0
	for d, h := range c.has {
		for h && d >= len(l.Has) {
			l.Has = append(l.Has, false)
		}
		if h {
			l.Has[d], limited = true, true
		}
	}
	for len(c.amounts) < len(c.has) {
		c.amounts = append(c.amounts, 0)
	}
	if limited {
		l.Limited, l.counts = true, append(l.counts, c)
	}
}

// CloneLimits returns a copy that can be charged.
func CloneLimits(limits []PoolLimits) []PoolLimits {
	out := slices.Clone(limits)
	copies := map[*limitCount]*limitCount{}
	for i := range out {
		out[i].counts = slices.Clone(out[i].counts)
		for j, c := range out[i].counts {
			if copies[c] == nil {
				x := *c
				x.amounts = c.amounts.Clone()
				copies[c] = &x
			}
			out[i].counts[j] = copies[c]
		}
	}
	return out
}

// RestoreLimits reverts all charges of a clone of limits.
func RestoreLimits(clone, limits []PoolLimits) {
	for i := range clone {
		for j, c := range clone[i].counts {
			c.nodes = limits[i].counts[j].nodes
			copy(c.amounts, limits[i].counts[j].amounts)
		}
	}
}

// copiesAllowed is how many machines of this charge one limit still allows.
func (c *limitCount) copiesAllowed(charge model.Resources) int64 {
	n := Unlimited
	if c.nodes >= 0 {
		n = c.nodes
	}
	for d, h := range c.has {
		if x := charge.At(model.Dim(d)); h && x > 0 {
			n = min(n, max(0, c.amounts[d])/x)
		}
	}
	return n
}

// CopiesAllowed returns how many more machines with this charge the limits allow.
func (l *PoolLimits) CopiesAllowed(charge model.Resources) int64 {
	n := Unlimited
	for _, c := range l.counts {
		n = min(n, c.copiesAllowed(charge))
	}
	return n
}

// Charge subtracts n machines with this charge from the limits; a negative n adds them.
func (l *PoolLimits) Charge(charge model.Resources, n int64) {
	for _, c := range l.counts {
		if c.nodes >= 0 {
			c.nodes -= n
		}
		for d, h := range c.has {
			if h {
				c.amounts[d] -= charge.At(model.Dim(d)) * n
			}
		}
	}
}

// Shortage is a limit that does not allow one more machine, with the exhausted dimension: nodes, or a resource.
type Shortage struct {
	Limit      int // index in Problem.Limits, or OwnLimits
	Nodes      bool
	Dim        model.Dim
	Need, Left int64
}

// Shortage returns the first limit that does not allow a machine with this charge, the pool's own limits before shared
// ones; false if all allow it.
func (l *PoolLimits) Shortage(charge model.Resources) (Shortage, bool) {
	for _, c := range l.counts {
		if c.nodes == 0 {
			return Shortage{Limit: c.limit, Nodes: true, Need: 1}, true
		}
		for d, h := range c.has {
			if need := charge.At(model.Dim(d)); h && need > 0 && c.amounts[d] < need {
				return Shortage{Limit: c.limit, Dim: model.Dim(d), Need: need, Left: max(0, c.amounts[d])}, true
			}
		}
	}
	return Shortage{}, false
}

// SharedWith returns the indexes of the Problem.Limits that apply to the pool's nodes.
func (l *PoolLimits) SharedWith() (out []int) {
	for _, c := range l.counts {
		if c.limit != OwnLimits {
			out = append(out, c.limit)
		}
	}
	return out
}
