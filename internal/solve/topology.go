// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// hostKey stands for kubernetes.io/hostname. Its domains are the hosts themselves: existing nodes by number, then
// bins as they are opened.
const hostKey = -1

// counter counts pods by domain of one topology key: those that its selectors choose, or those that own an
// anti-affinity term.
type counter struct {
	key              int              // of labelTable, or hostKey
	countsOwners     bool             // pods that own the term, not those it selects
	forSpread        bool             // pods being deleted do not count
	selectors        []model.Selector // a pod counts that all of them choose
	scope            *scope           // for a spread: only pods on nodes of it count; nil: on all
	counts           []int32          // by value of the key, or by host
	initialCounts    []int32          // as the problem states them
	total            int64            // in all domains together
	initialTotal     int64
	expected         int64 // on machines that are still to be packed
	uncertain        int64 // on nodes in flight whose domain is not certain
	initialUncertain int64
	version          int // counts changes of counts
}

// scope is the nodes that a spread looks at: those that node affinity lets its pods on, whose taints they tolerate,
// and that have the keys of all of the class's hard spreads.
type scope struct {
	affinity *nodeFilter // nil: whatever node affinity says
	taints   *nodeFilter // nil: whatever the taints
	keys     []int       // that a node must have
}

// includes says whether a node of these labels, name and taints is in the scope.
func (x *scope) includes(t *labelTable, vals []int32, open model.Requirements, name string, taints []model.Taint) bool {
	for _, k := range x.keys {
		if vals[k] == 0 {
			return false
		}
	}
	return (x.affinity == nil || x.affinity.passesAffinity(t, vals, open, name)) &&
		(x.taints == nil || model.Untolerated(taints, x.taints.tolerations) == nil)
}

// ruleKind is where a rule comes from.
type ruleKind int8

const (
	ruleSpread             ruleKind = iota // own spread constraint
	ruleAffinity                           // own required affinity
	ruleAnti                               // own required anti-affinity
	ruleAntiOfOthers                       // anti-affinity that others have against it
	rulePreference                         // own preferred affinity or anti-affinity: refuses nothing
	ruleSharedVolume                       // a volume, still to be made, that other pods use too: all go where the first goes
	ruleHostSpreadOfOthers                 // a spread over hosts of other pods that counts these: where its owners are, these must not exceed its skew
)

// rule is one thing that a class asks of the domain it goes to, or that others ask of it.
type rule struct {
	kind            ruleKind
	counter         int    // of topology.counters: what it reads
	ownerCounter    int    // for ruleHostSpreadOfOthers: the counter of pods that own the spread
	key             int    // of labelTable, or hostKey
	topologyKey     string // the name of key
	selectsOwnPods  bool   // pods of the class count themselves
	hard            bool   // refuses a domain; a spread with ScheduleAnyway does not
	scope           *scope
	maxSkew         int64
	weight          int64 // of a preference; negative: to be away
	minDomains      int
	domains         []int32 // of a spread: among those the least count is taken
	standingDomains []int32 // those of domains that an existing node is in
	filledByOthers  []int32 // those of domains in which only machines for other classes stand
	ownPods         []int32 // by domain: pods of the class placed there
	closedDomains   []int32 // domains that the class must not go to, whatever the counts say; see deferCrowdedClasses
	cachedLeast     cachedMinimum
}

// cachedMinimum is the last answer of leastCount, good for one version of the counter and so many domains.
type cachedMinimum struct {
	version, numDomains int
	least               int64
}

// topologyRules is what a class asks of topology, and which counters its pods are counted by.
type topologyRules struct {
	domainRules, hostRules       []rule // in the order of its constraints: over keys larger than a host, and over hosts
	domainCounters, hostCounters []int
	scopes                       []*scope // of domainCounters
	counterScope                 []int    // by place in domainCounters: which of scopes a node must be in for a pod there to count; -1: any
	keys                         []int    // of domainRules and domainCounters: a pod's domains in these must be known to place it, ascending
	hostAffinity                 bool     // it has required affinity over hosts
	affinity                     bool     // it has required affinity over any key
}

// topology is who may be where: the pods counted by domain, the rules that read these counts, and the domains a class
// could go to.
type topology struct {
	problem

	counters        []counter
	colocatedGroups []*colocatedGroup // in class order
	hostCount       int               // hosts numbered so far: existing nodes, then bins as they are opened

	assignmentIDs        map[string]int // by name of topologyAssignment
	offerAssignmentCache map[offerAssignmentKey][]topologyAssignment
	assignmentCache      map[assignmentCacheKey][]*topologyAssignment // where assignments can be shared
	assignmentKey        []byte                                       // scratch
}

// reset takes all counts back to what the problem states.
func (s *topology) reset() {
	for i := range s.counters {
		c := &s.counters[i]
		clear(c.counts)
		copy(c.counts, c.initialCounts)
		c.total, c.uncertain = c.initialTotal, c.initialUncertain
		c.version++
	}
	for _, c := range s.classes {
		for i := range c.topology.domainRules {
			clear(c.topology.domainRules[i].ownPods)
		}
	}
}

// addPods counts n pods more, n maybe negative, in the domain that a node with these labels, or the host, is in.
func (x *counter) addPods(vals []int32, host int, n int64) {
	x.version++
	d := host
	if x.key != hostKey {
		v := vals[x.key]
		if v == openValue {
			x.uncertain += n
			x.total += n
			return
		}
		if v == 0 {
			return
		}
		d = int(v)
	}
	for d >= len(x.counts) {
		x.counts = append(x.counts, 0)
	}
	x.counts[d] += int32(n)
	x.total += n
}

// countIn is the count in a domain.
func (x *counter) countIn(d int) int64 {
	if d < len(x.counts) {
		return int64(x.counts[d])
	}
	return 0
}

// countInDomains counts n pods more of the class in the domains of a node with these labels. inScope says which of
// the class's scopes the node is in.
func (s *topology) countInDomains(c *class, vals []int32, counted []bool, n int64) {
	for i, id := range c.topology.domainCounters {
		if at := c.topology.counterScope[i]; at < 0 || counted[at] {
			s.counters[id].addPods(vals, 0, n)
		}
	}
	for i := range c.topology.domainRules {
		r := &c.topology.domainRules[i]
		if d := vals[r.key]; (r.kind == ruleSpread || r.kind == ruleAffinity) && r.hard && d > 0 {
			for int(d) >= len(r.ownPods) {
				r.ownPods = append(r.ownPods, 0)
			}
			r.ownPods[d] += int32(n)
		}
	}
}

// countOnHost counts n pods more of the class on a host.
func (s *topology) countOnHost(c *class, host int, n int64) {
	for _, id := range c.topology.hostCounters {
		s.counters[id].addPods(nil, host, n)
	}
}

// nodeScopes says which scopes of the class an existing node is in.
func (s *topology) nodeScopes(c *class, node int) []bool {
	if len(c.topology.scopes) == 0 {
		return nil
	}
	x := s.nodes.list[node]
	out := make([]bool, len(c.topology.scopes))
	for i, on := range c.topology.scopes {
		out[i] = on.includes(&s.keys, s.nodes.labels[s.nodes.shapeOf[node]], x.Open, x.Name, x.Taints)
	}
	return out
}

// offerInScope says whether a machine of the offer would be in the scope.
func (s *topology) offerInScope(on *scope, o *offer) bool {
	return on.includes(&s.keys, o.labels, nil, "", s.input.Pools[o.pool].Taints)
}

// leastCount is the least count among the domains of a spread; 0 while fewer domains than its minDomains have a node.
func (s *topology) leastCount(r *rule) int64 {
	x := &s.counters[r.counter]
	if r.cachedLeast.version != x.version+1 || r.cachedLeast.numDomains != len(r.domains) {
		r.cachedLeast = cachedMinimum{x.version + 1, len(r.domains), s.computeLeastCount(r)}
	}
	return r.cachedLeast.least
}

// computeLeastCount finds that without the cache.
func (s *topology) computeLeastCount(r *rule) int64 {
	x := &s.counters[r.counter]
	out, with := unlimited, 0
	for _, d := range r.domains {
		have := x.countIn(int(d))
		out = min(out, have)
		if r.minDomains > 1 && (have > 0 || slices.Contains(r.standingDomains, d)) {
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

// mayStartGroup says whether a pod may be the first of its required affinity: no pod that it wants to be near is
// anywhere, and it selects itself.
func (s *topology) mayStartGroup(c *class) bool {
	for _, rules := range [][]rule{c.topology.domainRules, c.topology.hostRules} {
		for i := range rules {
			if r := &rules[i]; r.kind == ruleAffinity && (!r.selectsOwnPods || s.counters[r.counter].total+s.counters[r.counter].expected > 0) {
				return false
			}
		}
	}
	return true
}

// podsRuleAllows is how many more pods of the class one rule lets into a domain with the given count; known is false
// for a node without the key.
func (s *topology) podsRuleAllows(c *class, r *rule, have, least int64, known bool) int64 {
	switch r.kind {
	case ruleSpread:
		switch room := r.maxSkew + least - have; {
		case !r.hard:
			return unlimited
		case !known:
			return 0
		case r.selectsOwnPods:
			return max(0, room)
		case room < 0:
			return 0
		}
	case ruleAffinity:
		if !known || have == 0 && !s.mayStartGroup(c) {
			return 0
		}
	case ruleAnti:
		if have > 0 {
			return 0
		}
		if r.selectsOwnPods && known {
			return 1
		}
	case ruleAntiOfOthers:
		if have > 0 {
			return 0
		}
	case ruleSharedVolume:
		if have < s.counters[r.counter].total {
			return 0
		}
	case ruleHostSpreadOfOthers:
		return max(0, r.maxSkew-have)
	}
	return unlimited
}

// podsDomainsAllow is how many more pods of the class the rules over keys larger than a host let onto a node with
// these labels, and the first rule that lets in none, nil where all let in some.
func (s *topology) podsDomainsAllow(c *class, vals []int32) (int64, *rule) {
	n := unlimited
	for i := range c.topology.domainRules {
		r := &c.topology.domainRules[i]
		x := &s.counters[r.counter]
		d, have, least := vals[r.key], int64(0), int64(0)
		switch {
		case d == openValue:
			if r.kind != ruleSharedVolume {
				have = x.total
			}
			if r.kind == ruleAnti && r.selectsOwnPods {
				n = min(n, 1)
			}
		case d > 0:
			have = x.countIn(int(d))
			if r.kind == ruleAnti || r.kind == ruleAntiOfOthers {
				have += x.uncertain
			}
		}
		if r.kind == ruleSpread {
			least = s.leastCount(r)
		}
		m := s.podsRuleAllows(c, r, have, least, d > 0)
		if m == 0 || slices.Contains(r.closedDomains, d) {
			return 0, r
		}
		n = min(n, m)
	}
	return n, nil
}

// podsHostAllows is how many more pods of the class the rules over hostname let onto a host. The least count of a
// spread over hosts is taken as zero: a new host may always come, and comes empty.
func (s *topology) podsHostAllows(c *class, host int) int64 {
	n := unlimited
	for i := range c.topology.hostRules {
		r := &c.topology.hostRules[i]
		if r.kind == ruleHostSpreadOfOthers && s.counters[r.ownerCounter].countIn(host) == 0 {
			continue
		}
		if n = min(n, s.podsRuleAllows(c, r, s.counters[r.counter].countIn(host), 0, true)); n == 0 {
			return 0
		}
	}
	return n
}

// podsNodeAccepts is how many pods of the class may be put on an existing node now as far as the node itself is
// concerned: labels, taints, resources, ports, volumes, and rules over hosts. Domains larger than a node are for the
// caller to see to.
func (s *topology) podsNodeAccepts(c *class, node int) int64 {
	x := s.nodes.list[node]
	if x.Closed || x.Drained {
		return 0
	}
	n := s.podsFittingNode(c, node)
	if n == 0 || !s.nodeAdmits(c.filter, node) {
		return 0
	}
	if len(c.topology.hostRules) > 0 {
		n = min(n, s.podsHostAllows(c, node))
	}
	if n > 0 && len(c.ports) > 0 {
		n = min(n, podsPortsAllow(c, s.occupancyOf(node).ports))
	}
	if n > 0 && len(c.csiVolumes) > 0 {
		if _, ok := volumesFit(c, s.occupancyOf(node).handles, x.CSILimits); !ok {
			return 0
		}
	}
	return n
}

// unmetPreferenceWeight is the weight of the preferences over domains that a node with these labels does not meet.
func (s *topology) unmetPreferenceWeight(c *class, vals []int32) (n int64) {
	for i := range c.topology.domainRules {
		r := &c.topology.domainRules[i]
		if r.kind != rulePreference {
			continue
		}
		there := vals[r.key] > 0 && s.counters[r.counter].countIn(int(vals[r.key])) > 0
		switch {
		case r.weight > 0 && !there:
			n += r.weight
		case r.weight < 0 && there:
			n -= r.weight
		}
	}
	return n
}

// exceedsSkew says whether pods that own a spread were placed in a domain that now holds too many for it.
func (s *topology) exceedsSkew(r *rule, d int, least int64) bool {
	return r.ownPods[d] > 0 && s.counters[r.counter].countIn(d)-least > r.maxSkew
}

// breaksSpread says whether pods placed would exceed the skew of their spread were more domains counted.
func (s *topology) breaksSpread(r *rule, more []int32) bool {
	wide := *r
	wide.domains = slices.Concat(r.domains, more)
	least := s.computeLeastCount(&wide)
	for d := range r.ownPods {
		if s.exceedsSkew(r, d, least) {
			return true
		}
	}
	return false
}

// wouldCrowd says whether one more pod of the class at an assignment would leave a pod placed there beyond its
// spread, were that to come last, or a group that begins elsewhere without the right to, were this one to come first.
func (s *topology) wouldCrowd(c *class, where *topologyAssignment) bool {
	for i, id := range c.topology.domainCounters {
		x := &s.counters[id]
		if !x.forSpread && where.labels[x.key] != 0 && s.groupBeganElsewhere(id, where.labels[x.key]) {
			return true
		}
		d := where.labels[x.key]
		if at := c.topology.counterScope[i]; !x.forSpread || d <= 0 || at >= 0 && !where.inScope[at] {
			continue
		}
		for _, other := range s.classes {
			for j := range other.topology.domainRules {
				r := &other.topology.domainRules[j]
				if r.kind == ruleSpread && r.hard && r.counter == id && int(d) < len(r.ownPods) && r.ownPods[d] > 0 && x.countIn(int(d))+1-s.leastCount(r) > r.maxSkew {
					return true
				}
			}
		}
	}
	return false
}

// groupBeganElsewhere says whether a group that wants to be near what a counter counts begins in another domain,
// where no other pod holds it.
func (s *topology) groupBeganElsewhere(id int, where int32) bool {
	leaning := map[int]int64{} // by domain
	for _, c := range s.classes {
		for i := range c.topology.domainRules {
			r := &c.topology.domainRules[i]
			if r.kind != ruleAffinity || !r.selectsOwnPods || r.counter != id {
				continue
			}
			s.steps += int64(len(r.ownPods))
			for d, n := range r.ownPods {
				if n > 0 && d != int(where) {
					leaning[d] += int64(n)
				}
			}
		}
	}
	for d, n := range leaning {
		if s.counters[id].countIn(d) <= n {
			return true
		}
	}
	return false
}

// volumeMayBeIn says whether the volumes that pods of the class share, and that are still to be made, may be made in
// the domains of a node with these labels.
func (s *topology) volumeMayBeIn(c *class, vals []int32) bool {
	for i := range c.topology.domainRules {
		if r := &c.topology.domainRules[i]; r.kind == ruleSharedVolume && (vals[r.key] <= 0 || s.counters[r.counter].countIn(int(vals[r.key])) < s.counters[r.counter].total) {
			return false
		}
	}
	return true
}

// restrictsNeighbours says whether rules over hosts, ports or volumes decide which pods may be on a machine with
// those of the class.
func (c *class) restrictsNeighbours() bool {
	return len(c.topology.hostRules) > 0 || len(c.topology.hostCounters) > 0 || len(c.ports) > 0 || len(c.csiVolumes) > 0
}

// isUnconstrained says whether nothing ties a class to other pods or to domains.
func (c *class) isUnconstrained() bool {
	return len(c.topology.keys) == 0 && !c.restrictsNeighbours() && len(c.spec.Volumes) == 0
}

// goesBesideAny says whether pods of the class may be on a machine with any others, as far as the class's own rules,
// ports and volumes go.
func (c *class) goesBesideAny() bool {
	return len(c.topology.hostRules) == 0 && len(c.ports) == 0 && len(c.csiVolumes) == 0 && c.separation.most == 0
}

// neighbourRules is what decides how many pods of a class may join a pattern, resources aside. It is a copy, beside
// each other in memory, since it is asked often.
type neighbourRules struct {
	class   *class
	rules   []rule
	hasMore bool // ports, volumes or a preference for separation
}

func (c *class) neighbourRules() neighbourRules {
	return neighbourRules{c, c.topology.hostRules, len(c.ports) > 0 || len(c.csiVolumes) > 0 || c.separation.most > 0}
}
