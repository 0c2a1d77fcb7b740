// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// countKey is what is counted: pods that all these selectors choose, or pods that own such an anti-affinity term, by
// topology key.
type countKey struct {
	text  string
	key   string
	owner bool
	live  bool // pods being deleted do not count
}

// term counts pods for a rule, by domain.
type term struct {
	countKey
	sels  []model.Selector
	hosts map[*host]bool // those that count; nil: all
	// How many, by domain; under "?" those whose domain is open.
	counts  map[string]int
	domains []string // of a spread
}

type memoKey struct {
	term  *term
	class *model.Class
}

// classTerms are the terms that concern one class.
type classTerms struct {
	affinity, anti   []*term // of its own rules, if pods of it come
	owned            []*term // that count its pods as owners of anti-affinity
	counted, against []*term // that select the class: those that count its pods, and the owners that refuse them
	comes, isCounted bool
	isRefused        bool
}

// termsOf are the terms of a class's own rules, made once. Of a class whose pods all stand already, only those are needed that
// tell others of its anti-affinity: comes says that pods of it come.
func (t *replay) termsOf(class *model.Class, comes bool) *classTerms {
	r := t.termsByClass[class]
	if r == nil {
		r = &classTerms{}
		t.termsByClass[class] = r
		for i := range class.AntiAffinity {
			if x := &class.AntiAffinity[i]; x.TopologyKey != model.LabelHostname { // see whyNeighboursRefuse
				r.owned = append(r.owned, t.addTerm(x.TopologyKey, true, false, x.Selector))
			}
		}
	}
	if comes && !r.comes {
		r.comes = true
		for i := range class.Affinity {
			r.affinity = append(r.affinity, t.addTerm(class.Affinity[i].TopologyKey, false, false, affinitySelectors(class)...))
		}
		for i := range class.AntiAffinity {
			if x := &class.AntiAffinity[i]; x.TopologyKey != model.LabelHostname {
				r.anti = append(r.anti, t.addTerm(x.TopologyKey, false, false, x.Selector))
			}
		}
	}
	return r
}

// termsAgainst are the anti-affinity terms of other classes that select a class, once all terms are registered.
func (t *replay) termsAgainst(class *model.Class) []*term {
	r := t.termsOf(class, true)
	if !r.isRefused {
		r.isRefused = true
		r.against = t.index().owning.selecting(t, class)
	}
	return r.against
}

// countingTerms are the terms that count the pods of a class, once all are registered.
func (t *replay) countingTerms(class *model.Class) []*term {
	r := t.termsOf(class, false)
	if !r.isCounted {
		r.isCounted = true
		r.counted = t.index().counting.selecting(t, class)
	}
	return r.counted
}

// termIndex finds terms by a label that they want, for there may be very many.
type termIndex struct {
	byLabel map[[2]string][]*term // by each value of the first label that a term wants to have one of
	others  []*term               // that want none
}

// selecting are the terms whose selectors all select pods of a class.
func (ix *termIndex) selecting(t *replay, class *model.Class) (out []*term) {
	look := func(list []*term) {
		for _, x := range list {
			if t.allSelect(x, class) {
				out = append(out, x)
			}
		}
	}
	look(ix.others)
	for k, v := range class.Labels { // in whatever order: each term is found under one label, and all are asked
		look(ix.byLabel[[2]string{k, v}])
	}
	return out
}

// termIndexes are of the terms that count pods which they select, and of those that count the owners of anti-affinity.
type termIndexes struct{ counting, owning termIndex }

// index is that of all terms, made once when all are registered.
func (t *replay) index() *termIndexes {
	if t.indexes != nil {
		return t.indexes
	}
	t.indexes = &termIndexes{termIndex{byLabel: map[[2]string][]*term{}}, termIndex{byLabel: map[[2]string][]*term{}}}
	for _, x := range t.terms {
		ix, filed := &t.indexes.counting, false
		if x.owner {
			ix = &t.indexes.owning
		}
		if len(x.sels) > 0 && x.sels[0].Pods != nil {
			for _, r := range *x.sels[0].Pods {
				if !r.ListsValues() {
					continue
				}
				for _, v := range r.Values {
					k := [2]string{r.Key, v}
					ix.byLabel[k] = append(ix.byLabel[k], x)
				}
				filed = true
				break
			}
		}
		if !filed {
			ix.others = append(ix.others, x)
		}
	}
	return t.indexes
}

// replay is the cluster as it fills in one order.
type replay struct {
	c            *checker
	arrived      map[*host][]*model.Pod // that have come so far
	terms        []*term
	known        map[countKey]*term
	termsByClass map[*model.Class]*classTerms
	memo         map[memoKey]bool
	spreads      map[*model.SpreadConstraint]*term
	indexes      *termIndexes
	allDomains   map[string][]string // by topology key: the domains of all hosts
}

// addTerm is the term with these selectors over a topology key, made once. owner: it counts the pods that have the
// rule, not those that it selects. live: pods being deleted do not count.
func (t *replay) addTerm(key string, owner, live bool, sels ...model.Selector) *term {
	text := ""
	for i := range sels {
		text += fmt.Sprintf("%q", sels[i].Namespaces)
		if sels[i].NamespaceL != nil {
			text += " in " + sels[i].NamespaceL.Key()
		}
		if sels[i].Pods != nil {
			text += " pods " + sels[i].Pods.Key()
		}
		text += "; "
	}
	return t.addTermByKey(countKey{text, key, owner, live}, sels, nil)
}

// addTermByKey is the term of a key, made once. hosts are those that count; nil: all.
func (t *replay) addTermByKey(k countKey, sels []model.Selector, hosts map[*host]bool) *term {
	if got := t.known[k]; got != nil {
		return got
	}
	x := &term{countKey: k, sels: sels, hosts: hosts}
	t.known[k] = x
	t.terms = append(t.terms, x)
	x.counts = map[string]int{}
	return x
}

// spreadTerm counts for a spread constraint: pods of the class's own namespace, on the hosts that node affinity and
// taints make eligible and that have the topology keys of all hard constraints.
func (t *replay) spreadTerm(class *model.Class, s *model.SpreadConstraint) *term {
	if got := t.spreads[s]; got != nil {
		return got
	}
	sel := model.Selector{Namespaces: []string{class.Namespace}, Pods: s.Selector}
	text := fmt.Sprintf("%q pods ", sel.Namespaces)
	if s.Selector != nil {
		text += s.Selector.Key()
	}
	if !s.IgnoreAffinity {
		for _, x := range class.Terms {
			text += " at " + x.Requirements.Key() + " standing " + x.Standing.Key()
			if x.Names != nil {
				text += "@" + x.Names.String()
			}
		}
	}
	if s.HonorTaints {
		text += fmt.Sprint(" tolerating ", class.Tolerations)
	}
	var keys []string
	for _, o := range class.Spread {
		if o.Hard {
			keys = append(keys, o.TopologyKey)
		}
	}
	k := countKey{text + fmt.Sprint(" with ", keys), s.TopologyKey, false, true}
	if got := t.known[k]; got != nil {
		t.spreads[s] = got
		return got
	}
	hosts := map[*host]bool{}
	for _, h := range t.c.hosts {
		if (!s.HonorTaints || model.Untolerated(h.taints, class.Tolerations) == nil) &&
			countsForSpread(class, s, h.labels, h.name, h.standing, func(key string) bool { _, has := domainOf(h, key); return has }) {
			hosts[h] = true
		}
	}
	if len(hosts) == len(t.c.hosts) { // all of them, as is usual
		x := t.addTermByKey(k, []model.Selector{sel}, nil)
		if t.allDomains == nil {
			t.allDomains = map[string][]string{}
		}
		if t.allDomains[s.TopologyKey] == nil {
			t.allDomains[s.TopologyKey] = t.certainDomains(s.TopologyKey, hosts)
		}
		x.domains = t.allDomains[s.TopologyKey]
		t.spreads[s] = x
		return x
	}
	x := t.addTermByKey(k, []model.Selector{sel}, hosts)
	x.domains = t.certainDomains(s.TopologyKey, hosts)
	t.spreads[s] = x
	return x
}

// affinitySelectors are the selectors of all affinity terms of a class.
func affinitySelectors(class *model.Class) []model.Selector {
	out := make([]model.Selector, len(class.Affinity))
	for i := range out {
		out[i] = class.Affinity[i].Selector
	}
	return out
}

// certainDomains are the distinct values of a topology key among hosts, without those still open.
func (t *replay) certainDomains(key string, hosts map[*host]bool) (out []string) {
	seen := map[string]bool{}
	for _, h := range t.c.hosts {
		if v, ok := domainOf(h, key); ok && hosts[h] && v != "?" && !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}

// registerTerms makes every term that may refuse one of the pods to come.
func (t *replay) registerTerms(waiting []arrival) {
	seen := map[*model.Class]bool{}
	class := func(x *model.Class, comes bool) {
		if seen[x] {
			return
		}
		seen[x] = true
		t.termsOf(x, comes)
		if !comes {
			return
		}
		for i := range x.Spread {
			if x.Spread[i].Hard {
				t.spreadTerm(x, &x.Spread[i])
			}
		}
	}
	for _, x := range waiting {
		class(x.pod.Class, true)
	}
	for _, h := range t.c.hosts {
		for _, p := range h.pods {
			if len(p.Class.AntiAffinity) > 0 {
				class(p.Class, false)
			}
		}
	}
}

// selectsClass reports whether every selector of a term selects pods of a class.
func (t *replay) selectsClass(x *term, class *model.Class) bool {
	k := memoKey{x, class}
	got, ok := t.memo[k]
	if !ok {
		got = t.allSelect(x, class)
		t.memo[k] = got
	}
	return got
}

// allSelect is selectsClass for pairs that are asked for once.
func (t *replay) allSelect(x *term, class *model.Class) bool {
	for i := range x.sels {
		if !selects(&x.sels[i], class, t.c.in.Namespaces) {
			return false
		}
	}
	return true
}

// countPod adds a pod on a host to all terms that count it.
func (t *replay) countPod(p *model.Pod, h *host) {
	for _, x := range t.countingTerms(p.Class) {
		if x.hosts != nil && !x.hosts[h] || x.live && !p.Deleting.IsZero() {
			continue
		}
		if d, ok := domainOf(h, x.key); ok {
			x.counts[d]++
		}
	}
	for _, x := range t.termsOf(p.Class, false).owned {
		if d, ok := domainOf(h, x.key); ok {
			x.counts[d]++
		}
	}
}

// countInDomain is how many of the pods that a term counts are, or may be, in the host's domain.
func (t *replay) countInDomain(x *term, h *host) int {
	d, ok := domainOf(h, x.key)
	if !ok {
		return 0
	}
	counts := x.counts
	if d != "?" {
		return counts[d] + counts["?"]
	}
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

// arrival is a pod that comes to a host.
type arrival struct {
	pod  *model.Pod
	host *host
}

// domainOf is a host's value of a topology key, "?" when it is open; false when the host has no such label.
func domainOf(h *host, key string) (string, bool) {
	if key == model.LabelHostname {
		return h.name, true
	}
	if h.open[key] {
		return "?", true
	}
	v, ok := h.labels[key]
	return v, ok
}
