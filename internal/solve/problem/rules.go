// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// HostKey stands for kubernetes.io/hostname. Its domains are the hosts themselves: existing nodes by number, then
// bins as they are opened.
const HostKey = -1

// Scope is the nodes that a spread looks at: those that node affinity lets its pods on, whose taints they tolerate,
// and that have the keys of all of the class's hard spreads.
type Scope struct {
	Affinity *nodeFilter // nil: whatever node affinity says
	Taints   *nodeFilter // nil: whatever the taints
	Keys     []int       // that a node must have
}

// Includes reports whether a machine of these labels and taints, still to be launched, is in the scope.
func (x *Scope) Includes(t *labelTable, vals []int32, taints []model.Taint) bool {
	return x.allows(vals, taints) && (x.Affinity == nil || x.Affinity.passesAffinity(t, vals, nil, ""))
}

// IncludesNode reports whether a node of the problem, of these labels, is in the scope.
func (x *Scope) IncludesNode(t *labelTable, vals []int32, n *ExistingNode) bool {
	return x.allows(vals, n.Taints) && (x.Affinity == nil || x.Affinity.passesAffinityOn(t, vals, n))
}

// allows reports whether the scope has a node of these labels and taints, node affinity aside.
func (x *Scope) allows(vals []int32, taints []model.Taint) bool {
	return !slices.ContainsFunc(x.Keys, func(k int) bool { return vals[k] == 0 }) && (x.Taints == nil || model.Untolerated(taints, x.Taints.Tolerations) == nil)
}

// Identity is a text that tells scopes apart.
func (x *Scope) Identity() string {
	id := func(f *nodeFilter) int {
		if f == nil {
			return -1
		}
		return f.id
	}
	return fmt.Sprint(" on ", id(x.Affinity), id(x.Taints), x.Keys)
}

// RuleKind is where a rule comes from.
type RuleKind int8

const (
	RuleSpread             RuleKind = iota // own spread constraint
	RuleAffinity                           // own required affinity
	RuleAnti                               // own required anti-affinity
	RuleAntiOfOthers                       // anti-affinity that others have against it
	RulePreference                         // own preferred affinity or anti-affinity: refuses nothing
	RuleSharedVolume                       // a volume, still to be made, that other pods use too: all go where the first goes
	RuleHostSpreadOfOthers                 // a spread over hosts of other pods that counts these: where its owners are, these must not exceed its skew
)

// Rule is one thing that a class asks of the domain it goes to, or that others ask of it.
type Rule struct {
	Kind            RuleKind
	Counter         int    // of Topology.Counters: what it reads
	Minus           []int  // counters whose counts are taken off: what the rule's NotIn exempts
	OwnerCounter    int    // for RuleHostSpreadOfOthers: the counter of pods that own the spread
	Key             int    // of labelTable, or HostKey
	TopologyKey     string // the name of key
	OfGang          bool   // it stands for the domain that a gang shares
	OfDevices       bool   // it keeps apart pods that request some of the same devices in different ways
	SelectsOwnPods  bool   // pods of the class count themselves
	Hard            bool   // refuses a domain; a spread with ScheduleAnyway does not
	Scope           *Scope
	MaxSkew         int64
	Weight          int64 // of a preference; negative: to be away
	MinDomains      int
	Domains         []int32 // of a spread: among those the least count is taken
	ExistingDomains []int32 // those of domains that an existing node is in
	FilledByOthers  []int32 // those of domains in which only machines for other classes stand
	OwnPods         []int32 // by domain: pods of the class placed there
	ClosedDomains   []int32 // domains that the class must not go to, whatever the counts say; see DeferCrowdedClasses
	CachedLeast     CachedMinimum
}

// CachedMinimum is the last answer of LeastCount, good for one version of the counter and so many domains.
type CachedMinimum struct {
	Version, NumDomains int
	Least               int64
}

// TopologyRules is what a class asks of topology, and which counters its pods are counted by.
type TopologyRules struct {
	DomainRules, HostRules       []Rule // in the order of its constraints: over keys larger than a host, and over hosts
	DomainCounters, HostCounters []int
	Scopes                       []*Scope // of DomainCounters
	CounterScope                 []int    // by place in DomainCounters: which of scopes a node must be in for a pod there to count; -1: any
	Keys                         []int    // of domainRules and DomainCounters: a pod's domains in these must be known to place it, ascending
	HostAffinity                 bool     // it has required affinity over hosts
	Affinity                     bool     // it has required affinity over any key
}

// NeighbourRules is what decides how many pods of a class may join a pattern, resources aside. It is a copy, beside
// each other in memory, since it is asked often.
type NeighbourRules struct {
	Class   *Class
	Rules   []Rule
	HasMore bool // something that NodeConstraints look at, or a preference for separation
}

// NeighbourRules are those of the class.
func (c *Class) NeighbourRules() NeighbourRules {
	return NeighbourRules{c, c.Topology.HostRules, c.Occupies || c.Separation.Most > 0}
}

// RestrictsNeighbours reports whether rules over hosts, ports or volumes decide which pods may be on a machine with
// those of the class.
func (c *Class) RestrictsNeighbours() bool {
	return len(c.Topology.HostRules) > 0 || len(c.Topology.HostCounters) > 0 || c.Occupies
}

// IsUnconstrained reports whether nothing ties a class to other pods or to domains.
func (c *Class) IsUnconstrained() bool {
	return len(c.Topology.Keys) == 0 && !c.RestrictsNeighbours() && len(c.Spec.Volumes) == 0
}

// GoesBesideAny reports whether pods of the class may be on a machine with any others, as far as the class's own rules,
// ports and volumes go.
func (c *Class) GoesBesideAny() bool {
	return len(c.Topology.HostRules) == 0 && !c.Occupies && c.Separation.Most == 0
}

// ColocatedGroup is pods that must all share one host: each has required affinity to others of the group, and there
// is no other pod that it might be near. To packings and bounds the group is one pod, which asks for what its pods
// ask for together.
type ColocatedGroup struct {
	Members   []*Class
	AsPod     *Class // the pod that it is, numbered behind the classes; see groupDemand and GroupAsPod
	Entangled bool   // rules, ports or volumes concern other pods too: it is not packed as one pod
}

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
	PreferenceGain  int64     // the weight of preferences that these meet, above the offer that meets least
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

// separation is a preference of a class for no more than so many of its pods on one machine.
type separation struct {
	Most   int64 // 0: no such preference
	Weight int64 // of the preference, 100 at most
}

// NodeConstraint is a rule about which pods may be on one node together that looks at nothing but the pods and the node.
// Everything that puts pods on a node goes through the table NodeConstraints: packing, consolidation, choice of types,
// bounds and reasons. A further constraint is one value here, and a field of Occupancy if it remembers something of pods.
// A nil function asks for nothing.
type NodeConstraint struct {
	Name string // as plan.Cost.Unpriced has it; empty: it is not told

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
