// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// gangsOf returns the gangs of some demand, and how many pods of each must be placed; nil: there is none.
func (dm *demandStage) gangsOf(pods []*model.Pod) (out []*demand.GangNeed) {
	var byName map[string]*demand.GangNeed
	for _, p := range pods {
		g := dm.pods.GangOf(p)
		if g == nil {
			continue
		}
		x := byName[g.Name]
		if x == nil {
			if byName == nil {
				byName = map[string]*demand.GangNeed{}
			}
			x = &demand.GangNeed{Name: g.Name, Priority: g.Priority, Created: g.Created, Least: g.Minimum(), Has: g.Settled, Domain: g.Domain}
			byName[g.Name], out = x, append(out, x)
		}
		x.Given++
	}
	if out == nil {
		return nil
	}
	has := func(pods []*model.Pod, covered bool) {
		for _, p := range pods {
			if g := byName[p.Gang.Name]; g != nil && (!covered || dm.slots.Covered[p.UID] && p.Nominated == "") {
				g.Has++
			}
		}
	}
	has(dm.Snapshot.Pending, true)
	has(dm.pods.Leaving(), true)
	has(dm.out.Left, false) // decided on before, and again when their namespace is
	for _, g := range out {
		g.Need = max(0, g.Least-g.Has)
	}
	return out
}

// whyLeftOut returns the first pod of a gang that a plan leaves out, be it set aside before the plan was made, and why; nil: it leaves none out.
func (dm *demandStage) whyLeftOut(gang string, res *solve.Result) (*model.Pod, []plan.Reason) {
	if i := slices.IndexFunc(res.Refused, func(r solve.Refusal) bool { return r.Pod.Gang.Name == gang }); i >= 0 {
		return res.Refused[i].Pod, res.Refused[i].Reasons
	}
	for _, p := range slices.SortedFunc(maps.Keys(dm.heldBack[res]), model.ComparePodKeys) {
		if p.Gang.Name == gang {
			return p, []plan.Reason{dm.heldBack[res][p]}
		}
	}
	for _, list := range [][]plan.PodDecision{dm.out.Pods, dm.aside} {
		if i := slices.IndexFunc(list, func(d plan.PodDecision) bool { return d.Pod.Gang.Name == gang }); i >= 0 {
			return list[i].Pod, list[i].Reasons
		}
	}
	return nil, nil
}

// roomFor returns how much may be placed at most on given nodes and on machines to buy.
func (dm *demandStage) roomFor(nodes []solve.ExistingNode) demand.Room {
	room := make(demand.Room, len(dm.Snapshot.ResourceNames))
	for i := range nodes {
		for d := range room {
			room[d] += max(0, nodes[i].Free.At(model.Dim(d)))
		}
	}
	for _, p := range dm.purchases.pools() {
		var largest model.Resources
		for _, t := range p.Types {
			largest = largest.Max(t.Allocatable)
		}
		for d := range room {
			most := int64(-1)
			if d < len(p.HasLimit) && p.HasLimit[d] {
				most = max(0, p.Left.At(model.Dim(d)))
			}
			if size := largest.At(model.Dim(d)); p.NodesLeft >= 0 && (size == 0 || p.NodesLeft < math.MaxInt64/size) && (most < 0 || p.NodesLeft*size < most) {
				most = p.NodesLeft * size
			}
			if most < 0 || room[d] < 0 {
				room[d] = -1
				continue
			}
			room[d] += most
		}
	}
	return room
}

// domainsOf returns the values that a label of nodes has on given nodes, or may have on machines to buy, sorted.
func (dm *demandStage) domainsOf(label string, nodes []solve.ExistingNode) []string {
	seen := map[string]bool{}
	for i := range nodes {
		if v, ok := nodes[i].Labels[label]; ok {
			seen[v] = true
		}
	}
	for _, p := range dm.purchases.pools() {
		if r := p.Requirements.Get(label); r != nil && !r.Complement {
			for _, v := range r.Values {
				seen[v] = true
			}
			continue
		}
		if v, ok := p.Labels[label]; ok {
			seen[v] = true
			continue
		}
		for _, t := range p.Types {
			if v, ok := t.Labels[label]; ok {
				seen[v] = true
			}
			for i := range t.Offerings {
				if label == model.LabelZone {
					seen[t.Offerings[i].Zone] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// pinned returns the demand with the pods of pinned gangs replaced by pods that also require the value of the label that they are pinned
// to, pods that must be held (nil: none must) by pods that also require a node without labelUnheld, and the pods that those stand for. Bars
// against launches for a class also bar those for its pinned pods.
func pinned(pods []*model.Pod, pins demand.Pins, held func(*model.Pod) bool, pools []solve.Pool) (out []*model.Pod, barred []solve.Pool, original map[*model.Pod]*model.Pod) {
	if len(pins) == 0 && held == nil {
		return pods, pools, nil
	}
	out, original = make([]*model.Pod, len(pods)), map[*model.Pod]*model.Pod{}
	type pinnedClass struct {
		class         *model.Class
		domain, value string // empty: pinned to none
		held          bool
	}
	classes := map[pinnedClass]*model.Class{}
	var order []pinnedClass
	for i, p := range pods {
		k := pinnedClass{class: p.Class, held: held != nil && held(p)}
		if value, ok := pins[p.Gang.Name]; ok && p.Gang.Domain != "" {
			k.domain, k.value = p.Gang.Domain, value
		}
		if k == (pinnedClass{class: p.Class}) {
			out[i] = p
			continue
		}
		c := classes[k]
		if c == nil {
			if c = p.Class; k.domain != "" {
				c = requiring(c, model.OneOf(k.domain, k.value))
			}
			if k.held {
				c = requiring(c, model.Requirement{Key: labelUnheld, AllowAbsent: true, Min: math.MinInt64, Max: math.MaxInt64})
			}
			classes[k], order = c, append(order, k)
		}
		q := *p
		q.Class, out[i] = c, &q
		original[&q] = p
	}
	barred = slices.Clone(pools)
	for i := range barred {
		for _, k := range order {
			for _, b := range pools[i].Barred {
				if b.Class == k.class {
					b.Class = classes[k]
					barred[i].Barred = append(slices.Clip(barred[i].Barred), b)
				}
			}
		}
	}
	return out, barred, original
}

// requiring returns a class that also requires something of nodes.
func requiring(c *model.Class, r model.Requirement) *model.Class {
	out := *c
	out.Key += "\x00" + r.String()
	out.Terms = slices.Clone(c.Terms)
	if len(out.Terms) == 0 {
		out.Terms = []model.NodeTerm{{}}
	}
	for i := range out.Terms {
		t := &out.Terms[i]
		if len(t.Standing) > 0 {
			t.Standing = t.Standing.With(r)
		}
		t.Requirements = t.Requirements.With(r)
	}
	return &out
}

// unpin puts the pods that were asked about back into a result.
func unpin(res *solve.Result, original map[*model.Pod]*model.Pod) {
	if original == nil {
		return
	}
	restore := func(pods []*model.Pod) {
		for i, p := range pods {
			if o := original[p]; o != nil {
				pods[i] = o
			}
		}
	}
	for i := range res.OnNodes {
		restore(res.OnNodes[i].Pods)
	}
	for i := range res.New {
		restore(res.New[i].Pods)
	}
	for i := range res.Refused {
		if o := original[res.Refused[i].Pod]; o != nil {
			res.Refused[i].Pod = o
		}
	}
}
