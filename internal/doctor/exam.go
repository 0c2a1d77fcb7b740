// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package doctor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// assumedPool is the name of the NodePool that is assumed where there is none.
const assumedPool = "(any instance type)"

// exam is an examination under way: the snapshot, what is looked up in it, and what was found out so far.
type exam struct {
	Input
	plan         func(*model.Snapshot, time.Time, decide.Policy) (decide.Output, error) // approve.WhatIf
	pools        []*model.NodePool                                                      // that may launch nodes; the assumed one if there are none
	assumed      bool
	claims       map[string]*model.Claim    // by node name
	hasNode      map[string]bool            // by claim name
	byName       map[string]*model.NodePool // all pools
	prices       map[*model.Node]int64      // of nodes whose price is known
	controlPlane int                        // nodes of the control plane, which have no price here
	owners       map[string]*workload
	list         []*workload // by subject

	today    decide.Output // for the pods that are pending, nodes whose drain is held left as they are
	compared Compared
	setAside map[string]bool // by uid: Compared.SetAside

	surplus map[*model.Node]bool // of static NodePools: nodes above spec.replicas, which the controller deletes

	waitedFor map[string]bool // what pods wait for: subjects of node groups at their maximum, subject and key of limits
	holds     []*hold
	heldBy    map[*model.Node][]*hold
	baseline  int64 // cost after consolidation by the policy of what-ifs
	ideal     int64 // the same if limits allowed all replacements
}

// workload is the pods of one controller, DaemonSets left out. A pod without one is a workload by itself.
type workload struct {
	subject string       // deployment/NAMESPACE/NAME, pod/NAMESPACE/NAME …
	pods    []*model.Pod // by namespace and name
}

func newExam(in Input) *exam {
	x := &exam{Input: in, plan: approve.WhatIf, claims: map[string]*model.Claim{}, hasNode: map[string]bool{}, byName: map[string]*model.NodePool{}, prices: map[*model.Node]int64{},
		owners: map[string]*workload{}, heldBy: map[*model.Node][]*hold{}, waitedFor: map[string]bool{}}
	s := in.Snapshot
	for _, c := range s.Claims {
		if c.NodeName != "" {
			x.claims[c.NodeName] = c
		}
	}
	for _, n := range s.Nodes {
		if n.Claim != "" && x.claims[n.Name] == nil {
			if c := s.FindClaim(n.Claim); c != nil {
				x.claims[n.Name] = c
			}
		}
	}
	for _, p := range s.Pools {
		x.byName[p.Name] = p
		if p.Ready && !p.Deleting && p.Replicas < 0 {
			x.pools = append(x.pools, p)
		}
	}
	for _, n := range s.Nodes {
		if isControlPlane(n) {
			x.controlPlane++
		} else if price, ok := x.nodePrice(n); ok {
			x.prices[n] = price
		}
	}
	if len(x.pools) == 0 {
		x.pools, x.assumed = []*model.NodePool{x.assumePool()}, true
	}
	for _, n := range s.Nodes {
		x.addOwners(n.Pods)
	}
	x.addOwners(s.Pending)
	for _, w := range x.owners {
		slices.SortFunc(w.pods, comparePods)
		x.list = append(x.list, w)
	}
	slices.SortFunc(x.list, func(a, b *workload) int { return strings.Compare(a.subject, b.subject) })
	for _, c := range x.claims {
		x.hasNode[c.Name] = true
	}
	x.surplus = x.surplusNodes()
	return x
}

// isControlPlane reports whether a node runs a cluster's control plane, whose static pods no other node takes over: nobody saves by its removal.
func isControlPlane(n *model.Node) bool {
	for _, role := range []string{"control-plane", "master"} {
		if _, ok := n.Labels["node-role.kubernetes.io/"+role]; ok && n.Claim == "" {
			return true
		}
	}
	return false
}

// surplusNodes returns the nodes that static NodePools have above spec.replicas.
func (x *exam) surplusNodes() map[*model.Node]bool {
	out := map[*model.Node]bool{}
	if !slices.ContainsFunc(x.Snapshot.Pools, func(p *model.NodePool) bool { return p.Replicas >= 0 }) {
		return out
	}
	now := decide.Stand(x.Snapshot, decide.Memory{}, x.Now, x.Policy)
	claims := map[string]bool{}
	for _, p := range x.Snapshot.Pools {
		if p.Replicas < 0 {
			continue
		}
		for _, c := range now.StaticSurplus(p) {
			claims[c.Name] = true
		}
	}
	for _, n := range x.Snapshot.Nodes {
		if c := x.claims[n.Name]; c != nil && claims[c.Name] {
			out[n] = true
		}
	}
	return out
}

// isStaticOnly reports whether there is no NodePool to launch from and all nodes with a price are those of static NodePools: without these, nothing
// can take their pods.
func (x *exam) isStaticOnly() bool {
	for n := range x.prices {
		if p := x.poolOf(n); p == nil || p.Replicas < 0 {
			return false
		}
	}
	return x.assumed && len(x.prices) > 0
}

func comparePods(a, b *model.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func (x *exam) addOwners(pods []*model.Pod) {
	for _, p := range pods {
		if !p.IsReschedulable() {
			continue
		}
		subject := workloadOf(p)
		w := x.owners[subject]
		if w == nil {
			w = &workload{subject: subject}
			x.owners[subject] = w
		}
		w.pods = append(w.pods, p)
	}
}

// poolOf is the NodePool of a node; nil: it has none.
func (x *exam) poolOf(n *model.Node) *model.NodePool {
	if c := x.claims[n.Name]; c != nil && x.byName[c.Pool] != nil {
		return x.byName[c.Pool]
	}
	return x.byName[n.Labels[model.LabelNodePool]]
}

// deletedAt is when a node was deleted, by itself or with its NodeClaim; zero: it was not.
func (x *exam) deletedAt(n *model.Node) time.Time {
	if c := x.claims[n.Name]; c != nil && !c.Deleting.IsZero() && (n.Deleting.IsZero() || c.Deleting.Before(n.Deleting)) {
		return c.Deleting
	}
	return n.Deleting
}

// nodePrice is what a node costs in micro-dollars an hour: by its offering, else as its NodeClaim says that it cost at launch, else by its annotation;
// false: nobody knows.
func (x *exam) nodePrice(n *model.Node) (int64, bool) {
	if o := x.offeringOf(n); o != nil {
		return o.PriceMicro, true
	}
	micro := cmp.Or(x.claims[n.Name].LaunchPriceMicro(), model.AnnotatedPriceMicro(n.Annotations))
	return micro, micro > 0
}

// offeringOf is the offering that a node is of: of its NodePool, else of the instance types that nodes are compared with, there also of another zone or on
// demand; nil: its type is not among them. A node of a node group is of its group's offerings where these are told apart.
func (x *exam) offeringOf(n *model.Node) *model.Offering {
	group := n.Labels[model.LabelNodeGroup]
	if p := x.poolOf(n); p != nil && group == "" {
		if o := disrupt.NodeOffering(p, n.Labels); o != nil {
			return o
		}
	}
	t := disrupt.FindInstanceType(&model.NodePool{Types: x.Types}, n.Labels[model.LabelInstanceType])
	if t == nil {
		return nil
	}
	zone, kind := n.Labels[model.LabelZone], cmp.Or(model.CapacityTypeOf(n.Labels), model.OnDemand)
	for _, ask := range [...]struct{ zone, kind string }{{zone, kind}, {"", kind}, {zone, model.OnDemand}, {"", model.OnDemand}} {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if of := o.Labels[model.LabelNodeGroup]; o.CapacityType == ask.kind && (ask.zone == "" || o.Zone == ask.zone) && (of == "" || of == group) {
				return o
			}
		}
	}
	return nil
}

// assumePool is a NodePool for a cluster that has none: the zones, architectures and capacity types of its nodes, and
// of the instance types those for general use beside those that it has.
func (x *exam) assumePool() *model.NodePool {
	zones, archs, kinds, have := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for n := range x.prices {
		zones[n.Labels[model.LabelZone]] = true
		archs[cmp.Or(n.Labels[model.LabelArch], "amd64")] = true
		kinds[cmp.Or(model.CapacityTypeOf(n.Labels), model.OnDemand)] = true
		have[n.Labels[model.LabelInstanceType]] = true
	}
	requirements := []model.Requirement{model.OneOf(model.LabelNodePool, assumedPool)}
	for _, r := range []struct {
		key  string
		from map[string]bool
	}{{model.LabelZone, zones}, {model.LabelArch, archs}, {model.LabelCapacityType, kinds}} {
		delete(r.from, "")
		if len(r.from) > 0 {
			requirements = append(requirements, model.OneOf(r.key, sorted(r.from)...))
		}
	}
	p := &model.NodePool{Name: assumedPool, UID: assumedPool, Ready: true, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1,
		ConsolidationPolicy: "WhenEmptyOrUnderutilized", Labels: model.Labels{}, Requirements: model.NewRequirements(requirements...)}
	for _, t := range x.Types {
		switch category, says := t.Labels["karpenter.k8s.aws/instance-category"]; {
		case have[t.Name], !says, slices.Contains([]string{"c", "m", "r"}, category):
			p.Types = append(p.Types, t)
		}
	}
	return p
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
