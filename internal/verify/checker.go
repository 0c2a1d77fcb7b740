// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"fmt"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Claim is the NodeClaim that a plan makes for a machine.
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

// Input is a plan and what it was made from, as plain values.
type Input struct {
	ResourceNames []string
	Nodes         []ExistingNode
	Pools         []Pool
	Daemons       []*model.Daemon
	Namespaces    map[string]model.Labels
	Limits        []model.LimitUse // that several pools share
	Demand        []*model.Pod

	ClaimNames map[string]bool // of NodeClaims that there are

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

// Pool is a NodePool and what is left of its limits.
type Pool struct {
	*model.NodePool
	Left      model.Resources
	NodesLeft int64 // negative: not limited

	// RelaxMinValues: a machine may leave fewer values than minValues asks for, where its own requirements say how many.
	RelaxMinValues bool
}

// Placement is pods placed on an existing or in-flight node.
type Placement struct {
	Node string
	Pods []*model.Pod
}

// Machine is a node to be bought.
type Machine struct {
	Pool          string
	Type          *model.InstanceType
	Choices       []*model.InstanceType
	Zones         []string
	CapacityTypes []string
	Requirements  model.Requirements
	Pods          []*model.Pod
	PriceMicro    int64
	Claim         *Claim // nil: none is made yet
}

// Refusal is a pod not placed.
type Refusal struct {
	Pod     *model.Pod
	Reasons []plan.Reason
}

// Rule names what a violation is of.
type Rule string

// Violation is one broken rule, and what of the plan breaks it.
type Violation struct {
	Rule   Rule
	Pod    *model.Pod // whose place it is about; nil: of nobody in particular
	Site   Site
	Detail string
}

// Site is what of a plan a violation is about. The zero value: nothing in particular, or the plan as a whole.
type Site struct {
	Node     string // that pods are placed on
	Machines []int  // to be bought, by place in Input.New: without them the rule holds
	Pool     string
	Limit    string // that several pools share
}

// String names the site.
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

// String writes it in one line.
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
	Answer    Rule = "answer"    // every pod is answered once, and a refusal has a reason
	Place     Rule = "place"     // the node or pool exists and takes pods
	Admission Rule = "admission" // taints, labels, names, volumes' places
	Capacity  Rule = "capacity"  // resources, ports, attach limits, exclusive volumes
	Choice    Rule = "choice"    // what a machine may become holds what it is for, and the price is that of the cheapest
	Limits    Rule = "limits"    // of the pool
	Topology  Rule = "topology"  // spread, affinity, anti-affinity
	Claims    Rule = "claims"    // NodeClaims have names of their own, and slots for their pods
	Price     Rule = "price"     // cost adds up, and no bound is above it
	Together  Rule = "together"  // as many pods of a gang are placed as must run together, or none; they are moved together or not at all
)
