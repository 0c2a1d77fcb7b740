// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Consolidate returns the most profitable disruption command within the scope of the input, divided into independent commands
// that start together, by the name of their first node; none if nothing is worthwhile. The returned memory is for the next
// search.
func Consolidate(in *Input, policy Policy, solvePolicy solve.Policy, old Memory) ([]*Command, Memory) {
	mem, capacity := observe(in, old)
	wide := in.Scope == Afresh || in.Scope == Wide && mem.changed
	limit := policy.MaxCandidatesNarrow
	if wide {
		mem.forgetVerdicts()
		mem.WasWide, limit = true, policy.MaxCandidatesWide
	}
	if mem.duals == nil {
		mem.duals = calculateDualPrices(in)
	}
	list, more := selectCandidates(in, &mem, limit)
	mem.Unfinished = more
	var commands []*Command
	if len(list) > 0 || wide {
		s := newSearch(in, policy, solvePolicy, &mem, capacity, list)
		commands = s.run(wide)
		mem.Work = s.builder.steps
	}
	mem.changed = mem.changed || len(commands) > 0 // what is looked at after them may find more
	capacity.rollback(0)
	mem.nodes.tree = capacity.capacityTree // from now on nobody writes to it
	if mem.Work += capacity.steps; wide {
		mem.LastWideWork = mem.Work
	}
	return commands, mem
}

// run finds the best command and returns its independent parts; none where nothing pays. Sets of candidates, and
// further candidates for the best command, are tried in a wide search alone.
func (s *search) run(wide bool) []*Command {
	found := s.searchSingles()
	var removal *Command
	if wide {
		var sets []*Command
		sets, removal = s.searchSets()
		found = append(found, sets...)
	}
	best := chooseCommand(found)
	if best == nil {
		return nil
	}
	if wide {
		best = s.growCommand(best, removal)
	}
	commands := s.divide(best)
	totals := sumCommands(commands)
	totals.Candidates = len(s.candidates)
	if wide {
		totals.SavingBoundMicroPerHour = s.boundSaving(totals.Evictions)
	}
	for _, cmd := range commands {
		cmd.Batch = totals
		s.builder.recordPlacement(cmd)
	}
	return commands
}

// growCommand is a command with all candidates that are worth taking along. Sets that need replacements were tried in
// coarse steps, and a command only ever grows: the removal of all that can go without replacement often grows into one
// that gains as much and evicts fewer pods. So that one (nil: there is none) is grown too, and the better returned.
func (s *search) growCommand(best, removal *Command) *Command {
	grown := []*Command{s.extendCommand(s.addLeftovers(best))}
	if removal != nil && removal != best {
		grown = append(grown, s.extendCommand(s.addLeftovers(removal)))
	}
	return chooseCommand(grown)
}

// Replace returns the command that removes candidates for a reason other than cost, at any cost; nil and the reason if a pod
// would find no node.
func Replace(in *Input, candidates []*Candidate, cause plan.Code, policy Policy, solvePolicy solve.Policy) (*Command, plan.Reason) {
	b := newWhatIf(in, candidates, policy, solvePolicy)
	cmd, why := b.build(candidates)
	if cmd != nil {
		cmd.Cause = cause
		b.recordPlacement(cmd)
	}
	return cmd, why
}

// newWhatIf is a builder for these candidates that knows nothing from an earlier search.
func newWhatIf(in *Input, candidates []*Candidate, policy Policy, solvePolicy solve.Policy) *commandBuilder {
	return newCommandBuilder(in, policy, solvePolicy, calculateDualPrices(in), newFreeCapacity(in.Nodes, in.Daemons, len(in.ResourceNames)), candidates)
}
