// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// MaxDims is how many resources one problem may use, of those that a node or an instance type has. A class that asks
// for a further one is refused, and told so.
const MaxDims = 16

// Vec is an amount of each resource, in the order of Input.Dims; behind those it counts places for mutual
// anti-affinity groups, see compileExclusivities.
type Vec [MaxDims]int64

// Unlimited is a count larger than any that occurs.
const Unlimited = int64(1) << 40

// Class is a set of identical pods: same requests, constraints and priority. How many of them wait is len(Pods) less
// Assigned.
type Class struct {
	ID              int // its place in Instance.Classes
	Spec            *model.Class
	Pods            []*model.Pod // by namespace and name; the first Assigned of them have a place, the others wait or are refused
	Assigned        int          // pods on existing nodes, in bins or in demands
	Req             Vec          // what one pod asks for
	Filter          *nodeFilter
	Offers          *OfferSet // those that admit it; fewer than Filter.Offers where assumptions rule some out
	PreferredOffers *OfferSet // those of Offers it would pay for to have its preferences met; nil: not found yet
	Topology        TopologyRules
	Separation      separation
	MaxPerNewNode   int64 // of its pods, where its rules over hosts concern no other class; 0: they do, or there are none. See compileNodeCaps
	Occupies        bool  // some of NodeConstraints looks at its pods
	Ports           PortUse
	CsiVolumes      []model.Volume  // those that a limit of a CSI driver counts
	Unsolvable      string          // why it can't be placed at all, for a reason; empty: it can
	Missing         []model.Dim     // resources that it asks for and that no node has free and no instance type has, ascending: it fits nowhere
	Group           *ColocatedGroup // the co-located group that it belongs to; nil: none
	AsGroup         *ColocatedGroup // the co-located group that it stands for, as one pod; nil: it is a class of pods
}

// Unplaced is how many pods of the class have no place yet.
func (c *Class) Unplaced() int { return len(c.Pods) - c.Assigned }

// daemon is a DaemonSet: what its pod asks for, and on which nodes it will stand.
type daemon struct {
	Spec   *model.Daemon
	req    Vec
	Filter *nodeFilter
	Ports  PortUse
}

// Input is what was asked, and the vocabulary that everything compiled shares: resources by position, labels
// by number.
type Input struct {
	Given  *Problem
	Policy Policy

	Dims    []model.Dim // the resources that pods ask for, ascending
	NumDims int         // how many, with the exclusivities that lie behind them
	Keys    labelTable
	ports   portTable

	LeaveOut string // a stage or a bound that takes no part; empty: none
	// Heeded are the preferences that count; the others count for nothing.
	Heeded     Preferences
	allClasses []*model.Class // of all pods; see SelectsAny
}

// Work counts the steps that a solve takes, and says when it must end.
type Work struct {
	Steps     int64 // counted so far
	StepLimit int64 // of all refining together
	Truncated bool  // something ended because of that limit
}

// Catalog is what can be bought.
type Catalog struct {
	in   *Input
	work *Work

	Offers            []Offer // by pool (weight, name), type, zone, capacity type, variant
	offersByPrice     []int   // offers by level, price, number
	poolOffersByPrice []int   // offers by pool, price, number
	poolStart         []int   // by pool: where its offers begin; one more for the end
	Levels            []Level
	Sizes             []*Vec // the different amounts that offers have room for; Offer.Allocatable points there

	poolCapacityIndex  []capacityIndex // by pool, over poolOffersByPrice; made when first needed
	levelCapacityIndex []capacityIndex // by level, over offersByPrice; made when first needed

	EquivalentPool      []int         // by pool: the first of its family
	Families            []family      // by their first pools
	typeLists           []poolCatalog // one a list of types, for the labels its provider sets
	minValuesByPool     []MinValues
	valueTables         map[int]*valueTable // by pool: see valuesOf
	hasPreferNoSchedule bool                // some pool has a taint of that effect

	OfferSets      []*OfferSet
	offerSetByBits map[string]*OfferSet
	offerSetKey    []byte // scratch
	intersections  map[[2]*OfferSet]*OfferSet
	poolSets       []*OfferSet // by pool: its offers without a limited quantity
}

// Instance is what must be placed: classes of pods and the nodes that exist. It does not change once it is compiled;
// what is placed shows in Usage, and in the classes as pods assigned.
type Instance struct {
	in      *Input
	work    *Work
	catalog *Catalog

	Classes []*Class // in the order they are placed in: see compileClasses
	Daemons []*daemon
	Nodes   nodeSet

	// As the problem states them, before anything is placed.
	InitialFree         []int64 // as Usage.Free
	InitialVolumesInUse map[string]bool
	InitialLimits       []PoolLimits // by pool
	InitialQuantities   []int64      // by Offer.Quantity
}

// Usage is what the pods placed so far have taken of existing nodes and of volumes.
type Usage struct {
	in      *Input
	catalog *Catalog
	inst    *Instance

	Free           []int64         // of existing nodes: numDims amounts a node
	daemonsCharged []bool          // by node: DaemonSets still to come are taken off Free
	occupancies    []Occupancy     // by node: ports and volumes in use; nil until somebody asks
	volumesInUse   map[string]bool // exclusive ones; nil where no pod wants any
}

// NewUsage returns what the pods that are on the nodes already use.
func NewUsage(in *Input, catalog *Catalog, inst *Instance) *Usage {
	s := &Usage{in: in, catalog: catalog, inst: inst}
	s.Free = slices.Clone(s.inst.InitialFree)
	s.daemonsCharged = make([]bool, len(s.inst.Nodes.List))
	s.volumesInUse = maps.Clone(s.inst.InitialVolumesInUse)
	return s
}

// Reset takes back everything placed.
func (s *Usage) Reset() {
	copy(s.Free, s.inst.InitialFree)
	clear(s.daemonsCharged)
	clear(s.occupancies)
	if s.volumesInUse != nil {
		clear(s.volumesInUse)
		maps.Copy(s.volumesInUse, s.inst.InitialVolumesInUse)
	}
	for _, c := range s.inst.Classes {
		c.Assigned = 0
	}
}

// firstPlanSteps is how many steps, beside those allowed for refining, attempts may take before the solver makes do
// with the last one.
const firstPlanSteps = 400_000_000

// OutOfSteps says whether attempts have taken more steps than they may, and notes that the plan is truncated by it.
func (s *Work) OutOfSteps() bool {
	if s.Steps > s.StepLimit+firstPlanSteps {
		s.Truncated = true
		return true
	}
	return false
}

// Runs says whether a stage or a bound, by name, takes part.
func (s *Input) Runs(name string) bool { return s.LeaveOut != name }

// ResourceCost is what the resources of a pod cost at prices u, rounded down, micro-dollars << DualShift.
func (s *Input) ResourceCost(c *Class, u *[MaxDims]int64) int64 {
	var v Sum128
	for k := range s.NumDims {
		v.AddProduct(u[k], c.Req[k])
	}
	return v.Dual()
}

// toVec keeps the resources that the problem uses.
func (s *Input) toVec(r model.Resources) (v Vec) {
	for i, d := range s.Dims {
		v[i] = r.At(d)
	}
	return v
}

// ResourceName is the name of a resource, for reasons.
func (s *Input) ResourceName(d model.Dim) string {
	if int(d) < len(s.Given.ResourceNames) {
		return s.Given.ResourceNames[d]
	}
	return "resource"
}

// PlacementOrder lists the classes in the order they are placed: those put off least first, else as compiled.
func (s *Instance) PlacementOrder(deferrals map[int]int) []*Class {
	out := slices.Clone(s.Classes)
	if len(deferrals) > 0 {
		slices.SortStableFunc(out, func(a, b *Class) int { return cmp.Compare(deferrals[a.ID], deferrals[b.ID]) })
	}
	return out
}

// PlaceablePods is how many more pods of a class may be placed at all: none of a class that can't be placed, and only
// one where they want a volume that one pod alone may use.
func (s *Usage) PlaceablePods(c *Class) int {
	if c.Unplaced() == 0 || c.Unsolvable != "" || len(c.Missing) > 0 || c.Spec.Daemon || len(c.Spec.Unsolved) > 0 || c.Spec.VolumeProblem() != nil || c.Spec.Excess.What != "" {
		return 0
	}
	for i := range c.Spec.Volumes {
		if c.Spec.Volumes[i].Exclusive {
			if c.Assigned > 0 || s.ExclusiveVolumeInUse(c) != nil {
				return 0
			}
			return min(1, c.Unplaced())
		}
	}
	return c.Unplaced()
}

// AntiAffinityOnNodes returns the classes of pods on existing nodes that have required anti-affinity, by key: their
// terms can keep other pods away.
func (s *Instance) AntiAffinityOnNodes() []*model.Class {
	if s.Nodes.antiAffinity != nil || s.Nodes.antiAffinityKnown {
		return s.Nodes.antiAffinity
	}
	s.Nodes.antiAffinityKnown = true
	seen := map[*model.Class]bool{}
	for i := range s.in.Given.Nodes {
		r := &s.in.Given.Nodes[i]
		if r.Drained || r.NoAnti {
			continue
		}
		for _, p := range r.Pods {
			if len(p.Class.AntiAffinity) > 0 && !seen[p.Class] {
				seen[p.Class] = true
				s.Nodes.antiAffinity = append(s.Nodes.antiAffinity, p.Class)
			}
		}
	}
	slices.SortFunc(s.Nodes.antiAffinity, func(a, b *model.Class) int { return strings.Compare(a.Key, b.Key) })
	return s.Nodes.antiAffinity
}

// SelectorMatches says whether the selector chooses pods of the class.
func (s *Input) SelectorMatches(x *model.Selector, c *model.Class) bool {
	if x.Pods == nil {
		return false
	}
	_, ok := slices.BinarySearch(x.Namespaces, c.Namespace)
	if !ok && (x.NamespaceL == nil || !x.NamespaceL.Matches(s.Given.Namespaces[c.Namespace])) {
		return false
	}
	return x.Pods.Matches(c.Labels)
}

// SelectsAny reports whether a selector chooses any pod, of the demand or on an existing node. One that does not has no
// say in where pods go.
func (s *Input) SelectsAny(x *model.Selector) bool {
	if s.allClasses == nil {
		seen := map[*model.Class]bool{}
		add := func(pods []*model.Pod) {
			for _, p := range pods {
				if !seen[p.Class] {
					seen[p.Class] = true
					s.allClasses = append(s.allClasses, p.Class)
				}
			}
		}
		add(s.Given.Demand)
		for i := range s.Given.Nodes {
			add(s.Given.Nodes[i].Pods)
		}
	}
	return slices.ContainsFunc(s.allClasses, func(c *model.Class) bool { return s.SelectorMatches(x, c) })
}

// AllSelectorsMatch says whether each of the selectors chooses pods of the class.
func (s *Input) AllSelectorsMatch(xs []model.Selector, c *model.Class) bool {
	for i := range xs {
		if !s.SelectorMatches(&xs[i], c) {
			return false
		}
	}
	return true
}

// adjustmentDivisor: an adjusted cost is at most one part in so many above the price.
const adjustmentDivisor = 100

// AdjustPrice returns the adjusted cost of a machine, by which plans are compared: its price and what a machine costs
// beside it (Policy.MachineMicro), but never more than a hundredth of the price. Small machines bear less of it, so
// that two never seem cheaper than one twice their size and price, and cheap machines are not kept out by it.
func (s *Input) AdjustPrice(price int64) int64 {
	m := s.Policy.MachineMicro
	if m <= 0 {
		return price
	}
	return price + max(1, MulDiv(m, max(0, price), price+adjustmentDivisor*m))
}
