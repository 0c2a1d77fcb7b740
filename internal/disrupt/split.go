// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// independent divides a command into those that share no machine: the pods of their machines go to different nodes, and none of them waits for
// what another needs, or is taken back with it. They are in the order of the names of their first machines. A part that does not pay by itself is
// left out; where none does the command stays whole.
//
// A command that needs both machines that come and room that stands must evict all its pods at once: that room is reserved when the machines have
// come, and until then successors of pods that another command evicts may be bound to it by kube-scheduler. So one of which a part needs both is not
// divided.
//
// Pods that are placed with regard to other pods (spread, affinity, ports, volumes) keep all machines that they leave together. Where successors
// are not bound to their room (Input.Exact), all that count on room that stands share it.
func (s *search) independent(m *Command) []*Command {
	if !s.in.BindsPods && m.PodsOnExisting > 0 {
		return []*Command{m}
	}
	parent := make([]int, len(m.Candidates))
	unitOf := map[*model.Pod]int{}
	related := -1 // a machine with pods that are placed with regard to others
	var root func(i int) int
	root = func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	join := func(i, j int) { parent[root(max(i, j))] = root(min(i, j)) }
	for i := range parent {
		parent[i] = i
	}
	for i, u := range m.Candidates {
		for _, p := range u.Pods {
			if unitOf[p] = i; s.f.sticky(p.Class) {
				if related < 0 {
					related = i
				}
				join(related, i)
			}
		}
	}
	together := func(pods []*model.Pod) {
		for _, p := range pods[1:] {
			join(unitOf[pods[0]], unitOf[p])
		}
	}
	for _, a := range m.OnExisting {
		together(a.Pods)
	}
	for i := range m.Replacements {
		together(m.Replacements[i].Pods)
	}

	at := map[int]*Command{}
	var parts []*Command
	for i, u := range m.Candidates {
		r := root(i)
		if at[r] == nil {
			at[r] = &Command{Cause: m.Cause}
			parts = append(parts, at[r])
		}
		at[r].Candidates = append(at[r].Candidates, u)
		at[r].OldMicroPerHour += max(u.PriceMicro, 0)
	}
	if len(parts) < 2 {
		return []*Command{m}
	}
	for _, a := range m.OnExisting {
		part := at[root(unitOf[a.Pods[0]])]
		part.OnExisting, part.PodsOnExisting = append(part.OnExisting, a), part.PodsOnExisting+len(a.Pods)
	}
	for _, n := range m.Replacements {
		part := at[root(unitOf[n.Pods[0]])]
		part.Replacements, part.NewMicroPerHour = append(part.Replacements, n), part.NewMicroPerHour+n.PriceMicro
	}
	parts = slices.DeleteFunc(parts, func(part *Command) bool {
		part.CostMicro = s.cost(part.Candidates, part.NewMicroPerHour) + int64(len(part.Replacements))*s.pol.LaunchMicro
		part.Result = &solve.Result{Cost: plan.Cost{NewMicroPerHour: part.NewMicroPerHour}}
		return s.worth(part).Code != ""
	})
	if len(parts) == 0 || slices.ContainsFunc(parts, func(part *Command) bool { return len(part.Replacements) > 0 && part.PodsOnExisting > 0 }) {
		return []*Command{m}
	}
	return parts
}
