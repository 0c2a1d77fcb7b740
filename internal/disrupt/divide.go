// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// divide splits a command into independent ones, by the name of their first candidate: their pods go to different
// nodes, and none of them waits for what another needs, or is taken back with it. A part that is not worthwhile by
// itself is left out; where none is, or the command cannot be divided, it is returned whole.
//
// A command that needs both replacements and free capacity must evict all its pods at once: the capacity is reserved
// when the replacements have come, and until then kube-scheduler may bind successors of pods that another command
// evicts to it. So a command is not divided when a part of it needs both.
//
// Pods that are placed with regard to other pods (spread, affinity, ports, volumes) keep all candidates that they leave
// together. Where successors are not bound (Input.Binds), all that count on free capacity share it.
func (s *search) divide(cmd *Command) []*Command {
	if cmd.PodsOnExisting > 0 && !s.judge.in.Binds(PodsOf(cmd.Candidates)) {
		return []*Command{cmd}
	}
	parts := splitByGroup(cmd, s.groupCandidates(cmd))
	if len(parts) < 2 {
		return []*Command{cmd}
	}
	parts = slices.DeleteFunc(parts, func(part *Command) bool {
		part.CostMicro = s.pricing.commandCost(part.Candidates, part.NewMicroPerHour, len(part.Replacements))
		part.Result = &solve.Result{Cost: plan.Cost{NewMicroPerHour: part.NewMicroPerHour}}
		return !s.judge.isWorthwhile(part)
	})
	needsBoth := func(part *Command) bool { return len(part.Replacements) > 0 && part.PodsOnExisting > 0 }
	if len(parts) == 0 || slices.ContainsFunc(parts, needsBoth) {
		return []*Command{cmd}
	}
	return parts
}

// groupCandidates is, for each candidate of a command, the group that it belongs to, named by the index of the
// group's first candidate. Candidates are in one group when pods of both go to the same node, or both have pods that
// need the solver.
func (s *search) groupCandidates(cmd *Command) []int {
	groups := newDisjointSets(len(cmd.Candidates))
	candidateOf := indexPods(cmd)
	needingSolver := -1 // a candidate with such pods
	for i, c := range cmd.Candidates {
		for _, p := range c.Pods {
			if s.builder.capacity.needsSolver(p.Class) {
				if needingSolver < 0 {
					needingSolver = i
				}
				groups.join(needingSolver, i)
			}
		}
	}
	joinPods := func(pods []*model.Pod) {
		for _, p := range pods[1:] {
			groups.join(candidateOf[pods[0]], candidateOf[p])
		}
	}
	for _, a := range cmd.OnExisting {
		joinPods(a.Pods)
	}
	for i := range cmd.Replacements {
		joinPods(cmd.Replacements[i].Pods)
	}
	out := make([]int, len(cmd.Candidates))
	for i := range out {
		out[i] = groups.first(i)
	}
	return out
}

// splitByGroup is a command for each group of candidates, with the nodes that their pods go to. Costs, gain and
// result are still to be found.
func splitByGroup(cmd *Command, groupOf []int) (parts []*Command) {
	candidateOf := indexPods(cmd)
	byGroup := map[int]*Command{}
	partOf := func(p *model.Pod) *Command { return byGroup[groupOf[candidateOf[p]]] }
	for i, c := range cmd.Candidates {
		part := byGroup[groupOf[i]]
		if part == nil {
			part = &Command{Cause: cmd.Cause}
			byGroup[groupOf[i]] = part
			parts = append(parts, part)
		}
		part.Candidates = append(part.Candidates, c)
		part.OldMicroPerHour += max(c.PriceMicro, 0)
	}
	for _, a := range cmd.OnExisting {
		part := partOf(a.Pods[0])
		part.OnExisting, part.PodsOnExisting = append(part.OnExisting, a), part.PodsOnExisting+len(a.Pods)
	}
	for _, n := range cmd.Replacements {
		part := partOf(n.Pods[0])
		part.Replacements, part.NewMicroPerHour = append(part.Replacements, n), part.NewMicroPerHour+n.PriceMicro
	}
	return parts
}

// indexPods is the index of the candidate that each pod of a command runs on.
func indexPods(cmd *Command) map[*model.Pod]int {
	candidateOf := map[*model.Pod]int{}
	for i, c := range cmd.Candidates {
		for _, p := range c.Pods {
			candidateOf[p] = i
		}
	}
	return candidateOf
}

// disjointSets are sets of the numbers from 0, at first each by itself.
type disjointSets struct{ parent []int }

func newDisjointSets(n int) *disjointSets {
	d := &disjointSets{make([]int, n)}
	for i := range d.parent {
		d.parent[i] = i
	}
	return d
}

// first is the smallest number in the set of a number.
func (d *disjointSets) first(i int) int {
	for d.parent[i] != i {
		d.parent[i] = d.parent[d.parent[i]]
		i = d.parent[i]
	}
	return i
}

// join makes one set of the sets of two numbers.
func (d *disjointSets) join(i, j int) {
	i, j = d.first(i), d.first(j)
	d.parent[max(i, j)] = min(i, j)
}
