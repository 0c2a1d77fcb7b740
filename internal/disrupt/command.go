// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Command is a disruption command: candidates that are removed together, and the new places of their pods. Prices are in
// micro-dollars.
type Command struct {
	Cause          plan.Code
	Candidates     []*Candidate       // by node name
	Replacements   []solve.NewNode    // nodes to launch, reserved for the replacements of the pods
	OneForOne      bool               // each candidate is replaced by one node of its pool regardless of its pods; for static pools
	TerminateFirst TerminateFirst     // why the candidate is terminated before its replacement is launched; empty: it is not
	OnExisting     []solve.Assignment // pods by the existing node that they move to
	PodsOnExisting int                // number of those pods

	OldMicroPerHour int64 // price of the candidates
	NewMicroPerHour int64 // price of the replacements
	CostMicro       int64 // one-time cost of the disruption, see disruptionCost
	GainMicro       int64 // saving over the horizon, minus CostMicro

	Problem *solve.Problem // with Result: the place of every pod, for independent verification; nil if no pod moves
	Result  *solve.Result
	Why     plan.Reason

	Batch BatchTotals // totals of the independent commands of the same search, which start together

	// BalancedScores are, by pool of policy Balanced: the saved share of the pool's price, over the disrupted share
	// of its DisruptionWeight.
	BalancedScores map[string]float64
}

// TerminateFirst is the reason to terminate a node before its replacement is launched, in Karpenter's terms.
type TerminateFirst string

// The reasons to terminate a node first.
const (
	NoReservedCapacity TerminateFirst = "no-reserved-capacity" // the only capacity for its replacement is its own slot in a capacity reservation
	StaticAtLimit      TerminateFirst = "static-at-limit"      // its static NodePool is at its node limit
)

// BatchTotals are the totals of commands that start together.
type BatchTotals struct {
	Candidates          int // evaluated candidates
	Commands, Evictions int
	SavingMicroPerHour  int64
	// SavingBoundMicroPerHour is an upper bound on the savings of any commands that evict no more pods, see boundSaving; 0
	// after a narrow search, which does not compute it.
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

// SavingMicroPerHour returns the saving of a command; negative if its replacements cost more than its candidates.
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
