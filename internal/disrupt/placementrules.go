// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// admits reports whether the labels and taints of a node let a class on it.
func (f *freeCapacity) admits(c *model.Class, i int) bool {
	const yes, no = 1, 2
	v := f.admitted[c]
	if v == nil {
		v = make([]int8, len(f.nodes))
		f.admitted[c] = v
	}
	if v[i] == 0 {
		v[i] = no
		if nodeAdmits(f.nodes[i], c) {
			v[i] = yes
		}
	}
	return v[i] == yes
}

// nodeAdmits reports whether a class tolerates a node's taints and one of its node terms matches the node.
func nodeAdmits(node *solve.ExistingNode, c *model.Class) bool {
	return model.Untolerated(node.Taints, c.Tolerations) == nil && c.AllowsStanding(node.Labels, node.Name)
}

// needsSolver reports whether more than capacity, labels and taints decides where pods of a class may go: affinity,
// anti-affinity of its own or of pods anywhere, hard topology spread, host ports, volumes. Such pods are left to solve.
func (f *freeCapacity) needsSolver(c *model.Class) bool {
	v, ok := f.solverNeeds[c]
	if !ok {
		v = len(c.Affinity) > 0 || len(c.AntiAffinity) > 0 || len(c.HostPorts) > 0 || len(c.Volumes) > 0 || len(c.Unsolved) > 0 || c.Excess.What != ""
		for _, s := range c.Spread {
			v = v || s.Hard
		}
		for _, o := range f.repelling {
			for _, t := range o.AntiAffinity {
				v = v || maySelect(&t.Selector, c)
			}
		}
		f.solverNeeds[c] = v
	}
	return v
}

// maySelect reports whether a selector may select pods of a class. One by namespace labels is taken to match every
// namespace.
func maySelect(s *model.Selector, c *model.Class) bool {
	if s.Pods == nil || !s.Pods.Matches(c.Labels) {
		return false
	}
	return s.NamespaceL != nil || slices.Contains(s.Namespaces, c.Namespace)
}

// addRepelling adds to a list the classes of pods whose anti-affinity keeps others away, but for those already seen.
func addRepelling(list []*model.Class, pods []*model.Pod, seen map[*model.Class]bool) []*model.Class {
	for _, p := range pods {
		if len(p.Class.AntiAffinity) > 0 && !seen[p.Class] {
			seen[p.Class] = true
			list = append(list, p.Class)
		}
	}
	return list
}
