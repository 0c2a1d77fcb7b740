// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// HostKey represents kubernetes.io/hostname. Its domains are the hosts: existing nodes by number, then bins in the order
// in which they are opened.
const HostKey = -1

// Scope is the set of nodes that a spread counts: those that node affinity allows, whose taints are tolerated, and that
// have the keys of all hard spreads of the class.
type Scope struct {
	Affinity *nodeFilter // nil: ignores node affinity
	Taints   *nodeFilter // nil: ignores taints
	Keys     []int       // keys that a node must have
}

// Includes reports whether a new machine with these labels and taints is in the scope.
func (x *Scope) Includes(t *labelTable, vals []int32, taints []model.Taint) bool {
	return x.allows(vals, taints) && (x.Affinity == nil || x.Affinity.passesAffinity(t, vals, nil, ""))
}

// IncludesNode reports whether an existing node with these labels is in the scope.
func (x *Scope) IncludesNode(t *labelTable, vals []int32, n *ExistingNode) bool {
	return x.allows(vals, n.Taints) && (x.Affinity == nil || x.Affinity.passesAffinityOn(t, vals, n))
}

// allows reports whether the scope has a node of these labels and taints, node affinity aside.
func (x *Scope) allows(vals []int32, taints []model.Taint) bool {
	return !slices.ContainsFunc(x.Keys, func(k int) bool { return vals[k] == 0 }) && (x.Taints == nil || model.Untolerated(taints, x.Taints.Tolerations) == nil)
}

// Identity returns a key that is different for different scopes.
func (x *Scope) Identity() string {
	id := func(f *nodeFilter) int {
		if f == nil {
			return -1
		}
		return f.id
	}
	return fmt.Sprint(" on ", id(x.Affinity), id(x.Taints), x.Keys)
}

// RuleKind is the origin of a rule.
type RuleKind int8

const (
	RuleSpread             RuleKind = iota // own spread constraint
	RuleAffinity                           // own required affinity
	RuleAnti                               // own required anti-affinity
	RuleAntiOfOthers                       // anti-affinity of other pods against these
	RulePreference                         // own preferred affinity or anti-affinity: refuses nothing
	RuleSharedVolume                       // a volume to be provisioned that other pods also use: all must be in the domain of the first
	RuleHostSpreadOfOthers                 // a hostname spread of other pods that counts these: on hosts with its owners, these must not exceed its skew
)

// Rule is a condition of a class, or of other pods, on the domain of the class.
type Rule struct {
	Kind            RuleKind
	Counter         int    // index in Topology.Counters that the rule reads
	Minus           []int  // counters to subtract: pods that the rule's NotIn excludes
	OwnerCounter    int    // for RuleHostSpreadOfOthers: the counter of pods that own the spread
	Key             int    // of labelTable, or HostKey
	TopologyKey     string // the name of key
	OfGang          bool   // the rule represents the shared domain of a gang
	OfDevices       bool   // the rule separates pods that request some of the same devices in different ways
	SelectsOwnPods  bool   // pods of the class match its own selector
	Hard            bool   // excludes domains; false for a spread with ScheduleAnyway
	Scope           *Scope
	MaxSkew         int64
	Weight          int64 // weight of a preference; negative: anti-affinity
	MinDomains      int
	Domains         []int32 // for a spread: domains over which the minimum is taken
	ExistingDomains []int32 // domains with an existing node
	FilledByOthers  []int32 // domains with machines only for other classes
	OwnPods         []int32 // by domain: placed pods of the class
	ClosedDomains   []int32 // domains excluded for the class regardless of counts; see DeferCrowdedClasses
	CachedLeast     CachedMinimum
}

// CachedMinimum is the last result of LeastCount, valid for one version of the counter and one number of domains.
type CachedMinimum struct {
	Version, NumDomains int
	Least               int64
}

// TopologyRules are the topology rules of a class, and the counters that count its pods.
type TopologyRules struct {
	DomainRules, HostRules       []Rule // in the order of its constraints: for keys larger than a host, and for hosts
	DomainCounters, HostCounters []int
	Scopes                       []*Scope // of DomainCounters
	CounterScope                 []int    // by index in DomainCounters: the scope in which a pod must be to count; -1: any
	Keys                         []int    // keys of domainRules and DomainCounters: a pod's domains in these must be known to place it, ascending
	HostAffinity                 bool     // has required affinity by hostname
	Affinity                     bool     // has required affinity by any key
}

// NeighbourRules determine how many pods of a class may join a pattern, ignoring resources. They are a compact copy,
// because they are read often.
type NeighbourRules struct {
	Class   *Class
	Rules   []Rule
	HasMore bool // has something that NodeConstraints check, or a preference for separation
}

// NeighbourRules returns the NeighbourRules of the class.
func (c *Class) NeighbourRules() NeighbourRules {
	return NeighbourRules{c, c.Topology.HostRules, c.Occupies || c.Separation.Most > 0}
}

// RestrictsNeighbours reports whether hostname rules, ports or volumes restrict which pods may share a machine with pods
// of the class.
func (c *Class) RestrictsNeighbours() bool {
	return len(c.Topology.HostRules) > 0 || len(c.Topology.HostCounters) > 0 || c.Occupies
}

// IsUnconstrained reports whether a class has no rules about other pods or domains.
func (c *Class) IsUnconstrained() bool {
	return len(c.Topology.Keys) == 0 && !c.RestrictsNeighbours() && len(c.Spec.Volumes) == 0
}

// GoesBesideAny reports whether pods of the class may share a machine with any others, according to the class's own
// rules, ports and volumes.
func (c *Class) GoesBesideAny() bool {
	return len(c.Topology.HostRules) == 0 && !c.Occupies && c.Separation.Most == 0
}

// ColocatedGroup is a set of pods that must share one host: each has required affinity to others of the group, and to no
// pods outside it. Packings and bounds treat the group as one pod with the total requests.
type ColocatedGroup struct {
	Members   []*Class
	AsPod     *Class // the pod that represents the group, with an ID after those of classes; see groupDemand and GroupAsPod
	Entangled bool   // rules, ports or volumes involve other pods too: it is not packed as one pod
}

// Class is a set of identical pods: same requests, constraints and priority. The number of pending pods is len(Pods)
// minus Assigned.
type Class struct {
	ID              int // index in Instance.Classes
	Spec            *model.Class
	Pods            []*model.Pod // by namespace and name; the first Assigned are placed, the others pending or refused
	Assigned        int          // number of pods on existing nodes, in bins or in demands
	Req             Vec          // requests of one pod
	Filter          *nodeFilter
	Offers          *OfferSet // offers that admit it; fewer than Filter.Offers if assumptions exclude some
	PreferredOffers *OfferSet // the Offers that satisfy its preferences at an acceptable price; nil: not computed yet
	PreferenceGain  int64     // weight of the preferences that these satisfy, minus that of the worst offer
	Topology        TopologyRules
	Separation      separation
	MaxPerNewNode   int64 // maximum number of its pods per new node if its hostname rules involve no other class; 0: they do, or there are none. See compileNodeCaps
	Occupies        bool  // some NodeConstraint checks its pods
	Ports           PortUse
	CsiVolumes      []model.Volume  // volumes that count toward a limit of a CSI driver
	Unsolvable      string          // why it cannot be placed at all, for a reason; empty: it can
	Missing         []model.Dim     // requested resources that no node has free and no instance type has, ascending: it fits nowhere
	Group           *ColocatedGroup // its co-located group; nil: none
	AsGroup         *ColocatedGroup // the co-located group that it represents as one pod; nil: it is a class of pods
}

// Unplaced returns the number of pods of the class that are not placed.
func (c *Class) Unplaced() int { return len(c.Pods) - c.Assigned }

// separation is a preference of a class for a maximum number of its pods on one machine.
type separation struct {
	Most   int64 // 0: no such preference
	Weight int64 // weight of the preference, at most 100
}

// NodeConstraint is a rule about which pods may share a node that depends only on the pods and the node. Everything that
// places pods on nodes uses the table NodeConstraints: packing, consolidation, choice of types, bounds and reasons. To
// add a constraint, add one value, and a field of Occupancy if it has state. A nil function has no effect.
type NodeConstraint struct {
	Name string // name in plan.Cost.Unpriced; empty: not reported

	// concerns reports whether a pod of the class brings anything that the constraint looks at.
	concerns func(in *Input, c *Class) bool
	// add notes what one pod of the class brings.
	add func(used *Occupancy, c *Class)
	// allows returns how many more pods of the class may join what is on a node.
	allows func(used *Occupancy, c *Class, on NodeTraits) int64
	// fits reports whether everything that is on a bin may be on a machine of an offer.
	fits func(used *Occupancy, o *Offer) bool
	// alone returns how many pods of a class that the constraint concerns one node holds at most, whatever else is there.
	alone func(c *Class) int64
	// dominates reports whether a node holds whatever another holds.
	dominates func(a, b *NodeTraits) bool
	// explain returns why no new node of the pool may hold a pod of the class, nil if one may. It is called after the topology rules allowed the
	// pod (package explain, explainRest).
	explain func(u *Usage, c *Class, pool int) *plan.Reason
}
