// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"maps"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// attachLimits are how many volumes of each CSI driver the nodes of an instance type can attach, as their drivers report
// it. A node to come is taken to attach as many as the node of its type that attaches least, whatever its provider says;
// after the last node of a type is gone what was known of them stays known.
type attachLimits struct {
	nodes map[string]map[string]map[int64]int // by type, driver and limit: how many nodes
	least map[string]map[string]int64         // by type and driver
}

func newAttachLimits() *attachLimits {
	return &attachLimits{nodes: map[string]map[string]map[int64]int{}, least: map[string]map[string]int64{}}
}

// replace takes in a node that is there in place of what it was, either nil if it is not there. It reports whether the
// limits of a type have changed.
func (l *attachLimits) replace(old, node *model.Node) (changed bool) {
	if old != nil && node != nil && old.Labels[model.LabelInstanceType] == node.Labels[model.LabelInstanceType] && maps.Equal(old.CSILimits, node.CSILimits) {
		return false
	}
	l.count(node, 1) // first, so that what is known never runs out between the two
	l.count(old, -1)
	for _, n := range []*model.Node{old, node} {
		changed = n != nil && l.settle(n) || changed
	}
	return changed
}

func (l *attachLimits) count(n *model.Node, by int) {
	if n == nil {
		return
	}
	kind := n.Labels[model.LabelInstanceType]
	if kind == "" {
		return
	}
	for driver, limit := range n.CSILimits {
		if l.nodes[kind] == nil {
			l.nodes[kind] = map[string]map[int64]int{}
		}
		if l.nodes[kind][driver] == nil {
			l.nodes[kind][driver] = map[int64]int{}
		}
		if l.nodes[kind][driver][limit] += by; l.nodes[kind][driver][limit] <= 0 {
			delete(l.nodes[kind][driver], limit)
		}
	}
}

// settle works out the least limits of a node's type and reports whether one has changed.
func (l *attachLimits) settle(n *model.Node) (changed bool) {
	kind := n.Labels[model.LabelInstanceType]
	for driver := range n.CSILimits {
		first := true
		var least int64
		for limit := range l.nodes[kind][driver] {
			if first || limit < least {
				first, least = false, limit
			}
		}
		if was, ok := l.least[kind][driver]; first || ok && was == least {
			continue
		}
		if l.least[kind] == nil {
			l.least[kind] = map[string]int64{}
		}
		l.least[kind][driver], changed = least, true
	}
	return changed
}

// apply returns the types with the limits that nodes of them have. Types of which no node is known keep what their provider says, unless nodes of
// all other types attach less than that: then the driver was told to, with --volume-attach-limit or --reserved-volume-attachments, and so it will be
// on them.
func (l *attachLimits) apply(types []*model.InstanceType) []*model.InstanceType {
	out := types
	short := l.shortfalls(types)
	for i, t := range types {
		known, seen := l.least[t.Name]
		if !seen && len(short) > 0 {
			known = map[string]int64{}
			for driver, by := range short {
				if limit, ok := t.CSILimits[driver]; ok {
					known[driver] = by.of(limit)
				}
			}
		}
		differs := false
		for driver, limit := range known {
			was, ok := t.CSILimits[driver]
			differs = differs || !ok || was != limit
		}
		if !differs {
			continue
		}
		if &out[0] == &types[0] {
			out = append([]*model.InstanceType(nil), types...)
		}
		x := *t
		x.CSILimits = maps.Clone(t.CSILimits)
		if x.CSILimits == nil {
			x.CSILimits = map[string]int64{}
		}
		maps.Copy(x.CSILimits, known)
		out[i] = &x
	}
	return out
}

// shortfall is by how much nodes of all types seen attach less volumes of one driver than their provider says.
type shortfall struct {
	attach, said int64 // of the first of these types
	same         bool  // types of which the provider says other numbers attach as many: it is the driver that sets the number
	differs      bool  // some type attaches another number
	least        int64 // the smallest difference from what the provider says
}

// of returns how many volumes a node of another type will attach, of which its provider says limit.
func (s shortfall) of(limit int64) int64 {
	if s.same && !s.differs {
		return min(limit, s.attach)
	}
	return max(0, limit-s.least)
}

// shortfalls returns, by driver, the shortfall of those among some types of which nodes are known; none of a driver that attaches on nodes of one
// type what their provider says, or more.
func (l *attachLimits) shortfalls(types []*model.InstanceType) map[string]shortfall {
	if len(l.least) == 0 {
		return nil
	}
	out, met := map[string]shortfall{}, map[string]bool{}
	for _, t := range types {
		for driver, limit := range l.least[t.Name] {
			said, ok := t.CSILimits[driver]
			switch have, seen := out[driver]; {
			case !ok:
			case limit >= said:
				met[driver] = true
			case !seen:
				out[driver] = shortfall{attach: limit, said: said, least: said - limit}
			default:
				have.same, have.differs = have.same || said != have.said, have.differs || limit != have.attach
				have.least = min(have.least, said-limit)
				out[driver] = have
			}
		}
	}
	maps.DeleteFunc(out, func(driver string, _ shortfall) bool { return met[driver] })
	return out
}

// noteAttachLimits takes in how many volumes a node can attach, in place of what it was, either nil if it is not there.
func (t *Pools) noteAttachLimits(old, node *model.Node) {
	if t.limits.replace(old, node) {
		t.applyOverlays()
	}
}
