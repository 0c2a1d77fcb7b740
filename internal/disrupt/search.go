// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import "github.com/dovetail-sh/dovetail/internal/solve"

func newSearch(in *Input, policy Policy, solvePolicy solve.Policy, mem *Memory, capacity *freeCapacity, list []rankedCandidate) *search {
	set := make([]*Candidate, len(list))
	for i := range list {
		set[i] = list[i].Candidate
	}
	b := newCommandBuilder(in, policy, solvePolicy, mem.duals, capacity, set)
	rankCandidates(list, mem.duals)
	return &search{policy: policy, mem: mem, candidates: list, builder: b, pricing: b.pricing,
		judge:  &judge{in: in, policy: policy, pricing: b.pricing},
		limits: commandLimits{in.BudgetLeft, in.GroupLeft, policy.MaxCandidatesPerCommand, in.Minimum.clone()}}
}

// tryCommand is the command that takes a set of candidates where it is worthwhile, else nil.
func (s *search) tryCommand(set []*Candidate) *Command {
	cmd, _ := s.builder.build(set)
	if !s.judge.isWorthwhile(cmd) {
		return nil
	}
	return cmd
}

// search looks for the best disruption command among some candidates.
type search struct {
	policy     Policy
	mem        *Memory // gets a verdict on each candidate that is kept
	candidates []rankedCandidate
	limits     commandLimits
	builder    *commandBuilder
	judge      *judge
	pricing    *pricing
}
