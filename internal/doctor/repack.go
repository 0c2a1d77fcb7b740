// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package doctor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// HoursPerMonth turns dollars an hour into dollars a month: a twelfth of a year.
const HoursPerMonth = 730

// TodayMicro is what the cluster costs now with nodes for its pending pods.
func (c *Compared) TodayMicro() int64 { return c.NowMicro + c.PendingMicro }

// IsUnpriced reports whether no node has a known price, so that no figure means anything.
func (c *Compared) IsUnpriced() bool { return c.Nodes > 0 && c.Unpriced == c.Nodes }

// LaunchedNodes is how many nodes are launched.
func (m *Moves) LaunchedNodes() int {
	n := 0
	for _, l := range m.Launched {
		n += l.Count
	}
	return n
}

// packing is a cluster as decide packs it when some nodes are gone and their pods are pending.
type packing struct {
	micro, bound int64 // of kept and new nodes
	gone         []*model.Node
	fresh        []solve.NewNode
	unplaced     int // pods that run now and would find no place
}

// Compare packs a cluster anew and returns what that would cost and take. It makes no findings.
func Compare(in Input) Compared {
	x := newExam(in)
	x.compare()
	return x.compared
}

// compare finds what holds nodes, and the four figures.
func (x *exam) compare() {
	c := &x.compared
	c.Assumed = x.assumed
	c.Nodes, c.Unpriced = len(x.Snapshot.Nodes), len(x.Snapshot.Nodes)-len(x.prices)-x.controlPlane
	for _, p := range x.prices {
		c.NowMicro += p
	}
	for _, w := range x.list {
		c.Pods += len(w.pods)
		for _, p := range w.pods {
			if p.Node == "" {
				c.Pending++
			}
		}
	}
	x.collectHolds()
	x.today, _ = x.plan(x.withHeldDrains(), x.Now, x.Policy) // if it gives up, every pod is refused for that
	c.PendingMicro = x.today.Cost.NewMicroPerHour
	x.setUnplacedAside()

	limit := c.NowMicro + c.PendingMicro
	isHeld := func(n *model.Node) bool { return len(x.heldBy[n]) > 0 }
	all := x.reach(func(*model.Node) bool { return false }, nil, x.Policy)
	if x.isStaticOnly() {
		x.pools = closed(x.pools) // the assumed one is for the comparison without blockers alone
	}
	held := x.reach(isHeld, nil, x.Policy)
	c.ConsolidatedMicro = min(limit, held.micro)
	c.RepackedMicro = min(c.ConsolidatedMicro, all.micro)
	c.LeastMicro = min(c.RepackedMicro, all.ideal.bound)
	if held.micro < limit {
		c.Moves = x.moves(held.packing)
	}
	if all.micro < c.ConsolidatedMicro {
		c.RepackedMoves = x.moves(all.packing)
	} else {
		c.RepackedMoves = c.Moves
	}
	baseline := x.reach(isHeld, nil, x.whatIfPolicy())
	x.baseline, x.ideal = min(limit, baseline.micro), min(limit, baseline.ideal.micro)
	c.Blocked = x.blockedByLimits(isHeld, &held)
}

// setUnplacedAside notes the pending pods that a decision on the cluster as it is launches nothing for.
func (x *exam) setUnplacedAside() {
	x.setAside = map[string]bool{}
	for _, p := range x.today.Pods {
		if p.Outcome == plan.Refused && p.Pod.Node == "" && !x.setAside[p.Pod.UID] {
			x.setAside[p.Pod.UID] = true
			x.compared.SetAside = append(x.compared.SetAside, p.Pod.Key())
		}
	}
	slices.Sort(x.compared.SetAside)
}

// placeable returns the pending pods that are not set aside.
func (x *exam) placeable(pending []*model.Pod) []*model.Pod {
	return slices.DeleteFunc(slices.Clone(pending), func(p *model.Pod) bool { return x.setAside[p.UID] })
}

// whatIfPolicy is the policy of what-ifs, of which there are many: a tenth of the work.
func (x *exam) whatIfPolicy() decide.Policy {
	pol := x.Policy
	pol.Solve.Work /= 10
	return pol
}

// mostRounds is how often a packing is made again because pods that run now found no place in it.
const mostRounds = 4

// repack packs the cluster as if the nodes that have a price and are not kept were gone. A node whose pods then find no
// place is kept. edit may put other pools and pods into the snapshot that is packed; nil: none. Limits are counted as if the nodes went before new
// ones are launched.
func (x *exam) repack(keep func(*model.Node) bool, edit func(*model.Snapshot), pol decide.Policy) packing {
	return x.repackNextTo(keep, edit, pol, func(*model.Node) bool { return false })
}

// repackNextTo is repack with limits that count those of the nodes that are still there while new ones are launched.
func (x *exam) repackNextTo(keep func(*model.Node) bool, edit func(*model.Snapshot), pol decide.Policy, there func(*model.Node) bool) packing {
	pinned := map[*model.Node]bool{}
	for round := 1; ; round++ {
		s, out := x.without(func(n *model.Node) bool { return pinned[n] || keep(n) })
		if edit != nil {
			edit(s)
		}
		if next := slices.DeleteFunc(slices.Clone(out.gone), func(n *model.Node) bool { return !there(n) }); len(next) > 0 {
			x.charge(s, next)
		}
		d := decide.WhatIf(s, x.Now, pol)
		out.micro += d.Cost.NewMicroPerHour
		out.bound += d.Cost.BoundMicroPerHour
		if d.Result != nil {
			out.fresh = d.Result.New
		}
		homeless := x.homeless(&d)
		if out.unplaced = len(homeless); out.unplaced == 0 || round == mostRounds {
			if out.unplaced > 0 { // it can't be had: what there is stays
				out.micro, out.bound = x.compared.TodayMicro(), x.compared.TodayMicro()
			}
			return out
		}
		for n := range homeless {
			pinned[n] = true
		}
	}
}

// homeless are the nodes that run pods which a decision places nowhere.
func (x *exam) homeless(d *decide.Output) map[*model.Node]bool {
	refused := map[string]bool{}
	for _, p := range d.Pods {
		if p.Outcome == plan.Refused || p.Outcome == plan.NotOurs {
			refused[p.Pod.UID] = true
		}
	}
	out := map[*model.Node]bool{}
	if len(refused) == 0 {
		return out
	}
	for _, n := range x.Snapshot.Nodes {
		if slices.ContainsFunc(n.Pods, func(p *model.Pod) bool { return refused[p.UID] }) {
			out[n] = true
		}
	}
	return out
}

// without is the cluster with the kept nodes and those that have no price or are foreign; pods of the others are pending. The packing
// has what the kept ones cost.
func (x *exam) without(keep func(*model.Node) bool) (*model.Snapshot, packing) {
	from := x.Snapshot
	s := *from
	s.Nodes, s.Claims, s.Pools = nil, nil, x.pools
	s.Pending = x.placeable(from.Pending)
	s.Instances, s.InstancesAt, s.InFlight, s.Failures, s.Making, s.Drift = nil, time.Time{}, nil, nil, nil, nil
	var out packing
	for _, n := range from.Nodes {
		price, known := x.prices[n]
		if !known || x.isForeign(n) || keep(n) {
			node, claim := n, x.claims[n.Name]
			if known {
				node, claim = x.staying(n)
			}
			s.Nodes = append(s.Nodes, node)
			if claim != nil {
				s.Claims = append(s.Claims, claim)
			}
			out.micro += price
			out.bound += price
			continue
		}
		out.gone = append(out.gone, n)
		for _, p := range n.Pods {
			if p.IsReschedulable() {
				s.Pending = append(s.Pending, unbound(p))
			}
		}
	}
	for _, c := range from.Claims {
		if c.NodeName == "" && c.Deleting.IsZero() && !x.hasNode[c.Name] { // in flight: what it brings is still to come
			s.Claims = append(s.Claims, c)
		}
	}
	slices.SortFunc(s.Claims, func(a, b *model.Claim) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Pending, comparePods)
	return &s, out
}

// isForeign reports whether no NodePool is known that may have launched a node, and its instance type is not among those that nodes are compared with: another
// cloud's machines are no substitute for it.
func (x *exam) isForeign(n *model.Node) bool {
	return x.assumed && disrupt.FindInstanceType(&model.NodePool{Types: x.Types}, n.Labels[model.LabelInstanceType]) == nil
}

// staying is a node, with its NodeClaim, that is kept: one that is being deleted keeps its pods as if it were not, and takes no others.
func (x *exam) staying(n *model.Node) (*model.Node, *model.Claim) {
	claim := x.claims[n.Name]
	if x.deletedAt(n).IsZero() {
		return n, claim
	}
	node := *n
	node.Deleting = time.Time{}
	node.Taints = append(slices.Clone(n.Taints), model.Taint{Key: model.TaintDisrupted, Effect: model.NoSchedule})
	if claim != nil {
		own := *claim
		own.Deleting = time.Time{}
		claim = &own
	}
	return &node, claim
}

// withHeldDrains is the cluster in which nodes stay whose drain something holds for good: their pods need no other place.
func (x *exam) withHeldDrains() *model.Snapshot {
	s := *x.Snapshot
	s.Nodes, s.Claims = slices.Clone(s.Nodes), slices.Clone(s.Claims)
	for i, n := range s.Nodes {
		if len(x.heldBy[n]) == 0 || x.deletedAt(n).IsZero() {
			continue
		}
		node, claim := x.staying(n)
		s.Nodes[i] = node
		if at := slices.Index(s.Claims, x.claims[n.Name]); at >= 0 {
			s.Claims[at] = claim
		}
	}
	return &s
}

// unbound is a pod as it is when its node has gone and kube-scheduler has found no other.
func unbound(p *model.Pod) *model.Pod {
	q := *p
	q.Node, q.Nominated, q.Bound, q.ReservedFor, q.Reservations, q.Tolerating, q.Binding = "", "", time.Time{}, "", nil, "", ""
	q.Unschedulable = time.Unix(1, 0)
	return &q
}

// moves says how the nodes of today become those of a packing.
func (x *exam) moves(p packing) Moves {
	var out Moves
	removed, fresh, stay := x.match(&p)
	for _, n := range p.gone {
		for _, q := range n.Pods {
			if q.IsReschedulable() {
				out.Pods++
			}
		}
	}
	out.Removed, out.Pods = len(removed), out.Pods-stay
	out.Names = []string{}
	for _, n := range removed {
		out.Names = append(out.Names, n.Name)
	}
	slices.Sort(out.Names)
	launched := map[string]*Machine{}
	for _, f := range fresh {
		key := freshKey(f)
		m := launched[key]
		if m == nil {
			m = &Machine{Pool: f.Pool, Type: f.Type.Name, Zone: f.Offering.Zone, CapacityType: f.Offering.CapacityType, PriceMicro: f.PriceMicro}
			launched[key] = m
		}
		m.Count++
	}
	out.Launched = []Machine{}
	for _, m := range launched {
		out.Launched = append(out.Launched, *m)
	}
	slices.SortFunc(out.Launched, func(a, b Machine) int {
		return cmp.Or(cmp.Compare(b.PriceMicro*int64(b.Count), a.PriceMicro*int64(a.Count)),
			strings.Compare(offeringKey(a.Type, a.Zone, a.CapacityType, ""), offeringKey(b.Type, b.Zone, b.CapacityType, "")), cmp.Compare(a.Count, b.Count))
	})
	return out
}

func offeringKey(instanceType, zone, capacityType, group string) string {
	return instanceType + "/" + zone + "/" + capacityType + "/" + group
}

// standingKey is offeringKey of a node that stands.
func (x *exam) standingKey(n *model.Node) string {
	return offeringKey(n.Labels[model.LabelInstanceType], n.Labels[model.LabelZone], cmp.Or(model.CapacityTypeOf(n.Labels), model.OnDemand), x.groupOf(n))
}

// freshKey is offeringKey of a new node.
func freshKey(f *solve.NewNode) string {
	return offeringKey(f.Type.Name, f.Offering.Zone, f.Offering.CapacityType, f.Offering.Labels[model.LabelNodeGroup])
}

// groupOf returns the node group of a node where offerings are those of groups; empty: they are not.
func (x *exam) groupOf(n *model.Node) string {
	if o := x.offeringOf(n); o != nil {
		return o.Labels[model.LabelNodeGroup]
	}
	return ""
}

// shared counts the pods of a node that may stay where a new node would hold these pods: those of the same classes.
func shared(n *model.Node, pods []*model.Pod) int {
	left := map[*model.Class]int{}
	for _, p := range pods {
		left[p.Class]++
	}
	stay := 0
	for _, p := range n.Pods {
		if p.IsReschedulable() && left[p.Class] > 0 {
			left[p.Class]--
			stay++
		}
	}
	return stay
}
