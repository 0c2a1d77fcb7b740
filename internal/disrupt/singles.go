// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// rankedCandidate is a candidate that a search looks at, with what its place in the order follows from.
type rankedCandidate struct {
	*Candidate
	verdict *verdict // what memory holds of it, and what the search writes to

	wasJudged   bool    // it was judged before, and capacity has come free since
	freedExcess int64   // by how much more capacity came free than it took to look again, in micro-dollars an hour
	podValue    int64   // its pods at dual prices, in micro-dollars an hour
	wastedShare float64 // share of its price that its pods are not worth
}

// selectCandidates are the candidates to look at, at most so many, and whether there are more: first those without a
// verdict, by node name, then those for which most capacity has come free since their verdict. Pools without budget
// left are passed over.
func selectCandidates(in *Input, mem *Memory, most int) (list []rankedCandidate, more bool) {
	var again []rankedCandidate // those with the largest excess first
	for i := range mem.verdicts {
		v := &mem.verdicts[i]
		switch {
		case !mem.wantsLook(v) || in.BudgetLeft[v.candidate.Pool.Name] <= 0: // who counts the budget tells of it
		case v.why == nil:
			if len(list) == most {
				return list, true
			}
			list = append(list, rankedCandidate{Candidate: in.Candidates[i], verdict: v})
		default:
			c := rankedCandidate{Candidate: in.Candidates[i], verdict: v, wasJudged: true, freedExcess: mem.freedValue - v.freedBefore - v.neededValue}
			if len(again) == most {
				more = true
				if c.freedExcess <= again[most-1].freedExcess {
					continue
				}
				again = again[:most-1]
			}
			at, _ := slices.BinarySearchFunc(again, c.freedExcess, func(a rankedCandidate, excess int64) int {
				if a.freedExcess >= excess {
					return -1
				}
				return 1
			})
			again = slices.Insert(again, at, c)
		}
	}
	n := min(len(again), most-len(list))
	return append(list, again[:n]...), more || n < len(again)
}

// rankCandidates sorts by what is most promising: first those without a verdict, by the share of their price that
// their pods are not worth; then those with most capacity freed since their verdict. Ties go by that share and by
// node name.
func rankCandidates(list []rankedCandidate, duals dualPrices) {
	for i := range list {
		c := &list[i]
		c.podValue = duals.valueOfPods(c.Pods)
		if c.PriceMicro > 0 {
			c.wastedShare = float64(c.PriceMicro-c.podValue) / float64(c.PriceMicro)
		}
	}
	slices.SortStableFunc(list, func(a, b rankedCandidate) int {
		switch {
		case a.wasJudged != b.wasJudged && a.wasJudged:
			return 1
		case a.wasJudged != b.wasJudged:
			return -1
		}
		return cmp.Or(cmp.Compare(b.freedExcess, a.freedExcess), cmp.Compare(b.wastedShare, a.wastedShare), strings.Compare(a.Node.Name, b.Node.Name))
	})
}

// searchSingles looks at the candidates one by one, in their order, and returns the worthwhile commands. Most are
// kept for a lower bound on what their pods cost elsewhere; those whose pods all find free capacity, and a few
// others, are built.
func (s *search) searchSingles() (found []*Command) {
	solvesNew, solvesAgain := 0, 0
	for i := range s.candidates {
		c := &s.candidates[i]
		set := []*Candidate{c.Candidate}
		mark := s.builder.capacity.mark()
		pods, _ := s.builder.closeCandidates(set)
		_, rest := s.builder.capacity.placePods(pods)
		s.builder.capacity.rollback(mark)
		leastMicro := s.pricing.duals.valueOfPods(rest) // what new nodes for the rest cost at least, an hour
		cost := s.pricing.disruptionCost(set, leastMicro)
		saving := c.PriceMicro - leastMicro
		if saving <= 0 {
			s.keep(c, plan.Reason{Code: plan.NotCheaper, Detail: plan.OfNotCheaper{Now: plan.Micro(c.PriceMicro), AtLeast: true, Elsewhere: plan.Micro(leastMicro)}}, saving, cost)
			continue
		}
		if value := s.pricing.valueOverHorizon(saving, set); value.micro <= cost {
			s.keep(c, s.pricing.doesNotPay(saving, cost, value), saving, cost)
			continue
		}
		if len(rest) > 0 {
			solves, limit := &solvesNew, s.policy.MaxSolvesNew
			if c.wasJudged {
				solves, limit = &solvesAgain, s.policy.MaxSolvesAgain
			}
			if *solves++; *solves > limit {
				s.mem.Unfinished = true
				continue
			}
		}
		if cmd := s.buildSingle(c, set, cost); cmd != nil {
			if found = append(found, cmd); len(found) >= s.policy.StopAfterFound {
				s.mem.Unfinished = true // one of them is taken, and then the others are looked at again
				break
			}
		}
	}
	return found
}

// buildSingle is the command that takes one candidate; nil where it is not worthwhile, and then the verdict says why.
func (s *search) buildSingle(c *rankedCandidate, set []*Candidate, cost int64) *Command {
	cmd, why := s.builder.build(set)
	saving := int64(0)
	if cmd != nil {
		saving, cost = cmd.SavingMicroPerHour(), cmd.CostMicro
		why = s.judge.whyNotWorthwhile(cmd)
	}
	if why.Code != "" {
		s.keep(c, why, saving, cost)
		return nil
	}
	return cmd
}

// keep notes why a candidate is kept, and from what disrupting it would save and cost how much capacity must come
// free before it is looked at again.
func (s *search) keep(c *rankedCandidate, why plan.Reason, savingMicroPerHour, costMicro int64) {
	why.Pool, why.Subject = c.Pool.Name, cmp.Or(why.Subject, plan.ObjectOf("node", c.Node.Name))
	need := max(s.pricing.minSaving(c.PriceMicro), int64(float64(costMicro)/s.policy.Horizon.Hours()))
	s.mem.Judged = append(s.mem.Judged, c.Node.Name)
	c.verdict.why, c.verdict.freedBefore, c.verdict.neededValue = &why, s.mem.freedValue, max(1, need-savingMicroPerHour)
}
