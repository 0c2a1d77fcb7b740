// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// hostKey stands for kubernetes.io/hostname, whose domains are the hosts themselves: rooms by number, then bins as they are opened.
const hostKey = -1

// counter counts pods by domain of one topology key: those that a selector chooses, or those that own an anti-affinity term.
type counter struct {
	key      int
	owner    bool
	spread   bool             // pods being deleted do not count
	sels     []model.Selector // all must match
	filter   *filter          // for a spread: only pods on nodes it lets on count; nil: all
	taints   bool             // and only where it tolerates the taints
	n        []int32          // by value of the key, or by host
	start    []int32          // n as the problem states it
	total    int64            // in any domain
	total0   int64
	unsure   []int32 // of n, those that may turn out not to count; nil: none
	promised int64   // to be on machines not packed yet
	floating int64   // on claims in flight whose domain is not certain
	float0   int64
}

type ruleKind int8

const (
	ruleSpread   ruleKind = iota // own spread constraint
	ruleAffinity                 // own required affinity
	ruleAnti                     // own required anti-affinity
	ruleOthers                   // anti-affinity that others have against it
	ruleWish                     // own preferred affinity or anti-affinity: refuses nothing
	ruleGuest                    // a spread over hosts of others that counts it: where they are, it may not crowd
)

// rule is one thing a class asks of the domain it goes to.
type rule struct {
	kind       ruleKind
	counter    int
	owners     int // for ruleGuest: the counter of pods that own the spread
	key        int
	name       string // the topology key
	self       bool   // pods of the class count themselves
	hard       bool
	ignore     bool // domains that node affinity keeps the class from count too
	maxSkew    int64
	weight     int64 // of a wish; negative: to be away
	minDomains int
	domains    []int32 // that count for the least of a spread
	standing   []int32 // those of them that a room is in already
}

// topo is what a class asks of topology, and which counters its pods move.
type topo struct {
	wide, host         []rule // by key: larger than a host, and the host itself
	bumpWide, bumpHost []int
	keys               []int // of wide and bumpWide: a pod's domain in these must be known to place it
	nearHost           bool  // required affinity to pods on the same host
	near               bool  // required affinity over any key
}

// topoCompiler holds what is needed only while rules are made.
type topoCompiler struct {
	s       *solver
	ids     map[string]int
	byLabel map[[2]string][]int // counters by a label value that their selector wants
	general []int               // counters without such a label
	domains map[domainKey][2][]int32
	hosted  map[int][]hostSpread // by counter
}

// hostSpread is a hard spread over hosts that some demand has.
type hostSpread struct {
	owners  int
	maxSkew int64
}

type domainKey struct {
	filter, key  int
	ignore, hard bool
}

// compileTopology makes counters and rules, and counts the pods that stand.
func (s *solver) compileTopology() {
	t := &topoCompiler{s: s, ids: map[string]int{}, byLabel: map[[2]string][]int{}, domains: map[domainKey][2][]int32{},
		hosted: map[int][]hostSpread{}}
	for _, c := range s.classes {
		t.rules(c)
	}
	for _, c := range s.standingAnti() {
		for i := range c.AntiAffinity {
			t.counter(c.AntiAffinity[i].TopologyKey, true, false, c.AntiAffinity[i].Selector)
		}
	}
	if len(s.counters) == 0 {
		return
	}
	for i := range s.counters {
		t.index(i)
	}
	for _, c := range s.classes {
		t.relate(c)
	}
	t.countStanding()
}

// counter returns the number of the counter, made when new.
func (t *topoCompiler) counter(key string, owner, spread bool, sels ...model.Selector) int {
	return t.counterOn(nil, false, key, owner, spread, sels...)
}

// counterOn is counter for pods on nodes that the filter lets on.
func (t *topoCompiler) counterOn(f *filter, taints bool, key string, owner, spread bool, sels ...model.Selector) int {
	k := hostKey
	if key != model.LabelHostname {
		k = t.s.keys.ids[key]
	}
	text := fmt.Sprintf("%d %t %t", k, owner, spread)
	if f != nil {
		text += fmt.Sprintf(" on %d %t", f.id, taints)
	}
	for i := range sels {
		text += selectorKey(&sels[i])
	}
	if id, ok := t.ids[text]; ok {
		return id
	}
	size := t.s.slots
	if k != hostKey {
		size = len(t.s.keys.text[k])
	}
	id := len(t.s.counters)
	t.ids[text] = id
	t.s.counters = append(t.s.counters, counter{key: k, owner: owner, spread: spread, sels: sels, filter: f, taints: taints,
		n: make([]int32, size)})
	return id
}

func selectorKey(x *model.Selector) string {
	out := fmt.Sprintf(" %q", x.Namespaces)
	if x.NamespaceL != nil {
		out += "(" + x.NamespaceL.Key() + ")"
	}
	if x.Pods != nil {
		out += "{" + x.Pods.Key() + "}"
	}
	return out
}

// selects says whether the selector chooses pods of the class.
func (s *solver) selects(x *model.Selector, c *model.Class) bool {
	if x.Pods == nil {
		return false
	}
	_, ok := slices.BinarySearch(x.Namespaces, c.Namespace)
	if !ok && (x.NamespaceL == nil || !x.NamespaceL.Matches(s.in.Namespaces[c.Namespace])) {
		return false
	}
	return x.Pods.Matches(c.Labels)
}

func (s *solver) selectsAll(xs []model.Selector, c *model.Class) bool {
	for i := range xs {
		if !s.selects(&xs[i], c) {
			return false
		}
	}
	return true
}

// rules makes the counters of a class's own constraints and the rules that read them.
func (t *topoCompiler) rules(c *class) {
	add := func(r rule) {
		r.key = t.s.counters[r.counter].key
		if r.key == hostKey {
			c.topo.host = append(c.topo.host, r)
			return
		}
		c.topo.wide = append(c.topo.wide, r)
	}
	for i := range c.c.Spread {
		x := &c.c.Spread[i]
		if !x.Hard && (x.ClusterDefaults || x.TopologyKey == model.LabelHostname) {
			continue // only a wish, and one that the scheduler itself sees to when it scores
		}
		sel := model.Selector{Namespaces: []string{c.c.Namespace}, Pods: x.Selector}
		var on *filter
		if x.HonorTaints || !x.IgnoreAffinity && len(c.c.Terms) > 0 {
			on = c.filter
		}
		r := rule{kind: ruleSpread, counter: t.counterOn(on, x.HonorTaints, x.TopologyKey, false, true, sel), name: x.TopologyKey, hard: x.Hard,
			maxSkew: int64(x.MaxSkew), minDomains: int(x.MinDomains), self: t.s.selects(&sel, c.c)}
		if x.TopologyKey == model.LabelHostname {
			t.ownSpread(c, &r)
		} else {
			r.domains, r.standing = t.domainsOf(c, x)
			r.ignore = x.IgnoreAffinity
		}
		add(r)
	}
	t.wishRules(c, add)
	if len(c.c.Affinity) > 0 {
		sels := make([]model.Selector, len(c.c.Affinity))
		for i := range sels {
			sels[i] = c.c.Affinity[i].Selector
		}
		self := t.s.selectsAll(sels, c.c)
		c.topo.near = true
		for i := range c.c.Affinity {
			key := c.c.Affinity[i].TopologyKey
			c.topo.nearHost = c.topo.nearHost || key == model.LabelHostname
			add(rule{kind: ruleAffinity, counter: t.counter(key, false, false, sels...), name: key, self: self, hard: true})
		}
	}
	for i := range c.c.AntiAffinity {
		x := &c.c.AntiAffinity[i]
		add(rule{kind: ruleAnti, counter: t.counter(x.TopologyKey, false, false, x.Selector), name: x.TopologyKey, hard: true,
			self: t.s.selects(&x.Selector, c.c)})
		t.counter(x.TopologyKey, true, false, x.Selector)
	}
}

// ownSpread counts the owners of a spread over hosts, so that others may be kept from crowding them: kube-scheduler would let those
// come, and then not let the owners.
func (t *topoCompiler) ownSpread(c *class, r *rule) {
	nobody := model.Selector{Namespaces: []string{fmt.Sprint(r.counter), fmt.Sprint(r.maxSkew)}}
	h := hostSpread{owners: t.counter(model.LabelHostname, true, true, nobody), maxSkew: r.maxSkew}
	if !slices.Contains(t.hosted[r.counter], h) {
		t.hosted[r.counter] = append(t.hosted[r.counter], h)
	}
	c.topo.bumpHost = append(c.topo.bumpHost, h.owners)
}

// domainsOf lists the domains whose least count a spread is measured from: those of nodes that the class could go to, standing or
// still to be bought.
func (t *topoCompiler) domainsOf(c *class, x *model.SpreadConstraint) (all, standing []int32) {
	s := t.s
	key := s.keys.ids[x.TopologyKey]
	id := domainKey{filter: c.filter.id, key: key, ignore: x.IgnoreAffinity, hard: x.HonorTaints}
	var also []int // a node counts only where it has the keys of every hard constraint
	for i := range c.c.Spread {
		if o := &c.c.Spread[i]; o.Hard && o.TopologyKey != model.LabelHostname && o.TopologyKey != x.TopologyKey {
			also = append(also, s.keys.ids[o.TopologyKey])
		}
	}
	if d, ok := t.domains[id]; ok && len(also) == 0 {
		return d[0], d[1]
	}
	seen := make([]bool, len(s.keys.text[key]))
	add := func(vals []int32) {
		for _, k := range also {
			if vals[k] == 0 {
				return
			}
		}
		if v := vals[key]; v > 0 {
			seen[v] = true
		}
	}
	present := make([]bool, len(s.rooms.vals))
	for i, r := range s.rooms.in {
		present[s.rooms.shape[i]] = present[s.rooms.shape[i]] || !r.Drained
	}
	for shape, vals := range s.rooms.vals {
		r := s.rooms.in[s.rooms.of[shape]]
		if present[shape] && (x.IgnoreAffinity || c.filter.affine(&s.keys, vals, r.Open, r.Name)) &&
			(!x.HonorTaints || model.Untolerated(r.Taints, c.filter.tolerations) == nil) {
			add(vals)
		}
	}
	list := func() (out []int32) {
		for v, ok := range seen {
			if ok {
				out = append(out, int32(v))
			}
		}
		return out
	}
	standing = list()
	offers := c.filter.reach
	if x.IgnoreAffinity {
		offers = c.filter.loose
	}
	for i := range s.offers {
		if offers.has(i) {
			add(s.offers[i].vals)
		}
	}
	all = list()
	t.domains[id] = [2][]int32{all, standing}
	return all, standing
}

// index files a counter under a label value its selector wants, so that a class need not be held against every counter.
func (t *topoCompiler) index(id int) {
	for _, x := range t.s.counters[id].sels {
		if x.Pods == nil {
			return // selects nothing, ever
		}
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

// chosenBy lists the counters whose selectors choose the class, ascending.
func (t *topoCompiler) chosenBy(c *model.Class) (out []int) {
	try := func(ids []int) {
		for _, id := range ids {
			if t.s.selectsAll(t.s.counters[id].sels, c) {
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

// moves lists the counters that a pod of the class moves: those that choose it and those it owns a term of.
func (t *topoCompiler) moves(c *model.Class, chosen []int) (out []int) {
	for _, id := range chosen {
		if !t.s.counters[id].owner {
			out = append(out, id)
		}
	}
	for i := range c.AntiAffinity {
		x := &c.AntiAffinity[i]
		out = append(out, t.counter(x.TopologyKey, true, false, x.Selector))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// relate adds what others have against the class, and what its pods move.
func (t *topoCompiler) relate(c *class) {
	chosen := t.chosenBy(c.c)
	for _, id := range chosen {
		x := &t.s.counters[id]
		for _, h := range t.hosted[id] {
			c.topo.host = append(c.topo.host, rule{kind: ruleGuest, counter: id, owners: h.owners, key: hostKey, name: model.LabelHostname,
				hard: true, maxSkew: h.maxSkew})
		}
		if !x.owner {
			continue
		}
		name := model.LabelHostname
		if x.key != hostKey {
			name = t.s.keys.names[x.key]
		}
		r := rule{kind: ruleOthers, counter: id, key: x.key, name: name, hard: true}
		if x.key == hostKey {
			c.topo.host = append(c.topo.host, r)
		} else {
			c.topo.wide = append(c.topo.wide, r)
		}
	}
	for _, id := range t.moves(c.c, chosen) {
		if t.s.counters[id].key == hostKey {
			c.topo.bumpHost = append(c.topo.bumpHost, id)
		} else {
			c.topo.bumpWide = append(c.topo.bumpWide, id)
			c.topo.keys = append(c.topo.keys, t.s.counters[id].key)
		}
	}
	for _, r := range c.topo.wide {
		c.topo.keys = append(c.topo.keys, r.key)
	}
	slices.Sort(c.topo.keys)
	c.topo.keys = slices.Compact(c.topo.keys)
}

// countStanding counts the pods on rooms.
func (t *topoCompiler) countStanding() {
	s := t.s
	memo := map[*model.Class][]int{}
	for room, x := range s.rooms.in {
		if x.Drained {
			continue
		}
		vals := s.rooms.vals[s.rooms.shape[room]]
		for _, p := range x.Pods {
			ids, ok := memo[p.Class]
			if !ok {
				ids = t.moves(p.Class, t.chosenBy(p.Class))
				memo[p.Class] = ids
			}
			for _, id := range ids {
				k := &s.counters[id]
				if k.spread && !p.Deleting.IsZero() {
					continue
				}
				if f := k.filter; f != nil && (!f.affine(&s.keys, vals, x.Open, x.Name) ||
					k.taints && model.Untolerated(x.Taints, f.tolerations) != nil) {
					continue
				}
				k.bump(vals, room, 1)
			}
		}
	}
	for i := range s.counters {
		c := &s.counters[i]
		c.start, c.total0, c.float0 = slices.Clone(c.n), c.total, c.floating
	}
}

// bump counts n pods more in the domain that the host is in.
func (x *counter) bump(vals []int32, host int, n int64) {
	d := host
	if x.key != hostKey {
		v := vals[x.key]
		if v == openValue {
			x.floating += n
			x.total += n
			return
		}
		if v == 0 {
			return
		}
		d = int(v)
	}
	for d >= len(x.n) {
		x.n = append(x.n, 0)
	}
	x.n[d] += int32(n)
	x.total += n
}

func (x *counter) at(d int) int64 {
	if d < len(x.n) {
		return int64(x.n[d])
	}
	return 0
}

// bumpWide counts n pods more of the class in the domains of vals. Where a machine is still to be bought from offers, some of
// which a spread would count and some not, the pods are counted as unsure.
func (s *solver) bumpWide(c *class, vals []int32, offers *mask, n int64) {
	for _, id := range c.topo.bumpWide {
		x := &s.counters[id]
		f := x.filter
		if f == nil || f == c.filter {
			x.bump(vals, 0, n)
			continue
		}
		if offers == nil {
			if f.affine(&s.keys, vals, nil, "") {
				x.bump(vals, 0, n)
			}
			continue
		}
		some, all := s.reaches(f, offers)
		if some {
			x.bump(vals, 0, n)
		}
		if d := vals[x.key]; some && !all && d > 0 {
			if x.unsure == nil {
				x.unsure = make([]int32, len(s.keys.text[x.key]))
			}
			x.unsure[d] += int32(n)
		}
	}
}

// reaches says whether the filter lets a class on some of the offers, and on all.
func (s *solver) reaches(f *filter, offers *mask) (some, all bool) {
	all = true
	for i := range s.offers {
		if offers.has(i) {
			ok := f.affine(&s.keys, s.offers[i].vals, nil, "")
			some, all = some || ok, all && ok
		}
	}
	return some, all
}

func (s *solver) bumpHost(c *class, host int, n int64) {
	for _, id := range c.topo.bumpHost {
		s.counters[id].bump(nil, host, n)
	}
}

// least is the smallest count among the domains of a spread; zero while fewer of them than wanted have a node.
func (s *solver) least(r *rule) int64 {
	x := &s.counters[r.counter]
	out, with := unlimited, 0
	for _, d := range r.domains {
		have := x.at(int(d))
		if x.unsure != nil {
			have -= int64(x.unsure[d])
		}
		out = min(out, have)
		if r.minDomains > 1 && (have > 0 || slices.Contains(r.standing, d)) {
			with++
		}
	}
	if r.minDomains > 1 && with < r.minDomains {
		return 0
	}
	if out == unlimited {
		return 0
	}
	return out
}

// starts says whether a pod may be the first of its affinity: nobody it wants to be near is anywhere, and it is near itself.
func (s *solver) starts(c *class) bool {
	for _, rules := range [][]rule{c.topo.wide, c.topo.host} {
		for i := range rules {
			if r := &rules[i]; r.kind == ruleAffinity && (!r.self || s.counters[r.counter].total+s.counters[r.counter].promised > 0) {
				return false
			}
		}
	}
	return true
}

// allows is how many pods of the class one rule lets into a domain, given the count there.
func (s *solver) allows(c *class, r *rule, have, least int64, known bool) int64 {
	switch r.kind {
	case ruleSpread:
		switch room := r.maxSkew + least - have; {
		case !r.hard:
			return unlimited
		case !known:
			return 0
		case r.self:
			return max(0, room)
		case room < 0:
			return 0
		}
	case ruleAffinity:
		if !known || have == 0 && !s.starts(c) {
			return 0
		}
	case ruleAnti:
		if have > 0 {
			return 0
		}
		if r.self && known {
			return 1
		}
	case ruleOthers:
		if have > 0 {
			return 0
		}
	case ruleGuest:
		return max(0, r.maxSkew-have)
	}
	return unlimited
}

// wideAllows is how many pods of the class the rules over keys larger than a host let into the domains of vals, and the first rule
// that lets in none.
func (s *solver) wideAllows(c *class, vals []int32) (int64, *rule) {
	n := unlimited
	for i := range c.topo.wide {
		r := &c.topo.wide[i]
		x := &s.counters[r.counter]
		d, have, least := vals[r.key], int64(0), int64(0)
		switch {
		case d == openValue:
			have = x.total
			if r.kind == ruleAnti && r.self {
				n = min(n, 1)
			}
		case d > 0:
			have = x.at(int(d))
			if r.kind == ruleAnti || r.kind == ruleOthers {
				have += x.floating
			}
		}
		if r.kind == ruleSpread {
			least = s.least(r)
		}
		m := s.allows(c, r, have, least, d > 0)
		if m == 0 {
			return 0, r
		}
		n = min(n, m)
	}
	return n, nil
}

// hostAllows is the same for a host and the rules over hostname. The least count of a spread over hosts is taken as zero: a new
// host may always come, and comes empty.
func (s *solver) hostAllows(c *class, host int) int64 {
	n := unlimited
	for i := range c.topo.host {
		r := &c.topo.host[i]
		if r.kind == ruleGuest && s.counters[r.owners].at(host) == 0 {
			continue
		}
		if n = min(n, s.allows(c, r, s.counters[r.counter].at(host), 0, true)); n == 0 {
			return 0
		}
	}
	return n
}
