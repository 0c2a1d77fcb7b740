// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/explain"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A replacement is launched before the node that it replaces is deleted, so limits have to allow both for a while. A
// packing that launches more than its limits leave is reached only in part: first go the nodes that need no replacement,
// then as many others as the limits allow, with what the nodes before them left.

// LimitBlocks says that a limit of a NodePool, a CapacityQuota or the cluster leaves too little for the replacements of nodes. Have: what it leaves.
const LimitBlocks Code = "LimitBlocks"

// shortLimit is a limit that does not allow all new nodes of a packing next to the nodes of today.
type shortLimit struct {
	object, field string
	resource      string
	d             model.Dim // of a resource
	left, need    int64
	most          int64 // what the limit is
	pool          string
	shared        int // of Snapshot.Limits; -1: the NodePool's own
}

// reached is a packing as far as limits allow to come to it.
type reached struct {
	packing
	ideal packing      // with all replacements
	short []shortLimit // the limits that do not allow all of them
}

// reach is repack as far as limits allow the replacements.
func (x *exam) reach(keep func(*model.Node) bool, edit func(*model.Snapshot), pol decide.Policy) reached {
	ideal := x.repack(keep, edit, pol)
	out := reached{packing: ideal, ideal: ideal, short: x.shortLimits(&ideal, edit)}
	if len(out.short) > 0 {
		out.packing = x.withinLimits(&ideal, keep, edit)
	}
	return out
}

// shortLimits returns the limits that do not allow the new nodes of a packing next to those of today.
func (x *exam) shortLimits(p *packing, edit func(*model.Snapshot)) (out []shortLimit) {
	if len(x.Snapshot.Limits) == 0 && !slices.ContainsFunc(x.pools, func(p *model.NodePool) bool { return p.NodeLimit >= 0 || slices.Contains(p.HasLimit, true) }) {
		return nil
	}
	_, launched, _ := x.match(p)
	if len(launched) == 0 {
		return nil
	}
	s := *x.Snapshot
	s.Pools = x.pools
	if edit != nil {
		edit(&s)
	}
	now := decide.Glance(&s, x.Now, x.Policy)
	names := s.ResourceNames
	done := map[string]bool{}
	for _, b := range now.Pools() {
		if done[b.Name] {
			continue // another part of the same
		}
		done[b.Name] = true
		var need model.Resources
		nodes := int64(0)
		for _, f := range launched {
			if f.Pool == b.Name {
				need = need.AddInto(f.Type.Capacity, 1)
				nodes++
			}
		}
		one := shortLimit{object: "nodepool/" + b.Name, pool: b.Name, shared: -1}
		for d, has := range b.HasLimit {
			if d := model.Dim(d); has && need.At(d) > max(0, b.Left.At(d)) {
				l := one
				l.d, l.resource, l.left, l.need, l.most = d, names[d], b.Left.At(d), need.At(d), b.Limits.At(d)
				l.field = "spec.limits." + l.resource
				out = append(out, l)
			}
		}
		if b.NodeLimit >= 0 && nodes > b.NodesLeft {
			l := one
			l.d, l.resource, l.left, l.need, l.most, l.field = model.Pods, "nodes", b.NodesLeft, nodes, b.NodeLimit, "spec.limits.nodes"
			out = append(out, l)
		}
	}
	for i, u := range now.LimitUses() {
		var need model.Resources
		nodes, micro := int64(0), int64(0)
		for _, f := range launched {
			if u.Matches(newLabels(now.Pool(f.Pool), f)) {
				need = need.AddInto(f.Type.Capacity, 1)
				nodes++
				micro += f.PriceMicro
			}
		}
		add := func(d model.Dim, resource string, left, need, most int64) {
			if need <= max(0, left) {
				return
			}
			l := shortLimit{d: d, resource: resource, left: left, need: need, most: most, shared: i}
			l.object, l.field = plan.LimitField(u.Name, resource)
			out = append(out, l)
		}
		for d := range u.HasMost {
			if d := model.Dim(d); u.IsLimited(d) {
				add(d, names[d], u.Most.At(d)-u.Used.At(d), need.At(d), u.Most.At(d))
			}
		}
		if u.Nodes >= 0 {
			add(model.Pods, "nodes", u.Nodes-u.UsedNodes, nodes, u.Nodes)
		}
		if u.MicroPerHour >= 0 {
			add(0, model.DollarsPerHour, u.MicroPerHour-u.UsedMicro, micro, u.MicroPerHour)
		}
	}
	return out
}

// newLabels are the labels that a new node will have.
func newLabels(p *model.NodePool, f *solve.NewNode) model.Labels {
	out := model.Labels{model.LabelNodePool: f.Pool, model.LabelZone: f.Offering.Zone, model.LabelCapacityType: f.Offering.CapacityType, model.LabelInstanceType: f.Type.Name}
	for _, more := range []model.Labels{f.Type.Labels, f.Offering.Labels} {
		maps.Copy(out, more)
	}
	if p != nil {
		maps.Copy(out, p.Labels)
	}
	return out
}

// mostPhases is how often nodes are replaced in what the nodes before them left of limits.
const mostPhases = 4

// withinLimits is how much of a packing can be reached.
func (x *exam) withinLimits(ideal *packing, keep func(*model.Node) bool, edit func(*model.Snapshot)) packing {
	pol := x.whatIfPolicy()
	best := packing{micro: x.compared.TodayMicro(), bound: x.compared.TodayMicro()}
	left := x.removable(keep, edit, pol)
	going := map[*model.Node]bool{}
	for n := range left {
		going[n] = true
		best.gone = append(best.gone, n)
		best.micro -= x.prices[n]
		best.bound -= x.prices[n]
	}
	slices.SortFunc(best.gone, func(a, b *model.Node) int { return cmp.Compare(a.Name, b.Name) })
	removed, _, _ := x.match(ideal)
	for _, n := range removed {
		going[n] = true
	}
	for range mostPhases {
		p := x.repackNextTo(func(n *model.Node) bool { return !going[n] || keep(n) }, edit, pol, func(n *model.Node) bool { return !left[n] })
		if p.micro >= best.micro {
			break
		}
		best = p
		more := false
		for _, n := range p.gone {
			if !left[n] {
				left[n], more = true, true
			}
		}
		if !more {
			break
		}
	}
	return best
}

// removable returns nodes that may go one after the other without a replacement, because their pods fit on the others: as many of the emptiest
// as can.
func (x *exam) removable(keep func(*model.Node) bool, edit func(*model.Snapshot), pol decide.Policy) map[*model.Node]bool {
	var list []*model.Node
	for _, n := range x.Snapshot.Nodes {
		if _, known := x.prices[n]; known && !keep(n) && !x.isForeign(n) {
			list = append(list, n)
		}
	}
	use := func(n *model.Node) (most float64) {
		for _, d := range []model.Dim{model.CPU, model.Memory} {
			if has := n.Allocatable.At(d); has > 0 {
				most = max(most, float64(n.Used.At(d))/float64(has))
			}
		}
		return most
	}
	slices.SortStableFunc(list, func(a, b *model.Node) int {
		return cmp.Or(cmp.Compare(use(a), use(b)), cmp.Compare(x.prices[b], x.prices[a]), cmp.Compare(a.Name, b.Name))
	})
	set := func(k int) map[*model.Node]bool {
		out := map[*model.Node]bool{}
		for _, n := range list[:k] {
			out[n] = true
		}
		return out
	}
	fit := func(k int) bool {
		gone := set(k)
		s, _ := x.without(func(n *model.Node) bool { return !gone[n] })
		if edit != nil {
			edit(s)
		}
		s.Pools = closed(s.Pools)
		d := decide.WhatIf(s, x.Now, pol)
		return len(x.homeless(&d)) == 0
	}
	low, high := 0, len(list)
	for low < high {
		if mid := (low + high + 1) / 2; fit(mid) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return set(low)
}

// closed are NodePools that launch nothing.
func closed(pools []*model.NodePool) []*model.NodePool {
	out := make([]*model.NodePool, len(pools))
	for i, p := range pools {
		c := *p
		c.NodeLimit = 0
		out[i] = &c
	}
	return out
}

// charge takes off the limits of a Snapshot what nodes have that are still there while others are launched.
func (x *exam) charge(s *model.Snapshot, nodes []*model.Node) {
	pools := map[string]*model.NodePool{}
	s.Pools = slices.Clone(s.Pools)
	for i, p := range s.Pools {
		c := *p
		c.Limits = p.Limits.Clone()
		s.Pools[i], pools[p.Name] = &c, &c
	}
	s.Limits = slices.Clone(s.Limits)
	for i, l := range s.Limits {
		c := *l
		c.Most = l.Most.Clone()
		s.Limits[i] = &c
	}
	for _, n := range nodes {
		if c := x.claims[n.Name]; c != nil && pools[c.Pool] != nil {
			p, has := pools[c.Pool], c.Capacity
			if has.IsZero() {
				has = n.Capacity
			}
			p.Limits = p.Limits.AddInto(has, -1)
			if p.NodeLimit >= 0 {
				p.NodeLimit = max(0, p.NodeLimit-1)
			}
		}
		for _, l := range s.Limits {
			if !l.Matches(n.Labels) {
				continue
			}
			l.Most = l.Most.AddInto(n.Capacity, -1)
			if l.Nodes >= 0 {
				l.Nodes = max(0, l.Nodes-1)
			}
			if l.MicroPerHour >= 0 {
				l.MicroPerHour = max(0, l.MicroPerHour-x.prices[n])
			}
		}
	}
}

// raised returns the change that has a limit allow all new nodes, and the edit of a Snapshot that does so.
func (l *shortLimit) raised() (plan.Change, func(*model.Snapshot)) {
	most := l.most + l.need - max(0, l.left)
	if l.left < 0 {
		most -= l.left // what is used already is more than the limit
	}
	if l.resource != model.DollarsPerHour {
		most = explain.RoundUpLimit(l.d, most)
	}
	value := model.FormatAmount(l.d, most)
	switch {
	case l.resource == model.DollarsPerHour:
		value = model.FormatMicro(most)
	case l.resource == "nodes":
		value = strconv.FormatInt(most, 10)
	}
	return plan.Change{Object: l.object, Field: l.field, Op: plan.Set, Value: value}, func(s *model.Snapshot) {
		if l.shared < 0 {
			editPools(func(p *model.NodePool) {
				switch {
				case p.Name != l.pool:
				case l.resource == "nodes":
					p.NodeLimit = most
				default:
					p.Limits = p.Limits.With(l.d, most)
				}
			})(s)
			return
		}
		s.Limits = slices.Clone(s.Limits)
		c := *s.Limits[l.shared]
		switch l.resource {
		case "nodes":
			c.Nodes = most
		case model.DollarsPerHour:
			c.MicroPerHour = most
		default:
			c.Most = c.Most.With(l.d, most)
		}
		s.Limits[l.shared] = &c
	}
}

// blockedByLimits returns what limits that leave too little for replacements cost: each what consolidation saves with it raised alone, or if that is
// nothing for any of them, all together.
func (x *exam) blockedByLimits(keep func(*model.Node) bool, of *reached) (out []Finding) {
	gap := min(x.compared.TodayMicro(), of.micro) - of.ideal.micro
	if !x.worthwhile(gap) {
		return nil
	}
	for i := range of.short {
		l := &of.short[i]
		ch, edit := l.raised()
		saving := gap
		if len(of.short) > 1 {
			saving = max(0, min(gap, of.micro-x.reach(keep, edit, x.whatIfPolicy()).micro))
		}
		have := model.ShortAmount(l.d, max(0, l.left), 1)
		switch l.resource {
		case "nodes":
			have = strconv.FormatInt(max(0, l.left), 10)
		case model.DollarsPerHour:
			have = "$" + model.Dollars(max(0, l.left))
		}
		f := Finding{Code: LimitBlocks, Severity: Costly, Subject: l.object, Key: l.field, Have: have, SavingMicro: saving, Priced: true}
		if l.object != plan.Controller { // flags are no object
			f.Changes = []plan.Change{ch}
		}
		out = append(out, f)
	}
	if slices.ContainsFunc(out, func(f Finding) bool { return f.SavingMicro > 0 }) {
		return slices.DeleteFunc(out, func(f Finding) bool { return f.SavingMicro == 0 })
	}
	all := out[0]
	all.SavingMicro = gap
	for _, f := range out[1:] {
		all.Others = append(all.Others, Limit{f.Subject, f.Key, f.Have})
		all.Changes = append(all.Changes, f.Changes...)
	}
	return []Finding{all}
}

// match returns the nodes that go in a packing, its nodes that are launched, and how many pods need not be rescheduled: a new node of the same
// offering as one that would go is that node, and pods of the same class stay on it. An empty node is no node for pods that a node would be launched for
// today.
func (x *exam) match(p *packing) (removed []*model.Node, launched []*solve.NewNode, stay int) {
	standing := map[string][]*model.Node{}
	for _, n := range p.gone {
		key := x.standingKey(n)
		standing[key] = append(standing[key], n)
	}
	forNew := x.launchedForToday()
	for i := range p.fresh {
		f := &p.fresh[i]
		key := freshKey(f)
		list := standing[key]
		takesNone := slices.ContainsFunc(f.Pods, func(q *model.Pod) bool { return forNew[q.UID] })
		best, most := 0, -1
		for j, n := range list {
			if s := shared(n, f.Pods); s > most && (!takesNone || disrupt.HasWorkloadPods(n)) {
				best, most = j, s
			}
		}
		if most < 0 {
			launched = append(launched, f)
			continue
		}
		stay += most
		standing[key] = slices.Delete(slices.Clone(list), best, best+1)
	}
	for _, list := range standing {
		removed = append(removed, list...)
	}
	slices.SortFunc(removed, func(a, b *model.Node) int { return cmp.Compare(a.Name, b.Name) })
	return removed, launched, stay
}

// launchedForToday returns the pending pods, by uid, that today's decision launches nodes for: they fit on no node as it stands.
func (x *exam) launchedForToday() map[string]bool {
	out := map[string]bool{}
	for _, d := range x.today.Pods {
		if d.Outcome == plan.OnNew {
			out[d.Pod.UID] = true
		}
	}
	return out
}
