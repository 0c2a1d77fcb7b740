// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// What is asked and answered; package problem describes each.
type (
	// Problem is everything the solver may look at.
	Problem = problem.Problem
	// ExistingNode is a node that is there or in flight: pods may be put on it for nothing.
	ExistingNode = problem.ExistingNode
	// Pool is a NodePool with what is left of its limits.
	Pool = problem.Pool
	// Bar keeps pods of a class from being bought for: earlier launches for them were unused.
	Bar = problem.Bar
	// Policy are the knobs of a solve, all of them work or quality, none of them time.
	Policy = problem.Policy
	// Result is a plan for the demand.
	Result = problem.Result
	// Assignment is pods put on an existing node or one in flight.
	Assignment = problem.Assignment
	// NewNode is one node to buy.
	NewNode = problem.NewNode
	// Refusal is a pod that can't be placed.
	Refusal = problem.Refusal
)

// DefaultPolicy is good for a plan that a person asks for: a second of refining at most, claims kept flexible. A
// controller, for which pods wait, allows itself less work.
func DefaultPolicy() Policy { return problem.DefaultPolicy() }

// MostExtendedResources is how many resources the pods of one problem may ask for beside those that every node has, of
// those that a node or an instance type has at all: see SuppliedResources. Pods that ask for a further one are refused.
const MostExtendedResources = problem.MaxDims - int(model.FirstExtended)

// SuppliedResources says of each of the first n resources whether some node has it free, or some instance type of a pool
// has it or promises it. Of the fixed ones it says nothing.
func SuppliedResources(nodes []ExistingNode, pools []Pool, n int) []bool {
	return problem.SuppliedResources(nodes, pools, n)
}
