// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// indexCounter files a counter under a label value that its selector asks for, so that a class need not be held
// against every counter.
func (t *topologyCompiler) indexCounter(id int) {
	for _, x := range t.counters[id].selectors {
		if x.Pods == nil {
			return // selects nothing, ever
		}
	}
	for _, x := range t.counters[id].selectors {
		for _, r := range *x.Pods {
			t.selectorKeys = append(t.selectorKeys, r.Key)
		}
	}
	for _, x := range t.counters[id].selectors {
		for _, r := range *x.Pods {
			if !r.Complement && !r.AllowAbsent && len(r.Values) > 0 {
				for _, v := range r.Values {
					k := [2]string{r.Key, v}
					t.byLabel[k] = append(t.byLabel[k], id)
				}
				return
			}
		}
	}
	t.general = append(t.general, id)
}

// countersSelecting lists the counters whose selectors choose the class, ascending.
func (t *topologyCompiler) countersSelecting(c *model.Class) (out []int) {
	try := func(ids []int) {
		for _, id := range ids {
			if t.allSelectorsMatch(t.counters[id].selectors, c) {
				out = append(out, id)
			}
		}
	}
	try(t.general)
	for k, v := range c.Labels {
		if ids := t.byLabel[[2]string{k, v}]; len(ids) > 0 {
			try(ids)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// countersMovedBy adds to the counters that select a pod those of terms and shared volumes that it owns, ascending.
func (t *topologyCompiler) countersMovedBy(c *model.Class, chosen []int) []int {
	if len(c.AntiAffinity) == 0 && len(c.Volumes) == 0 {
		return chosen
	}
	out := slices.Clone(chosen)
	for i := range c.AntiAffinity {
		x := &c.AntiAffinity[i]
		out = append(out, t.counterFor(x.TopologyKey, true, false, x.Selector))
	}
	for i := range c.Volumes {
		if v := &c.Volumes[i]; t.volumes[v.Claim] > 1 && v.Unmade {
			out = append(out, t.volumeCounter(v))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// labelEquivalence is what classes of one namespace have in common whose labels no selector tells apart: the counters
// that select them, and the rules that owners of these counters have against them. It is shared and must not be
// changed.
type labelEquivalence struct {
	selecting   []int
	moved       []int // counters that a pod is counted by, those of terms and volumes of its own left out
	hostRules   []rule
	domainRules []rule
	topology    topologyRules // how a pod is counted by those in moved
}

// labelEquivalenceOf finds the equivalence of a class, made where it is the first.
func (t *topologyCompiler) labelEquivalenceOf(c *model.Class) *labelEquivalence {
	t.buf = append(append(t.buf[:0], c.Namespace...), 0)
	for _, key := range t.selectorKeys {
		if v, ok := c.Labels[key]; ok {
			t.buf = append(t.buf, '=')
			t.buf = append(t.buf, v...)
		}
		t.buf = append(t.buf, 0)
	}
	if k := t.equivalences[string(t.buf)]; k != nil {
		return k
	}
	k := &labelEquivalence{selecting: t.countersSelecting(c)}
	t.equivalences[string(t.buf)] = k
	for _, id := range k.selecting {
		x := &t.counters[id]
		for _, h := range t.hostSpreads[id] {
			k.hostRules = append(k.hostRules, rule{kind: ruleHostSpreadOfOthers, counter: id, ownerCounter: h.ownerCounter, key: hostKey, topologyKey: model.LabelHostname,
				hard: true, maxSkew: h.maxSkew})
		}
		if !x.countsOwners {
			k.moved = append(k.moved, id)
			continue
		}
		name := model.LabelHostname
		if x.key != hostKey {
			name = t.keys.keys[x.key]
		}
		r := rule{kind: ruleAntiOfOthers, counter: id, key: x.key, topologyKey: name, hard: true}
		if x.key == hostKey {
			k.hostRules = append(k.hostRules, r)
		} else {
			k.domainRules = append(k.domainRules, r)
		}
	}
	t.recordCounters(&k.topology, k.moved)
	return k
}

// addRulesOfOthers adds the rules that others have against the class, and notes by which counters its pods are
// counted.
func (t *topologyCompiler) addRulesOfOthers(c *class) {
	k := t.labelEquivalenceOf(c.spec)
	c.topology.domainRules = append(c.topology.domainRules, k.domainRules...) // a copy: what is known of a rule is noted there
	if len(c.topology.hostRules) == 0 {
		c.topology.hostRules = slices.Clip(k.hostRules)
	} else {
		c.topology.hostRules = t.ruleSlab.appendTo(c.topology.hostRules, 0, k.hostRules...)
	}
	if moves := t.countersMovedBy(c.spec, k.moved); len(moves) > len(k.moved) {
		t.recordCounters(&c.topology, moves)
	} else {
		x := &k.topology
		if len(c.topology.hostCounters) == 0 {
			c.topology.hostCounters = x.hostCounters
		} else {
			c.topology.hostCounters = t.intSlab.appendTo(c.topology.hostCounters, 0, x.hostCounters...)
		}
		c.topology.domainCounters, c.topology.scopes, c.topology.counterScope, c.topology.keys = x.domainCounters, x.scopes, x.counterScope, x.keys
	}
	if slices.ContainsFunc(c.topology.domainRules, func(r rule) bool { return !slices.Contains(c.topology.keys, r.key) }) {
		keys := slices.Clone(c.topology.keys)
		for i := range c.topology.domainRules {
			keys = append(keys, c.topology.domainRules[i].key)
		}
		slices.Sort(keys)
		c.topology.keys = slices.Compact(keys)
	}
}

// recordCounters notes for counters that a pod is counted by on which hosts and in which domains.
func (t *topologyCompiler) recordCounters(x *topologyRules, moves []int) {
	for _, id := range moves {
		at := &t.counters[id]
		if at.key == hostKey {
			x.hostCounters = append(x.hostCounters, id)
			continue
		}
		n := -1
		if at.scope != nil {
			if n = slices.Index(x.scopes, at.scope); n < 0 {
				n = len(x.scopes)
				x.scopes = append(x.scopes, at.scope)
			}
		}
		x.domainCounters, x.counterScope, x.keys = append(x.domainCounters, id), append(x.counterScope, n), append(x.keys, at.key)
	}
	slices.Sort(x.keys)
	x.keys = slices.Compact(x.keys)
}

// countPodsOnNodes counts the pods on existing nodes.
func (t *topologyCompiler) countPodsOnNodes() {
	s := t.topology
	memo := map[*model.Class][]int{}
	for node, x := range s.nodes.list {
		if x.Drained {
			continue
		}
		vals := s.nodes.labels[s.nodes.shapeOf[node]]
		for _, p := range x.Pods {
			ids, ok := memo[p.Class]
			if !ok {
				ids = t.countersMovedBy(p.Class, t.labelEquivalenceOf(p.Class).moved)
				memo[p.Class] = ids
			}
			for _, id := range ids {
				k := &s.counters[id]
				if k.forSpread && !p.Deleting.IsZero() {
					continue
				}
				if k.scope != nil && !k.scope.includes(&s.keys, vals, x.Open, x.Name, x.Taints) {
					continue
				}
				k.addPods(vals, node, 1)
			}
		}
	}
	for i := range s.counters {
		c := &s.counters[i]
		c.initialCounts, c.initialTotal, c.initialUncertain = slices.Clone(c.counts), c.total, c.uncertain
	}
}

// compileNodeCaps finds the classes whose rules over hosts concern no other class, and how many of their pods a new
// machine may hold: to a packing such a rule is a number.
func (s *topologyCompiler) compileNodeCaps() {
	users, last := make([]int, len(s.counters)), make([]*class, len(s.counters))
	each := func(c *class, f func(id int)) {
		for i := range c.topology.hostRules {
			r := &c.topology.hostRules[i]
			f(r.counter)
			if r.kind == ruleHostSpreadOfOthers {
				f(r.ownerCounter)
			}
		}
		for _, id := range c.topology.hostCounters {
			f(id)
		}
	}
	for _, c := range s.classes {
		each(c, func(id int) {
			if last[id] != c {
				users[id], last[id] = users[id]+1, c
			}
		})
	}
	for _, c := range s.classes {
		if !c.restrictsNeighbours() || c.topology.hostAffinity || len(c.ports) > 0 || len(c.csiVolumes) > 0 {
			continue
		}
		alone := true
		each(c, func(id int) { alone = alone && users[id] == 1 })
		if !alone {
			continue
		}
		c.maxPerNewNode = unlimited
		for i := range c.topology.hostRules {
			c.maxPerNewNode = min(c.maxPerNewNode, s.podsRuleAllows(c, &c.topology.hostRules[i], 0, 0, true))
		}
	}
}
