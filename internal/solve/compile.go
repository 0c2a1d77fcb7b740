// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// maxDims is how many resources one problem may use. A class that asks for a further one is refused, and told so.
const maxDims = 16

// vec is an amount of each resource that the demand uses, by position in solver.dims.
type vec [maxDims]int64

// unlimited is a count larger than any.
const unlimited = int64(1) << 40

// class is pods alike with how many of them wait.
type class struct {
	id     int
	c      *model.Class
	pods   []*model.Pod // by namespace and name; the first taken are placed, the rest wait or are refused
	taken  int
	req    vec
	filter *filter
	mask   *mask // offers that admit it
	wish   *mask // those of them it would rather have, at what wishes are worth; made when first needed
	topo   topo
	later  int // it is placed after classes of which this is less
	apart  apart
	each   int64 // see compileLoners; 0: rules over hosts tie it to others, or there are none
	ports  []model.HostPort
	attach []model.Volume // those a CSI limit counts
	bad    string         // why it can't be placed at all
	lump   *lump          // that it is part of; nil: none
	of     *lump          // that it is, as one pod; nil: a class of pods

	collector *[]*demand // that demands belong to
	demands   *demand    // the last of them; see demand.next

	numbers []int32 // by pod: its place in the demand, where that is in order; else 0
}

func (c *class) left() int { return len(c.pods) - c.taken }

// solver is a compiled problem and the plan as far as it has grown.
type solver struct {
	in  *Problem
	pol Policy

	dims []model.Dim // used, ascending
	nd   int         // how many, and the cliques behind them

	classes []*class // by the order they are placed in: see compileClasses
	daemons []*daemon
	keys    keyTable
	filters map[string]*filter

	offers  []offer // by pool (weight, name), type, zone, capacity type, variant
	order   []int   // offers by level, price, number
	sizes   []*vec  // the different amounts an offer has room for; offers point there
	sizeIDs map[vec]int
	shapes  []shape // by pool

	poolOrder  []int        // offers by pool, price, number
	poolAt     []int        // by pool: where its offers begin; one more for the end
	ofPool     []rising     // by pool: poolOrder, as far as anybody has looked
	ofLevel    []rising     // by level: order
	poolShapes []int        // and its shapes
	twin       []int        // by pool: the first of its family
	families   []family     // by their first pools
	known      []assortment // one a list of types, for its labels

	stockIDs map[string]int
	stock    []int64 // what is left of offerings that are limited in number
	levels   []level
	masks    []*mask
	byMask   map[string]*mask
	maskText []byte // scratch

	rooms    rooms
	counters []counter
	lumps    []*lump         // in class order
	excluded map[string]bool // exclusive volumes in use

	placed   []placement
	bins     []*bin
	slots    int // hosts numbered so far: rooms, then bins
	left     []poolLeft
	work     int64
	deadline int64 // of work
	tier     int   // the highest that was used

	truncated bool
	// Some pool has a PreferNoSchedule taint.
	discouraged bool
	ranked      bool          // priorities are packed one after the other
	bare        map[int]int64 // by class: what a pod is worth in the program over columns, by prices alone

	banned    map[[2]int]bool // by class and pool: minValues can't be kept there
	memory    *columnPool     // of the last solve; nil: none
	learnt    columnPool      // for the next
	demands   []*demand
	start     start
	siteMaps  map[siteMapKey][]site
	soldSites map[soldKey][]*site // where sites can be shared
	siteIDs   map[string]int
	siteText  []byte            // scratch
	caps      map[siteKey]int64 // no more of the class can be bought for there
	bought    map[siteKey]int64 // so many are to be
	poolMasks []*mask
	fitting   []int                // scratch of choose
	empties   map[[2]int][]NewNode // by pool and cheapest offer
	needs     []minValues          // by pool
	ands      map[[2]*mask]*mask   // what and has answered
	choices   map[choiceKey]*chosen
	premium   int64      // paid for pods that would rather be apart, micro-dollars an hour
	trial     *attempted // before domains were taken for hollow; nil: none were
	full      bool       // none are any more
	last      bool       // what is placed now must not disturb what was
	spare     *tidying   // room left on machines bought, which pods left out may take; nil: no pod may yet
	floor     int64      // what the demands bought for cost at least, by resource prices
	proven    []*class   // what a bound counts: classes, and lumps as one pod each
	guess     guess
	toll      toll
	begun     []begun
}

// placement is pods of a class put on a room.
type placement struct{ class, room, n int }

// daemon is a DaemonSet as far as it matters to machines.
type daemon struct {
	in     *model.Daemon
	req    vec
	filter *filter
}

// project keeps the used dimensions.
func (s *solver) project(r model.Resources) (v vec) {
	for i, d := range s.dims {
		v[i] = r.At(d)
	}
	return v
}

// compile interns the problem. Nothing is placed yet.
func compile(p *Problem, mem Memory, pol Policy) *solver {
	s := &solver{in: p, pol: pol, tier: 1, filters: map[string]*filter{}, byMask: map[string]*mask{}, ands: map[[2]*mask]*mask{}}
	s.compileClasses()
	s.compileKeys()
	for _, c := range s.classes {
		c.filter = s.filterOf(c.c)
	}
	for _, d := range p.Daemons {
		s.daemons = append(s.daemons, &daemon{in: d, req: s.project(d.Class.Requests), filter: s.filterOf(d.Class)})
	}
	s.compileOffers()
	s.compileRooms(mem)
	s.compileTopology()
	return s
}

// compileClasses groups the demand. Classes are placed in this order: priority, constrained before free (they have fewer places
// to go), large before small (what is small fits into what is left), then by key.
func (s *solver) compileClasses() {
	number := map[*model.Class]int32{} // classes are interned, mostly: those of one key that are not come together below
	of := make([]int32, len(s.in.Demand))
	var all []*model.Class
	var pods []int64
	for i, p := range s.in.Demand {
		n, ok := number[p.Class]
		if !ok {
			n = int32(len(all))
			number[p.Class] = n
			all, pods = append(all, p.Class), append(pods, 0)
		}
		of[i] = n
		pods[n]++
	}
	var used []bool
	for _, c := range all {
		for d, v := range c.Requests {
			for d >= len(used) {
				used = append(used, false)
			}
			used[d] = used[d] || v > 0
		}
	}
	for d, is := range used {
		if is {
			s.dims = append(s.dims, model.Dim(d))
		}
	}
	tooMany := len(s.dims) > maxDims
	if tooMany {
		s.dims = s.dims[:maxDims]
	}
	s.nd = len(s.dims)
	total := vec{}
	classes := make([]class, len(all))
	for n := range classes {
		c := &classes[n]
		c.c, c.req = all[n], s.project(all[n].Requests)
		for k := range s.nd {
			total[k] += c.req[k] * pods[n]
		}
	}
	type ranked struct { // beside each other in memory, and keys are long
		priority int32
		n        int32
		bound    int   // see constrained
		size     int64 // its part of all that is asked for
		key      string
	}
	order := make([]ranked, len(all))
	for n := range classes {
		c, size := &classes[n], int64(0)
		for k := range s.nd {
			if total[k] > 0 {
				size += c.req[k] * 1_000_000 / (total[k]/int64(len(s.in.Demand)) + 1)
			}
		}
		order[n] = ranked{c.c.Priority, int32(n), constrained(c.c), size, c.c.Key}
	}
	slices.SortFunc(order, func(a, b ranked) int {
		switch {
		case a.priority != b.priority:
			return cmp.Compare(b.priority, a.priority)
		case a.bound != b.bound:
			return cmp.Compare(b.bound, a.bound)
		case a.size != b.size:
			return cmp.Compare(b.size, a.size)
		}
		return strings.Compare(a.key, b.key)
	})
	s.classes = make([]*class, 0, len(all))
	first := make([]int32, len(all)) // of those of one key
	for i, x := range order {
		if i > 0 && x.key == order[i-1].key {
			first[x.n] = first[order[i-1].n]
			pods[first[x.n]] += pods[x.n]
			continue
		}
		first[x.n] = x.n
		classes[x.n].id = int(x.n)
		s.classes = append(s.classes, &classes[x.n])
	}
	inOrder := slices.IsSortedFunc(s.in.Demand, comparePods) // as state has it
	room, numbers := make([]*model.Pod, len(s.in.Demand)), make([]int32, len(s.in.Demand))
	for i, c := range s.classes {
		n := pods[c.id]
		c.id, c.pods, room = i, room[:0:n], room[n:]
		c.numbers, numbers = numbers[:0:n], numbers[n:]
	}
	for i, p := range s.in.Demand {
		c := &classes[first[of[i]]]
		if c.pods = append(c.pods, p); inOrder {
			c.numbers = append(c.numbers, int32(i))
		}
	}
	for _, c := range s.classes {
		if !inOrder {
			slices.SortFunc(c.pods, comparePods)
			c.numbers = c.numbers[:len(c.pods)]
		}
		if tooMany {
			for d, v := range c.c.Requests {
				if _, ok := slices.BinarySearch(s.dims, model.Dim(d)); v > 0 && !ok {
					c.bad = "more resources in one problem than the solver has room for: " + s.resourceName(model.Dim(d))
				}
			}
		}
		c.ports, c.apart = c.c.HostPorts, s.apartOf(c.c)
		for _, v := range c.c.Volumes {
			if v.Driver != "" {
				c.attach = append(c.attach, v)
			}
		}
	}
	s.compileCliques()
}

// constrained ranks how tied to others a class is.
func constrained(c *model.Class) int {
	n := 0
	if len(c.Spread) > 0 {
		n++
	}
	if len(c.AntiAffinity) > 0 || len(c.HostPorts) > 0 {
		n++
	}
	if len(c.Affinity) > 0 { // what it wants to be near is placed first, or the group might begin elsewhere
		return -1
	}
	return n
}

// numbered is a pod and its place in the demand, where that is in order; else 0.
type numbered struct {
	at  int32
	pod *model.Pod
}

func compareNumbered(a, b numbered) int {
	if a.at != b.at {
		return cmp.Compare(a.at, b.at)
	}
	return comparePods(a.pod, b.pod)
}

func comparePods(a, b *model.Pod) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.UID, b.UID)
}

func (s *solver) resourceName(d model.Dim) string {
	if int(d) < len(s.in.ResourceNames) {
		return s.in.ResourceNames[d]
	}
	return "resource"
}

// keyTable interns the label keys that anything in the problem looks at, and their values; value 0 is "no such label".
type keyTable struct {
	ids   map[string]int
	names []string
	vals  []map[string]int32
	text  [][]string
}

func (t *keyTable) add(key string) {
	if _, ok := t.ids[key]; ok {
		return
	}
	if t.ids == nil {
		t.ids = map[string]int{}
	}
	t.ids[key] = len(t.names)
	t.names = append(t.names, key)
	t.vals = append(t.vals, map[string]int32{})
	t.text = append(t.text, []string{""})
}

func (t *keyTable) value(key int, v string) int32 {
	id, ok := t.vals[key][v]
	if !ok {
		id = int32(len(t.text[key]))
		t.vals[key][v] = id
		t.text[key] = append(t.text[key], v)
	}
	return id
}

// compileKeys collects the keys in sorted order, so that what depends on their numbers does not depend on input order.
func (s *solver) compileKeys() {
	set := map[string]bool{}
	reqs := func(rs model.Requirements) {
		for i := range rs {
			set[rs[i].Key] = true
		}
	}
	class := func(c *model.Class) {
		for i := range c.Terms {
			reqs(c.Terms[i].Requirements)
		}
		for i := range c.Preferred {
			reqs(c.Preferred[i].Term.Requirements)
		}
		for _, v := range c.Volumes {
			for _, t := range v.Topology {
				reqs(t)
			}
		}
	}
	last := model.LabelHostname
	topoKey := func(k string) {
		if k != model.LabelHostname && k != last { // thousands of classes look at the same few
			last, set[k] = k, true
		}
	}
	for _, c := range s.classes {
		class(c.c)
		for _, t := range c.c.Spread {
			topoKey(t.TopologyKey)
		}
		for _, t := range c.c.Affinity {
			topoKey(t.TopologyKey)
		}
		for _, t := range c.c.AntiAffinity {
			topoKey(t.TopologyKey)
		}
		for _, v := range c.c.Volumes {
			if v.Unmade {
				set[model.LabelZone] = true
			}
		}
		for _, list := range [][]model.WeightedPodTerm{c.c.PreferredAffinity, c.c.PreferredAntiAffinity} {
			for _, t := range list {
				topoKey(t.Term.TopologyKey)
			}
		}
	}
	for _, d := range s.in.Daemons {
		class(d.Class)
	}
	for _, c := range s.standingAnti() {
		for _, t := range c.AntiAffinity {
			topoKey(t.TopologyKey)
		}
	}
	names := make([]string, 0, len(set))
	for k := range set {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		s.keys.add(k)
	}
}

// standingAnti returns the classes of standing pods that have required anti-affinity, by key: those can refuse what comes.
func (s *solver) standingAnti() []*model.Class {
	if s.rooms.anti != nil || s.rooms.antiKnown {
		return s.rooms.anti
	}
	s.rooms.antiKnown = true
	seen := map[*model.Class]bool{}
	for i := range s.in.Rooms {
		r := &s.in.Rooms[i]
		if r.Drained || r.NoAnti {
			continue
		}
		for _, p := range r.Pods {
			if len(p.Class.AntiAffinity) > 0 && !seen[p.Class] {
				seen[p.Class] = true
				s.rooms.anti = append(s.rooms.anti, p.Class)
			}
		}
	}
	slices.SortFunc(s.rooms.anti, func(a, b *model.Class) int { return strings.Compare(a.Key, b.Key) })
	return s.rooms.anti
}
