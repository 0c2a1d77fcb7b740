// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"cmp"
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Problem is everything the solver may look at. Order of slices does not change the Result (contract 1).
type Problem struct {
	ResourceNames []string
	Demand        []*model.Pod   // pods to place; also pods of nodes being drained, as their successors would be
	Nodes         []ExistingNode // existing nodes and claims in flight
	Pools         []Pool         // what may be bought
	Static        []string       // names of NodePools that keep a number of nodes, from which nothing is bought for pods: for reasons only
	Daemons       []*model.Daemon
	Namespaces    map[string]model.Labels

	Limits []model.LimitUse // that several pools share
}

// ExistingNode is a node that is there or in flight: pods may be put on it for nothing.
type ExistingNode = model.ExistingNode

// Pool is a NodePool with what is left of its limits.
type Pool struct {
	*model.NodePool
	Left      model.Resources // limits minus what is used or in flight; meaningful where HasLimit
	NodesLeft int64           // negative: not limited

	Shared []int // of Problem.Limits: those that its nodes count against, ascending

	// RelaxMinValues keeps its requirements' minValues as far as types allow: no pod is refused a node for them, nor gets
	// another. Otherwise they must be kept.
	RelaxMinValues bool

	// Several Pools may be one NodePool, each with a part of what it offers; its limits then count for all of them
	// together.
	Group string // only offerings of this node group; empty: all
	Part  string // which of them it is, where the limits that it shares differ; its Types offer what is of this part alone
	Rank  int32  // of the pools of one weight those of the lowest rank are used up first

	Barred []Bar // what is not bought for some pods though it would fit
}

// Bar keeps pods of a class from being bought for: earlier launches for them were unused.
type Bar struct {
	Class *model.Class
	Group string // only offerings of this node group; empty: the whole pool
	Why   plan.Reason
}

// Before reports whether what a pool offers comes before what another does, whatever it costs: negative; 0: price decides.
func (p *Pool) Before(o *Pool) int {
	return cmp.Or(cmp.Compare(o.Weight, p.Weight), cmp.Compare(p.Rank, o.Rank))
}

// Policy are the knobs of a solve, all of them work or quality, none of them time.
type Policy struct {
	MaxGapPPM int64 // stop refining below this gap, in parts per million of the bound
	Work      int64 // steps allowed for refinement; 0: tier 1 only
	// MachineMicro is what one machine costs beside its price: a lease and a kubelet to watch, an address, agents. It
	// makes fewer and larger machines win where prices are near, and counts for no more than a hundredth of a price; it
	// is not in Cost, nor in the bound.
	MachineMicro int64
	PremiumPPM   int64 // a claim carries every type that holds its pattern at no more than this much above its cheapest
	// ChoicePPM is how much more than the cheapest a machine may cost for more offerings to choose from: another
	// capacity type, other labels of the pool's own.
	ChoicePPM int64
	MaxTypes  int // at most so many types a claim
	// PreferencePPM is what a preference of weight 100 is worth: so much more may be paid to meet it.
	PreferencePPM int64
}

// DefaultPolicy is good for a plan that a person asks for: a second of refining at most, claims kept flexible. A
// controller, for which pods wait, allows itself less work.
func DefaultPolicy() Policy {
	return Policy{
		MaxGapPPM:    3_000,
		MachineMicro: 2_000,
		Work:         300_000_000,
		PremiumPPM:   100_000,
		ChoicePPM:    10_000,
		MaxTypes:     60,

		PreferencePPM: 200_000,
	}
}

// Validate says which knob is out of range.
func (p Policy) Validate() error {
	switch {
	case p.MaxGapPPM < 0:
		return fmt.Errorf("policy maxGapPPM is %d, must not be negative", p.MaxGapPPM)
	case p.Work < 0:
		return fmt.Errorf("policy work is %d, must not be negative", p.Work)
	case p.MachineMicro < 0:
		return fmt.Errorf("policy machineMicro is %d, must not be negative", p.MachineMicro)
	case p.PremiumPPM < 0 || p.PremiumPPM > 10_000_000:
		return fmt.Errorf("policy premiumPPM is %d, must be between 0 and 10000000", p.PremiumPPM)
	case p.ChoicePPM < 0 || p.ChoicePPM > 10_000_000:
		return fmt.Errorf("policy choicePPM is %d, must be between 0 and 10000000", p.ChoicePPM)
	case p.PreferencePPM < 0 || p.PreferencePPM > 10_000_000:
		return fmt.Errorf("policy preferencePPM is %d, must be between 0 and 10000000", p.PreferencePPM)
	case p.MaxTypes < 1:
		return fmt.Errorf("policy maxTypes is %d, must be at least 1", p.MaxTypes)
	}
	return nil
}

// Result is a plan for the demand.
type Result struct {
	OnNodes []Assignment // by name of the node
	New     []NewNode    // by pool weight, pool, price, then first pod
	Refused []Refusal    // by namespace and name
	Cost    plan.Cost
	Stats   plan.Stats
}

// Assignment is pods put on an existing node or one in flight.
type Assignment struct {
	Node string
	Pods []*model.Pod // by namespace and name
}

// NewNode is one machine to buy.
type NewNode struct {
	Pool          string
	Type          *model.InstanceType // the cheapest choice, which Cost counts
	Offering      model.Offering
	Choices       []*model.InstanceType // every type the claim may become, cheapest first, Type included
	Zones         []string              // every zone it may be in, sorted; one when a pod's constraints fix it
	CapacityTypes []string              // sorted
	Requirements  model.Requirements    // pool and pods together, zone and capacity type and type narrowed to the choices
	Pods          []*model.Pod          // by namespace and name
	Requests      model.Resources       // pods plus DaemonSets
	PriceMicro    int64

	MinValuesRelaxed bool // Requirements ask for fewer values than the pool, which there are not among the choices
}

// Refusal is a pod that can't be placed.
type Refusal struct {
	Pod     *model.Pod
	Reasons []plan.Reason // at least one; a pool each, nearest miss first
}
