// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package topology

import (
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// Compile compiles a problem. It places nothing.
func Compile(in *problem.Input) Compiled {
	work := &problem.Work{StepLimit: 2 * in.Policy.Work} // however often it is begun anew
	c := Compiled{In: in, Work: work}
	c.Catalog, c.Inst = problem.Compile(in, work)
	c.Usage = problem.NewUsage(in, c.Catalog, c.Inst)
	c.Topo = newTopology(&c)
	c.Assignments = newAssignments(&c)
	return c
}

// newAssignments returns the assignments of a compiled problem; none is found yet.
func newAssignments(c *Compiled) *Assignments {
	return &Assignments{in: c.In, work: c.Work, catalog: c.Catalog, inst: c.Inst, usage: c.Usage, topo: c.Topo,
		ofOffers: map[offerAssignmentKey][]TopologyAssignment{}, ids: map[string]int{}}
}

// newTopology makes counters and rules, and counts the pods on existing nodes.
func newTopology(c *Compiled) *Topology {
	s := &Topology{in: c.In, work: c.Work, catalog: c.Catalog, inst: c.Inst, usage: c.Usage, HostCount: len(c.Inst.Nodes.List)}
	t := &topologyCompiler{in: s.in, work: s.work, catalog: s.catalog, inst: s.inst, usage: s.usage, topo: s, counterIDs: map[counterKey]int{}, namespaces: map[string]bool{}, isSelectorKey: map[string]bool{}, owners: counterIndex{byLabel: map[[2]string][]int{}},
		selected: counterIndex{byLabel: map[[2]string][]int{}}, existingDomains: map[DomainKey][]int32{},
		offersByDomain: map[setDomainKey][]domainOffers{}, scopes: map[string]*problem.Scope{}, hostSpreads: map[int][]hostSpread{}, exemptions: map[int]int{},
		equivalences: map[string]*labelEquivalence{}, selectorIDs: map[string]int{}, lastDomains: map[DomainKey][]int32{}}
	t.volumes = sharedVolumes(s.in, s.inst)
	for _, c := range s.inst.Classes {
		t.namespaces[c.Spec.Namespace] = true
		t.compileRules(c)
	}
	for _, c := range s.inst.AntiAffinityOnNodes() {
		for _, x := range antiTermsOf(c) {
			if t.concernsPending(&x.selector) {
				t.ownerCounters(&x)
			}
		}
	}
	if len(s.Counters) == 0 {
		return s
	}
	for i := range s.Counters {
		t.indexCounter(i)
	}
	slices.Sort(t.selectorKeys)
	for _, c := range s.inst.Classes {
		t.addRulesOfOthers(c)
	}
	t.countPodsOnNodes()
	t.compileNodeCaps()
	g := groupCompiler{in: s.in, catalog: s.catalog, inst: s.inst, topo: s}
	g.compileColocatedGroups()
	return s
}

// compileRules makes the counters of a class's own constraints and the rules that read them.
func (t *topologyCompiler) compileRules(c *problem.Class) {
	add := func(r problem.Rule) {
		r.Key = t.topo.Counters[r.Counter].key
		if r.Key == problem.HostKey {
			c.Topology.HostRules = append(c.Topology.HostRules, r)
			return
		}
		c.Topology.DomainRules = append(c.Topology.DomainRules, r)
	}
	if len(t.namespaceBuf) == 0 || t.namespaceBuf[0] != c.Spec.Namespace {
		t.namespaceBuf = []string{c.Spec.Namespace}
	}
	for _, makeRules := range ownRules {
		makeRules(t, c, add)
	}
}

// ownRules make the rules of a class's own constraints, one kind each, in the order in which they refuse.
var ownRules = [...]func(*topologyCompiler, *problem.Class, func(problem.Rule)){
	(*topologyCompiler).compileSpread,
	(*topologyCompiler).compilePreferenceRules,
	(*topologyCompiler).compileAffinity,
	(*topologyCompiler).compileAntiAffinity,
	(*topologyCompiler).compileSharedVolumes,
}

// compileSpread makes the rules of a class's topology spread constraints.
func (t *topologyCompiler) compileSpread(c *problem.Class, add func(problem.Rule)) {
	for i := range c.Spec.Spread {
		x := &c.Spec.Spread[i]
		if !x.Hard && (x.TopologyKey == model.LabelHostname || t.in.Heeded != problem.AllPreferences) {
			continue // only a preference; over hosts it is one that the scheduler itself sees to when it scores
		}
		sel := model.Selector{Namespaces: t.namespaceBuf, Pods: x.Selector}
		on := t.spreadScope(c, x)
		r := problem.Rule{Kind: problem.RuleSpread, Counter: t.counterInScope(on, x.TopologyKey, false, true, sel), TopologyKey: x.TopologyKey, Hard: x.Hard, Scope: on,
			MaxSkew: int64(x.MaxSkew), MinDomains: int(x.MinDomains), SelectsOwnPods: t.in.SelectorMatches(&sel, c.Spec)}
		if x.TopologyKey == model.LabelHostname {
			t.countSpreadOwners(c, &r)
		} else {
			r.Domains, r.ExistingDomains = t.spreadDomains(c, x, on)
		}
		add(r)
	}
}

// compileAffinity makes the rules of a class's required pod affinity.
func (t *topologyCompiler) compileAffinity(c *problem.Class, add func(problem.Rule)) {
	if len(c.Spec.Affinity) > 0 && !c.Filter.MeetsAffinity() {
		sels := make([]model.Selector, len(c.Spec.Affinity))
		for i := range sels {
			sels[i] = c.Spec.Affinity[i].Selector
		}
		self := t.in.AllSelectorsMatch(sels, c.Spec)
		c.Topology.Affinity = true
		for i := range c.Spec.Affinity {
			key := c.Spec.Affinity[i].TopologyKey
			c.Topology.HostAffinity = c.Topology.HostAffinity || key == model.LabelHostname
			add(problem.Rule{Kind: problem.RuleAffinity, Counter: t.counterFor(key, false, false, sels...), TopologyKey: key, OfGang: c.Spec.Affinity[i].IsOfGang(), SelectsOwnPods: self, Hard: true})
		}
	}
}

// compileSharedVolumes makes the rules of volumes, still to be made, that pods of a class share with others.
func (t *topologyCompiler) compileSharedVolumes(c *problem.Class, add func(problem.Rule)) {
	for i := range c.Spec.Volumes {
		if v := &c.Spec.Volumes[i]; t.volumes[v.Claim] > 1 {
			add(problem.Rule{Kind: problem.RuleSharedVolume, Counter: t.volumeCounter(v), TopologyKey: model.LabelZone, Hard: true})
		}
	}
}

// compilePreferenceRules makes rules of the preferred pod affinity and anti-affinity terms over keys larger than a
// host.
func (t *topologyCompiler) compilePreferenceRules(c *problem.Class, add func(problem.Rule)) {
	if t.in.Heeded != problem.AllPreferences {
		return
	}
	one := func(w *model.WeightedPodTerm, sign int64) {
		if w.Term.TopologyKey != model.LabelHostname && t.in.SelectsAny(&w.Term.Selector) {
			add(problem.Rule{Kind: problem.RulePreference, Counter: t.counterFor(w.Term.TopologyKey, false, false, w.Term.Selector), TopologyKey: w.Term.TopologyKey,
				Weight: sign * int64(w.Weight)})
		}
	}
	for i := range c.Spec.PreferredAffinity {
		one(&c.Spec.PreferredAffinity[i], 1)
	}
	for i := range c.Spec.PreferredAntiAffinity {
		one(&c.Spec.PreferredAntiAffinity[i], -1)
	}
}

// sharedVolumes returns the volumes still to be made, by claim, with how many pods will use each.
func sharedVolumes(in *problem.Input, inst *problem.Instance) map[string]int {
	out := map[string]int{}
	count := func(c *model.Class, n int) {
		for i := range c.Volumes {
			if v := &c.Volumes[i]; v.Unmade && !v.Exclusive {
				out[v.Claim] += n
			}
		}
	}
	for _, c := range inst.Classes {
		count(c.Spec, len(c.Pods))
	}
	if len(out) > 0 {
		for i := range in.Given.Nodes {
			for _, p := range in.Given.Nodes[i].Pods {
				count(p.Class, 1)
			}
		}
	}
	return out
}

// countSpreadOwners has the owners of a spread over hosts counted, so that others are kept from crowding them:
// kube-scheduler would let those come, and then not let the owners.
func (t *topologyCompiler) countSpreadOwners(c *problem.Class, r *problem.Rule) {
	known := t.hostSpreads[r.Counter]
	i := slices.IndexFunc(known, func(h hostSpread) bool { return h.maxSkew == r.MaxSkew })
	if i < 0 {
		nobody := model.Selector{Namespaces: []string{fmt.Sprint(r.Counter), fmt.Sprint(r.MaxSkew)}}
		i, known = len(known), append(known, hostSpread{ownerCounter: t.counterFor(model.LabelHostname, true, true, nobody), maxSkew: r.MaxSkew})
		t.hostSpreads[r.Counter] = known
	}
	c.Topology.HostCounters = append(c.Topology.HostCounters, known[i].ownerCounter)
}

// spreadScope returns the nodes that a spread counts, nil if it counts all.
func (t *topologyCompiler) spreadScope(c *problem.Class, x *model.SpreadConstraint) *problem.Scope {
	out := problem.Scope{}
	if !x.IgnoreAffinity && len(c.Spec.Terms) > 0 {
		out.Affinity = c.Filter
	}
	if x.HonorTaints {
		out.Taints = c.Filter
	}
	for i := range c.Spec.Spread {
		if o := &c.Spec.Spread[i]; o.Hard && x.Hard && o.TopologyKey != model.LabelHostname && o.TopologyKey != x.TopologyKey {
			out.Keys = append(out.Keys, t.in.Keys.Ids[o.TopologyKey])
		}
	}
	if out.Affinity == nil && out.Taints == nil && len(out.Keys) == 0 {
		return nil
	}
	slices.Sort(out.Keys)
	k := out.Identity()
	if t.scopes[k] == nil {
		kept := out
		t.scopes[k] = &kept
	}
	return t.scopes[k]
}

// spreadDomains lists the domains among which the least count of a spread is taken: those of existing nodes, and
// those in which the class could have a machine bought. Where only other classes have one bought, expectNewDomains
// finds out: until then there is nothing there to count.
func (t *topologyCompiler) spreadDomains(c *problem.Class, x *model.SpreadConstraint, on *problem.Scope) (all, existing []int32) {
	s := t.topo
	key := s.in.Keys.Ids[x.TopologyKey]
	t.seenBuf = append(t.seenBuf[:0], make([]bool, len(s.in.Keys.ValueNames[key]))...)
	seen := t.seenBuf
	list := func() []int32 {
		t.foundBuf = t.foundBuf[:0]
		for v, ok := range seen {
			if ok {
				t.foundBuf = append(t.foundBuf, int32(v))
			}
		}
		return t.foundBuf
	}
	id := DomainKey{on, key}
	existing, known := t.existingDomains[id]
	if known {
		for _, v := range existing {
			seen[v] = true
		}
	} else {
		present := make([]bool, len(s.inst.Nodes.Labels))
		for i, r := range s.inst.Nodes.List {
			present[s.inst.Nodes.ShapeOf[i]] = present[s.inst.Nodes.ShapeOf[i]] || !r.Drained
		}
		for shape, vals := range s.inst.Nodes.Labels {
			r := s.inst.Nodes.List[s.inst.Nodes.ExampleOf[shape]]
			if v := vals[key]; v > 0 && present[shape] && (on == nil || on.IncludesNode(&s.in.Keys, vals, r)) {
				seen[v] = true
			}
		}
		existing = slices.Clone(list())
		t.existingDomains[id] = existing
	}
	for _, x := range t.purchasableDomains(c.Offers, id) {
		if !seen[x.value] && s.catalog.SomeOfferHolds(x.offers, &c.Req) {
			seen[x.value] = true
		}
	}
	if all = t.lastDomains[id]; all == nil || !slices.Equal(all, list()) {
		all = slices.Clone(list()) // it is shared, and must not be changed
		t.lastDomains[id] = all
	}
	return all, existing
}

// purchasableDomains splits those offers of a set that are in a scope by their values of a key.
func (t *topologyCompiler) purchasableDomains(set *problem.OfferSet, k DomainKey) []domainOffers {
	s := t.topo
	key := setDomainKey{set, k}
	if out, ok := t.offersByDomain[key]; ok {
		return out
	}
	bits := map[int32][]uint64{}
	var out []domainOffers
	for i := range s.catalog.Offers {
		o := &s.catalog.Offers[i]
		v := o.Labels[k.Key]
		if v <= 0 || !set.Contains(i) || k.Scope != nil && !s.OfferInScope(k.Scope, o) {
			continue
		}
		if bits[v] == nil {
			bits[v] = make([]uint64, len(set.Bits))
			out = append(out, domainOffers{value: v})
		}
		bits[v][i>>6] |= 1 << (i & 63)
	}
	for i := range out {
		out[i].offers = s.catalog.InternOfferSet(bits[out[i].value])
	}
	t.offersByDomain[key] = out
	return out
}
