// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"cmp"
	"maps"
	"slices"
)

// commandLimits is how many more candidates may go: by pool, by node group (absent: any number), and in one command;
// and how much of the cluster's capacity.
type commandLimits struct {
	budgetLeft, groupLeft map[string]int64
	left                  int
	minimum               *ClusterMinimum // nil: there is none
}

// clone is a copy to take from.
func (l *commandLimits) clone() *commandLimits {
	return &commandLimits{maps.Clone(l.budgetLeft), maps.Clone(l.groupLeft), l.left, l.minimum.clone()}
}

// allow reports whether one more candidate may go.
func (l *commandLimits) allow(c *Candidate) bool {
	n, bounded := l.groupLeft[c.NodeGroup()]
	return l.budgetLeft[c.Pool.Name] > 0 && (!bounded || n > 0) && l.left > 0 && l.minimum.allows(c.Node.Capacity)
}

// take counts a candidate that goes.
func (l *commandLimits) take(c *Candidate) {
	l.budgetLeft[c.Pool.Name]--
	if _, bounded := l.groupLeft[c.NodeGroup()]; bounded {
		l.groupLeft[c.NodeGroup()]--
	}
	l.left--
	if l.minimum != nil {
		l.minimum.Staying = l.minimum.Staying.Sub(c.Node.Capacity)
	}
}

// withinLimits is a set of candidates with more added, in their order, as far as the limits allow.
func (s *search) withinLimits(set []*Candidate, more []rankedCandidate) []*Candidate {
	limits := s.limits.clone()
	out := make([]*Candidate, 0, len(set)+len(more))
	add := func(c *Candidate) {
		if limits.allow(c) {
			limits.take(c)
			out = append(out, c)
		}
	}
	for _, c := range set {
		add(c)
	}
	for _, c := range more {
		add(c.Candidate)
	}
	return out
}

// searchSets looks at sets of candidates and returns the worthwhile commands: at as many as can go without
// replacement, and at the first ones of the order in growing numbers, as far as the limits allow. The former, removal,
// is nil where it is not worthwhile.
func (s *search) searchSets() (found []*Command, removal *Command) {
	try := func(set []*Candidate) *Command {
		cmd := s.tryCommand(set)
		if cmd != nil {
			found = append(found, cmd)
		}
		return cmd
	}
	if set := s.removableSet(); len(set) > 1 {
		removal = try(set)
	}
	worst := s.withinLimits(nil, s.candidates)
	for k := 2; k <= len(worst); {
		try(worst[:k])
		switch next := k + 1 + k/2; {
		case k == len(worst):
			return found, removal
		case next > len(worst):
			k = len(worst)
		default:
			k = next
		}
	}
	return found, removal
}

// removableSet are candidates that can go together without replacement, since their pods find free capacity on the
// nodes that stay. It is built greedily: those first that cost most for each dollar that disrupting them costs, as
// far as the limits allow. One that pods of another have come to stays.
func (s *search) removableSet() (set []*Candidate) {
	capacity := s.builder.capacity
	defer capacity.rollback(capacity.mark())
	cost := map[*Candidate]int64{} // once
	for i := range s.candidates {
		c := s.candidates[i].Candidate
		cost[c] = max(1, s.pricing.disruptionCost([]*Candidate{c}, 0))
	}
	byReturn := slices.Clone(s.candidates)
	priceByCost := func(c *Candidate) float64 { return float64(c.PriceMicro) / float64(cost[c]) }
	slices.SortStableFunc(byReturn, func(a, b rankedCandidate) int {
		return cmp.Compare(priceByCost(b.Candidate), priceByCost(a.Candidate))
	})
	limits := s.limits.clone()
	hasArrivals := map[int]bool{} // by index of node
	for i := range byReturn {
		c := byReturn[i].Candidate
		at, open := capacity.indexOf[c.Node.Name]
		if !open || hasArrivals[at] || !limits.allow(c) || costOfTime(c.PriceMicro, s.policy.Horizon) <= cost[c] {
			continue
		}
		mark := capacity.mark()
		pods, displaced := s.builder.closeCandidates([]*Candidate{c})
		placed, rest := capacity.placePods(pods)
		if displaced != nil || len(rest) > 0 {
			capacity.rollback(mark)
			continue
		}
		for node := range placed {
			hasArrivals[node] = true
		}
		limits.take(c)
		set = append(set, c)
	}
	return set
}
