// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// judge reports whether a command is worth beginning.
type judge struct {
	in      *Input
	policy  Policy
	pricing *pricing
}

// whyNotWorthwhile is why a command is not worth beginning; an empty code: it is. It fills in the command's gain,
// reason and scores, and narrows its replacements to choices with which it stays worthwhile.
func (j *judge) whyNotWorthwhile(cmd *Command) plan.Reason {
	why := j.whySpotToSpot(cmd)
	if why.Code == "" {
		why = j.whyUnprofitable(cmd)
	}
	if why.Code == "" {
		why = j.narrowReplacements(cmd)
	}
	if why.Code == "" {
		why = j.whyNotLanding(cmd)
	}
	if why.Code == "" {
		why = j.whyPaused(cmd)
	}
	return why
}

// whyPaused is why a command may launch no replacement now; an empty code: it launches none, or may.
func (j *judge) whyPaused(cmd *Command) plan.Reason {
	for i := range cmd.Replacements {
		pool := cmd.Replacements[i].Pool
		if until, ok := j.in.PausedUntil[pool]; ok {
			return plan.Reason{Code: plan.LaunchesPaused, Pool: pool, Subject: plan.ObjectOf("nodepool", pool), Detail: plan.OfLaunchesPaused{Until: until}}
		}
	}
	return plan.Reason{}
}

// whySpotToSpot is why a command may not replace spot nodes by spot nodes; an empty code: it does not, or may.
func (j *judge) whySpotToSpot(cmd *Command) plan.Reason {
	isSpot := func(n solve.NewNode) bool { return n.Offering.CapacityType == model.Spot }
	if !j.policy.NoSpotToSpot || !slices.ContainsFunc(cmd.Replacements, isSpot) {
		return plan.Reason{}
	}
	for _, c := range cmd.Candidates {
		if c.Labels[model.LabelCapacityType] != model.Spot {
			return plan.Reason{}
		}
	}
	return plan.Reason{Code: plan.SpotToSpot, Detail: plan.OfSpotToSpot{Gate: "SpotToSpotConsolidation"}}
}

// isWorthwhile reports whether a command is worth beginning, see whyNotWorthwhile; nil is not.
func (j *judge) isWorthwhile(cmd *Command) bool {
	return cmd != nil && j.whyNotWorthwhile(cmd).Code == ""
}

// whyUnprofitable is why a command saves too little; an empty code: it saves enough. It fills in gain, reason and
// scores.
func (j *judge) whyUnprofitable(cmd *Command) plan.Reason {
	saving := cmd.SavingMicroPerHour()
	if saving <= 0 {
		return plan.Reason{Code: plan.NotCheaper, Detail: plan.OfNotCheaper{Now: plan.Micro(cmd.OldMicroPerHour), Elsewhere: plan.Micro(cmd.NewMicroPerHour)}}
	}
	if least := j.pricing.minSaving(cmd.OldMicroPerHour); saving < least {
		return plan.Reason{Code: plan.DoesNotPay, Detail: plan.OfDoesNotPay{Least: plan.Micro(least), Saving: plan.Micro(saving)}}
	}
	value := j.pricing.valueOverHorizon(saving, cmd.Candidates)
	if cmd.GainMicro = value.micro - cmd.CostMicro; cmd.GainMicro <= 0 {
		return j.pricing.doesNotPay(saving, cmd.CostMicro, value)
	}
	cmd.Why = plan.Reason{Code: plan.Underutilized, Detail: plan.OfUnderutilized{Cost: plan.Micro(cmd.CostMicro), Saving: plan.Micro(saving)}}
	return j.whyUnbalanced(cmd)
}

// minBalancedScore is the least score of a command for a pool of policy Balanced: half the share of the pool's price
// saved that is disrupted of its weight.
const minBalancedScore = 0.5

// whyUnbalanced holds a command against the pools of policy Balanced that it takes candidates from. An empty code:
// the score of each is enough, and the command's BalancedScores have it.
func (j *judge) whyUnbalanced(cmd *Command) plan.Reason {
	price, weight := map[string]int64{}, map[string]int64{}
	var pools []string
	for _, c := range cmd.Candidates {
		if c.Pool.ConsolidationPolicy != Balanced {
			continue
		}
		if _, ok := price[c.Pool.Name]; !ok {
			pools = append(pools, c.Pool.Name)
		}
		price[c.Pool.Name] += c.PriceMicro
		weight[c.Pool.Name] += c.DisruptionWeight()
	}
	slices.Sort(pools)
	for _, pool := range pools {
		total := j.in.PoolTotals[pool]
		if total.PriceMicro <= 0 || total.DisruptionWeight <= 0 || cmd.OldMicroPerHour <= 0 {
			continue
		}
		saved := float64(cmd.SavingMicroPerHour()) * (float64(price[pool]) / float64(cmd.OldMicroPerHour)) / float64(total.PriceMicro)
		disrupted := float64(weight[pool]) / float64(total.DisruptionWeight)
		score := saved / disrupted
		if score < minBalancedScore {
			return plan.Reason{Code: plan.NotBalanced, Subject: plan.ObjectOf("nodepool", pool), Detail: plan.OfNotBalanced{Score: math.Round(score*100) / 100}}
		}
		if cmd.BalancedScores == nil {
			cmd.BalancedScores = map[string]float64{}
		}
		cmd.BalancedScores[pool] = score
	}
	return plan.Reason{}
}
