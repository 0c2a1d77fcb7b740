// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// observe compares an input with the last one. It returns a new memory, which says what has changed and keeps the
// verdicts that still hold, and the free-capacity index of the input.
func observe(in *Input, old Memory) (Memory, *freeCapacity) {
	m := old
	m.Work, m.WasWide, m.Judged = 0, false, nil
	var rules strings.Builder
	var types []*model.InstanceType
	for _, p := range in.Pools {
		rules.WriteString(p.Name + "|" + p.Requirements.Key() + "|" + p.ConsolidationPolicy + "|" + strconv.FormatBool(p.Ready) + "|" +
			p.Limits.Key() + "|" + strconv.FormatInt(p.NodeLimit, 10) + "\n")
		types = append(types, p.Types...)
	}
	for _, l := range in.Limits {
		rules.WriteString(l.Name + "|" + l.Selector.Key() + "|" + l.Most.Key() + "|" + strconv.FormatInt(l.Nodes, 10) + "|" + strconv.FormatInt(l.MicroPerHour, 10) + "\n")
	}
	forget := old.duals == nil
	if rules.String() != m.poolRules || !slices.Equal(types, m.types) { // what was calculated with dual prices is void
		forget, m.duals = true, nil
		m.poolRules, m.types = rules.String(), types
	}
	for pool, n := range in.BudgetLeft {
		if n != m.budgetLeft[pool] { // larger sets may go, or other sets of those that are left
			m.changed = true
		}
	}
	m.changed = m.changed || forget || len(in.UnboundInTransit) != m.inTransit || in.ForecastKey != m.forecastKey
	if paused := strings.Join(slices.Sorted(maps.Keys(in.PausedUntil)), " "); paused != m.paused {
		m.changed, m.paused = true, paused
	}
	m.budgetLeft, m.inTransit, m.forecastKey = in.BudgetLeft, len(in.UnboundInTransit), in.ForecastKey
	capacity := m.observeNodes(in, &old.nodes)
	m.observeCandidates(in, old.verdicts, forget)
	return m, capacity
}

// observeNodes is the free-capacity index of the input. It adds to freedValue what has come free since the last
// input, and notes for the next comparison what nodes are like; the tree is kept by Consolidate once the search has
// ended.
func (m *Memory) observeNodes(in *Input, old *nodeMemory) *freeCapacity {
	f := emptyFreeCapacity(in.Daemons)
	f.nodes = make([]*solve.ExistingNode, 0, len(old.names)+8)
	dims := len(in.ResourceNames)
	seen := map[*model.Class]bool{}
	same := old.tree.indexOf != nil && old.tree.dims == dims // the same nodes as before
	for i := range in.Nodes {
		node := &in.Nodes[i]
		if isOpen(node) {
			k := len(f.nodes)
			f.nodes = append(f.nodes, node)
			same = same && k < len(old.names) && old.names[k] == node.Name
		} else if !node.Drained {
			f.repelling = addRepelling(f.repelling, node.Pods, seen)
		}
	}
	n := len(f.nodes)
	same = same && n == len(old.names)
	m.nodes = nodeMemory{pods: make([][]*model.Pod, n), taints: make([]int, n), repelling: make([][]*model.Class, n)}
	if same {
		f.capacityTree = old.tree.clone()
		m.nodes.names = old.names
	} else {
		f.capacityTree = newCapacityTree(f.nodes, dims)
		m.nodes.names = make([]string, n)
		m.changed = true
	}
	for i, node := range f.nodes {
		was, known := i, same
		if !same {
			m.nodes.names[i] = node.Name
			was, known = old.tree.indexOf[node.Name]
		}
		m.nodes.pods[i], m.nodes.taints[i] = node.Pods, len(node.Taints)
		if known && samePods(old.pods[was], node.Pods) {
			m.nodes.repelling[i] = old.repelling[was]
		} else {
			m.nodes.repelling[i] = addRepelling(nil, node.Pods, map[*model.Class]bool{})
		}
		for _, c := range m.nodes.repelling[i] {
			if !seen[c] {
				seen[c] = true
				f.repelling = append(f.repelling, c)
			}
		}
		switch {
		case !known || old.taints[was] > len(node.Taints):
			m.freedValue += m.duals.valueOf(node.Free) + 1
			m.changed = true
		case !old.tree.matchesNode(was, node):
			m.changed = true
			m.addFreed(node, old.tree.freeOf(was))
			if same {
				f.writeNode(i, node)
				f.updateNode(i)
			}
		}
	}
	return f
}

// samePods reports whether two lists are one list, which nobody writes to.
func samePods(a, b []*model.Pod) bool {
	return len(a) == len(b) && (len(b) == 0 || &a[0] == &b[0])
}

// addFreed adds to freedValue what a node has free more than before, resource by resource.
func (m *Memory) addFreed(node *solve.ExistingNode, before []int64) {
	for d, was := range before {
		if d < len(m.duals) {
			m.freedValue += int64(m.duals[d] * float64(max(0, node.Free.At(model.Dim(d))-was)))
		}
	}
}

// observeCandidates keeps the verdicts on candidates that have not changed; with forget it keeps none. Both lists are
// by node name, and the same but for a few.
func (m *Memory) observeCandidates(in *Input, old []verdict, forget bool) {
	m.verdicts = make([]verdict, len(in.Candidates))
	j, same := 0, 0
	for i, c := range in.Candidates {
		v := &m.verdicts[i]
		if j >= len(old) || old[j].candidate != c {
			for j < len(old) && old[j].node != c.Node && old[j].node.Name < c.Node.Name {
				j++
			}
		}
		if j < len(old) && (old[j].candidate == c || old[j].node == c.Node) {
			same++
			if *v = old[j]; forget {
				v.why = nil
			}
		}
		v.candidate, v.node = c, c.Node
		if j < len(old) && (old[j].candidate == c || old[j].node.Name == c.Node.Name) {
			j++
		}
	}
	m.changed = m.changed || same != len(in.Candidates) || same != len(old)
}
