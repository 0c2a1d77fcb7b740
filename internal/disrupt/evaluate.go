// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Evaluation is the result of disrupting a set of candidates, regardless of blockers.
type Evaluation struct {
	Command *Command      // nil: a pod would find no node
	Why     plan.Reason   // why it is not worthwhile, or the pod without a node; an empty code: it is worthwhile
	Refused solve.Refusal // the pod that finds no node, with its reasons

	// MaxNewMicroPerHour is the maximum price of replacements for the command to be profitable; -1 if no price is low enough.
	MaxNewMicroPerHour int64
}

// Evaluate evaluates a set of candidates like Consolidate, without shortcuts and without a memory.
func Evaluate(in *Input, candidates []*Candidate, policy Policy, solvePolicy solve.Policy) Evaluation {
	b := newWhatIf(in, candidates, policy, solvePolicy)
	cmd, why := b.build(candidates)
	if cmd == nil {
		return Evaluation{Why: why, Refused: b.lastRefusal, MaxNewMicroPerHour: -1}
	}
	b.recordPlacement(cmd)
	j := &judge{in: in, policy: policy, pricing: b.pricing}
	why = j.whyNotWorthwhile(cmd)
	why.Pool = candidates[0].Pool.Name
	return Evaluation{Command: cmd, Why: why, MaxNewMicroPerHour: j.maxNewMicroPerHour(cmd)}
}

// maxNewMicroPerHour is the most that the replacements of a command may cost for it to be profitable, by binary
// search: the dearer they are, the less it pays. -1 when no price is low enough.
func (j *judge) maxNewMicroPerHour(cmd *Command) int64 {
	most, low, high := int64(-1), int64(0), cmd.OldMicroPerHour
	for low <= high {
		mid := low + (high-low)/2
		x := *cmd
		x.NewMicroPerHour = mid
		x.CostMicro += j.pricing.disruptionCost(cmd.Candidates, mid) - j.pricing.disruptionCost(cmd.Candidates, cmd.NewMicroPerHour)
		if j.whyUnprofitable(&x).Code == "" {
			most, low = mid, mid+1
		} else {
			high = mid - 1
		}
	}
	return most
}
