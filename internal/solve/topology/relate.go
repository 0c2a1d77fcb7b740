// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package topology

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// indexCounter indexes a counter by a label value that its selector requires, so that a class need not be compared with
// every counter.
func (t *topologyCompiler) indexCounter(id int) {
	for _, x := range t.topo.Counters[id].selectors {
		if x.Pods == nil {
			return // selects nothing, ever
		}
	}
	for _, x := range t.topo.Counters[id].selectors {
		for _, r := range *x.Pods {
			if !t.isSelectorKey[r.Key] {
				t.isSelectorKey[r.Key] = true
				t.selectorKeys = append(t.selectorKeys, r.Key)
			}
		}
	}
	at := t.filedUnder(t.topo.Counters[id].countsOwners)
	var best *model.Requirement // under whose values fewest are filed: a label that all have in common tells them apart least
	least := 0
	for _, x := range t.topo.Counters[id].selectors {
		for i := range *x.Pods {
			r := &(*x.Pods)[i]
			if !r.ListsValues() {
				continue
			}
			n := 0
			for _, v := range r.Values {
				n += 1 + len(at.byLabel[[2]string{r.Key, v}])
			}
			if best == nil || n < least {
				best, least = r, n
			}
		}
	}
	if best == nil {
		at.general = append(at.general, id)
		return
	}
	for _, v := range best.Values {
		k := [2]string{best.Key, v}
		at.byLabel[k] = append(at.byLabel[k], id)
	}
}

// filedUnder is the index of the counters that count the owners of rules, or of those that count the pods which they select.
func (t *topologyCompiler) filedUnder(owners bool) *counterIndex {
	if owners {
		return &t.owners
	}
	return &t.selected
}

// countersSelecting lists the counters whose selectors choose the class, ascending: of those that count the owners of
// rules, or of the others.
func (t *topologyCompiler) countersSelecting(c *model.Class, owners bool) (out []int) {
	try := func(ids []int) {
		for _, id := range ids {
			if t.in.AllSelectorsMatch(t.topo.Counters[id].selectors, c) {
				out = append(out, id)
			}
		}
	}
	at := t.filedUnder(owners)
	try(at.general)
	for k, v := range c.Labels {
		if ids := at.byLabel[[2]string{k, v}]; len(ids) > 0 {
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
	for _, x := range antiTermsOf(c) {
		if !t.concernsPending(&x.selector) {
			continue
		}
		all, exempting := t.ownerCounters(&x)
		if out = append(out, all); exempting >= 0 {
			out = append(out, exempting)
		}
	}
	for i := range c.Volumes {
		if v := &c.Volumes[i]; t.volumes[v.Claim] > 1 && v.Unmade {
			out = append(out, t.volumeCounter(v))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// labelEquivalenceOf returns the label equivalence of a class, and creates it if necessary.
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
	k := &labelEquivalence{moved: t.countersSelecting(c, false)}
	t.equivalences[string(t.buf)] = k
	t.topo.recordCounters(&k.topology, k.moved)
	return k
}

// rulesAgainst makes the rules that others have against an equivalence, of which c is a class, once. Pods on nodes ask for
// none: thousands that have rules against one another would have as many each.
func (t *topologyCompiler) rulesAgainst(k *labelEquivalence, c *model.Class) {
	if k.hasRules {
		return
	}
	k.hasRules = true
	selecting := append(t.countersSelecting(c, true), k.moved...)
	slices.Sort(selecting)
	for _, id := range selecting {
		x := &t.topo.Counters[id]
		for _, h := range t.hostSpreads[id] {
			k.hostRules = append(k.hostRules, problem.Rule{Kind: problem.RuleHostSpreadOfOthers, Counter: id, OwnerCounter: h.ownerCounter, Key: problem.HostKey, TopologyKey: model.LabelHostname,
				Hard: true, MaxSkew: h.maxSkew})
		}
		if !x.countsOwners {
			continue
		}
		if all, ok := t.exemptions[id]; ok {
			exempt(k.hostRules, all, id)
			exempt(k.domainRules, all, id)
			continue
		}
		name := model.LabelHostname
		if x.key != problem.HostKey {
			name = t.in.Keys.Keys[x.key]
		}
		r := problem.Rule{Kind: problem.RuleAntiOfOthers, Counter: id, Key: x.key, TopologyKey: name, OfDevices: x.selectors[0].IsOfDevices(), Hard: true}
		if x.key == problem.HostKey {
			k.hostRules = append(k.hostRules, r)
		} else {
			k.domainRules = append(k.domainRules, r)
		}
	}
}

// addRulesOfOthers adds the rules that others have against the class, and notes by which counters its pods are
// counted.
func (t *topologyCompiler) addRulesOfOthers(c *problem.Class) {
	k := t.labelEquivalenceOf(c.Spec)
	t.rulesAgainst(k, c.Spec)
	c.Topology.DomainRules = append(c.Topology.DomainRules, k.domainRules...) // a copy: what is known of a rule is noted there
	if len(c.Topology.HostRules) == 0 {
		c.Topology.HostRules = slices.Clip(k.hostRules)
	} else {
		c.Topology.HostRules = append(c.Topology.HostRules, k.hostRules...)
	}
	if moves := t.countersMovedBy(c.Spec, k.moved); len(moves) > len(k.moved) {
		t.topo.recordCounters(&c.Topology, moves)
	} else {
		x := &k.topology
		if len(c.Topology.HostCounters) == 0 {
			c.Topology.HostCounters = slices.Clip(x.HostCounters)
		} else {
			c.Topology.HostCounters = append(c.Topology.HostCounters, x.HostCounters...)
		}
		c.Topology.DomainCounters, c.Topology.Scopes, c.Topology.CounterScope, c.Topology.Keys = x.DomainCounters, x.Scopes, x.CounterScope, x.Keys
	}
	if slices.ContainsFunc(c.Topology.DomainRules, func(r problem.Rule) bool { return !slices.Contains(c.Topology.Keys, r.Key) }) {
		keys := slices.Clone(c.Topology.Keys)
		for i := range c.Topology.DomainRules {
			keys = append(keys, c.Topology.DomainRules[i].Key)
		}
		slices.Sort(keys)
		c.Topology.Keys = slices.Compact(keys)
	}
}

// recordCounters notes for counters that a pod is counted by on which hosts and in which domains.
func (s *Topology) recordCounters(x *problem.TopologyRules, moves []int) {
	for _, id := range moves {
		at := &s.Counters[id]
		if at.key == problem.HostKey {
			x.HostCounters = append(x.HostCounters, id)
			continue
		}
		n := -1
		if at.scope != nil {
			if n = slices.Index(x.Scopes, at.scope); n < 0 {
				n = len(x.Scopes)
				x.Scopes = append(x.Scopes, at.scope)
			}
		}
		x.DomainCounters, x.CounterScope, x.Keys = append(x.DomainCounters, id), append(x.CounterScope, n), append(x.Keys, at.key)
	}
	slices.Sort(x.Keys)
	x.Keys = slices.Compact(x.Keys)
}

// countPodsOnNodes counts the pods on existing nodes.
func (t *topologyCompiler) countPodsOnNodes() {
	s := t.topo
	memo := map[*model.Class][]int{}
	for node, x := range s.inst.Nodes.List {
		if x.Drained {
			continue
		}
		vals := s.inst.Nodes.Labels[s.inst.Nodes.ShapeOf[node]]
		for _, p := range x.Pods {
			ids, ok := memo[p.Class]
			if !ok {
				ids = t.countersMovedBy(p.Class, t.labelEquivalenceOf(p.Class).moved)
				memo[p.Class] = ids
			}
			for _, id := range ids {
				k := &s.Counters[id]
				if k.ForSpread && !p.Deleting.IsZero() {
					continue
				}
				if k.scope != nil && !k.scope.IncludesNode(&s.in.Keys, vals, x) {
					continue
				}
				k.addPods(vals, node, 1)
			}
		}
	}
	for i := range s.Counters {
		c := &s.Counters[i]
		c.initialCounts, c.initialTotal, c.initialUncertain = c.counts.clone(), c.Total, c.uncertain
	}
}

// compileNodeCaps finds the classes whose rules over hosts concern no other class, and how many of their pods a new
// machine may hold: to a packing such a rule is a number.
func (s *topologyCompiler) compileNodeCaps() {
	users, last := make([]int, len(s.topo.Counters)), make([]*problem.Class, len(s.topo.Counters))
	each := func(c *problem.Class, f func(id int)) {
		for i := range c.Topology.HostRules {
			r := &c.Topology.HostRules[i]
			f(r.Counter)
			if r.Kind == problem.RuleHostSpreadOfOthers {
				f(r.OwnerCounter)
			}
			for _, id := range r.Minus {
				f(id)
			}
		}
		for _, id := range c.Topology.HostCounters {
			f(id)
		}
	}
	for _, c := range s.inst.Classes {
		each(c, func(id int) {
			if last[id] != c {
				users[id], last[id] = users[id]+1, c
			}
		})
	}
	for _, c := range s.inst.Classes {
		if !c.RestrictsNeighbours() || c.Topology.HostAffinity || c.Occupies {
			continue
		}
		alone := true
		each(c, func(id int) { alone = alone && users[id] == 1 })
		if !alone {
			continue
		}
		c.MaxPerNewNode = problem.Unlimited
		for i := range c.Topology.HostRules {
			c.MaxPerNewNode = min(c.MaxPerNewNode, s.topo.PodsRuleAllows(c, &c.Topology.HostRules[i], 0, 0, true))
		}
	}
}
