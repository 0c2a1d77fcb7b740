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

// daemon is a DaemonSet as far as it matters to machines.
type daemon struct {
	spec   *model.Daemon
	req    vec
	filter *nodeFilter
}

// problemInput is what was asked, and the vocabulary that everything compiled shares: resources by position, labels by number.
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

// problem is the compiled problem: classes of pods, existing nodes, and the catalog. What is placed shows in it as pods assigned and capacity used.
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

// firstPlanSteps is how many steps, beside those allowed for refining, a first plan may take before it is made do with.
const firstPlanSteps = 400_000_000

// outOfSteps says whether that is so.
func (s *problemInput) outOfSteps() bool {
	if s.steps > s.stepLimit+firstPlanSteps {
		s.truncated = true
		return true
	}
	return false
}

// toVec keeps the used dimensions.
func (s *problemInput) toVec(r model.Resources) (v vec) {
	for i, d := range s.dims {
		v[i] = r.At(d)
	}
	return v
}

func (s *problemInput) resourceName(d model.Dim) string {
	if int(d) < len(s.input.ResourceNames) {
		return s.input.ResourceNames[d]
	}
	return "resource"
}

// placementOrder is the classes in the order they are placed.
func (s *problem) placementOrder(deferrals map[int]int) []*class {
	out := slices.Clone(s.classes)
	if len(deferrals) > 0 {
		slices.SortStableFunc(out, func(a, b *class) int { return cmp.Compare(deferrals[a.id], deferrals[b.id]) })
	}
	return out
}

// placeablePods is how many pods of a class may be placed at all: none that can't be, and only one that wants a volume to itself.
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

// antiAffinityOnNodes returns the classes of standing pods that have required anti-affinity, by key: those can refuse what comes.
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

func (s *problemInput) allSelectorsMatch(xs []model.Selector, c *model.Class) bool {
	for i := range xs {
		if !s.selectorMatches(&xs[i], c) {
			return false
		}
	}
	return true
}

// adjustmentDivisor is the part of a price that adjusted cost adds at most.
const adjustmentDivisor = 100

// adjustPrice is a price and what a machine costs beside it: Policy.MachineMicro, but never more than a hundredth of the price. Small machines bear
// less of it, so that two never seem cheaper than one twice their size and price, and cheap machines are not kept out by it.
func (s *problemInput) adjustPrice(price int64) int64 {
	m := s.policy.MachineMicro
	if m <= 0 {
		return price
	}
	return price + max(1, mulDiv(m, max(0, price), price+adjustmentDivisor*m))
}
