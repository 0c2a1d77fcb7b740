// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/model"
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

// Includes says whether a node of these labels, name and taints is in the scope.
func (x *Scope) Includes(t *labelTable, vals []int32, open model.Requirements, name string, taints []model.Taint) bool {
	for _, k := range x.Keys {
		if vals[k] == 0 {
			return false
		}
	}
	return (x.Affinity == nil || x.Affinity.passesAffinity(t, vals, open, name)) &&
		(x.Taints == nil || model.Untolerated(taints, x.Taints.Tolerations) == nil)
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

// RestrictsNeighbours says whether rules over hosts, ports or volumes decide which pods may be on a machine with
// those of the class.
func (c *Class) RestrictsNeighbours() bool {
	return len(c.Topology.HostRules) > 0 || len(c.Topology.HostCounters) > 0 || c.Occupies
}

// IsUnconstrained says whether nothing ties a class to other pods or to domains.
func (c *Class) IsUnconstrained() bool {
	return len(c.Topology.Keys) == 0 && !c.RestrictsNeighbours() && len(c.Spec.Volumes) == 0
}

// GoesBesideAny says whether pods of the class may be on a machine with any others, as far as the class's own rules,
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
