// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"cmp"
	"slices"
)

// addLeftovers is a command that also takes the leftovers of earlier purchases where that pays: candidates at most
// half as dear as the dearest replacement, which are well used, but whose pods would share a larger node. Otherwise
// they and the small replacements of this command would make another command as soon as its pods run. The command
// itself where it does not pay.
func (s *search) addLeftovers(cmd *Command) *Command {
	most := int64(0)
	for i := range cmd.Replacements {
		most = max(most, cmd.Replacements[i].PriceMicro)
	}
	going := nodeNames(cmd.Candidates)
	var leftovers []rankedCandidate
	for _, c := range s.candidates {
		if !going[c.Node.Name] && c.PriceMicro*2 <= most {
			leftovers = append(leftovers, c)
		}
	}
	set := s.withinLimits(cmd.Candidates, leftovers)
	if len(leftovers) == 0 || len(set) <= len(cmd.Candidates) {
		return cmd
	}
	if larger := s.tryCommand(set); larger != nil && larger.GainMicro > cmd.GainMicro && s.savesEnoughMore(cmd, larger) {
		return larger
	}
	return cmd
}

// savesEnoughMore reports whether what a larger command adds to another saves as much as a command of its own would have
// to.
func (s *search) savesEnoughMore(cmd, larger *Command) bool {
	return larger.SavingMicroPerHour()-cmd.SavingMicroPerHour() >= s.pricing.minSaving(larger.OldMicroPerHour-cmd.OldMicroPerHour)
}

// maxExtensions is how many larger commands are tried for one that is to be carried out.
const maxExtensions = 24

// extendCommand is a command with further candidates that are worth taking along: those that would be left with most
// of their price unused once its pods are placed, in growing numbers, as long as the whole gains by it. Otherwise
// they would be the next command once they are unchanged for long enough, and pods that they took from this one would
// be evicted twice.
func (s *search) extendCommand(cmd *Command) *Command {
	for tries := 0; tries < maxExtensions; {
		unused := s.rankUnused(cmd)
		best := cmd
		for k := 1; k <= len(unused) && tries < maxExtensions; k *= 2 {
			tries++
			set := s.withinLimits(cmd.Candidates, unused[:k])
			if len(set) <= len(cmd.Candidates) {
				break
			}
			if larger := s.tryCommand(set); larger != nil && larger.GainMicro > best.GainMicro && s.savesEnoughMore(cmd, larger) {
				best = larger
			}
		}
		if best == cmd {
			break
		}
		cmd = best
	}
	return cmd
}

// rankUnused are the candidates that a command leaves and whose price is more than the pods that will run there are
// worth, those with the largest difference first.
func (s *search) rankUnused(cmd *Command) (list []rankedCandidate) {
	going := nodeNames(cmd.Candidates)
	arriving := map[string]int64{} // value of the pods that the command places on a node
	for _, a := range cmd.OnExisting {
		arriving[a.Node] += s.pricing.duals.valueOfPods(a.Pods)
	}
	unused := func(c *rankedCandidate) int64 { return c.PriceMicro - c.podValue - arriving[c.Node.Name] }
	for _, c := range s.candidates {
		if !going[c.Node.Name] && unused(&c) > 0 {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b rankedCandidate) int { return cmp.Compare(unused(&b), unused(&a)) })
	return list
}
