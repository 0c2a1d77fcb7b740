// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Solve answers every pod of the demand: on an existing node, on a node to buy, or refused with reasons. The Memory
// it returns makes the next solve of a similar problem cheaper.
func Solve(p *Problem, mem Memory, pol Policy) (Result, Memory) {
	s := solveWithAlternatives(p, mem, pol)
	res := s.buildResult()
	if len(s.nextColumns.columns) > 0 {
		mem.columns = &s.nextColumns
	}
	mem.nodes, mem.nodesInOrder = p.Rooms, s.nodes.list
	return res, mem
}

// solveAssuming places and buys for every pod, starting from one alternative. Attempts are made until none of the
// assumptions they were made with turns out to be wrong.
func solveAssuming(p *Problem, mem Memory, pol Policy, way alternative) *planner {
	s := newPlanner(p, mem, pol)
	a := assumptions{alternative: way}
	for attempt := 0; ; attempt++ {
		if attempt > 0 {
			s.reset()
		}
		s.assume(a)
		r := reviser{planner: s, unbought: s.placeAndBuy(), attempts: attempt}
		again := false
		if a, again = r.revise(purchaseRevisions, a); again {
			continue
		}
		s.placeColocated()
		if a, again = r.revise(placementRevisions, a); !again {
			break
		}
	}
	if s.runs(stageConsolidation) {
		s.consolidateBins()
	}
	if s.runs(stageLeftovers) {
		s.placeLeftovers()
	}
	s.mergeEqualBins()
	return s
}

// Other alternatives are tried for problems of at most maxPodsForAlternatives pods: among more, one group or what is
// left of one level matters little. At most maxAlternatives are, taking about alternativeSteps.
const (
	maxAlternatives        = 24
	maxPodsForAlternatives = 1000
	alternativeSteps       = 20_000_000
)

// solveWithAlternatives solves the problem from other alternatives too, where there are any and the first plan came
// cheap enough to afford them. It returns the cheapest plan that refuses no more pods.
func solveWithAlternatives(p *Problem, mem Memory, pol Policy) *planner {
	s := solveAssuming(p, mem, pol, alternative{})
	left := min(pol.Work/2, alternativeSteps)
	try := func(way alternative) bool {
		if left <= 0 {
			return false
		}
		x := solveAssuming(p, mem, pol, way)
		left -= x.steps + int64(len(p.Demand))*1000
		for class, at := range way.groupStarts { // in whichever order: all must hold
			if !slices.ContainsFunc(x.startedGroups, func(b groupStart) bool { return b.class == class && b.chosen == at }) {
				return false // nothing could be had there, and the group came to follow others instead of leading them
			}
		}
		if !x.isBetterThan(s) {
			return false
		}
		s = x
		return true
	}
	if len(p.Demand) > maxPodsForAlternatives || pol.Work == 0 || !s.runs(stageAlternatives) {
		return s
	}
	tries := 0
	if s.buysFromSeveralLevels() {
		tries += 2
		try(alternative{reuse: reuseFromHigher})
		try(alternative{reuse: reuseFromLower})
	}
	for again := true; again; {
		again = false
		for _, b := range s.startedGroups {
			for _, site := range b.possible {
				if site == b.chosen || tries >= maxAlternatives {
					continue
				}
				tries++
				way := alternative{groupStarts: map[int]string{b.class: site}, reuse: s.assumptions.reuse}
				for class, at := range s.assumptions.groupStarts {
					if class != b.class {
						way.groupStarts[class] = at
					}
				}
				again = try(way) || again
			}
		}
	}
	return s
}

// isBetterThan says whether this plan places more pods, or as many for less.
func (s *planner) isBetterThan(o *planner) bool {
	refused := func(s *planner) (n int) {
		for _, c := range s.classes {
			n += c.unplaced()
		}
		return n
	}
	return cmp.Or(cmp.Compare(refused(s), refused(o)), cmp.Compare(s.adjustedCost(), o.adjustedCost())) < 0
}

// adjustedCost is what the machines to buy cost together, what each costs beside its price included; see adjustPrice.
func (s *planner) adjustedCost() (sum int64) {
	for _, b := range s.bins {
		sum += s.adjustPrice(s.leastBinPrice(b)) * b.copies
	}
	return sum
}

// resultBuilder hands the pods of each class out, in order, to wherever the plan has some.
type resultBuilder struct {
	*planner
	next []int // by class: pods handed out
	res  Result
}

// buildResult writes the plan down, with its cost, bound and reasons.
func (s *planner) buildResult() Result {
	b := resultBuilder{planner: s, next: make([]int, len(s.classes))}
	b.writeNodes()
	b.writeNewNodes()
	b.res.Cost.PremiumMicroPerHour = min(b.res.Cost.PremiumMicroPerHour+s.separationPremium, b.res.Cost.NewMicroPerHour)
	s.completeCost(&b.res.Cost) // before the reasons, which take steps too
	b.writeRefusals()
	b.res.Stats = plan.Stats{Pods: len(s.input.Demand), Classes: len(s.classes), Offerings: len(s.offers), Tier: s.tier, Work: s.steps, Truncated: s.truncated}
	return b.res
}

// takePods hands out n pods of a class.
func (s *resultBuilder) takePods(class int, n int) []*model.Pod {
	pods := s.classes[class].pods[s.next[class] : s.next[class]+n]
	s.next[class] += n
	return pods
}

// writeNodes writes down who goes onto existing nodes.
func (s *resultBuilder) writeNodes() {
	onNode := make(map[int][]*model.Pod)
	for _, p := range s.onNodes {
		onNode[p.node] = append(onNode[p.node], s.takePods(p.class, p.count)...)
	}
	for node, x := range s.nodes.list {
		if pods := onNode[node]; len(pods) > 0 {
			slices.SortFunc(pods, comparePods)
			s.res.OnRooms = append(s.res.OnRooms, Assignment{Room: x.Name, Pods: pods})
		}
	}
	slices.SortFunc(s.res.OnRooms, func(a, b Assignment) int { return strings.Compare(a.Room, b.Room) })
}

// writeNewNodes writes down the nodes to buy, by pool, price and first pod, and adds up what they cost.
func (s *resultBuilder) writeNewNodes() {
	rank := map[string]int{}
	for i := range s.input.Pools {
		rank[s.input.Pools[i].Name] = i
	}
	type newNode struct {
		rank   int
		price  int64
		first  orderedPod
		pods   []*model.Pod
		bin    *bin
		choice *binChoice
	}
	order := make([]newNode, 0, s.countMachines())
	all := make([]*model.Pod, 0, len(s.input.Demand)) // that nodes are bought for
	var list []orderedPod
	for _, b := range s.bins {
		var choice *binChoice
		for range b.copies {
			if choice == nil || s.limits[b.pool].limited {
				choice = s.chooseTypes(b)
			}
			if choice.offer < 0 {
				continue // nothing holds what was packed; its pods are refused rather than lost
			}
			list = list[:0]
			for _, it := range b.items {
				places := s.classes[it.class].demandOrder[s.next[it.class]:]
				for i, p := range s.takePods(it.class, int(it.count)) {
					list = append(list, orderedPod{places[i], p})
				}
			}
			slices.SortFunc(list, compareOrdered)
			begin := len(all)
			for _, p := range list {
				all = append(all, p.pod)
			}
			x := newNode{rank: rank[s.input.Pools[b.pool].Name], price: s.offers[choice.offer].price, first: list[0], pods: slices.Clip(all[begin:]),
				bin: b, choice: choice}
			order = append(order, x)
			s.res.Cost.NewMicroPerHour += x.price
			s.res.Cost.PremiumMicroPerHour += choice.premium
		}
	}
	slices.SortFunc(order, func(a, b newNode) int {
		if c := cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.price, b.price)); c != 0 {
			return c
		}
		return compareOrdered(a.first, b.first)
	})
	s.res.New = make([]NewNode, len(order)) // nodes are large: they are written where they belong
	for i, x := range order {
		s.res.New[i] = s.newNodeFor(x.bin, x.choice)
		s.res.New[i].Pods = x.pods
	}
}

// writeRefusals writes down the pods that no other place was found for, with reasons.
func (s *resultBuilder) writeRefusals() {
	for i, c := range s.classes {
		if s.next[i] == len(c.pods) {
			continue
		}
		reasons := (&explainer{s.planner}).explainClass(c)
		for _, p := range c.pods[s.next[i]:] {
			s.res.Refused = append(s.res.Refused, Refusal{Pod: p, Reasons: reasons})
		}
	}
	slices.SortFunc(s.res.Refused, func(a, b Refusal) int { return comparePods(a.Pod, b.Pod) })
}
