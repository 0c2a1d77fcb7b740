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

// apply returns the types with the limits that nodes of them have. Types of which no node is known stay as they are.
func (l *attachLimits) apply(types []*model.InstanceType) []*model.InstanceType {
	out := types
	for i, t := range types {
		known := l.least[t.Name]
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

// noteAttachLimits takes in how many volumes a node can attach, in place of what it was, either nil if it is not there.
func (t *Pools) noteAttachLimits(old, node *model.Node) {
	if t.limits.replace(old, node) {
		t.applyOverlays()
	}
}
