// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"fmt"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// topology replays the plan: all machines stand, and pods come one by one, each to its own machine, as soon as kube-scheduler would
// let it on. Pods that never get there are violations. Those with spread constraints try first, for others may come later but not
// be taken back.
func (c *checker) topology() {
	if !c.tied() {
		return
	}
	c.makeHosts()
	t := &replay{c: c, selected: map[countKey]map[string]int{}, memo: map[memoKey]bool{}, eligible: map[eligibleKey][]*host{}}
	var waiting []coming
	for _, h := range c.hosts {
		for _, p := range h.planned {
			waiting = append(waiting, coming{p, h})
		}
	}
	slices.SortStableFunc(waiting, func(a, b coming) int { return len(b.pod.Class.Spread) - len(a.pod.Class.Spread) })
	t.register(waiting)
	if len(t.terms) == 0 {
		return
	}
	for _, h := range c.hosts {
		for _, p := range h.pods {
			t.count(p, h)
		}
	}
	for moved := true; moved && len(waiting) > 0; {
		moved = false
		var still []coming
		for _, x := range waiting {
			if t.refuses(x.pod, x.host) == "" {
				t.count(x.pod, x.host)
				moved = true
			} else {
				still = append(still, x)
			}
		}
		waiting = still
	}
	for _, x := range waiting {
		c.report(Topology, x.pod, x.host.name, "%s", t.refuses(x.pod, x.host))
	}
}

// tied says whether any pod at all has a rule about where others are.
func (c *checker) tied() bool {
	for _, p := range c.in.Demand {
		if x := p.Class; len(x.Spread) > 0 || len(x.Affinity) > 0 || len(x.AntiAffinity) > 0 {
			return true
		}
	}
	for i := range c.in.Rooms {
		for _, p := range c.in.Rooms[i].Pods {
			if len(p.Class.AntiAffinity) > 0 {
				return true
			}
		}
	}
	return false
}

type coming struct {
	pod  *model.Pod
	host *host
}

// makeHosts lists rooms and machines with the labels that are certain.
func (c *checker) makeHosts() {
	byName := map[string]*host{}
	for i := range c.in.Rooms {
		r := &c.in.Rooms[i]
		if r.Drained {
			continue
		}
		h := &host{name: r.Name, labels: r.Labels, open: map[string]bool{}, taints: r.Taints, pods: r.Pods, closed: r.Closed}
		for _, q := range r.Open {
			h.open[q.Key] = true
		}
		c.hosts = append(c.hosts, h)
		byName[r.Name] = h
	}
	for _, a := range c.in.OnRooms {
		if h := byName[a.Room]; h != nil {
			h.planned = append(h.planned, a.Pods...)
		}
	}
	for i := range c.in.New {
		m := &c.in.New[i]
		p := c.pools[m.Pool]
		if p == nil {
			continue
		}
		h := &host{name: machineName(i, m), labels: model.Labels{}, open: map[string]bool{}, taints: p.Taints, planned: m.Pods}
		first := true
		c.offers(p, m, func(_ *model.InstanceType, _ *model.Offering, v *variant) {
			for k, x := range v.labels {
				if was, ok := h.labels[k]; first {
					h.labels[k] = x
				} else if !ok || was != x {
					h.open[k] = true
				}
			}
			for k := range h.labels {
				if _, ok := v.labels[k]; !ok {
					h.open[k] = true
				}
			}
			first = false
		})
		c.hosts = append(c.hosts, h)
	}
}

// countKey is what is counted: pods that all these selectors choose, or pods that own such an anti-affinity term, by topology key.
type countKey struct {
	text  string
	key   string
	owner bool
	live  bool // pods being deleted do not count
}

type term struct {
	countKey
	sels []model.Selector
}

type memoKey struct {
	term  string
	class *model.Class
}

type eligibleKey struct {
	class *model.Class
	i     int
}

// replay is the cluster as it fills.
type replay struct {
	c        *checker
	terms    []*term
	known    map[countKey]*term
	selected map[countKey]map[string]int // by domain; under "?" those whose domain is open
	memo     map[memoKey]bool
	eligible map[eligibleKey][]*host
}

func (t *replay) term(key string, owner, live bool, sels ...model.Selector) *term {
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
	k := countKey{text, key, owner, live}
	if t.known == nil {
		t.known = map[countKey]*term{}
	}
	if got := t.known[k]; got != nil {
		return got
	}
	x := &term{k, sels}
	t.known[k] = x
	t.terms = append(t.terms, x)
	t.selected[k] = map[string]int{}
	return x
}

func spreadSelector(class *model.Class, s *model.SpreadConstraint) model.Selector {
	return model.Selector{Namespaces: []string{class.Namespace}, Pods: s.Selector}
}

func affinitySelectors(class *model.Class) []model.Selector {
	out := make([]model.Selector, len(class.Affinity))
	for i := range out {
		out[i] = class.Affinity[i].Selector
	}
	return out
}

// register makes every term that may refuse one of the pods coming.
func (t *replay) register(waiting []coming) {
	seen := map[*model.Class]bool{}
	class := func(x *model.Class, comes bool) {
		if seen[x] {
			return
		}
		seen[x] = true
		for i := range x.AntiAffinity {
			t.term(x.AntiAffinity[i].TopologyKey, true, false, x.AntiAffinity[i].Selector)
			t.term(x.AntiAffinity[i].TopologyKey, false, false, x.AntiAffinity[i].Selector)
		}
		if !comes {
			return
		}
		for i := range x.Spread {
			if x.Spread[i].Hard {
				t.term(x.Spread[i].TopologyKey, false, true, spreadSelector(x, &x.Spread[i]))
			}
		}
		for i := range x.Affinity {
			t.term(x.Affinity[i].TopologyKey, false, false, affinitySelectors(x)...)
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

// chooses says whether every selector of the term chooses pods of the class.
func (t *replay) chooses(x *term, class *model.Class) bool {
	k := memoKey{x.text, class}
	got, ok := t.memo[k]
	if !ok {
		got = true
		for i := range x.sels {
			got = got && t.selects(&x.sels[i], class)
		}
		t.memo[k] = got
	}
	return got
}

func (t *replay) selects(s *model.Selector, class *model.Class) bool {
	named := slices.Contains(s.Namespaces, class.Namespace)
	labelled := s.NamespaceL != nil && s.NamespaceL.Matches(t.c.in.Namespaces[class.Namespace])
	return (named || labelled) && s.Pods != nil && s.Pods.Matches(class.Labels)
}

// domain is the host's value of a topology key: "?" when open, and whether it has one at all.
func domain(h *host, key string) (string, bool) {
	if key == model.LabelHostname {
		return h.name, true
	}
	if h.open[key] {
		return "?", true
	}
	v, ok := h.labels[key]
	return v, ok
}

// count adds a pod that stands on a host to all that counts it.
func (t *replay) count(p *model.Pod, h *host) {
	for _, x := range t.terms {
		if x.owner || !t.chooses(x, p.Class) || x.live && !p.Deleting.IsZero() {
			continue
		}
		if d, ok := domain(h, x.key); ok {
			t.selected[x.countKey][d]++
		}
	}
	for i := range p.Class.AntiAffinity {
		x := t.term(p.Class.AntiAffinity[i].TopologyKey, true, false, p.Class.AntiAffinity[i].Selector)
		if d, ok := domain(h, x.key); ok {
			t.selected[x.countKey][d]++
		}
	}
}

// refuses says why kube-scheduler would not put the pod on the host now, nothing when it would.
func (t *replay) refuses(p *model.Pod, h *host) string {
	class := p.Class
	for i := range class.Spread {
		if s := &class.Spread[i]; s.Hard {
			if why := t.spread(class, i, s, h); why != "" {
				return why
			}
		}
	}
	if why := t.affinity(class, h); why != "" {
		return why
	}
	for i := range class.AntiAffinity {
		x := t.term(class.AntiAffinity[i].TopologyKey, false, false, class.AntiAffinity[i].Selector)
		if t.in(x, h) > 0 {
			return "anti-affinity over " + x.key + ": a pod it selects is there"
		}
	}
	for _, x := range t.terms {
		if x.owner && t.chooses(x, class) && t.in(x, h) > 0 {
			return "anti-affinity over " + x.key + ": a pod there has it against this one"
		}
	}
	return ""
}

// in is how many of what the term counts are, or may be, in the host's domain.
func (t *replay) in(x *term, h *host) int {
	d, ok := domain(h, x.key)
	if !ok {
		return 0
	}
	counts := t.selected[x.countKey]
	if d != "?" {
		return counts[d] + counts["?"]
	}
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

func (t *replay) affinity(class *model.Class, h *host) string {
	if len(class.Affinity) == 0 {
		return ""
	}
	met, anywhere := true, false
	var first *term
	for i := range class.Affinity {
		x := t.term(class.Affinity[i].TopologyKey, false, false, affinitySelectors(class)...)
		d, ok := domain(h, x.key)
		if !ok || d == "?" {
			return "affinity over " + x.key + ": the domain is not known"
		}
		if first == nil {
			first = x
		}
		met = met && t.selected[x.countKey][d] > 0
		anywhere = anywhere || len(t.selected[x.countKey]) > 0
	}
	if met || !anywhere && t.chooses(first, class) {
		return ""
	}
	return "affinity over " + first.key + ": no pod it selects is there"
}

func (t *replay) spread(class *model.Class, i int, s *model.SpreadConstraint, h *host) string {
	x := t.term(s.TopologyKey, false, true, spreadSelector(class, s))
	d, ok := domain(h, s.TopologyKey)
	if !ok || d == "?" {
		return "spread over " + s.TopologyKey + ": the domain is not known"
	}
	domains := map[string]bool{}
	least := math.MaxInt
	for _, e := range t.eligibleFor(class, i, s) {
		if v, ok := domain(e, s.TopologyKey); ok && v != "?" && !domains[v] {
			domains[v] = true
			least = min(least, t.selected[x.countKey][v])
		}
	}
	if len(domains) < int(s.MinDomains) || len(domains) == 0 {
		least = 0
	}
	self := 0
	if t.chooses(x, class) {
		self = 1
	}
	if have := t.selected[x.countKey][d]; have+self-least > int(s.MaxSkew) {
		return fmt.Sprintf("spread over %s: %d in %s, %d elsewhere, skew at most %d", s.TopologyKey, have+self, d, least, s.MaxSkew)
	}
	return ""
}

// eligibleFor lists the hosts whose domains count for a spread constraint of the class.
func (t *replay) eligibleFor(class *model.Class, i int, s *model.SpreadConstraint) []*host {
	k := eligibleKey{class, i}
	if got, ok := t.eligible[k]; ok {
		return got
	}
	var out []*host
	for _, h := range t.c.hosts {
		if !s.IgnoreAffinity && len(class.Terms) > 0 && !slices.ContainsFunc(class.Terms, func(x model.NodeTerm) bool {
			return termHolds(&x, h.labels, nil, h.name)
		}) {
			continue
		}
		if s.HonorTaints && model.Untolerated(h.taints, class.Tolerations) != nil {
			continue
		}
		all := true
		for _, o := range class.Spread {
			_, ok := domain(h, o.TopologyKey)
			all = all && (ok || !o.Hard)
		}
		if all {
			out = append(out, h)
		}
	}
	t.eligible[k] = out
	return out
}
