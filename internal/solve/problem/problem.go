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

// daemon is a DaemonSet: the requests of its pod, and the nodes on which it runs.
type daemon struct {
	Spec   *model.Daemon
	req    Vec
	Filter *nodeFilter
	Ports  PortUse
}

// Input is the problem and the vocabulary shared by all compiled data: resources by position, labels by number.
type Input struct {
	Given  *Problem
	Policy Policy

	Dims    []model.Dim // resources that pods request, ascending
	NumDims int         // number of resources, including the exclusivities after them
	Keys    labelTable
	ports   portTable

	LeaveOut string // stage or bound to disable; empty: none
	// Heeded are the preferences that count; all others are ignored.
	Heeded     Preferences
	allClasses []*model.Class // of all pods; see SelectsAny
}

// Work counts the steps of a solve, and determines when it must stop.
type Work struct {
	Steps     int64 // number of steps so far
	StepLimit int64 // maximum number of steps of all refinement
	Truncated bool  // the limit has ended some stage
}

// Instance is what must be placed: classes of pods, and existing nodes. It is read-only after compilation; placements
// are stored in Usage, and in classes as assigned pods.
type Instance struct {
	in      *Input
	work    *Work
	catalog *Catalog

	Classes []*Class // in placement order: see compileClasses
	Daemons []*daemon
	Nodes   nodeSet

	// State of the problem before anything is placed.
	InitialFree         []int64 // like Usage.Free
	InitialVolumesInUse map[string]bool
	InitialLimits       []PoolLimits // by pool
	InitialQuantities   []int64      // by Offer.Quantity
}

// Usage is what the placed pods use of existing nodes and of volumes.
type Usage struct {
	in      *Input
	catalog *Catalog
	inst    *Instance

	Free           []int64         // free resources of existing nodes: numDims amounts per node
	daemonsCharged []bool          // by node: DaemonSets still to come are taken off Free
	occupancies    []Occupancy     // by node: ports and volumes in use; nil until somebody asks
	volumesInUse   map[string]bool // exclusive ones; nil where no pod wants any
}

// NewUsage returns the usage by pods on existing nodes.
func NewUsage(in *Input, catalog *Catalog, inst *Instance) *Usage {
	s := &Usage{in: in, catalog: catalog, inst: inst}
	s.Free = slices.Clone(s.inst.InitialFree)
	s.daemonsCharged = make([]bool, len(s.inst.Nodes.List))
	s.volumesInUse = maps.Clone(s.inst.InitialVolumesInUse)
	return s
}

// Reset reverts all placements.
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

// firstPlanSteps is the number of steps, in addition to those for refinement, after which attempts stop and the last one
// is used.
const firstPlanSteps = 400_000_000

// OutOfSteps reports whether attempts have exceeded the maximum number of steps, and marks the plan as truncated.
func (s *Work) OutOfSteps() bool {
	if s.Steps > s.StepLimit+firstPlanSteps {
		s.Truncated = true
		return true
	}
	return false
}

// Runs reports whether a stage or a bound is enabled, by name.
func (s *Input) Runs(name string) bool { return s.LeaveOut != name }

// ResourceCost returns the cost of a pod's resources at prices u, rounded down, micro-dollars << DualShift.
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

// ResourceName returns the name of a resource, for reasons.
func (s *Input) ResourceName(d model.Dim) string {
	if int(d) < len(s.Given.ResourceNames) {
		return s.Given.ResourceNames[d]
	}
	return "resource"
}

// PlacementOrder returns the classes in placement order: by number of deferrals, then as compiled.
func (s *Instance) PlacementOrder(deferrals map[int]int) []*Class {
	out := slices.Clone(s.Classes)
	if len(deferrals) > 0 {
		slices.SortStableFunc(out, func(a, b *Class) int { return cmp.Compare(deferrals[a.ID], deferrals[b.ID]) })
	}
	return out
}

// AntiAffinityOnNodes returns the classes of pods on existing nodes with required anti-affinity, by key. Their terms can
// exclude other pods.
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

// SelectorMatches reports whether the selector matches pods of the class.
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

// SelectsAny reports whether a selector matches any pod, pending or on an existing node. One that does not has no effect
// on placement.
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

// AllSelectorsMatch reports whether all selectors match pods of the class.
func (s *Input) AllSelectorsMatch(xs []model.Selector, c *model.Class) bool {
	for i := range xs {
		if !s.SelectorMatches(&xs[i], c) {
			return false
		}
	}
	return true
}

// adjustmentDivisor limits an adjusted cost: it exceeds the price by at most price/adjustmentDivisor.
const adjustmentDivisor = 100

// AdjustPrice returns the adjusted cost of a machine, by which plans are compared: its price plus Policy.MachineMicro,
// but at most a hundredth of the price. Small machines get a smaller addition, so that two of them never seem cheaper
// than one of twice their size and price, and cheap machines are not excluded.
func (s *Input) AdjustPrice(price int64) int64 {
	m := s.Policy.MachineMicro
	if m <= 0 {
		return price
	}
	return price + max(1, MulDiv(m, max(0, price), price+adjustmentDivisor*m))
}

// Preferences determines which preferences of pods a plan heeds.
type Preferences int8

// From most to fewest: AllPreferences, node preferences only, none.
const (
	AllPreferences Preferences = iota
	NodePreferences
	NoPreferences
)

// HasDollars reports whether one of the limits is in dollars.
func (s *Input) HasDollars(l *PoolLimits) bool {
	d := int(dollarDim(s.Given))
	return d < len(l.Has) && l.Has[d]
}

// IsDollars reports whether a dimension of a charge is the price.
func (s *Input) IsDollars(d model.Dim) bool { return d == dollarDim(s.Given) }

// WithPrice returns a charge with another price, if limits depend on it.
func (s *Input) WithPrice(charge model.Resources, micro int64) model.Resources {
	return charge.With(dollarDim(s.Given), micro)
}

// Occupancy is what pods on a node use exclusively: ports and attached volumes.
type Occupancy struct {
	known   bool
	Ports   TakenPorts
	Handles map[string]map[string]bool // by driver: attached volumes

	attached []model.Attachment // volumes that are attached, in use or not
}

// NodeTraits are the properties of a node that constraints check, in addition to its pods.
type NodeTraits struct {
	DaemonPorts *PortUse         // ports of DaemonSets on a new node; nil: they are in Occupancy
	CSILimits   map[string]int64 // by driver: attach limits; missing: no known limit
}

// Traits returns the traits of a machine of the offer.
func (o *Offer) Traits() NodeTraits {
	return NodeTraits{DaemonPorts: &o.Ports, CSILimits: o.CSILimits}
}

// And returns the traits of a machine that may be either of two.
func (a NodeTraits) And(b NodeTraits) NodeTraits {
	limits := maps.Clone(a.CSILimits)
	for driver, n := range b.CSILimits {
		if have, ok := limits[driver]; !ok || n < have {
			if limits == nil {
				limits = map[string]int64{}
			}
			limits[driver] = n
		}
	}
	a.CSILimits = limits
	if a.DaemonPorts.IsEmpty() {
		a.DaemonPorts = b.DaemonPorts
	}
	return a
}

// TraitsOf returns the traits of an existing node. Occupancy has its contents.
func TraitsOf(x *ExistingNode) NodeTraits { return NodeTraits{CSILimits: x.CSILimits} }

// nodeSet is the existing nodes and those in flight. They are numbered in the order they are filled: existing before
// in flight (what is there can be used now), then by name. What costs more than a look is computed when a node is
// first considered.
type nodeSet struct {
	List      []*ExistingNode
	ShapeOf   []int32   // by node: nodes of one shape have the same labels and taints
	Labels    [][]int32 // by shape: label values, by key
	ExampleOf []int32   // by shape: a node with the shape

	antiAffinity      []*model.Class // see AntiAffinityOnNodes
	antiAffinityKnown bool
}
