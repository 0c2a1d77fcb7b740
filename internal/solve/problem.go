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

// vec is an amount of each resource, in the order of problemInput.dims; behind those it counts places for mutual
// anti-affinity groups, see compileExclusivities.
type vec [maxDims]int64

// unlimited is a count larger than any that occurs.
const unlimited = int64(1) << 40

// class is a set of identical pods: same requests, constraints and priority. How many of them wait is len(pods) less
// assigned.
type class struct {
	id              int // its place in problem.classes
	spec            *model.Class
	pods            []*model.Pod // by namespace and name; the first assigned of them have a place, the others wait or are refused
	assigned        int          // pods on existing nodes, in bins or in demands
	req             vec          // what one pod asks for
	filter          *nodeFilter
	offers          *offerSet // those that admit it; fewer than filter.offers where assumptions rule some out
	preferredOffers *offerSet // those of offers it would pay for to have its preferences met; nil: not found yet
	topology        topologyRules
	separation      separation
	maxPerNewNode   int64 // of its pods, where its rules over hosts concern no other class; 0: they do, or there are none. See compileNodeCaps
	ports           []model.HostPort
	csiVolumes      []model.Volume  // those that a limit of a CSI driver counts
	unsolvable      string          // why it can't be placed at all, for a reason; empty: it can
	group           *colocatedGroup // the co-located group that it belongs to; nil: none
	asGroup         *colocatedGroup // the co-located group that it stands for, as one pod; nil: it is a class of pods

	collectedIn *[]*demand // the list that its last demands went to; see demandCollector
	lastDemand  *demand    // the last of its demands in that list, linked by demand.next

	demandOrder []int32 // by pod: its place in Problem.Demand, where that is sorted; else 0
}

// unplaced is how many pods of the class have no place yet.
func (c *class) unplaced() int { return len(c.pods) - c.assigned }

// daemon is a DaemonSet: what its pod asks for, and on which nodes it will stand.
type daemon struct {
	spec   *model.Daemon
	req    vec
	filter *nodeFilter
}

// problemInput is what was asked, and the vocabulary that everything compiled shares: resources by position, labels
// by number.
type problemInput struct {
	input  *Problem
	policy Policy

	dims    []model.Dim // the resources that pods ask for, ascending
	numDims int         // how many, with the exclusivities that lie behind them
	keys    labelTable

	steps     int64 // counted so far
	stepLimit int64 // of all refining together
	truncated bool  // something ended because of that limit
}

// offerCatalog is what can be bought.
type offerCatalog struct {
	problemInput

	offers            []offer // by pool (weight, name), type, zone, capacity type, variant
	offersByPrice     []int   // offers by level, price, number
	poolOffersByPrice []int   // offers by pool, price, number
	poolStart         []int   // by pool: where its offers begin; one more for the end
	levels            []level
	sizes             []*vec // the different amounts that offers have room for; offer.allocatable points there

	poolCapacityIndex  []capacityIndex // by pool, over poolOffersByPrice; made when first needed
	levelCapacityIndex []capacityIndex // by level, over offersByPrice; made when first needed

	equivalentPool      []int         // by pool: the first of its family
	families            []family      // by their first pools
	typeLists           []poolCatalog // one a list of types, for the labels its provider sets
	minValuesByPool     []minValues
	hasPreferNoSchedule bool // some pool has a taint of that effect

	offerSets      []*offerSet
	offerSetByBits map[string]*offerSet
	offerSetKey    []byte // scratch
	intersections  map[[2]*offerSet]*offerSet
	poolSets       []*offerSet // by pool: its offers without a limited quantity
}

// problem is the compiled problem: classes of pods, existing nodes, and the catalog. What is placed shows in it as
// pods assigned and capacity used.
type problem struct {
	offerCatalog

	classes      []*class // in the order they are placed in: see compileClasses
	daemons      []*daemon
	nodes        nodeSet
	volumesInUse map[string]bool // exclusive ones; nil where no pod wants any

	// As the problem states them, before anything is placed.
	initialFree         []int64 // as nodeSet.free
	initialVolumesInUse map[string]bool
	initialLimits       []poolLimits // by pool
	initialQuantities   []int64      // by offer.quantity
}

// firstPlanSteps is how many steps, beside those allowed for refining, attempts may take before the solver makes do
// with the last one.
const firstPlanSteps = 400_000_000

// outOfSteps says whether attempts have taken more steps than they may, and notes that the plan is truncated by it.
func (s *problemInput) outOfSteps() bool {
	if s.steps > s.stepLimit+firstPlanSteps {
		s.truncated = true
		return true
	}
	return false
}

// toVec keeps the resources that the problem uses.
func (s *problemInput) toVec(r model.Resources) (v vec) {
	for i, d := range s.dims {
		v[i] = r.At(d)
	}
	return v
}

// resourceName is the name of a resource, for reasons.
func (s *problemInput) resourceName(d model.Dim) string {
	if int(d) < len(s.input.ResourceNames) {
		return s.input.ResourceNames[d]
	}
	return "resource"
}

// placementOrder lists the classes in the order they are placed: those put off least first, else as compiled.
func (s *problem) placementOrder(deferrals map[int]int) []*class {
	out := slices.Clone(s.classes)
	if len(deferrals) > 0 {
		slices.SortStableFunc(out, func(a, b *class) int { return cmp.Compare(deferrals[a.id], deferrals[b.id]) })
	}
	return out
}

// placeablePods is how many more pods of a class may be placed at all: none of a class that can't be placed, and only
// one where they want a volume that one pod alone may use.
func (s *problem) placeablePods(c *class) int {
	if c.unplaced() == 0 || c.unsolvable != "" || c.spec.Daemon || len(c.spec.Unsolved) > 0 {
		return 0
	}
	for i := range c.spec.Volumes {
		if c.spec.Volumes[i].Exclusive {
			if c.assigned > 0 || s.exclusiveVolumeInUse(c) != nil {
				return 0
			}
			return min(1, c.unplaced())
		}
	}
	return c.unplaced()
}

// antiAffinityOnNodes returns the classes of pods on existing nodes that have required anti-affinity, by key: their
// terms can keep other pods away.
func (s *problem) antiAffinityOnNodes() []*model.Class {
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

// selectorMatches says whether the selector chooses pods of the class.
func (s *problemInput) selectorMatches(x *model.Selector, c *model.Class) bool {
	if x.Pods == nil {
		return false
	}
	_, ok := slices.BinarySearch(x.Namespaces, c.Namespace)
	if !ok && (x.NamespaceL == nil || !x.NamespaceL.Matches(s.input.Namespaces[c.Namespace])) {
		return false
	}
	return x.Pods.Matches(c.Labels)
}

// allSelectorsMatch says whether each of the selectors chooses pods of the class.
func (s *problemInput) allSelectorsMatch(xs []model.Selector, c *model.Class) bool {
	for i := range xs {
		if !s.selectorMatches(&xs[i], c) {
			return false
		}
	}
	return true
}

// adjustmentDivisor: an adjusted cost is at most one part in so many above the price.
const adjustmentDivisor = 100

// adjustPrice returns the adjusted cost of a machine, by which plans are compared: its price and what a machine costs
// beside it (Policy.MachineMicro), but never more than a hundredth of the price. Small machines bear less of it, so
// that two never seem cheaper than one twice their size and price, and cheap machines are not kept out by it.
func (s *problemInput) adjustPrice(price int64) int64 {
	m := s.policy.MachineMicro
	if m <= 0 {
		return price
	}
	return price + max(1, mulDiv(m, max(0, price), price+adjustmentDivisor*m))
}
