// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// topology replays the plan: all machines stand, and pods come one by one, each to its own machine, as soon as kube-scheduler would
// let it on. One order that works is enough. The first tried is the usual one; the next has those that spread come first, then those that want to be near others
// or away from them; pods without rules come last, for they may come at any time, but once come can't be taken back. Classes that got
// stuck come earlier in the next, all of them first, then one by one. Once all have come, spreads must hold as they would had the pod that
// bears them come last: nobody says who comes first.
func (c *checker) topology() {
	if !c.tied() {
		return
	}
	c.makeHosts()
	c.disks()
	order := c.usualOrder()
	if stuck, crowded := c.replay(func(x coming) int { return -order[x.pod.Class] }); len(stuck) == 0 {
		c.found = append(c.found, crowded...)
		return
	}
	var first []Violation
	earlier := map[*model.Class]int{}
	for try := range 12 {
		stuck, crowded := c.replay(func(x coming) int {
			class := x.pod.Class
			return 1000*earlier[class] + 100*len(class.Spread) + 10*len(class.Affinity) + len(class.AntiAffinity)
		})
		if len(stuck) == 0 {
			c.found = append(c.found, crowded...)
			return
		}
		if first == nil {
			first = stuck
		}
		var classes []*model.Class
		for _, v := range stuck {
			if !slices.Contains(classes, v.pod.Class) {
				classes = append(classes, v.pod.Class)
			}
		}
		if try == 0 {
			for _, class := range classes {
				earlier[class]++
			}
			continue
		}
		earlier[classes[try%len(classes)]]++ // one alone: two that are stuck may be in each other's way
	}
	c.found = append(c.found, first...)
}

// usualOrder numbers classes in the order in which a planner would take them, and which is therefore worth trying first: by priority,
// those with most rules before those with few, those that want to be near others last, then large before small, and by key. One class
// comes wholly before the next.
func (c *checker) usualOrder() map[*model.Class]int {
	var total model.Resources
	var classes []*model.Class
	out := map[*model.Class]int{}
	for _, p := range c.in.Demand {
		total = total.AddInto(p.Class.Requests, 1)
		if _, ok := out[p.Class]; !ok {
			out[p.Class] = 0
			classes = append(classes, p.Class)
		}
	}
	ties := func(x *model.Class) int {
		n := 0
		if len(x.Spread) > 0 {
			n++
		}
		if len(x.AntiAffinity) > 0 || len(x.HostPorts) > 0 {
			n++
		}
		if len(x.Affinity) > 0 {
			n = -1
		}
		return n
	}
	size := map[*model.Class]int64{}
	for _, x := range classes {
		for d, v := range x.Requests {
			if sum := total.At(model.Dim(d)); sum > 0 {
				size[x] += v * 1_000_000 / (sum/int64(len(c.in.Demand)) + 1)
			}
		}
	}
	slices.SortStableFunc(classes, func(a, b *model.Class) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(ties(b), ties(a)), cmp.Compare(size[b], size[a]), strings.Compare(a.Key, b.Key))
	})
	for i, x := range classes {
		out[x] = i
	}
	return out
}

// replay plays the plan in one order and returns who is stuck, and whom others would crowd out if they came first.
func (c *checker) replay(rank func(coming) int) (stuck, crowded []Violation) {
	t := &replay{c: c, memo: map[memoKey]bool{}, rules: map[*model.Class]*rules{},
		known: map[countKey]*term{}, spreads: map[*model.SpreadConstraint]*term{}}
	var waiting []coming
	for _, h := range c.hosts {
		for _, p := range h.planned {
			waiting = append(waiting, coming{p, h})
		}
	}
	slices.SortStableFunc(waiting, func(a, b coming) int { return rank(b) - rank(a) })
	t.register(waiting)
	for _, h := range c.hosts {
		for _, p := range h.pods {
			t.count(p, h)
		}
	}
	for _, x := range t.play(slices.Clone(waiting), rank) {
		stuck = append(stuck, Violation{Rule: Topology, Pod: x.pod.Key(), Where: x.host.name, Detail: t.refuses(x.pod, x.host), pod: x.pod})
	}
	type place struct {
		class *model.Class
		host  *host
	}
	seen := map[place]bool{}
	for _, x := range waiting {
		at := place{x.pod.Class, x.host}
		if seen[at] {
			continue
		}
		seen[at] = true
		for i := range x.pod.Class.Spread {
			if s := &x.pod.Class.Spread[i]; s.Hard {
				if why := t.spread(x.pod.Class, s, x.host, 0); why != "" {
					crowded = append(crowded, Violation{Rule: Topology, Pod: x.pod.Key(), Where: x.host.name, Detail: "others may come first: " + why, pod: x.pod})
				}
			}
		}
	}
	return stuck, crowded
}

// disks checks that pods with a disk still to be made are where one disk can serve them all.
func (c *checker) disks() {
	at := map[string]string{}
	for _, planned := range []bool{false, true} {
		for _, h := range c.hosts {
			pods := h.pods
			if planned {
				pods = h.planned
			}
			for _, p := range pods {
				for _, v := range p.Class.Volumes {
					zone, ok := domain(h, model.LabelZone)
					if !v.Unmade || !ok {
						continue
					}
					if zone == "?" {
						zone = "of " + h.name
					}
					if was, used := at[v.Claim]; !used {
						at[v.Claim] = zone
					} else if planned && was != zone {
						c.report(Topology, p, h.name, "volume %s will be made in zone %s", v.Claim, was)
					}
				}
			}
		}
	}
}

// play lets pods come until nobody can, and returns those that could not. Pods of lower rank come when none of higher rank can.
func (t *replay) play(waiting []coming, rank func(coming) int) (stuck []coming) {
	for len(waiting) > 0 {
		n := 1
		for n < len(waiting) && rank(waiting[n]) == rank(waiting[0]) {
			n++
		}
		stuck = append(stuck, waiting[:n]...)
		waiting = waiting[n:]
		for moved := true; moved; {
			before := len(stuck)
			stuck = slices.DeleteFunc(stuck, func(x coming) bool {
				if t.refuses(x.pod, x.host) != "" {
					return false
				}
				t.count(x.pod, x.host)
				return true
			})
			moved = len(stuck) < before
		}
	}
	return stuck
}

// tied says whether any pod at all has a rule about where others are.
func (c *checker) tied() bool {
	for _, p := range c.in.Demand {
		if x := p.Class; len(x.Spread) > 0 || len(x.Affinity) > 0 || len(x.AntiAffinity) > 0 ||
			slices.ContainsFunc(x.Volumes, func(v model.Volume) bool { return v.Unmade }) {
			return true
		}
	}
	for i := range c.in.Rooms {
		if c.in.Rooms[i].NoAnti {
			continue
		}
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

// rules are the terms of one class, found once.
type rules struct {
	affinity, anti, owned []*term
	against, counted      []*term // that choose the class: of others, and those that count; once all are registered
	known                 bool
}

// rulesOf finds them.
func (t *replay) rulesOf(class *model.Class) *rules {
	r := t.rules[class]
	if r == nil {
		r = &rules{}
		for i := range class.Affinity {
			r.affinity = append(r.affinity, t.term(class.Affinity[i].TopologyKey, false, false, affinitySelectors(class)...))
		}
		for i := range class.AntiAffinity {
			x := &class.AntiAffinity[i]
			r.anti = append(r.anti, t.term(x.TopologyKey, false, false, x.Selector))
			r.owned = append(r.owned, t.term(x.TopologyKey, true, false, x.Selector))
		}
		t.rules[class] = r
	}
	return r
}

// againstOf are the anti-affinity terms of others that choose the class.
func (t *replay) againstOf(class *model.Class) []*term { return t.chosen(class).against }

// chosen finds, once all terms are registered, those that choose the class: its pods are counted by some, and refused by the owners of
// others. Terms are looked up by a label that they want, for there may be very many.
func (t *replay) chosen(class *model.Class) *rules {
	r := t.rulesOf(class)
	if r.known {
		return r
	}
	r.known = true
	look := func(list []*term) {
		for _, x := range list {
			switch {
			case !t.chooses(x, class):
			case x.owner:
				r.against = append(r.against, x)
			default:
				r.counted = append(r.counted, x)
			}
		}
	}
	if t.byLabel == nil {
		t.file()
	}
	look(t.others)
	for k, v := range class.Labels { // in whatever order: each term is found under one label, and all are asked
		look(t.byLabel[[2]string{k, v}])
	}
	return r
}

// file puts every term under each value of the first label that it wants one of.
func (t *replay) file() {
	t.byLabel = map[[2]string][]*term{}
	for _, x := range t.terms {
		filed := false
		if len(x.sels) > 0 && x.sels[0].Pods != nil {
			for _, r := range *x.sels[0].Pods {
				if r.Complement || r.AllowAbsent || len(r.Values) == 0 {
					continue
				}
				for _, v := range r.Values {
					k := [2]string{r.Key, v}
					t.byLabel[k] = append(t.byLabel[k], x)
				}
				filed = true
				break
			}
		}
		if !filed {
			t.others = append(t.others, x)
		}
	}
}

// replay is the cluster as it fills.
type replay struct {
	c       *checker
	terms   []*term
	known   map[countKey]*term
	rules   map[*model.Class]*rules
	memo    map[memoKey]bool
	spreads map[*model.SpreadConstraint]*term
	byLabel map[[2]string][]*term
	others  []*term             // not under any label
	all     map[string][]string // by topology key: the domains of all hosts
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
	return t.add(countKey{text, key, owner, live}, sels, nil)
}

func (t *replay) add(k countKey, sels []model.Selector, hosts map[*host]bool) *term {
	if got := t.known[k]; got != nil {
		return got
	}
	x := &term{countKey: k, sels: sels, hosts: hosts}
	t.known[k] = x
	t.terms = append(t.terms, x)
	x.counts = map[string]int{}
	return x
}

// spreadTerm counts for a spread constraint: the class's own namespace, on the hosts that node affinity and taints make eligible and
// that have the keys of all hard constraints.
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
			text += " at " + x.Requirements.Key()
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
		ok := s.IgnoreAffinity || len(class.Terms) == 0 || slices.ContainsFunc(class.Terms, func(x model.NodeTerm) bool {
			return termHolds(&x, h.labels, nil, h.name)
		})
		ok = ok && (!s.HonorTaints || model.Untolerated(h.taints, class.Tolerations) == nil)
		for _, key := range keys {
			_, has := domain(h, key)
			ok = ok && has
		}
		if ok {
			hosts[h] = true
		}
	}
	if len(hosts) == len(t.c.hosts) { // all of them, as is usual
		x := t.add(k, []model.Selector{sel}, nil)
		if t.all == nil {
			t.all = map[string][]string{}
		}
		if t.all[s.TopologyKey] == nil {
			t.all[s.TopologyKey] = t.domains(s.TopologyKey, hosts)
		}
		x.domains = t.all[s.TopologyKey]
		t.spreads[s] = x
		return x
	}
	x := t.add(k, []model.Selector{sel}, hosts)
	x.domains = t.domains(s.TopologyKey, hosts)
	t.spreads[s] = x
	return x
}

func affinitySelectors(class *model.Class) []model.Selector {
	out := make([]model.Selector, len(class.Affinity))
	for i := range out {
		out[i] = class.Affinity[i].Selector
	}
	return out
}

// domains are the certain values of a topology key among hosts.
func (t *replay) domains(key string, hosts map[*host]bool) (out []string) {
	seen := map[string]bool{}
	for _, h := range t.c.hosts {
		if v, ok := domain(h, key); ok && hosts[h] && v != "?" && !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
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
		t.rulesOf(x)
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

// chooses says whether every selector of the term chooses pods of the class.
func (t *replay) chooses(x *term, class *model.Class) bool {
	k := memoKey{x, class}
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
	for _, x := range t.chosen(p.Class).counted {
		if x.hosts != nil && !x.hosts[h] || x.live && !p.Deleting.IsZero() {
			continue
		}
		if d, ok := domain(h, x.key); ok {
			x.counts[d]++
		}
	}
	for _, x := range t.rulesOf(p.Class).owned {
		if d, ok := domain(h, x.key); ok {
			x.counts[d]++
		}
	}
}

// refuses says why kube-scheduler would not put the pod on the host now, nothing when it would.
func (t *replay) refuses(p *model.Pod, h *host) string {
	class := p.Class
	for i := range class.Spread {
		if s := &class.Spread[i]; s.Hard {
			self := 0
			if t.chooses(t.spreadTerm(class, s), class) {
				self = 1
			}
			if why := t.spread(class, s, h, self); why != "" {
				return why
			}
		}
	}
	if why := t.affinity(class, h); why != "" {
		return why
	}
	for _, x := range t.rulesOf(class).anti {
		if t.in(x, h) > 0 {
			return "anti-affinity over " + x.key + ": a pod it selects is there"
		}
	}
	for _, x := range t.againstOf(class) {
		if t.in(x, h) > 0 {
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

func (t *replay) affinity(class *model.Class, h *host) string {
	if len(class.Affinity) == 0 {
		return ""
	}
	met, anywhere := true, false
	var first *term
	for _, x := range t.rulesOf(class).affinity {
		d, ok := domain(h, x.key)
		if !ok || d == "?" {
			return "affinity over " + x.key + ": the domain is not known"
		}
		if first == nil {
			first = x
		}
		met = met && x.counts[d] > 0
		anywhere = anywhere || len(x.counts) > 0
	}
	if met || !anywhere && t.chooses(first, class) {
		return ""
	}
	return "affinity over " + first.key + ": no pod it selects is there"
}

// spread says why the constraint does not hold on the host with so many pods more, nothing when it does.
func (t *replay) spread(class *model.Class, s *model.SpreadConstraint, h *host, more int) string {
	x := t.spreadTerm(class, s)
	d, ok := domain(h, s.TopologyKey)
	if !ok || d == "?" {
		return "spread over " + s.TopologyKey + ": the domain is not known"
	}
	least := 0
	if n := len(x.domains); n > 0 && n >= int(s.MinDomains) && len(x.counts) >= n { // fewer are counted: some domain has none
		least = math.MaxInt
		for _, v := range x.domains {
			least = min(least, x.counts[v])
		}
	}
	if have := x.counts[d]; have+more-least > int(s.MaxSkew) {
		return fmt.Sprintf("spread over %s: %d in %s, %d elsewhere, skew at most %d", s.TopologyKey, have+more, d, least, s.MaxSkew)
	}
	return ""
}
