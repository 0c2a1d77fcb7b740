// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"cmp"
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Problem is the complete input of the solver. The order of slices does not affect the Result (contract 1).
type Problem struct {
	ResourceNames []string
	Demand        []*model.Pod   // pods to place, including replacements for the pods of nodes being drained
	Nodes         []ExistingNode // existing nodes, and NodeClaims in flight
	Pools         []Pool         // what may be launched
	Static        []string       // names of static NodePools, from which nothing is launched for pods; for reasons only
	Daemons       []*model.Daemon
	Namespaces    map[string]model.Labels

	Limits []model.LimitUse // limits shared by several pools
}

// ExistingNode is an existing or in-flight node. Its capacity costs nothing.
type ExistingNode = model.ExistingNode

// Pool is a NodePool with the remainder of its limits.
type Pool struct {
	*model.NodePool
	Left      model.Resources // limits minus usage, including nodes in flight; valid where HasLimit
	NodesLeft int64           // negative: no limit

	Shared []int // indexes of the Problem.Limits that apply to its nodes, ascending

	// RelaxMinValues meets minValues only as far as instance types allow: they never cause a pod to be refused or to get
	// another node. Otherwise minValues must be met.
	RelaxMinValues bool

	// Several Pools may represent one NodePool, each with a part of its offerings. Its limits then apply to all of them
	// together.
	Group string // only offerings of this node group; empty: all
	Part  string // identifies the part if the shared limits differ; Types offer only this part
	Rank  int32  // among pools of equal weight, those of the lowest rank are used first

	Barred []Bar // launches that are excluded for some pods although they would fit
}

// Bar excludes launches for pods of a class, because earlier launches for them were unused.
type Bar struct {
	Class *model.Class
	Group string // only offerings of this node group; empty: the whole pool
	Why   plan.Reason
}

// Before compares the precedence of two pools regardless of price: negative if the first one comes first, 0 if the price
// decides.
func (p *Pool) Before(o *Pool) int {
	return cmp.Or(cmp.Compare(o.Weight, p.Weight), cmp.Compare(p.Rank, o.Rank))
}

// Policy configures a solve: effort and quality, never time.
type Policy struct {
	MaxGapPPM int64 // refinement stops below this gap, in parts per million of the bound
	Work      int64 // maximum number of refinement steps; 0: tier 1 only
	// MachineMicro is the assumed cost of a node in addition to its price, for its lease, kubelet, address and agents. It
	// favors fewer and larger nodes at similar prices, counts for at most a hundredth of a price, and is not part of Cost or
	// of the bound.
	MachineMicro int64
	PremiumPPM   int64 // a NodeClaim allows each instance type that fits and costs at most this much more than the cheapest
	// ChoicePPM is how much more than the cheapest a node may cost to allow more offerings: with another capacity type, or
	// other labels of the pool.
	ChoicePPM int64
	MaxTypes  int // maximum number of instance types of a NodeClaim
	// PreferencePPM is the value of a preference of weight 100: how much more a plan may cost to meet it.
	PreferencePPM int64
}

// DefaultPolicy returns the policy of `dovetail plan`: at most a second of refinement, and flexible NodeClaims. A controller,
// for which pods wait, uses less work.
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

// Validate returns an error that names a field out of range.
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

// Result is a plan for the demand: the output of the solver.
type Result struct {
	OnNodes []Assignment // by node name
	New     []NewNode    // by pool weight, pool, price, then first pod
	Refused []Refusal    // by namespace and name
	Cost    plan.Cost
	Stats   plan.Stats
}

// Assignment is the pods placed on one existing or in-flight node.
type Assignment struct {
	Node string
	Pods []*model.Pod // by namespace and name
}

// NewNode is one node to launch.
type NewNode struct {
	Pool          string
	Type          *model.InstanceType // the cheapest choice, whose price counts in Cost
	Offering      model.Offering
	Choices       []*model.InstanceType // all instance types of the NodeClaim, cheapest first, including Type
	Zones         []string              // all zones of the NodeClaim, sorted; one if the pods' constraints require it
	CapacityTypes []string              // sorted
	Requirements  model.Requirements    // those of the pool and of the pods, restricted to the chosen zones, capacity types and instance types
	Pods          []*model.Pod          // by namespace and name
	Requests      model.Resources       // pods plus DaemonSets
	PriceMicro    int64

	MinValuesRelaxed bool // minValues in Requirements are lower than in the pool, because too few values are available
}

// Refusal is a pod that cannot be placed.
type Refusal struct {
	Pod     *model.Pod
	Reasons []plan.Reason // at least one, one per pool, nearest miss first
}
