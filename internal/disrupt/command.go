// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Command is a disruption command: candidates that go together, and where their pods go. Prices are in micro-dollars.
type Command struct {
	Cause          plan.Code
	Candidates     []*Candidate       // by node name
	Replacements   []solve.NewNode    // nodes to launch, reserved for the successors of their pods
	OneForOne      bool               // one node of its pool replaces each candidate, whatever its pods; of static pools
	TerminateFirst TerminateFirst     // why the candidate is terminated before its replacement is launched; empty: it is not
	OnExisting     []solve.Assignment // which pods go to which existing node, by node name
	PodsOnExisting int                // how many pods those are

	OldMicroPerHour int64 // price of the candidates
	NewMicroPerHour int64 // price of the replacements
	CostMicro       int64 // what carrying it out costs once, see disruptionCost
	GainMicro       int64 // what the saving comes to over the horizon, less CostMicro

	Problem *solve.Problem // with Result: where every pod goes, for a check that shares no code; nil where no pod goes
	Result  *solve.Result
	Why     plan.Reason

	Batch BatchTotals // of the independent commands that were found in the same search and begin together

	// BalancedScores are, by pool of policy Balanced: the saved share of the pool's price, over the disrupted share
	// of its DisruptionWeight.
	BalancedScores map[string]float64
}

// TerminateFirst is why a node is terminated before its replacement is launched, in Karpenter's words.
type TerminateFirst string

// The reasons to terminate a node first.
const (
	NoReservedCapacity TerminateFirst = "no-reserved-capacity" // the only capacity for its replacement is its own in a capacity reservation
	StaticAtLimit      TerminateFirst = "static-at-limit"      // its static NodePool has as many nodes as its limit allows
)

// BatchTotals sums up commands that begin together.
type BatchTotals struct {
	Candidates          int // that were looked at
	Commands, Evictions int
	SavingMicroPerHour  int64
	// SavingBoundMicroPerHour is the most that any commands could save that evict no more pods, see boundSaving;
	// 0 after a narrow search, which does not calculate it.
	SavingBoundMicroPerHour int64
}

// sumCommands is the totals of commands, but for Candidates and SavingBoundMicroPerHour.
func sumCommands(commands []*Command) (sum BatchTotals) {
	for _, c := range commands {
		sum.Commands++
		sum.Evictions += c.evictions()
		sum.SavingMicroPerHour += c.SavingMicroPerHour()
	}
	return sum
}

// SavingMicroPerHour is what a command saves; negative where its replacements cost more than its candidates.
func (c *Command) SavingMicroPerHour() int64 { return c.OldMicroPerHour - c.NewMicroPerHour }

// evictions is how many pods a command evicts.
func (c *Command) evictions() int {
	n := 0
	for _, x := range c.Candidates {
		n += len(x.Pods)
	}
	return n
}

// nearBestPermille is how much of the best gain a command may miss and still be chosen because it evicts fewer pods.
const nearBestPermille = 10

// chooseCommand is the command that evicts fewest pods among those that gain nearly the most; among equals the one that
// gains more, then the first. nil where there is none.
func chooseCommand(found []*Command) *Command {
	most := int64(0)
	for _, c := range found {
		most = max(most, c.GainMicro)
	}
	var best *Command
	for _, c := range found {
		if c.GainMicro < most-most*nearBestPermille/1000 {
			continue
		}
		if best == nil || c.evictions() < best.evictions() || c.evictions() == best.evictions() && c.GainMicro > best.GainMicro {
			best = c
		}
	}
	return best
}

// BalancedScore returns the pool and the score of a reason of code NotBalanced; false for any other reason.
func BalancedScore(why plan.Reason) (pool string, score float64, ok bool) {
	if why.Code != plan.NotBalanced {
		return "", 0, false
	}
	pool, ok = why.Subject.Name(), why.Subject.Kind() == "nodepool"
	return pool, plan.DetailOf[plan.OfNotBalanced](why).Score, ok
}
