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
	id              int
	spec            *model.Class
	pods            []*model.Pod // by namespace and name; the first taken are placed, the rest wait or are refused
	assigned        int
	req             vec
	filter          *nodeFilter
	offers          *offerSet // offers that admit it
	preferredOffers *offerSet // those of them it would rather have, at what preferences are worth; made when first needed
	topology        topologyRules
	deferrals       int // it is placed after classes of which this is less
	separation      separation
	maxPerNewNode   int64 // see compileNodeCaps; 0: rules over hosts tie it to others, or there are none
	ports           []model.HostPort
	csiVolumes      []model.Volume  // those a CSI limit counts
	unsolvable      string          // why it can't be placed at all
	group           *colocatedGroup // that it is part of; nil: none
	asGroup         *colocatedGroup // that it is, as one pod; nil: a class of pods

	collectedIn *[]*demand // that demands belong to
	lastDemand  *demand    // the last of them; see demand.next

	demandOrder []int32 // by pod: its place in the demand, where that is in order; else 0
}

func (c *class) unplaced() int { return len(c.pods) - c.assigned }

// solver is a compiled problem and the plan as far as it has grown.
type solver struct {
	input  *Problem
	policy Policy

	dims    []model.Dim // used, ascending
	numDims int         // how many, and the mutual anti-affinity groups behind them

	classes []*class // by the order they are placed in: see compileClasses
	daemons []*daemon
	keys    labelTable
	filters map[string]*nodeFilter

	offers        []offer // by pool (weight, name), type, zone, capacity type, variant
	offersByPrice []int   // offers by level, price, number
	sizes         []*vec  // the different amounts an offer has room for; offers point there
	sizeIDs       map[vec]int
	labelShapes   []labelShape // by pool

	poolOffersByPrice  []int           // offers by pool, price, number
	poolStart          []int           // by pool: where its offers begin; one more for the end
	poolCapacityIndex  []capacityIndex // by pool: poolOrder, as far as anybody has looked
	levelCapacityIndex []capacityIndex // by level: order
	poolShapeStart     []int           // and its shapes
	equivalentPool     []int           // by pool: the first of its family
	families           []family        // by their first pools
	typeLists          []poolCatalog   // one a list of types, for its labels

	quantityIDs    map[string]int
	quantities     []int64 // what is left of offerings that are limited in number
	levels         []level
	offerSets      []*offerSet
	offerSetByBits map[string]*offerSet
	offerSetKey    []byte // scratch

	nodes        nodeSet
	counters     []counter
	groups       []*colocatedGroup // in class order
	volumesInUse map[string]bool   // exclusive volumes in use

	placed    []placement
	bins      []*bin
	hostCount int // hosts numbered so far: nodes, then bins
	limits    []poolLimits
	steps     int64
	stepLimit int64 // of work
	tier      int   // the highest that was used

	truncated bool
	// Some pool has a PreferNoSchedule taint.
	hasPreferNoSchedule bool
	byPriority          bool          // priorities are packed one after the other
	columnDuals         map[int]int64 // by class: what a pod is worth in the program over columns, by prices alone

	bannedPools          map[[2]int]bool    // by class and pool: minValues can't be kept there
	previousColumns      *rememberedColumns // of the last solve; nil: none
	nextColumns          rememberedColumns  // for the next
	demands              []*demand
	initial              initialState
	offerAssignmentCache map[offerAssignmentKey][]topologyAssignment
	assignmentCache      map[assignmentCacheKey][]*topologyAssignment // where topology assignments can be shared
	assignmentIDs        map[string]int
	assignmentKey        []byte                    // scratch
	purchaseCaps         map[classAssignment]int64 // no more of the class can be bought for there
	purchased            map[classAssignment]int64 // so many are to be
	poolSets             []*offerSet
	fittingBuf           []int                      // scratch of choose
	nodeTemplates        map[[2]int][]NewNode       // by pool and cheapest offer
	minValuesByPool      []minValues                // by pool
	intersections        map[[2]*offerSet]*offerSet // what and has answered
	choiceCache          map[choiceKey]*binChoice
	separationPremium    int64             // paid for pods that would rather be apart, micro-dollars an hour
	emptyDomainTrial     *emptyDomainTrial // before domains were taken for hollow; nil: none were
	keepEmptyDomains     bool              // none are any more
	keepPlaced           bool              // what is placed now must not disturb what was
	spareCapacity        *consolidation    // room left on machines bought, which pods left out may take; nil: no pod may yet
	resourceBound        int64             // what the demands bought for cost at least, by resource prices
	boundClasses         []*class          // what a bound counts: classes, and co-located groups as one pod each
	assumptions          assumptions
	limitPricing         limitPricing
	groupStarts          []groupStart
}

// placement is pods of a class put on a node.
type placement struct{ class, node, count int }

// daemon is a DaemonSet as far as it matters to machines.
type daemon struct {
	spec   *model.Daemon
	req    vec
	filter *nodeFilter
}

// toVec keeps the used dimensions.
func (s *solver) toVec(r model.Resources) (v vec) {
	for i, d := range s.dims {
		v[i] = r.At(d)
	}
	return v
}

// compileProblem interns the problem. Nothing is placed yet.
func compileProblem(p *Problem, mem Memory, pol Policy) *solver {
	s := &solver{input: p, policy: pol, tier: 1, filters: map[string]*nodeFilter{}, offerSetByBits: map[string]*offerSet{}, intersections: map[[2]*offerSet]*offerSet{}}
	s.compileClasses()
	s.compileKeys()
	for _, c := range s.classes {
		c.filter = s.filterFor(c.spec)
	}
	for _, d := range p.Daemons {
		s.daemons = append(s.daemons, &daemon{spec: d, req: s.toVec(d.Class.Requests), filter: s.filterFor(d.Class)})
	}
	s.compileOffers()
	s.compileNodes(mem)
	s.compileTopology()
	return s
}

// compileClasses groups the demand. Classes are placed in this order: priority, constrained before free (they have fewer places
// to go), large before small (what is small fits into what is left), then by key.
func (s *solver) compileClasses() {
	number := map[*model.Class]int32{} // classes are interned, mostly: those of one key that are not come together below
	of := make([]int32, len(s.input.Demand))
	var all []*model.Class
	var pods []int64
	for i, p := range s.input.Demand {
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
	s.numDims = len(s.dims)
	total := vec{}
	classes := make([]class, len(all))
	for n := range classes {
		c := &classes[n]
		c.spec, c.req = all[n], s.toVec(all[n].Requests)
		for k := range s.numDims {
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
		for k := range s.numDims {
			if total[k] > 0 {
				size += c.req[k] * 1_000_000 / (total[k]/int64(len(s.input.Demand)) + 1)
			}
		}
		order[n] = ranked{c.spec.Priority, int32(n), constraintRank(c.spec), size, c.spec.Key}
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
	inOrder := slices.IsSortedFunc(s.input.Demand, comparePods) // as state has it
	room, numbers := make([]*model.Pod, len(s.input.Demand)), make([]int32, len(s.input.Demand))
	for i, c := range s.classes {
		n := pods[c.id]
		c.id, c.pods, room = i, room[:0:n], room[n:]
		c.demandOrder, numbers = numbers[:0:n], numbers[n:]
	}
	for i, p := range s.input.Demand {
		c := &classes[first[of[i]]]
		if c.pods = append(c.pods, p); inOrder {
			c.demandOrder = append(c.demandOrder, int32(i))
		}
	}
	for _, c := range s.classes {
		if !inOrder {
			slices.SortFunc(c.pods, comparePods)
			c.demandOrder = c.demandOrder[:len(c.pods)]
		}
		if tooMany {
			for d, v := range c.spec.Requests {
				if _, ok := slices.BinarySearch(s.dims, model.Dim(d)); v > 0 && !ok {
					c.unsolvable = "more resources in one problem than the solver has room for: " + s.resourceName(model.Dim(d))
				}
			}
		}
		c.ports, c.separation = c.spec.HostPorts, s.separationOf(c.spec)
		for _, v := range c.spec.Volumes {
			if v.Driver != "" {
				c.csiVolumes = append(c.csiVolumes, v)
			}
		}
	}
	s.compileExclusivities()
}

// constraintRank ranks how tied to others a class is.
func constraintRank(c *model.Class) int {
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

// orderedPod is a pod and its place in the demand, where that is in order; else 0.
type orderedPod struct {
	position int32
	pod      *model.Pod
}

func compareOrdered(a, b orderedPod) int {
	if a.position != b.position {
		return cmp.Compare(a.position, b.position)
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
	if int(d) < len(s.input.ResourceNames) {
		return s.input.ResourceNames[d]
	}
	return "resource"
}

// labelTable interns the label keys that anything in the problem looks at, and their values; value 0 is "no such label".
type labelTable struct {
	ids        map[string]int
	keys       []string
	valueIDs   []map[string]int32
	valueNames [][]string
}

func (t *labelTable) addKey(key string) {
	if _, ok := t.ids[key]; ok {
		return
	}
	if t.ids == nil {
		t.ids = map[string]int{}
	}
	t.ids[key] = len(t.keys)
	t.keys = append(t.keys, key)
	t.valueIDs = append(t.valueIDs, map[string]int32{})
	t.valueNames = append(t.valueNames, []string{""})
}

func (t *labelTable) internValue(key int, v string) int32 {
	id, ok := t.valueIDs[key][v]
	if !ok {
		id = int32(len(t.valueNames[key]))
		t.valueIDs[key][v] = id
		t.valueNames[key] = append(t.valueNames[key], v)
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
		class(c.spec)
		for _, t := range c.spec.Spread {
			topoKey(t.TopologyKey)
		}
		for _, t := range c.spec.Affinity {
			topoKey(t.TopologyKey)
		}
		for _, t := range c.spec.AntiAffinity {
			topoKey(t.TopologyKey)
		}
		for _, v := range c.spec.Volumes {
			if v.Unmade {
				set[model.LabelZone] = true
			}
		}
		for _, list := range [][]model.WeightedPodTerm{c.spec.PreferredAffinity, c.spec.PreferredAntiAffinity} {
			for _, t := range list {
				topoKey(t.Term.TopologyKey)
			}
		}
	}
	for _, d := range s.input.Daemons {
		class(d.Class)
	}
	for _, c := range s.antiAffinityOnNodes() {
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
		s.keys.addKey(k)
	}
}

// antiAffinityOnNodes returns the classes of standing pods that have required anti-affinity, by key: those can refuse what comes.
func (s *solver) antiAffinityOnNodes() []*model.Class {
	if s.nodes.antiAffinity != nil || s.nodes.antiAffinityKnown {
		return s.nodes.antiAffinity
	}
	s.nodes.antiAffinityKnown = true
	seen := map[*model.Class]bool{}
	for i := range s.input.Rooms {
		r := &s.input.Rooms[i]
		if r.Drained || r.NoAnti {
			continue
		}
		for _, p := range r.Pods {
			if len(p.Class.AntiAffinity) > 0 && !seen[p.Class] {
				seen[p.Class] = true
				s.nodes.antiAffinity = append(s.nodes.antiAffinity, p.Class)
			}
		}
	}
	slices.SortFunc(s.nodes.antiAffinity, func(a, b *model.Class) int { return strings.Compare(a.Key, b.Key) })
	return s.nodes.antiAffinity
}
