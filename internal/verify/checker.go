// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"fmt"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Claim is the NodeClaim that a plan creates for a machine.
type Claim struct {
	Name  string
	Slots []model.Slot
}

// portsAsked is what checkPorts was last asked.
type portsAsked struct {
	where string
	there []*model.Class
	pods  []*model.Pod
}

// variant is an offering of a pool as a node of a machine would be.
type variant struct {
	labels model.Labels
	usable bool           // the machine's requirements let it be chosen
	fits   bool           // the pool's requirements hold
	coming []*model.Class // DaemonSets that will stand on it
	daemon model.Resources
}

type variantKey struct {
	pool  string
	o     *model.Offering
	fixed string
}

type verdictKey struct {
	class *model.Class
	v     *variant
}

// Input is a plan and its inputs, as plain values.
type Input struct {
	ResourceNames []string
	Nodes         []ExistingNode
	Pools         []Pool
	Daemons       []*model.Daemon
	Namespaces    map[string]model.Labels
	Limits        []model.LimitUse // shared by several pools
	Demand        []*model.Pod

	ClaimNames map[string]bool // names of existing NodeClaims

	OnNodes []Placement
	New     []Machine
	Refused []Refusal
	Cost    plan.Cost
}

// resourceName returns the name of a resource, or its number if ResourceNames does not have it.
func (in *Input) resourceName(d model.Dim) string {
	if int(d) < len(in.ResourceNames) {
		return in.ResourceNames[d]
	}
	return fmt.Sprintf("resource %d", d)
}

// ExistingNode is an existing or in-flight node.
type ExistingNode = model.ExistingNode

// Pool is a NodePool and the remainder of its limits.
type Pool struct {
	*model.NodePool
	Left      model.Resources
	NodesLeft int64 // negative: no limit

	// RelaxMinValues: a machine may have fewer values than minValues, if its own requirements define the number.
	RelaxMinValues bool
}

// Placement is the set of pods placed on an existing or in-flight node.
type Placement struct {
	Node string
	Pods []*model.Pod
}

// Machine is a node to be launched.
type Machine struct {
	Pool          string
	Type          *model.InstanceType
	Choices       []*model.InstanceType
	Zones         []string
	CapacityTypes []string
	Requirements  model.Requirements
	Pods          []*model.Pod
	PriceMicro    int64
	Claim         *Claim // nil: not created yet
}

// Refusal is a pod that is not placed.
type Refusal struct {
	Pod     *model.Pod
	Reasons []plan.Reason
}

// Rule identifies a rule.
type Rule string

// Violation is a violated rule and the part of the plan that violates it.
type Violation struct {
	Rule   Rule
	Pod    *model.Pod // the affected pod; nil: none in particular
	Site   Site
	Detail string
}

// Site is the part of a plan that a violation concerns. The zero value: no part in particular, or the whole plan.
type Site struct {
	Node     string // node on which pods are placed
	Machines []int  // indexes in Input.New of machines to be launched; without them, the rule is satisfied
	Pool     string
	Limit    string // limit shared by several pools
}

// String returns a description of the site.
func (s Site) String() string {
	switch {
	case s.Node != "":
		return s.Node
	case s.Limit != "":
		return s.Limit
	case len(s.Machines) == 1:
		return fmt.Sprintf("%s#%d", s.Pool, s.Machines[0])
	}
	return s.Pool
}

// String returns the violation in one line.
func (v Violation) String() string {
	pod := ""
	if v.Pod != nil {
		pod = v.Pod.Key()
	}
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s: %s", v.Rule, pod, v.Site, v.Detail))
}

// checker gathers violations of one plan.
type checker struct {
	in    *Input
	found []Violation
	hosts []*host
	nodes map[string]*ExistingNode
	pools map[string]*Pool

	offered  map[string]map[*model.InstanceType]bool // by pool
	variants map[variantKey]*variant
	verdicts map[verdictKey]string

	lastPorts portsAsked // see checkPorts
}

// host is a node or a machine to be bought, with the pods on it and those that the plan places there.
type host struct {
	name    string
	site    Site
	labels  model.Labels
	open    map[string]bool // labels it will have, value not certain
	taints  []model.Taint
	pods    []*model.Pod // on it now
	planned []*model.Pod
	closed  bool

	standing bool // its labels are what they will be

	coming []*model.Class // pods of DaemonSets that are still to come to a node
	become []*variant     // what a machine to be bought may become
}

// addViolation notes a violation; pod may be nil.
func (c *checker) addViolation(rule Rule, pod *model.Pod, at Site, format string, args ...any) {
	c.found = append(c.found, Violation{Rule: rule, Pod: pod, Site: at, Detail: fmt.Sprintf(format, args...)})
}

// siteOf is the site of the machine to be bought at an index of the plan.
func siteOf(i int, m *Machine) Site { return Site{Machines: []int{i}, Pool: m.Pool} }

// The rules.
const (
	Answer    Rule = "answer"    // every pod has exactly one result, and a refusal has a reason
	Place     Rule = "place"     // the node or pool exists and accepts pods
	Admission Rule = "admission" // taints, labels, names, zones of volumes
	Capacity  Rule = "capacity"  // resources, ports, attach limits, exclusive volumes
	Choice    Rule = "choice"    // every instance type allowed for a machine fits its pods, and the price is the cheapest one's
	Limits    Rule = "limits"    // limits of the pool
	Topology  Rule = "topology"  // spread, affinity, anti-affinity
	Claims    Rule = "claims"    // NodeClaims have unique names, and slots for their pods
	Price     Rule = "price"     // the cost is the sum of the prices, and no bound exceeds it
	Together  Rule = "together"  // at least the minimum of a gang's pods is placed, or none; they are moved together or not at all
)
