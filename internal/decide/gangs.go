// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
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
			x = &demand.GangNeed{Name: g.Name, Priority: g.Priority, Created: g.Created, Least: g.Minimum(), Has: g.Settled}
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

// whyLeftOut returns why a plan leaves out the first pod of a gang that it leaves out, be it set aside before the plan was made; nil:
// it leaves none out.
func (dm *demandStage) whyLeftOut(gang string, res *solve.Result) []plan.Reason {
	if i := slices.IndexFunc(res.Refused, func(r solve.Refusal) bool { return r.Pod.Gang.Name == gang }); i >= 0 {
		return res.Refused[i].Reasons
	}
	for _, p := range slices.SortedFunc(maps.Keys(dm.heldBack[res]), model.ComparePodKeys) {
		if p.Gang.Name == gang {
			return []plan.Reason{dm.heldBack[res][p]}
		}
	}
	for _, list := range [][]plan.PodDecision{dm.out.Pods, dm.aside} {
		if i := slices.IndexFunc(list, func(d plan.PodDecision) bool { return d.Pod.Gang.Name == gang }); i >= 0 {
			return list[i].Reasons
		}
	}
	return nil
}
