// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve/bound"
	"github.com/dovetail-sh/dovetail/internal/solve/explain"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// resultBuilder hands the pods of each class out, in order, to wherever the plan has some.
type resultBuilder struct {
	topology.Compiled
	plan *pack.Planner
	next []int // by class: pods handed out
	res  Result
}

// buildResult writes the plan down, with its cost, bound and reasons.
func buildResult(s *pack.Planner) Result {
	b := resultBuilder{Compiled: s.Compiled, plan: s, next: make([]int, len(s.Inst.Classes))}
	b.writeNodes()
	b.writeNewNodes()
	b.res.Cost.PremiumMicroPerHour = min(b.res.Cost.PremiumMicroPerHour+s.Placement.SeparationPremium, b.res.Cost.NewMicroPerHour)
	bound.CompleteCost(s, &b.res.Cost) // before the reasons, which take steps too
	b.writeRefusals()
	b.res.Stats = plan.Stats{Pods: len(s.In.Given.Demand), Classes: len(s.Inst.Classes), Offerings: len(s.Catalog.Offers), Tier: s.Purchases.Tier, Work: s.Work.Steps, Truncated: s.Work.Truncated}
	return b.res
}

// takePods hands out n pods of a class.
func (s *resultBuilder) takePods(class int, n int) []*model.Pod {
	pods := s.Inst.Classes[class].Pods[s.next[class] : s.next[class]+n]
	s.next[class] += n
	return pods
}

// writeNodes writes the assignments to existing nodes.
func (s *resultBuilder) writeNodes() {
	onNode := make(map[int][]*model.Pod)
	for _, p := range s.plan.Placement.OnNodes {
		onNode[p.Node] = append(onNode[p.Node], s.takePods(p.Class, p.Count)...)
	}
	for node, x := range s.Inst.Nodes.List {
		if pods := onNode[node]; len(pods) > 0 {
			slices.SortFunc(pods, problem.ComparePods)
			s.res.OnNodes = append(s.res.OnNodes, Assignment{Node: x.Name, Pods: pods})
		}
	}
	slices.SortFunc(s.res.OnNodes, func(a, b Assignment) int { return strings.Compare(a.Node, b.Node) })
}

// writeNewNodes writes the nodes to launch, by pool, price and first pod, and adds up their cost.
func (s *resultBuilder) writeNewNodes() {
	rank := map[string]int{}
	for i := range s.In.Given.Pools {
		rank[s.In.Given.Pools[i].Name] = i
	}
	type newNode struct {
		rank   int
		price  int64
		pods   []*model.Pod
		bin    *pack.Bin
		choice *pack.BinChoice
	}
	order := make([]newNode, 0, s.plan.Placement.CountMachines())
	all := make([]*model.Pod, 0, len(s.In.Given.Demand)) // that nodes are bought for
	for _, b := range s.plan.Placement.Bins {
		var choice *pack.BinChoice
		for range b.Copies {
			if choice == nil || s.plan.Purchases.Limits[b.Pool].Limited {
				choice = s.plan.Choices.ChooseTypes(b)
			}
			if choice.Offer < 0 {
				continue // nothing holds what was packed; its pods are refused rather than lost
			}
			begin := len(all)
			for _, it := range b.Items {
				all = append(all, s.takePods(it.Class, int(it.Count))...)
			}
			x := newNode{rank: rank[s.In.Given.Pools[b.Pool].Name], price: s.Catalog.Offers[choice.Offer].Price, pods: slices.Clip(all[begin:]), bin: b, choice: choice}
			slices.SortFunc(x.pods, problem.ComparePods)
			order = append(order, x)
			s.res.Cost.NewMicroPerHour += x.price
			s.res.Cost.PremiumMicroPerHour += choice.Premium
		}
	}
	slices.SortFunc(order, func(a, b newNode) int {
		if c := cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.price, b.price)); c != 0 {
			return c
		}
		return problem.ComparePods(a.pods[0], b.pods[0])
	})
	s.res.New = make([]NewNode, len(order)) // nodes are large: they are written where they belong
	for i, x := range order {
		s.res.New[i] = s.plan.Choices.NewNodeFor(x.bin, x.choice)
		s.res.New[i].Pods = x.pods
	}
}

// writeRefusals writes down the pods that no other place was found for, with reasons.
func (s *resultBuilder) writeRefusals() {
	why := explain.New(s.plan)
	for i, c := range s.Inst.Classes {
		if s.next[i] == len(c.Pods) {
			continue
		}
		reasons := why.Class(c)
		for _, p := range c.Pods[s.next[i]:] {
			s.res.Refused = append(s.res.Refused, Refusal{Pod: p, Reasons: reasons})
		}
	}
	slices.SortFunc(s.res.Refused, func(a, b Refusal) int { return problem.ComparePods(a.Pod, b.Pod) })
}
